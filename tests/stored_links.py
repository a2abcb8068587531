"""What stands in for the writer and its store in tests of sources: links that survive a crash."""

from __future__ import annotations

from concurrent.futures import Future

from cawn.errors import DataError
from cawn.serve.links import Links
from cawn.serve.writer import QueueFull, Receipt


class StoredLinks:
    """Accepts links whose source is not "refused"; `before` may raise instead, once for each error in it."""

    def __init__(self) -> None:
        self.records: list[Links] = []
        self.offsets: dict[str, str] = {}
        self.before: list[Exception] = []

    def submit(self, links: Links, *, key: str | None = None, offsets: dict[str, str] | None = None) -> Future[Receipt]:
        if self.before:
            error = self.before.pop()
            if isinstance(error, QueueFull):
                raise error
            return self._answer(error)
        if "refused" in links.src:
            return self._answer(DataError("no such name"))
        assert len(links) > 0
        self.records.append(links)
        self.offsets.update(offsets or {})
        return self._answer(Receipt(len(links), 0, 0, len(self.records)))

    @staticmethod
    def _answer(result: Receipt | Exception) -> Future[Receipt]:
        future: Future[Receipt] = Future()
        future.set_exception(result) if isinstance(result, Exception) else future.set_result(result)
        return future

    @property
    def times(self) -> list:
        """The times of all links, in the order in which they were stored."""
        return [t for links in self.records for t in links.t]
