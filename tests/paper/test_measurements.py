"""Measurements: found by their kind and called with what they need."""

from importlib import import_module
from pathlib import Path

from cawn.data import laws
from cawn.learn.shared_links import write_links
from cawn.paper import measurements
from cawn.paper.measurements import KINDS, Measurement, Task, measure


def test_every_kind_has_a_function() -> None:
    for place in KINDS.values():
        module, _, name = place.partition(":")
        assert callable(getattr(import_module(module), name))


def test_the_networks_of_a_measurement() -> None:
    assert Measurement("uci", "training", {}, "a").networks == ("uci",)
    assert Measurement("uci", "training", {"others": ["enron"]}, "a").networks == ("uci", "enron")
    assert str(Measurement("uci", "training", {}, "a")) == "uci, a"


def test_the_key_does_not_depend_on_the_label_or_the_order_of_settings() -> None:
    one = Measurement("uci", "training", {"a": 1, "b": 2}, "one")
    two = Measurement("uci", "training", {"b": 2, "a": 1}, "two")
    assert one.key({"uci": "d"}) == two.key({"uci": "d"})


def count_links(task: Task, send) -> dict:
    """Called below as a kind of measurement."""
    send({"done": 0.5})
    return {"links": len(task.events()), "others": len(task.events("other")), "settings": task.settings}


def test_a_measurement_gets_its_links_and_settings(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setitem(measurements.KINDS, "count", "test_measurements:count_links")
    links = {name: tmp_path / name for name in ("uci", "other")}
    for size, path in zip((30, 60), links.values(), strict=True):
        write_links(path, laws.null(10, size, seed=0).events)
    reports = []
    found = measure("count", Task("uci", {"seed": 1}, links, "cpu", 1, tmp_path / "work"), reports.append)
    assert found == {"links": 30, "others": 60, "settings": {"seed": 1}}
    assert reports == [{"done": 0.5}]
