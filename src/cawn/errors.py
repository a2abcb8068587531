"""The errors that bad input can raise. Each message is one line: what was found, where, and what to do."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MAX_MESSAGE = 500  # characters
_KEPT_END = 180  # characters kept at the end of a message that is too long, which says what to do


class CawnError(Exception):
    """Base of all errors that bad input can raise; anything else is a bug in cawn."""

    def __str__(self) -> str:
        """The message, safe to print whatever file contents or names it quotes."""
        return one_line(super().__str__())


class DataError(CawnError):
    """A file, table or array that cannot become `Events`."""


class QueryError(CawnError):
    """An invalid argument: nodes, times, settings, options."""


class LateEventError(CawnError):
    """An event older than those a `Stream` already has."""


class StorageError(CawnError):
    """A run folder or file that cannot be written or read."""


class DeviceError(CawnError):
    """A GPU that is missing, unusable, or out of memory."""


def printable(text: Any) -> str:
    """Text that is safe on a terminal: control and invisible characters and line breaks are escaped."""
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in str(text))


def one_line(message: str) -> str:
    """A printable message of at most `MAX_MESSAGE` characters; a longer one loses its middle."""
    text = printable(" ".join(message[: 10 * MAX_MESSAGE].splitlines()))
    if len(text) <= MAX_MESSAGE and len(message) <= 10 * MAX_MESSAGE:
        return text
    end = printable(" ".join(message[-_KEPT_END:].splitlines()))[-_KEPT_END:]
    return f"{text[: MAX_MESSAGE - len(end) - 5]} ... {end}"


def brief(value: Any, limit: int = 80) -> str:
    """The repr of a value for a message: printable, on one line, cut to `limit` characters."""
    text = " ".join(printable(_short.repr(value)).split())
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def reason(error: BaseException) -> str:
    """What an error of the system or of another library says, in one line."""
    return ((getattr(error, "strerror", None) or str(error)).splitlines() or [type(error).__name__])[0]


@contextmanager
def enough_memory(task: str, remedy: str) -> Iterator[None]:
    """Turns running out of main memory into a QueryError that names the task and a remedy."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise QueryError(f"out of memory while {task}; {remedy}") from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether main memory ran out, for which PyTorch raises a RuntimeError."""
    return isinstance(error, MemoryError) or "can't allocate memory" in str(error)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape", "backslashreplace").decode("ascii")


class _Short(reprlib.Repr):
    """Truncates strings, collections and numbers; never raises."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = 60

    def repr_int(self, x: int, level: int) -> str:
        return super().repr_int(x, level) if x.bit_length() < 1_000 else f"an integer of {x.bit_length():,} bits"


_short = _Short()
