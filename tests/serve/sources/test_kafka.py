"""Kafka topics: against a stand-in for the consumer, and against the mock broker of librdkafka."""

import json
from types import SimpleNamespace
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
        self.partition, self.offset, self.value, self.error = (
            lambda each=each: each for each in (partition, offset, value, error)
        )

    def timestamp(self) -> tuple[int, int]:
        return self.offset() % 2, 1_700_000_000_000


class Broker:
    """A topic with partitions in memory; makes consumers that read all of them."""

    def __init__(self, partitions: int = 2) -> None:
        self.partitions: dict[int, list[bytes]] = {i: [] for i in range(partitions)}
        self.first = dict.fromkeys(self.partitions, 0)  # offsets before these have been deleted
        self.committed: dict[int, int] = {}

    def add(self, *times: int, partition: int = 0) -> None:
        messages = [json.dumps({"src": "a", "dst": "b", "t": t}).encode() for t in times]
        self.partitions[partition] = [*self.partitions.get(partition, ()), *messages]
        self.first.setdefault(partition, 0)

    def consumer(self, settings: dict[str, Any]) -> "Consumer":
        assert settings["enable.auto.commit"] is False
        return Consumer(self)


class Consumer:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=self._broker.partitions)})

    def assign(self, partitions: list[Any]) -> None:
        self._at = {each.partition: each.offset for each in partitions}

    def consume(self, most: int, timeout: float) -> list[Message]:
        found = []
        for i in self._at:
            taken = self._broker.partitions[i][self._at[i] :][: most - len(found)]
            found += [Message(i, self._at[i] + n, value) for n, value in enumerate(taken)]
            self._at[i] += len(taken)
        return found

    def get_watermark_offsets(self, partition: Any, timeout: float = 0, cached: bool = False) -> tuple[int, int]:
        return self._broker.first[partition.partition], len(self._broker.partitions[partition.partition])

    def position(self, partitions: list[Any]) -> list[Any]:
        return [TopicPartition("links", each.partition, self._at[each.partition]) for each in partitions]

    def commit(self, offsets: list[Any], asynchronous: bool) -> None:
        self._broker.committed |= {each.partition: each.offset for each in offsets}

    def close(self) -> None:
        self._at = {}


@pytest.fixture
def broker() -> Broker:
    return Broker()


class Reader:
    """A source with what it stored; `crash` forgets all else."""

    def __init__(self, broker: Broker, offsets: str | None = None, *, start: str = "earliest", replica: bool = False):
        self.stored, url = StoredLinks(), f"kafka://h/links?start={start}"
        if offsets is not None:
            self.stored.offsets["kafka:links"] = offsets
        options = {"replica": replica, "make_consumer": broker.consumer}
        self._open = lambda: KafkaSource(url, self.stored.offsets.get, **options)
        self.crash()

    def crash(self) -> None:
        self.source = self._open()

    def drain(self) -> list:
        return self.stored.drain(self.source)


def test_offsets_are_stored_by_partition(broker: Broker, monkeypatch) -> None:
    broker.add(1, 2)
    broker.add(3, partition=1)
    reader = Reader(broker)
    assert reader.drain() == [1, 2, 3]
    assert reader.stored.offsets == {"kafka:links": "0:2,1:1"}
    assert broker.committed == {0: 2, 1: 1}
    broker.add(4, partition=1)
    assert reader.drain() == [1, 2, 3, 4]
    broker.add(5, partition=2)
    assert reader.drain() == [1, 2, 3, 4], "new partitions are looked for from time to time"
    monkeypatch.setattr(kafka, "PARTITIONS", -1.0)
    reader.crash()
    assert reader.drain() == [1, 2, 3, 4, 5]
    broker.add(6, partition=3)
    assert reader.drain() == [1, 2, 3, 4, 5, 6]
    assert reader.stored.offsets == {"kafka:links": "0:2,1:2,2:1,3:1"}


@pytest.mark.parametrize("stored", [True, False])
def test_a_crash_loses_nothing_and_doubles_nothing(broker: Broker, stored: bool) -> None:
    broker.add(1, 2)
    reader = Reader(broker)
    entries = list(reader.source.read(0))
    assert entries[1].clock == 1_700_000_000
    assert entries[0].clock > 1_700_000_000, "that of this machine, if the broker has none"
    if stored:
        reader.stored.write(reader.source, entries)
    broker.committed = {0: 0}  # what the broker knows does not matter
    reader.crash()
    broker.add(3)
    assert reader.drain() == [1, 2, 3]


def test_where_it_begins(broker: Broker) -> None:
    broker.add(1, 2)
    reader = Reader(broker, start="latest")
    reader.stored.write(reader.source, reader.source.read(0))
    reader.crash()
    broker.add(3)
    assert reader.drain() == [3]
    with pytest.raises(cawn.QueryError, match="another message for each replica"):
        Reader(broker, start="latest", replica=True)


def test_messages_that_were_deleted(monkeypatch) -> None:
    monkeypatch.setattr(kafka, "MESSAGES", 2)
    broker = Broker(1)
    broker.add(*range(10))
    broker.first[0] = 6
    reader = Reader(broker, "0:4")
    reader.source.read(0)
    assert (reader.source.trimmed, reader.source.lag) == (2, 2)
    reader.crash()
    assert reader.drain() == [6, 7, 8, 9]
    assert Reader(broker, "0:6", replica=True).drain() == [6, 7, 8, 9]
    for offsets, first in (("0:4", 4), (None, 0)):
        with pytest.raises(SourceError, match=f"messages {first} to 5 were deleted .* restore a backup"):
            Reader(broker, offsets, replica=True).drain()


def test_topics_that_cannot_be_read(broker: Broker) -> None:
    broker.add(1)
    with pytest.raises(SourceError, match="partition 0 ends at 1, before the stored offset 5"):
        Reader(broker, "0:5").drain()
    with pytest.raises(SourceError, match="has 2 partitions: replicas need a topic with one"):
        Reader(broker, replica=True).drain()
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
    settings = KafkaSource(url, {}.get)._settings
    assert settings == {
        "bootstrap.servers": "h1:1,h2:2",
        "group.id": "g",
        "security.protocol": "SASL_SSL",
        "sasl.username": "user",
        "sasl.password": "p@ss",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
    }
    with pytest.raises(SourceError, match="No such configuration property"):
        KafkaSource("kafka://h/links?no.such=1", {}.get).read(0)
    monkeypatch.setattr(kafka, "find_spec", lambda name: None)
    with pytest.raises(cawn.QueryError, match=r"pip install 'cawn\[kafka\]'"):
        KafkaSource("kafka://h/links", {}.get)


def test_librdkafka() -> None:
    """The real client, with the broker that librdkafka has for tests: the protocol of Kafka over loopback."""
    producer = confluent_kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (host,) = producer.list_topics("links", timeout=60).brokers.values()
    url = f"kafka://127.0.0.1:{host.port}/links?group="
    for t in range(6):
        value = b"{" if t == 4 else json.dumps({"src": "a", "dst": "b", "t": t})
        producer.produce("links", value=value, partition=t % 2)
    producer.flush(60)
    stored, entries = StoredLinks(), []
    source = KafkaSource(url + "first", stored.offsets.get)
    while len(entries) < 6 or source.lag:
        entries += source.read(0.1)
    stored.write(source, entries)
    source.commit(entries)
    source.close()
    assert sorted(stored.times) == [0, 1, 2, 3, 5]
    assert all(entry.clock > 1_700_000_000 for entry in entries)
    producer.produce("links", value=json.dumps({"src": "a", "dst": "b", "t": 6}), partition=0)
    producer.flush(60)
    source = KafkaSource(url + "second", stored.offsets.get)
    while not (entries := source.read(0.1)):
        pass
    assert [json.loads(entry.content)["t"] for entry in entries] == [6]
    assert source.offset(entries).startswith("0:4,1:3")
    source.close()
    with pytest.raises(SourceError, match="replicas need a topic with one"):
        KafkaSource(url + "third", {}.get, replica=True).read(0)
