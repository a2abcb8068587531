"""Kafka topics: against a stand-in for the consumer, and against the mock broker of librdkafka."""

import json
from typing import Any

import pytest

import cawn
from cawn.serve.sources import SourceError, kafka
from cawn.serve.sources.kafka import KafkaSource
from stored_links import StoredLinks

confluent_kafka = pytest.importorskip("confluent_kafka")
TopicPartition = confluent_kafka.TopicPartition


class Message:
    def __init__(self, partition: int, offset: int, value: bytes | None, error: Any = None) -> None:
        self._found = partition, offset, value, error

    def partition(self) -> int:
        return self._found[0]

    def offset(self) -> int:
        return self._found[1]

    def value(self) -> bytes | None:
        return self._found[2]

    def error(self) -> Any:
        return self._found[3]


class Broker:
    """A topic with two partitions in memory; makes consumers that are assigned both."""

    def __init__(self) -> None:
        self.partitions: dict[int, list[bytes]] = {0: [], 1: []}
        self.first = {0: 0, 1: 0}  # offsets before these have been deleted
        self.committed: dict[int, int] = {}

    def add(self, *times: int, partition: int = 0) -> None:
        self.partitions[partition] += [json.dumps({"src": "a", "dst": "b", "t": t}).encode() for t in times]

    def consumer(self, settings: dict[str, Any]) -> "Consumer":
        assert settings["enable.auto.commit"] is False
        return Consumer(self)


class Consumer:
    def __init__(self, broker: Broker) -> None:
        self._broker, self._at = broker, None

    def subscribe(self, topics: list[str], on_assign: Any) -> None:
        assert topics == ["links"]
        self._on_assign = on_assign

    def assign(self, partitions: list[Any]) -> None:
        self._at = {each.partition: max(each.offset, 0) for each in partitions}

    def consume(self, most: int, timeout: float) -> list[Message]:
        if self._at is None:
            self._on_assign(self, [TopicPartition("links", i) for i in self._broker.partitions])
        found = []
        for i, messages in self._broker.partitions.items():
            taken = messages[self._at[i] :][: most - len(found)]
            found += [Message(i, self._at[i] + n, value) for n, value in enumerate(taken)]
            self._at[i] += len(taken)
        return found

    def get_watermark_offsets(self, partition: Any, timeout: float = 0, cached: bool = False) -> tuple[int, int]:
        return self._broker.first[partition.partition], len(self._broker.partitions[partition.partition])

    def assignment(self) -> list[Any]:
        return [TopicPartition("links", i) for i in self._broker.partitions]

    def position(self, partitions: list[Any]) -> list[Any]:
        return [TopicPartition("links", each.partition, self._at[each.partition]) for each in partitions]

    def commit(self, offsets: list[Any], asynchronous: bool) -> None:
        self._broker.committed |= {each.partition: each.offset for each in offsets}

    def close(self) -> None:
        self._at = None


@pytest.fixture
def broker() -> Broker:
    return Broker()


class Reader:
    """A source with what it stored; `crash` forgets all else."""

    def __init__(self, broker: Broker) -> None:
        self.stored, self._broker = StoredLinks(), broker
        self.crash()

    def crash(self) -> None:
        self.source = KafkaSource("links", {}, self.stored.offsets.get, make_consumer=self._broker.consumer)

    def write(self) -> Any:
        batch = self.source.read(0)
        if len(batch):
            self.stored.submit(batch.links, offsets=self.source.offsets(batch))
        return batch

    def drain(self) -> list:
        while len(batch := self.write()) or batch.others:
            self.source.commit(batch)
        return self.stored.times


def test_offsets_are_stored_by_partition(broker: Broker) -> None:
    broker.add(1, 2)
    broker.add(3, partition=1)
    reader = Reader(broker)
    assert reader.drain() == [1, 2, 3]
    assert reader.stored.offsets == {"kafka:links": "0:2,1:1"}
    assert broker.committed == {0: 2, 1: 1}
    broker.add(4, partition=1)
    assert reader.drain() == [1, 2, 3, 4]
    assert reader.stored.offsets == {"kafka:links": "0:2,1:2"}


@pytest.mark.parametrize("stored", [True, False])
def test_a_crash_loses_nothing_and_doubles_nothing(broker: Broker, stored: bool) -> None:
    broker.add(1, 2)
    reader = Reader(broker)
    reader.write() if stored else reader.source.read(0)
    broker.committed = {0: 0}  # what the broker knows does not matter
    reader.crash()
    broker.add(3)
    assert reader.drain() == [1, 2, 3]


def test_messages_of_both_halves(broker: Broker) -> None:
    """A batch that is halved has the offsets of each half, and those of malformed messages at the end."""
    broker.add(1, 2, 3)
    broker.partitions[0] += [b"{", b""]
    reader = Reader(broker)
    batch = reader.source.read(0)
    assert [each.position for each in batch.rejected] == ["0-3", "0-4"]
    first, second = batch.halves()
    assert reader.source.offsets(first) == {"kafka:links": "0:1"}
    reader.source.commit(first)
    assert reader.source.offsets(second) == {"kafka:links": "0:3"}
    reader.source.commit(second)
    assert broker.committed == {0: 5}


def test_messages_that_were_deleted(broker: Broker, monkeypatch) -> None:
    monkeypatch.setattr(kafka, "MESSAGES", 2)
    broker.add(*range(10))
    broker.first[0] = 6
    reader = Reader(broker)
    reader.stored.offsets["kafka:links"] = "0:4"
    reader.crash()
    reader.source.read(0)
    assert (reader.source.trimmed, reader.source.lag) == (2, 2)
    reader.crash()
    assert reader.drain() == [6, 7, 8, 9]


def test_a_topic_that_was_made_again(broker: Broker) -> None:
    broker.add(1)
    reader = Reader(broker)
    reader.stored.offsets["kafka:links"] = "0:5"
    reader.crash()
    with pytest.raises(SourceError, match="partition 0 ends at 1, before the stored offset 5"):
        reader.drain()


def test_errors_of_messages(broker: Broker) -> None:
    failed = confluent_kafka.KafkaError(confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART)
    reader = Reader(broker)
    reader.source.read(0)
    reader.source._consumer.consume = lambda most, timeout: [Message(0, 0, None, failed)]
    with pytest.raises(SourceError, match=r"Kafka: .*[Uu]nknown topic"):
        reader.source.read(0)
    reader.source._warn(failed)
    assert "Kafka: " in reader.source.warning


def test_settings_of_a_url(monkeypatch) -> None:
    url = "kafka://user:p%40ss@h1:1,h2:2/links?group=g&security.protocol=SASL_SSL&start=latest"
    settings = KafkaSource.open(url, {}.get)._settings
    assert settings == {
        "bootstrap.servers": "h1:1,h2:2",
        "group.id": "g",
        "security.protocol": "SASL_SSL",
        "sasl.username": "user",
        "sasl.password": "p@ss",
        "enable.auto.commit": False,
        "auto.offset.reset": "latest",
    }
    with pytest.raises(SourceError, match="No such configuration property"):
        KafkaSource.open("kafka://h/links?no.such=1", {}.get).read(0)
    monkeypatch.setattr(kafka, "find_spec", lambda name: None)
    with pytest.raises(cawn.QueryError, match=r"pip install 'cawn\[kafka\]'"):
        KafkaSource("links", {}, {}.get)


def test_librdkafka() -> None:
    """The real client, with the broker that librdkafka has for tests: the protocol of Kafka over loopback."""
    producer = confluent_kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (host,) = producer.list_topics("links", timeout=60).brokers.values()
    url = f"kafka://127.0.0.1:{host.port}/links?group="
    for t in range(6):
        value = b"{" if t == 4 else json.dumps({"src": "a", "dst": "b", "t": t})
        producer.produce("links", value=value, partition=t % 2)
    producer.flush(60)
    stored = StoredLinks()
    source = KafkaSource.open(url + "first", stored.offsets.get)
    rejected = 0
    while len(stored.times) + rejected < 6:
        batch = source.read(0.1)
        rejected += len(batch.rejected)
        if len(batch):
            stored.submit(batch.links, offsets=source.offsets(batch))
        source.commit(batch)
    source.close()
    assert (sorted(stored.times), rejected) == ([0, 1, 2, 3, 5], 1)
    producer.produce("links", value=json.dumps({"src": "a", "dst": "b", "t": 6}), partition=0)
    producer.flush(60)
    source = KafkaSource.open(url + "second", stored.offsets.get)
    while not len(batch := source.read(0.1)):
        pass
    assert batch.links.t == [6]
    assert source.offsets(batch) == {"kafka:links": "0:4,1:3"}
    source.close()
