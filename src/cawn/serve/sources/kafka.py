"""Kafka topics: `kafka://host:port[,host:port...]/topic`. A message is a JSON object (see entries.py).

A server reads all partitions. What is stored is the offset of the next message of each, as `0:1700,1:1650`; offsets are
committed to the broker only so that Kafka's own tools can show the lag. The messages of a partition have one order,
those of several have not: replicas need a topic with one partition.

Options with a dot, such as security.protocol=SASL_SSL, are settings of librdkafka.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote

from cawn.errors import QueryError, printable
from cawn.serve.sources import RESTORE, SourceError, Stored, StreamEntry
from cawn.serve.sources.urls import SourceUrl

MESSAGES = 2_000  # at most, in a batch
TIMEOUT = 10.0  # seconds for an answer of the broker
PARTITIONS = 60.0  # seconds until new partitions are looked for

MakeConsumer = Callable[[dict[str, Any]], Any]


class KafkaSource:
    """Reads a topic. The options of its URL:

    start: "earliest" or "latest", where a partition without a stored offset starts.
    group: A consumer group whose offsets are kept at those of this server, for the tools of Kafka.
    name: Under which the offsets are stored; `kafka:TOPIC` by default.
    """

    def __init__(
        self, url: str, stored: Stored, *, replica: bool = False, make_consumer: MakeConsumer | None = None
    ) -> None:
        if find_spec("confluent_kafka") is None:
            raise QueryError("--source: Kafka needs an extra: pip install 'cawn[kafka]'")
        asked, self._replica, self._make_consumer = SourceUrl.parse(url), replica, make_consumer
        parts, self._topic = asked.parts, unquote(asked.parts.path[1:])
        servers = parts.netloc.rpartition("@")[2]
        if not self._topic or "/" in self._topic or not servers:
            raise QueryError("--source: write kafka://host:port/topic")
        start = asked.take("start", "earliest")
        if start not in ("earliest", "latest"):
            raise QueryError(f"--source: start={printable(start)}: give earliest or latest")
        if replica and start == "latest":
            raise QueryError("--source: start=latest is another message for each replica; leave it out")
        self.name, self._from_end = asked.take("name", f"kafka:{self._topic}"), start == "latest"
        settings: dict[str, Any] = {name: asked.take(name) for name in sorted(asked.options) if "." in name}
        settings |= {"bootstrap.servers": servers, "group.id": asked.take("group", "cawn")}
        settings |= {"enable.auto.commit": False, "auto.offset.reset": "error"}  # no message is skipped silently
        asked.refuse_others("group, start, name and settings of librdkafka, which have a dot")
        password = asked.password if parts.password is None else unquote(parts.password)
        signing = {"sasl.username": parts.username and unquote(parts.username), "sasl.password": password}
        self._settings = settings | {name: value for name, value in signing.items() if value}
        self._next = _parse(stored(self.name))
        self._ends: dict[int, int] = {}  # of the partitions, when the consumer was made
        self._look_again = 0.0
        self._consumer: Any = None
        self.lag: int | None = None
        self.trimmed, self.warning = 0, ""

    def read(self, wait: float) -> Sequence[StreamEntry]:
        with _explained():
            if self._consumer is not None and self._is_outdated():
                self.close()
            if self._consumer is None:
                self._connect()
            messages = self._consumer.consume(MESSAGES, timeout=wait)
            self.lag = self._unread()
        for message in messages:
            if (failed := message.error()) is not None:
                raise SourceError(f"Kafka: {failed.str()}")
        return [_entry(message) for message in messages]

    def offset(self, entries: Sequence[StreamEntry]) -> str:
        return ",".join(f"{partition}:{offset}" for partition, offset in sorted(self._after(entries).items()))

    def commit(self, entries: Sequence[StreamEntry]) -> None:
        self._next = self._after(entries)
        if entries and self._consumer is not None:
            from confluent_kafka import KafkaException

            with suppress(KafkaException):  # only for information
                self._consumer.commit(offsets=self._places(self._next), asynchronous=True)

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(Exception):
                consumer.close()

    def _after(self, entries: Sequence[StreamEntry]) -> dict[int, int]:
        """The next offset of each partition."""
        positions = (entry.position.split("-") for entry in entries)
        return self._next | {int(partition): int(offset) + 1 for partition, offset in positions}

    def _places(self, offsets: Mapping[int, int]) -> list[Any]:
        from confluent_kafka import TopicPartition

        return [TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]

    def _connect(self) -> None:
        """Make a consumer that reads all partitions from the stored offsets on."""
        from confluent_kafka import Consumer

        self._consumer = (self._make_consumer or Consumer)(self._settings | {"error_cb": self._warn})
        self._ends = {}
        for partition in sorted(self._partitions()):
            (place,) = self._places({partition: 0})
            low, self._ends[partition] = self._consumer.get_watermark_offsets(place, timeout=TIMEOUT)
            self._next[partition] = self._first(partition, low, self._ends[partition])
        self._consumer.assign(self._places(self._next))

    def _is_outdated(self) -> bool:
        """Whether there are new partitions; asked from time to time."""
        return time.monotonic() > self._look_again and self._partitions() != self._ends.keys()

    def _partitions(self) -> set[int]:
        """The partitions that the topic has now."""
        self._look_again = time.monotonic() + PARTITIONS
        found = self._consumer.list_topics(self._topic, timeout=TIMEOUT).topics[self._topic]
        if found.error is not None:
            raise SourceError(f"Kafka: {found.error.str()}")
        if self._replica and len(found.partitions) != 1:
            raise SourceError(
                f"Kafka: the topic has {len(found.partitions)} partitions: replicas need a topic with one"
            )
        return set(found.partitions)

    def _first(self, partition: int, low: int, high: int) -> int:
        """The offset to start at."""
        stored = self._next.get(partition, 0 if self._replica else None)
        if stored is None:
            return high if self._from_end else low
        if stored > high:
            raise SourceError(
                f"Kafka: partition {partition} ends at {high}, before the stored offset {stored}: the topic was "
                "recreated or lost messages; give the source another name with &name=NAME"
            )
        if stored < low and self._replica:
            raise SourceError(f"Kafka: messages {stored} to {low - 1} were deleted before they were read: {RESTORE}")
        self.trimmed += max(low - stored, 0)
        return max(stored, low)

    def _unread(self) -> int:
        """The number of messages after those that were read, by what the broker sent last."""
        lag = 0
        for each in self._consumer.position(self._places(self._next)):
            _, high = self._consumer.get_watermark_offsets(each, cached=True)
            at = each.offset if each.offset >= 0 else self._next[each.partition]
            lag += max(max(high, self._ends[each.partition]) - at, 0)
        return lag

    def _warn(self, error: Any) -> None:
        self.warning = f"Kafka: {error.str()}"


def _entry(message: Any) -> StreamEntry:
    kind, milliseconds = message.timestamp()
    clock = milliseconds / 1000 if kind else time.time()  # 0: the broker does not know
    return StreamEntry(f"{message.partition()}-{message.offset()}", clock, message.value())


def _parse(stored: str | int | None) -> dict[int, int]:
    pairs = (part.split(":") for part in str(stored or "").split(",") if part)
    return {int(partition): int(offset) for partition, offset in pairs}


@contextmanager
def _explained() -> Iterator[None]:
    """Turns errors of the client into a SourceError."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise SourceError(f"Kafka: {error}") from error
