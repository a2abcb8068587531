"""Kafka topics: `kafka://host:port[,host:port...]/topic?group=G`. A message is a JSON object (see entries.py).

The offset of the next message of each partition is stored in the log record of the links, as `0:1700,1:1650`. When a
partition is assigned, reading starts at the stored offset, whatever offset the broker has; offsets are committed to the
broker only so that Kafka's own tools can show the lag. Messages of a partition come in order, so a message below the
stored offset has been written.

Options with a dot, such as security.protocol=SASL_SSL, are settings of librdkafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote

from cawn.errors import QueryError, printable
from cawn.serve.sources import Batch, Position, Rejected, SourceError, Stored, format_position
from cawn.serve.sources.entries import Columns, from_json, shown
from cawn.serve.sources.urls import SourceUrl

MESSAGES = 2_000  # at most, in a batch
TIMEOUT = 10.0  # seconds for an answer of the broker

MakeConsumer = Callable[[dict[str, Any]], Any]


class KafkaSource:
    """Reads a topic as a consumer of a group.

    Args:
        settings: Of librdkafka, with bootstrap.servers and group.id.
        name: Under which the offsets are stored; `kafka:TOPIC` by default.
        make_consumer: confluent_kafka.Consumer, or a mock of it in tests.
    """

    def __init__(
        self,
        topic: str,
        settings: Mapping[str, Any],
        stored: Stored,
        *,
        name: str | None = None,
        make_consumer: MakeConsumer | None = None,
    ) -> None:
        if find_spec("confluent_kafka") is None:
            raise QueryError("--source: Kafka needs an extra: pip install 'cawn[kafka]'")
        self.name, self._topic, self._make_consumer = name or f"kafka:{topic}", topic, make_consumer
        self._settings = {"enable.auto.commit": False, "auto.offset.reset": "earliest"} | dict(settings)
        self._next = _parse(stored(self.name))
        self._consumer: Any = None
        self.lag: int | None = None
        self.known = self.trimmed = 0
        self.warning: str | None = None

    @classmethod
    def open(cls, url: str, stored: Stored) -> KafkaSource:
        asked = SourceUrl.parse(url)
        topic = unquote(asked.parts.path[1:])
        servers = asked.parts.netloc.rpartition("@")[2]
        if not topic or "/" in topic or not servers:
            raise QueryError("--source: write kafka://host:port/topic?group=G")
        settings: dict[str, Any] = {name: asked.take(name) for name in sorted(asked.options) if "." in name}
        settings |= {"bootstrap.servers": servers, "group.id": asked.take("group", "cawn")}
        start = asked.take("start", "earliest")
        if start not in ("earliest", "latest"):
            raise QueryError(f"--source: start={printable(start)}: give earliest or latest")
        settings["auto.offset.reset"] = start
        name = asked.take("name") if "name" in asked.options else None
        asked.refuse_others("group, start, name and settings of librdkafka, which have a dot")
        if asked.parts.username:
            settings["sasl.username"] = unquote(asked.parts.username)
        password = asked.password if asked.parts.password is None else unquote(asked.parts.password)
        if password is not None:
            settings["sasl.password"] = password
        return cls(topic, settings, stored, name=name)

    def read(self, wait: float) -> Batch:
        messages = self._consume(wait)
        columns, others = Columns(), []
        for message in messages:
            position = message.partition(), message.offset()
            if position[1] < self._next.get(position[0], 0):
                self.known += 1
                continue
            try:
                columns.add(position, from_json(message.value()))
            except ValueError as error:
                others.append(position)
                columns.rejected.append(Rejected(format_position(position), shown(message.value()), str(error)))
        return Batch(columns.links(), columns.positions, others, columns.rejected)

    def offsets(self, batch: Batch) -> dict[str, str]:
        following = self._next | _following(batch.positions)
        return {self.name: ",".join(f"{partition}:{offset}" for partition, offset in sorted(following.items()))}

    def commit(self, batch: Batch) -> None:
        done = _following([*batch.positions, *batch.others])
        self._next |= done
        if done and self._consumer is not None:
            from confluent_kafka import KafkaException, TopicPartition

            offsets = [TopicPartition(self._topic, partition, self._next[partition]) for partition in done]
            with suppress(KafkaException):  # only for information
                self._consumer.commit(offsets=offsets, asynchronous=True)

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(Exception):
                consumer.close()

    def _connected(self) -> Any:
        if self._consumer is None:
            from confluent_kafka import Consumer, KafkaException

            try:
                self._consumer = (self._make_consumer or Consumer)(self._settings | {"error_cb": self._warn})
                self._consumer.subscribe([self._topic], on_assign=self._assigned)
            except KafkaException as error:
                self.close()
                raise SourceError(f"Kafka: {error}") from error
        return self._consumer

    def _consume(self, wait: float) -> list[Any]:
        from confluent_kafka import KafkaException

        try:
            messages: list[Any] = self._connected().consume(MESSAGES, timeout=wait)
            self._look_at_lag()
        except KafkaException as error:
            raise SourceError(f"Kafka: {error}") from error
        for message in messages:
            if (failed := message.error()) is not None:
                raise SourceError(f"Kafka: {failed.str()}")
        return messages

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        """Start at the stored offsets."""
        for each in partitions:
            if (stored := self._next.get(each.partition)) is not None:
                low, high = consumer.get_watermark_offsets(each, timeout=TIMEOUT)
                if stored > high:
                    raise SourceError(
                        f"Kafka: partition {each.partition} ends at {high}, before the stored offset {stored}: the "
                        "topic was recreated or lost messages; give the source another name with &name=NAME"
                    )
                self.trimmed += max(low - stored, 0)
                each.offset = max(stored, low)
        consumer.assign(partitions)

    def _look_at_lag(self) -> None:
        """The number of messages after those that were read, by what the broker sent last."""
        lag = 0
        for each in self._consumer.position(self._consumer.assignment()):
            _, high = self._consumer.get_watermark_offsets(each, cached=True)
            lag += max(high - each.offset, 0) if high > 0 and each.offset >= 0 else 0
        self.lag = lag

    def _warn(self, error: Any) -> None:
        self.warning = f"Kafka: {error.str()}"


def _following(positions: Sequence[Position]) -> dict[int, int]:
    """The next offset of each partition."""
    return {partition: offset + 1 for partition, offset in sorted(positions)}


def _parse(stored: str | int | None) -> dict[int, int]:
    pairs = (part.split(":") for part in str(stored or "").split(",") if part)
    return {int(partition): int(offset) for partition, offset in pairs}
