"""Sweeps: results are made once, failures do not end the others, and what was stopped continues."""

import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import cawn
from cawn.data import laws
from cawn.learn.shared_links import share_links
from cawn.paper import measurements
from cawn.paper.experiments import Experiment, Request
from cawn.paper.measurements import Measurement, Work
from cawn.paper.results import ResultStore
from cawn.paper.sweep import load_networks
from cawn.paper.sweep import sweep as run_sweep
from cawn.studies.study import Claims

made: list[int] = []  # numbers of the measurements that were made


def square(work: Work, send: Callable[[Any], object]) -> dict[str, int]:
    """Called by the sweeps below as a kind of measurement."""
    number = work.settings["number"]
    send({"done": 0.5})
    if number == 4:
        raise cawn.QueryError("four is refused")
    if number == 5:
        raise ValueError("five\nis a bug")
    if number == 6 and not work.folder.exists():
        work.folder.mkdir(parents=True)
        (work.folder / "half").write_text("")
        raise KeyboardInterrupt
    made.append(number)
    return {"square": number**2, "resumed": (work.folder / "half").exists()}


class Squares(Experiment):
    name = "squares"

    def __init__(self, *numbers: int, twice: bool = False) -> None:
        self.numbers, self.twice = numbers, twice

    def plan(self, request: Request) -> list[Measurement]:
        labels = ("a", "b") if self.twice else ("a",)
        return [
            Measurement(network, "square", {"number": number}, f"{label} {number}")
            for network in request.networks
            for number in self.numbers
            for label in labels
        ]


@pytest.fixture(autouse=True)
def kind(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setitem(measurements.KINDS, "square", f"{__name__}:square")
    made.clear()


def sweep(experiment: Experiment, folder: Path, *, seed: int = 0, quiet: bool = True) -> list[str]:
    networks = {"uci": laws.null(10, 30, seed=seed).events}
    request = Request(networks, 1, ResultStore.read(folder), quiet=quiet)
    return run_sweep(experiment, request, "cawn paper squares")


def found(folder: Path) -> dict[int, Any]:
    return {result.settings["number"]: result for result in ResultStore.read(folder).all()}


def test_results_are_made_once(tmp_path: Path, capsys) -> None:
    assert sweep(Squares(1, 2), tmp_path) == []
    assert sweep(Squares(1, 2, 3), tmp_path, quiet=False) == []
    assert made == [1, 2, 3]
    assert {number: result.value["square"] for number, result in found(tmp_path).items()} == {1: 1, 2: 4, 3: 9}
    printed = capsys.readouterr().err
    assert "2 of 3 measurements are already done\n" in printed
    assert "(3 of 3)" in printed
    one = found(tmp_path)[1]
    assert (one.command, one.labels) == ("cawn paper squares", ["a 1"])
    assert one.device.startswith("CPU")
    assert ResultStore.read(tmp_path).about["uci"]["links"] == 30
    assert not (tmp_path / "unfinished").exists()


def test_what_is_planned_twice_is_made_once_and_has_both_labels(tmp_path: Path) -> None:
    sweep(Squares(1, 2, twice=True), tmp_path)
    assert made == [1, 2]
    assert sorted(found(tmp_path)[2].labels) == ["a 2", "b 2"]


def test_failures_are_reported_and_do_not_end_the_others(tmp_path: Path, capsys) -> None:
    failed = sweep(Squares(4, 5, 2), tmp_path, quiet=False)
    assert failed[0] == "uci, a 4: four is refused"
    assert failed[1].startswith("uci, a 5: ValueError: five (see ")
    assert made == [2]
    assert list(found(tmp_path)) == [2]
    (errors,) = (tmp_path / "unfinished").glob("*.error.txt")
    assert "Traceback" in errors.read_text()
    assert "uci, a 4: four is refused (1 of 3" in capsys.readouterr().err


def test_a_stopped_sweep_continues(tmp_path: Path, capsys) -> None:
    with pytest.raises(KeyboardInterrupt):
        sweep(Squares(1, 6, 2), tmp_path, quiet=False)
    assert capsys.readouterr().err.splitlines()[-1] == "stopped; run the same command again to continue"
    assert made == [1]
    assert sweep(Squares(1, 6, 2), tmp_path) == []
    assert made == [1, 6, 2]
    assert found(tmp_path)[6].value["resumed"]
    assert not (tmp_path / "unfinished").exists()


def test_two_sweeps_in_one_folder_share_the_measurements(tmp_path: Path) -> None:
    numbers = [number for number in range(30) if number not in (4, 5, 6)]
    with ThreadPoolExecutor(2) as pool:
        failed = list(pool.map(lambda order: sweep(Squares(*order), tmp_path), (numbers, numbers[::-1])))
    assert failed == [[], []]
    assert sorted(made) == numbers
    assert {number: result.value["square"] for number, result in found(tmp_path).items()} == {
        number: number**2 for number in numbers
    }


def test_what_measures_time_is_alone(tmp_path: Path) -> None:
    class Alone(Squares):
        alone = True

    with Claims(tmp_path) as theirs:
        assert theirs.take("squares")
        with pytest.raises(cawn.StorageError, match="another process makes squares; wait until it ends"):
            sweep(Alone(1), tmp_path)
    assert sweep(Alone(1), tmp_path) == []


def test_an_experiment_that_was_measured_before_gives_its_labels(tmp_path: Path) -> None:
    sweep(Squares(1), tmp_path)
    sweep(Squares(1, twice=True), tmp_path)
    assert made == [1]
    assert found(tmp_path)[1].labels == ["a 1", "b 1"]


def test_a_measurement_gets_its_links_and_settings(tmp_path: Path) -> None:
    paths = {}
    for size, name in ((30, "uci"), (60, "other")):
        paths[name] = share_links(tmp_path, name, laws.null(10, size, seed=0).events)
    work = Work("uci", {"seed": 1}, paths, "cpu", 1, tmp_path / "work")
    assert (len(work.events()), len(work.events("other"))) == (30, 60)
    assert Measurement("uci", "training", {"others": ["enron"]}, "a").networks == ("uci", "enron")
    for place in measurements.KINDS.values():
        module, _, name = place.partition(":")
        assert callable(getattr(import_module(module), name))


def test_the_number_made_and_the_time_left(tmp_path: Path, capsys) -> None:
    sweep(Squares(1, 2, twice=True), tmp_path, quiet=False)
    first, second = capsys.readouterr().err.splitlines()
    assert "(1 of 2; about " in first
    assert first.endswith(" left)")
    assert second.endswith("(2 of 2)")


def test_other_links_of_a_network_are_refused(tmp_path: Path) -> None:
    sweep(Squares(1), tmp_path)
    with pytest.raises(cawn.QueryError, match="has results for a different version of uci"):
        sweep(Squares(1), tmp_path, seed=1)


def test_a_file_of_another_program_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "uci.json").write_text("[1, 2]")
    with pytest.raises(cawn.StorageError, match="not written by cawn paper"):
        sweep(Squares(1), tmp_path)
    assert (tmp_path / "uci.json").read_text() == "[1, 2]"
    assert made == []


def test_networks_at_hand(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("CAWN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(cawn.DataError, match="no dataset is available locally"):
        load_networks(None, ("uci",))
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "edges.csv.gz").write_bytes(gzip.compress(b"u,i,ts,label\n1,2,3,0\n2,3,4,0\n"))
    assert list(load_networks(None, ("uci", "enron"))) == ["uci"]
    with pytest.raises(cawn.CawnError, match="there is no dataset 'frob'"):
        load_networks(["frob"], None)
