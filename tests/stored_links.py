"""What stands in for the writer and its store in tests of sources: links that survive a crash."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from cawn.serve.links import SubmittedLinks
from cawn.serve.sources import LinkSource, StreamEntry
from cawn.serve.sources.entries import as_columns, as_link
from cawn.serve.writer import QueueFull, Receipt


class StoredLinks:
    """Accepts links; `before` may raise instead, once for each error in it."""

    def __init__(self) -> None:
        self.times: list[Any] = []  # of all links, in the order in which they were stored
        self.offsets: dict[str, str] = {}
        self.before: list[Exception] = []

    def submit(self, links: SubmittedLinks, *, offsets: dict[str, str], clock: float | None = None) -> Future[Receipt]:
        answer: Future[Receipt] = Future()
        error = self.before.pop() if self.before else None
        if isinstance(error, QueueFull):
            raise error
        if error is not None:
            answer.set_exception(error)
            return answer
        self.times += links.t
        self.offsets |= offsets
        answer.set_result(Receipt(len(links), 0, 0, 0))
        return answer

    def write(self, source: LinkSource, entries: Sequence[StreamEntry]) -> None:
        """Store entries, of which "{" is no link, as a pump does before it acknowledges them."""
        links = as_columns([as_link(each.content) for each in entries if each.content != b"{"])
        self.submit(links, offsets={source.name: source.offset(entries)})

    def drain(self, source: LinkSource) -> list[Any]:
        """Read, store and acknowledge all that is left; the times of all links."""
        while entries := source.read(0):
            self.write(source, entries)
            source.commit(entries)
        return self.times
