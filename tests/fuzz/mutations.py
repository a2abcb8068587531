"""Seeded damage to bytes and files, and what must hold whatever is done to them.

`CAWN_FUZZ_CASES` sets how many cases each fuzzer tries, `CAWN_FUZZ_SEED` the first seed. A case depends on its seed
alone, so a failure is repeated with the seed that pytest prints.
"""

import os
from collections.abc import Callable, Iterator

import numpy as np

import cawn

LONGEST_MESSAGE = 600
TOKENS = [
    *(b"", b"\0", b"\n", b"\r\n", b'"', b"'", b",", b"\t", b"#", b"%", b"\\", b"\xff\xfe", b"\xef\xbb\xbf"),
    *(b"nan", b"inf", b"-inf", b"null", b"true", b"1e308", b"-1", b"0", b"1e-320", b"9" * 40, b"-9223372036854775808"),
    *(b"20160123", b"2016", b"2016-01-01", b"2016-13-45", b"0x10", b"{}", b"[]", b"[" * 3000, b"{" * 3000),
    b"\x1b[31m",
]


def seeds(default: int) -> Iterator[int]:
    """The seeds of one fuzzer's cases."""
    first = int(os.environ.get("CAWN_FUZZ_SEED", "0"))
    return iter(range(first, first + int(os.environ.get("CAWN_FUZZ_CASES", default))))


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """One to four changes: bits, ranges and tokens flipped, cut out, repeated, inserted or overwritten."""
    for _ in range(int(rng.integers(1, 5))):
        data = _change(data, rng)
    return data


def _change(data: bytes, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(0, len(data) + 1))
    size = int(min(rng.geometric(0.05), len(data) - at))
    kind = int(rng.integers(0, 7))
    if kind == 0 and at < len(data):  # a single bit
        return data[:at] + bytes([data[at] ^ (1 << int(rng.integers(0, 8)))]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + data[at + size :]
    if kind == 2:
        return data[: at + size] + data[at:]
    if kind == 3:
        return data[:at] + rng.bytes(size) + data[at + size :]
    if kind == 4:
        return data[:at] + TOKENS[int(rng.integers(0, len(TOKENS)))] + data[at:]
    if kind == 5:
        return data[:at] + TOKENS[int(rng.integers(0, len(TOKENS)))] + data[at + size :]
    return data[:at] if rng.random() < 0.5 else data + rng.bytes(size)


def answer_or_refusal(call: Callable[[], object], what: str) -> object | None:
    """What the call returns, or None where it refuses in one clear line. Anything else fails the test."""
    try:
        return call()
    except cawn.CawnError as error:
        message = str(error)
        assert message, what
        assert "\n" not in message, (what, message)
        assert len(message) < LONGEST_MESSAGE, (what, message)
        return None
