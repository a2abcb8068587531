"""Large edge logs to try things on: CSV of about 120 bytes per line, written in constant memory.

python -m benchmarks.logs /tmp/log.csv 20000000 --unsorted
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Times = Literal["unix", "iso"]
HEADER = "from,to,time,amount,currency,channel,session\n"

_START = 1_600_000_000  # Unix seconds
_CURRENCIES = ("EUR", "USD", "JPY", "GBP")
_BLOCK = 1 << 18  # lines
_POWER = 2.0  # of a uniform number: a few nodes have most of the links


def write_log(
    path: Path, links: int, *, nodes: int | None = None, times: Times = "unix", in_order: bool = True, seed: int = 0
) -> None:
    """Write a CSV file of links with string names, times with microseconds, and attributes.

    Args:
        nodes: The number of names to draw from; a tenth of the number of links by default.
        times: Unix seconds with fractions, or ISO dates.
        in_order: Whether the lines are sorted by time; else every line has a random time.
    """
    nodes = max(links // 10, 10) if nodes is None else nodes
    random = np.random.default_rng(seed)
    with open(path, "wb") as file:
        file.write(HEADER.encode())
        for first in range(0, links, _BLOCK):
            file.write(_lines(min(_BLOCK, links - first), first, links, nodes, times, in_order, random))


def _lines(
    count: int, first: int, links: int, nodes: int, times: Times, in_order: bool, random: np.random.Generator
) -> bytes:
    """Lines of equal length, put together column by column as bytes."""
    position = np.sort(random.random(count)) + first / count if in_order else random.random(count) * links / count
    microseconds = (position * count * 100_000).astype(np.int64)  # ten links per second
    amount, code = random.integers(0, 10**9, count), random.integers(0, 1 << 62, count)
    hexadecimal = [(code >> np.int64(4 * i)) & 15 for i in range(15)]
    columns: list[Any] = [
        *("user-", _digits(_nodes(count, nodes, random), 10), ",user-", _digits(_nodes(count, nodes, random), 10)),
        *(",", *(_unix(microseconds) if times == "unix" else _iso(microseconds))),
        *(",", _digits(amount // 100, 7), ".", _digits(amount % 100, 2), ","),
        *(_choice(_CURRENCIES, code % 4), ",channel-", _digits(code % 16, 2), ",session-"),
        *(np.frombuffer(b"0123456789abcdef", np.uint8)[each][:, None] for each in 2 * hexadecimal + hexadecimal[:5]),
        "\n",
    ]
    fields = [_constant(each, count) if isinstance(each, str) else each for each in columns]
    return np.concatenate(fields, axis=1).tobytes()


def _nodes(count: int, nodes: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Nodes of power-law activity; a multiplication spreads the active ones over all names."""
    rank = (nodes * random.random(count) ** _POWER).astype(np.int64)
    return rank * 2_654_435_761 % 10_000_000_019 % 10**10


def _unix(microseconds: npt.NDArray[np.int64]) -> list[Any]:
    return [_digits(_START + microseconds // 10**6, 10), ".", _digits(microseconds % 10**6, 6)]


def _iso(microseconds: npt.NDArray[np.int64]) -> list[Any]:
    dates = (_START * 10**6 + microseconds).astype("datetime64[us]")
    text = np.datetime_as_string(dates, unit="us").astype("S26")
    return [text.view(np.uint8).reshape(len(dates), 26)]


def _digits(numbers: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.uint8]:
    found = np.empty((len(numbers), width), np.uint8)
    for place in range(width - 1, -1, -1):
        numbers, digit = np.divmod(numbers, 10)
        found[:, place] = digit + ord("0")
    return found


def _choice(words: tuple[str, ...], chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    letters = np.frombuffer("".join(words).encode(), np.uint8).reshape(len(words), -1)
    return np.asarray(letters[chosen])


def _constant(text: str, count: int) -> npt.NDArray[np.uint8]:
    return np.broadcast_to(np.frombuffer(text.encode(), np.uint8), (count, len(text)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("links", type=int)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--times", choices=("unix", "iso"), default="unix")
    parser.add_argument("--unsorted", action="store_true")
    given = parser.parse_args()
    write_log(given.path, given.links, nodes=given.nodes, times=given.times, in_order=not given.unsorted)
