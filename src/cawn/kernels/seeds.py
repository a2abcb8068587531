"""One seed for a run, and from it one for each purpose."""

from __future__ import annotations

from cawn.kernels.reference.walks import mix64


def seed_for(seed: int, *what: object) -> int:
    """A seed for one purpose, from the run's own."""
    number = mix64(seed + 1)
    for word in what:
        code = word if isinstance(word, int) else int.from_bytes(str(word).encode()[:8], "little")
        number = mix64(number ^ code)
    return number >> 1
