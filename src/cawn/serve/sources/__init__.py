"""Streams of links that a server reads: Redis Streams and Kafka topics.

`open_source(url, stored)` of pump.py makes a `Source`, and `Pump` is the thread that moves its entries into the log. An
entry counts exactly once in the state of a server:

- The position of a link in its stream is written to the log in the same record as the link, so that either both are on
  disk or neither is. After a restart the source gets the stored positions and skips every entry that they include.
- An entry is acknowledged to the stream only after that write. Entries that were not acknowledged are delivered again.

So an entry is neither lost nor counted twice, whenever the process is killed; the positions that the stream itself
keeps for its readers are never needed to recognise an entry. Like all links, those with ids are also checked for
duplicates by id.

An entry that is not a link, or a link that the predictor refuses, is written to `rejected.jsonl` in the state folder
(see rejected.py) and acknowledged; it does not stop the stream. It may be written twice if the process is killed in
between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from cawn.errors import CawnError
from cawn.serve.links import Links

Stored = Callable[[str], str | int | None]
Position = tuple[int, int]  # of an entry: its id in Redis, its partition and offset in Kafka


def format_position(position: Position) -> str:
    return f"{position[0]}-{position[1]}"


class SourceError(CawnError):
    """A stream that cannot be read now."""


class Rejected(NamedTuple):
    """An entry that is not a link: its position in the stream, its content and the reason."""

    position: str
    entry: Any
    reason: str


@dataclass(frozen=True)
class Batch:
    """Consecutive entries of a stream.

    Args:
        links: The links among them that are not in the log yet.
        positions: The position of each link.
        others: The positions of the other entries, which are acknowledged without a link.
        rejected: Entries that are not links.
        contiguous: Whether the stream has no entry between them that is not in `links` or `others`.
    """

    links: Links
    positions: Sequence[Position]
    others: Sequence[Position] = ()
    rejected: Sequence[Rejected] = ()
    contiguous: bool = False

    def __len__(self) -> int:
        return len(self.links)

    def halves(self) -> tuple[Batch, Batch]:
        """The first and the second half of the links; the other entries are acknowledged with the second."""
        middle = len(self) // 2
        first = Batch(self.links[:middle], self.positions[:middle], contiguous=self.contiguous)
        return first, Batch(self.links[middle:], self.positions[middle:], self.others, contiguous=self.contiguous)


class Source(Protocol):
    """A stream of links. Used by one thread; the attributes may be read by others.

    Any method may raise. `close` and then `read` starts again after the last commit.
    """

    name: str  # under which positions are stored
    lag: int | None  # entries not delivered to any reader yet, if known
    known: int  # entries that were delivered again and skipped
    trimmed: int  # entries that the stream dropped after delivering them and before they were written
    warning: str | None

    def read(self, wait: float) -> Batch:
        """The next entries, or an empty batch if there are none within `wait` seconds."""

    def offsets(self, batch: Batch) -> dict[str, str]:
        """What to store in the log with the links of the batch, given that all batches before it are committed."""

    def commit(self, batch: Batch) -> None:
        """Acknowledge a batch whose links are in the log and whose rejected entries are stored."""

    def close(self) -> None:
        """Disconnect."""
