"""What each difference of the authors' code is worth, from results made by hand."""

from cawn.caw.config import Config
from cawn.paper.authors import ALL, DIFFERENCES, EQUATIONS, Authors
from cawn.paper.experiments import Request
from cawn.paper.results import Result, Results
from networks import random_events


def request(tmp_path) -> Request:
    return Request({"uci": random_events(0)}, 2, Results(tmp_path))


def test_one_difference_at_a_time(tmp_path) -> None:
    found = Authors().plan(request(tmp_path))
    assert len(found) == 2 * (2 + len(DIFFERENCES))
    base = Config.preset("paper-mean").to_dict()
    for measurement in found:
        name = measurement.label.split(", ")[1]
        config, ties = measurement.settings["config"], measurement.settings["ties"]
        changed = {key for key in config if config[key] != base[key] and (config[key] or base[key])}
        assert changed == set(DIFFERENCES.get(name, {})) or name == ALL
        assert (ties == "rows") == (name in (ALL, "ties read row by row"))
    assert changed == {key for changes in DIFFERENCES.values() for key in changes}


def test_gains_are_paired_and_put_into_words(tmp_path) -> None:
    results = Results(tmp_path)
    auc = {EQUATIONS: (0.90, 0.94), "two bidirectional LSTMs": (0.92, 0.9601), f"width {200}": (0.88, 0.9201)}
    for measurement in Authors().plan(request(tmp_path)):
        name, seed = measurement.label.split(", ")[1], measurement.settings["seed"]
        if name in auc:
            row = {"links": "all", "negatives": "random", "clock": "strict", "split": "s"}
            value = {"rows": [row | {"auc_batch30": auc[name][seed]}]}
            labels, settings = [measurement.label], dict(measurement.settings)
            results.add(Result(labels[0], "uci", "training", settings, labels, value, 1.0, "", {}, "", "d"), {})
    section = Authors().show(results)
    assert section is not None
    rows = {row[0]: row[1:] for row in section.tables[0].rows}
    assert rows["two bidirectional LSTMs"][1].startswith("+2.0")
    assert "95.25" in rows["the paper"][0]
    assert "Clearly better: two bidirectional LSTMs" in section.text[1]
    assert "Clearly worse: width 200" in section.text[1]


def test_nothing_to_show(tmp_path) -> None:
    assert Authors().show(Results(tmp_path)) is None
