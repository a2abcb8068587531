"""Redis Streams: `redis://host:port/db?stream=NAME&group=G&consumer=C`; rediss:// for TLS, unix:// for a socket.

Why each entry counts exactly once in the state of this server. Entries are delivered to the consumers of a group in
the order of their ids, but an entry of a consumer that crashed is claimed later, after newer ones. So the highest id is
not enough to recognise what has been written; `Ranges` holds exactly that, and is stored in the log record of the
links:

1. Written entries are recognised. All entries that one XREADGROUP returns follow each other in the stream, so a batch
   adds the range from its first to its last entry; a claimed entry adds only its own id. A redelivered entry that is in
   the ranges is acknowledged without a link. This also holds if Redis loses acknowledgements, as it may in a crash,
   or if the group is deleted: it is then created again at the end of the first range.
2. Other entries are not mistaken for written ones. A gap between two ranges is closed only when no entry in it is
   pending (XPENDING) or still to be delivered: each was acknowledged, by this consumer or another, or is no longer in
   the stream. Entries that another consumer of the group acknowledged are in the state of its server, not of this one.
3. No entry is lost. XACK follows the durable write. After every connect the entries pending for this consumer are
   read again, and those that another consumer has held for `claim` seconds (60) are claimed (XAUTOCLAIM).

Links get no id from their entry: the ranges take a few bytes in all, ids would take memory for every link. A server
that should have all links needs its own group. A stream that is deleted and created again must continue with higher
ids, as it does when Redis chooses them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from cawn.errors import QueryError, printable, reason
from cawn.serve.sources import Batch, Position, Rejected, SourceError, Stored, format_position
from cawn.serve.sources.entries import Columns, from_fields, shown
from cawn.serve.sources.ranges import Ranges, parse_id
from cawn.serve.sources.urls import SourceUrl

ENTRIES = 2_000  # at most, in a batch
CLAIM = 60.0  # seconds
GAPS = 100  # to look at after a batch
TIMEOUT = 10.0  # seconds for an answer; longer than any read waits
_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")

Entries = list[tuple[bytes, dict[bytes, bytes] | None]]


class RedisSource:
    """Reads a stream as a consumer of a group.

    Args:
        url: Without the options of the stream.
        settings: Further arguments of `redis.Redis.from_url`.
        start: Where a new group starts: "0", the oldest entry, or "$", entries added from then on.
        claim: Seconds after which entries of another consumer are claimed.
        name: Under which the ranges are stored; `redis:STREAM` by default, since a server may move.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        stored: Stored,
        *,
        group: str = "cawn",
        consumer: str = "cawn",
        start: str = "0",
        claim: float = CLAIM,
        name: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if find_spec("redis") is None:
            raise QueryError("--source: Redis needs an extra: pip install 'cawn[redis]'")
        if start not in ("0", "$"):
            raise QueryError(f"--source: start={printable(start)}: give 0 or $")
        self.name = name or f"redis:{stream}"
        self._url, self._stream, self._group, self._consumer = url, stream, group, consumer
        self._start, self._claim_after, self._settings = start, claim, dict(settings or {})
        try:
            self._written = Ranges.parse(str(stored(self.name) or ""))
        except ValueError as error:
            raise SourceError(f"{self.name}: the stored positions are damaged") from error
        self._client: Any = None
        self._own: Position | None = None  # the newest entry that was pending for this consumer and is read again
        self._cursor, self._claim_at = "0-0", 0.0
        self.lag: int | None = None
        self.known = self.trimmed = 0
        self.warning: str | None = None

    @classmethod
    def open(cls, url: str, stored: Stored) -> RedisSource:
        asked = SourceUrl.parse(url)
        parts = asked.parts
        if parts.scheme != "unix" and not (parts.path in ("", "/") or parts.path[1:].isdecimal()):
            raise QueryError(f"--source: /{printable(parts.path[1:])} is not the number of a database")
        stream, settings = asked.take("stream"), {name: asked.take(name) for name in _TLS if name in asked.options}
        options = {name: asked.take(name) for name in ("group", "consumer", "start", "name") if name in asked.options}
        claim = asked.take_seconds("claim", CLAIM)
        query = f"?db={asked.take('db')}" if parts.scheme == "unix" and "db" in asked.options else ""
        asked.refuse_others("stream, group, consumer, start, claim, name, " + ", ".join(_TLS))
        if asked.password is not None:
            settings["password"] = asked.password
        bare = f"{parts.scheme}://{parts.netloc}{parts.path}{query}"
        return cls(bare, stream, stored, claim=claim, settings=settings, **options)

    def read(self, wait: float) -> Batch:
        with _explained():
            client = self._connected()
            if self._own is not None and (batch := self._read_own(client, self._own)) is not None:
                return batch
            if time.monotonic() >= self._claim_at and (batch := self._claim(client)) is not None:
                return batch
            block = max(int(1000 * wait), 1) if wait > 0 else None
            found = client.xreadgroup(self._group, self._consumer, {self._stream: ">"}, count=ENTRIES, block=block)
            return self._batch(found[0][1] if found else [], contiguous=True)

    def offsets(self, batch: Batch) -> dict[str, str]:
        return {self.name: str(self._with(batch))}

    def commit(self, batch: Batch) -> None:
        self._written = self._with(batch)
        done = [format_position(entry) for entry in (*batch.positions, *batch.others)]
        if not done:
            return
        with _explained():
            together = self._connected().pipeline(transaction=True)
            together.xack(self._stream, self._group, *done)
            together.xinfo_groups(self._stream)
            gaps = self._written.gaps()[:GAPS]
            for before, after in gaps:
                ends = f"({format_position(before)}", f"({format_position(after)}"
                together.xpending_range(self._stream, self._group, *ends, 1)
            _, groups, *pending = together.execute()
            delivered = self._look_at(groups)
            for (before, after), first in zip(gaps, pending, strict=True):
                if not first and after <= delivered:
                    self._written.add(before, after)

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                client.close()

    def _with(self, batch: Batch) -> Ranges:
        """The ranges once the links of the batch are written."""
        written = self._written.copy()
        if batch.contiguous and batch.positions:
            written.add(batch.positions[0], batch.positions[-1])
        else:
            for entry in batch.positions:
                written.add(entry, entry)
        return written

    def _connected(self) -> Any:
        """The client. A new one has a group, and reads the pending entries of this consumer first."""
        if self._client is None:
            from redis import Redis
            from redis.backoff import NoBackoff
            from redis.exceptions import ResponseError
            from redis.retry import Retry

            limits = {"socket_timeout": TIMEOUT, "socket_connect_timeout": TIMEOUT}
            no_retry = Retry(NoBackoff(), 0)  # a repeated XREADGROUP would leave the entries of a lost answer pending
            client = Redis.from_url(self._url, protocol=2, retry=no_retry, **limits, **self._settings)
            start = format_position(self._written.head) if self._written.last > (0, 0) else self._start
            try:
                client.xgroup_create(self._stream, self._group, start, mkstream=True)
            except ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    client.close()
                    raise
            self._warn_if_shorter(client)
            self._look_at(client.xinfo_groups(self._stream))
            self._client, self._own, self._cursor, self._claim_at = client, (0, 0), "0-0", 0.0
        return self._client

    def _warn_if_shorter(self, client: Any) -> None:
        last = parse_id(client.xinfo_stream(self._stream)["last-generated-id"])
        self.warning = None
        if last < self._written.last:
            ends = format_position(last), format_position(self._written.last)
            self.warning = (
                f"the stream ends at {ends[0]}, before {ends[1]}, which was read: Redis lost entries or the stream was "
                f"recreated; entries up to {ends[1]} are skipped as known"
            )

    def _read_own(self, client: Any, after: Position) -> Batch | None:
        """Entries that were delivered to this consumer before and are still pending."""
        streams = {self._stream: format_position(after)}
        entries: Entries = client.xreadgroup(self._group, self._consumer, streams, count=ENTRIES)[0][1]
        self._own = parse_id(entries[-1][0]) if entries else None
        return self._batch(entries) if entries else None

    def _claim(self, client: Any) -> Batch | None:
        """Entries that were delivered to any consumer long ago and are still pending."""
        idle = int(1000 * self._claim_after)
        options = {"start_id": self._cursor, "count": ENTRIES}
        cursor, entries, *deleted = client.xautoclaim(self._stream, self._group, self._consumer, idle, **options)
        self.trimmed += len(deleted[0]) if deleted else 0
        self._cursor = cursor.decode()
        if self._cursor == "0-0":
            self._claim_at = time.monotonic() + self._claim_after
        return self._batch(entries) if entries else None

    def _batch(self, entries: Entries, *, contiguous: bool = False) -> Batch:
        columns, others = Columns(), []
        for given, fields in entries:
            if given is None:  # claimed from a stream that no longer has it, before Redis 7
                self.trimmed += 1
                continue
            entry = parse_id(given)
            if entry in self._written:
                self.known += 1
            elif not fields:
                self.trimmed += 1
            else:
                try:
                    columns.add(entry, from_fields(fields))
                    continue
                except ValueError as error:
                    columns.rejected.append(Rejected(format_position(entry), shown(fields), str(error)))
            others.append(entry)
        return Batch(columns.links(), columns.positions, others, columns.rejected, contiguous)

    def _look_at(self, groups: list[dict[str, Any]]) -> Position:
        """The newest entry that was delivered to the group; its lag is kept."""
        group = next((each for each in groups if each["name"] == self._group.encode()), None)
        if group is None:
            raise SourceError(f"Redis: the group {self._group} was deleted; it is created again")
        self.lag = group.get("lag")  # unknown before Redis 7, and after some deletions
        return parse_id(group["last-delivered-id"])


@contextmanager
def _explained() -> Iterator[None]:
    """Turns errors of Redis and of the connection into a SourceError, which never shows the URL."""
    from redis.exceptions import RedisError

    try:
        yield
    except (RedisError, OSError) as error:
        raise SourceError(f"Redis: {reason(error)}") from error
