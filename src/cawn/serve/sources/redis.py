"""Redis Streams: `redis://host:port/db?stream=NAME`; rediss:// for TLS, unix:// for a socket.

Ids only grow along a stream, and XREAD returns all entries after an id in their order. What is stored is the id of the
last entry that was read and how many entries had been added to the stream by then, as `1700000000000-3#1234`. Redis
counts the entries that were ever added, and how many there are: so a reader knows whether entries were removed before
it has read them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from cawn.errors import QueryError, printable, reason
from cawn.serve.sources import RESTORE, SourceError, Stored, StreamEntry
from cawn.serve.sources.urls import SourceUrl

ENTRIES = 2_000  # at most, in a batch
TIMEOUT = 10.0  # seconds for an answer; longer than any read waits
_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_ID = re.compile(r"\d{1,19}(-\d{1,19})?", re.ASCII)
_CHOSEN = 10**12  # ids that Redis chooses are milliseconds since 1970, which are greater

Id = tuple[int, int]


def parse_id(text: str | bytes) -> Id:
    first, _, second = (text.decode() if isinstance(text, bytes) else text).partition("-")
    return int(first), int(second or 0)


def format_id(found: Id) -> str:
    return f"{found[0]}-{found[1]}"


class RedisSource:
    """Reads a stream. The options of its URL:

    stream: The name of the stream.
    start: What to read first: "0", the oldest entry; "$", entries added from then on; or those after an id.
    group: A consumer group whose position is kept at that of this server, for the tools of Redis.
    name: Under which the position is stored; `redis:STREAM` by default, since a server may move.
    """

    def __init__(self, url: str, stored: Stored, *, replica: bool = False) -> None:
        if find_spec("redis") is None:
            raise QueryError("--source: Redis needs an extra: pip install 'cawn[redis]'")
        asked, self._replica = SourceUrl.parse(url), replica
        parts = asked.parts
        if parts.scheme != "unix" and not (parts.path in ("", "/") or parts.path[1:].isdecimal()):
            raise QueryError(f"--source: /{printable(parts.path[1:])} is not the number of a database")
        self._stream, self._group = asked.take("stream"), asked.take_if_given("group")
        self.name, start = asked.take("name", f"redis:{self._stream}"), asked.take("start", "0")
        if start != "$" and not _ID.fullmatch(start):
            raise QueryError(f"--source: start={printable(start)}: give 0, $ or the id of an entry")
        if replica and start == "$":
            raise QueryError("--source: start=$ is another entry for each replica; give 0 or the id of an entry")
        database = asked.take_if_given("db") if parts.scheme == "unix" else None
        self._url = f"{parts.scheme}://{parts.netloc}{parts.path}{'' if database is None else f'?db={database}'}"
        self._settings = {name: asked.take(name) for name in _TLS if name in asked.options}
        if asked.password is not None:
            self._settings["password"] = asked.password
        asked.refuse_others("stream, start, group, name, " + ", ".join(_TLS))
        self._at: Id | None = None if start == "$" else parse_id(start)  # the last entry that was read
        self._count = 0 if start == "0" else None  # how many had been added by then
        if (held := stored(self.name)) is not None:
            self._at, self._count = _parse(str(held), self.name)
        self._client: Any = None
        self.lag: int | None = None
        self.trimmed, self.warning = 0, ""

    def read(self, wait: float) -> Sequence[StreamEntry]:
        with _explained():
            client = self._connected()
            entries = self._unread(client)
            if not entries and wait > 0:
                block = max(int(1000 * wait), 1)
                if client.xread({self._stream: format_id(self._at or (0, 0))}, count=1, block=block):
                    entries = self._unread(client)
            return entries

    def offset(self, entries: Sequence[StreamEntry]) -> str:
        at, count = self._after(entries)
        return format_id(at) + ("" if count is None else f"#{count}")

    def commit(self, entries: Sequence[StreamEntry]) -> None:
        self._at, self._count = self._after(entries)
        if self._group is not None:
            with _explained():
                self._show_position(self._connected(), self._group)

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                client.close()

    def _after(self, entries: Sequence[StreamEntry]) -> tuple[Id, int | None]:
        at = parse_id(entries[-1].position) if entries else self._at or (0, 0)
        return at, None if self._count is None else self._count + len(entries)

    def _connected(self) -> Any:
        if self._client is None:
            from redis import Redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry

            limits = {"socket_timeout": TIMEOUT, "socket_connect_timeout": TIMEOUT}
            retry = Retry(NoBackoff(), 0)  # the pump does that
            self._client = Redis.from_url(self._url, protocol=2, retry=retry, **limits, **self._settings)
        return self._client

    def _unread(self, client: Any) -> list[StreamEntry]:
        """The entries after the last one that was read."""
        if not client.exists(self._stream):
            info: dict[str, Any] = {"length": 0, "entries-added": 0, "last-generated-id": b"0-0", "first-entry": None}
            self._check(info, 0)
            return []
        if self._at is None:
            info = client.xinfo_stream(self._stream)
            self._at, self._count = parse_id(info["last-generated-id"]), info.get("entries-added")
        together = client.pipeline(transaction=True)
        together.xinfo_stream(self._stream)
        together.xread({self._stream: format_id(self._at)}, count=ENTRIES)
        info, found = together.execute()
        entries = found[0][1] if found else []
        self._check(info, len(entries))
        return [StreamEntry(given.decode(), _clock(given), fields) for given, fields in entries]

    def _check(self, info: Mapping[str, Any], read: int) -> None:
        """Compare the next entries with what Redis says about the stream."""
        at, added, is_end = self._at or (0, 0), info.get("entries-added"), read < ENTRIES
        self.lag = 0 if is_end else None
        if added is None:
            if self._replica:
                raise SourceError("Redis before version 7 does not count the entries of a stream: replicas need that")
            return
        first = info["first-entry"]
        left = info["length"] if first is None or parse_id(first[0]) > at else read if is_end else None
        deleted = parse_id(info.get("max-deleted-entry-id", b"0-0")) > at
        if self._replica and self._count is None and (deleted or left == info["length"] != added):
            raise SourceError(f"entries after {format_id(at)} were trimmed or deleted, or may have been: {RESTORE}")
        if left is not None:
            if self._count is not None and (missing := added - left - self._count):
                self._report(missing, at, parse_id(info["last-generated-id"]))
            self._count = added - left
        if self._count is not None:
            self.lag = added - self._count - read

    def _report(self, missing: int, at: Id, last: Id) -> None:
        """Say that entries are missing; SourceError for a replica."""
        if missing > 0:
            said = f"{missing:,} entries after {format_id(at)} were trimmed or deleted before they were read"
        else:
            said = f"Redis lost entries or the stream was recreated: it ends at {format_id(last)}"
        if self._replica:
            raise SourceError(f"{said}: {RESTORE}")
        self.trimmed += max(missing, 0)
        self.warning = said if missing > 0 else f"{said}; entries up to {format_id(at)} are skipped as known"

    def _show_position(self, client: Any, group: str) -> None:
        from redis.exceptions import ResponseError

        at, read = format_id(self._at or (0, 0)), {} if self._count is None else {"entries_read": self._count}
        try:
            client.xgroup_setid(self._stream, group, at, **read)
        except ResponseError as error:
            if "NOGROUP" not in str(error) and "no such key" not in str(error):
                raise
            client.xgroup_create(self._stream, group, at, mkstream=True, **read)


def _parse(text: str, name: str) -> tuple[Id, int | None]:
    """The inverse of `offset`. Earlier versions stored ranges of ids that were read, such as 0-0:5-0,7-0:9-0."""
    last, _, count = re.split("[:,]", text)[-1].partition("#")
    try:
        return parse_id(last), int(count) if count else None
    except ValueError as error:
        raise SourceError(f"{name}: the stored position is damaged") from error


def _clock(given: bytes) -> float:
    """When an entry was added, by its id; if Redis did not choose the id, now."""
    milliseconds = parse_id(given)[0]
    return milliseconds / 1000 if milliseconds > _CHOSEN else time.time()


@contextmanager
def _explained() -> Iterator[None]:
    """Turns errors of Redis and of the connection into a SourceError, which never shows the URL."""
    from redis.exceptions import RedisError

    try:
        yield
    except (RedisError, OSError) as error:
        raise SourceError(f"Redis: {reason(error)}") from error
