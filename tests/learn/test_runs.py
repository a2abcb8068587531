"""Run folders: one writer, every change in one step, nothing of anybody else's touched, nothing believed unchecked."""

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import cawn
from cawn.caw.config import Config
from cawn.data import laws
from cawn.data.hashing import checksum
from cawn.files import FolderLock
from cawn.learn.calibration import Calibration, RollingCalibration
from cawn.learn.evaluation import Evaluation
from cawn.learn.run_info import run_info
from cawn.learn.runs import read_description, read_events, read_run, replace_links
from cawn.learn.splits import split
from cawn.learn.store import stamp_of
from cawn.learn.testing import BASELINES
from cawn.predictor import LinkPredictor
from cawn.systems.baselines import STANDING
from ctrl_c import after_each_step, stopped_after
from damaged_arrays import BIG, NAN, as_type, put, shorter
from networks import store
from small_results import a_test

TINY = Config(alpha=0.5, num_walks=4, length=2, dim=4, frequencies=2, batch_size=64, epochs=1)
SMALLER = TINY.with_(rates=False)
CHANGES = ("mkdir", "replace", "rename", "unlink", "rmdir", "link")


def links(count: int = 120, nodes: int = 15) -> cawn.Events:
    rng = np.random.default_rng(0)
    law = laws.triadic_closure(nodes, count, seed=0).events
    columns = {"weight": rng.random(count), "negative": law.dst[::-1], "link_id": [str(i) for i in range(count)]}
    names = [f"nöde {i}" for i in range(nodes)]
    return cawn.Events(
        law.src, law.dst, law.t + 0.25, msg=rng.normal(size=count), x=rng.normal(size=nodes), labels=names, **columns
    )


def train(folder: Path, config: Config = TINY, events: cawn.Events | None = None, **options) -> cawn.Run:
    options = {"quiet": True, "device": "cpu", "threads": 1, "task": cawn.Task(negatives=("random",))} | options
    return cawn.train(links() if events is None else events, config, out=folder, **options)


def scores(folder: Path, **options) -> np.ndarray:
    names = [f"nöde {i}" for i in range(10)]
    return LinkPredictor.load(folder, device="cpu", threads=1, **options).score(names[:5], names[5:], 5_000.5)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(folder)
    return folder


@pytest.fixture(scope="module")
def smaller(tmp_path_factory) -> Path:
    """With fewer files."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(folder, SMALLER)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def file_in(folder: Path, pattern: str) -> Path:
    return next(folder.glob(pattern))


FILES = ["run.json", "config.toml", "weights.safetensors", "report.json", "results.json"]
FILES += [f"network-*/{name}.npy" for name in ("src", "dst", "t", "msg", "x", "weight", "negative", "link_id")]
FILES += [f"network-*/{name}.npy" for name in ("name_ends", "name_bytes")]


def test_every_file_is_among_those_damaged_here(trained: Path) -> None:
    unread = {".lock", "checkpoint.safetensors", "metrics.jsonl"}
    held = {str(path.relative_to(trained)) for path in trained.rglob("*") if path.is_file()} - unread
    assert held == {str(file_in(trained, pattern).relative_to(trained)) for pattern in FILES}


@pytest.mark.parametrize("pattern", FILES)
def test_damage_is_one_line(run: Path, pattern: str) -> None:
    path = file_in(run, pattern)
    whole = path.read_bytes()
    rng = np.random.default_rng(len(pattern))
    flipped = []
    for _ in range(3):
        some = bytearray(whole)
        some[rng.integers(len(some))] ^= 1 << rng.integers(8)
        flipped.append(bytes(some))
    for content in (*flipped, whole[: len(whole) // 2], b"", whole + b"\0", b"[" * 5_000, None):
        path.unlink() if content is None else path.write_bytes(content)
        if content is None and path.name in ("config.toml", "results.json"):
            assert np.isfinite(scores(run)).all()
            continue
        if path.name == "config.toml" and content is not None and content in flipped:
            continue  # a flipped bit may leave the same settings
        with pytest.raises(cawn.StorageError) as caught:
            scores(run)
        assert "\n" not in str(caught.value)


def forge(run: Path, name: str, array: np.ndarray) -> None:
    """Put another array into a run, with checksums that agree, as somebody could who means harm."""
    path = file_in(run, f"*/{name}.npy")
    np.save(path, array)
    found = json.loads((run / "run.json").read_text())
    found["network"]["files"][path.name] = stamp_of(path.read_bytes())
    seal(run / "run.json", found)


def seal(path: Path, found: dict) -> None:
    found.pop("checksum", None)
    path.write_text(json.dumps(found | {"checksum": checksum(found)}))


HARM = [
    ("src", put(0, -BIG)),
    ("src", put(3, 15)),
    ("dst", put(0, -1)),
    ("src", as_type(np.int64)),
    ("src", as_type(np.dtype(">i4"))),
    ("dst", shorter),
    ("src", lambda array: array[:, None]),
    ("t", put(0, NAN)),
    ("t", put(5, 1e300)),
    ("t", as_type(np.float32)),
    ("t", as_type(np.complex128)),
    ("msg", put(0, np.inf)),
    ("msg", lambda array: np.asfortranarray(np.repeat(array, 2, axis=1))),
    ("msg", lambda array: np.repeat(array, 2, axis=1)),
    ("x", shorter),
    ("x", put(0, NAN)),
    ("weight", put(0, -1)),
    ("negative", put(0, 15)),
    ("negative", put(0, -2)),
    ("link_id", as_type(np.int64)),
    ("name_ends", lambda array: array[::-1]),
    ("name_ends", put(1, BIG)),
    ("name_ends", put(1, 2)),
    ("name_ends", shorter),
    ("name_bytes", put(0, 0xFF)),
    ("name_bytes", as_type(np.int8)),
]


@pytest.mark.parametrize(("name", "harm"), HARM, ids=[f"{i}-{name}" for i, (name, _) in enumerate(HARM)])
def test_arrays_that_would_lead_compiled_code_astray_are_refused(run: Path, name: str, harm) -> None:
    forge(run, name, harm(np.load(file_in(run, f"*/{name}.npy"))))
    with pytest.raises(cawn.StorageError, match="damaged") as caught:
        LinkPredictor.load(run, device="cpu")
    assert "\n" not in str(caught.value)


def test_flipped_bits_that_nobody_verifies_never_crash(run: Path) -> None:
    """A number may then be wrong, but nothing is read or written where it should not be."""
    rng = np.random.default_rng(0)
    for pattern in FILES[5:]:
        path = file_in(run, pattern)
        whole = path.read_bytes()
        for _ in range(3):
            some = bytearray(whole)
            some[rng.integers(len(some))] ^= 1 << rng.integers(8)
            path.write_bytes(some)
            with suppress(cawn.StorageError):
                assert np.isfinite(scores(run, verify=False)).all()
        path.write_bytes(whole)


def test_links_are_checked_before_an_index_is_built(run: Path) -> None:
    """Counting links per node from such ids would write out of bounds."""
    forge(run, "src", np.full(120, -(10**9), np.int32))
    code = f"import cawn; cawn.LinkPredictor.load({str(run)!r}, device='cpu')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "StorageError" in ended.stderr


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("task", "both"),
        ("task", ["transductive"]),
        ("seed", -1),
        ("seed", 2**64),
        ("seed", True),
        ("links", "many"),
        ("alpha", []),
        ("alpha", [-1.0]),
        ("alpha", [NAN]),
        ("alpha", [0.5, 0.5, 0.5]),
        ("alpha", 0.5),
        ("unit", 0),
        ("unit", -1),
        ("unit", NAN),
        ("unit", 10**400),
        ("unit", None),
        ("widths", [1, 2]),
        ("facts", {}),
        ("facts", None),
        ("system", "unknown"),
        ("system", None),
        ("prefixes", "ab"),
        ("prefixes", [1, 2]),
        ("reading", {"src": []}),
        ("encoder", {"msg": 1}),
        ("config", {"dim": -1}),
        ("config", {"no such": 1}),
        ("config", None),
        ("network", None),
        ("network", {"folder": "../elsewhere", "files": {}}),
        ("network", {"folder": "network-0123456789abcdef", "files": {"../src.npy": [1, ""]}}),
    ],
)
def test_run_json_that_makes_no_sense(run: Path, key: str, value) -> None:
    found = json.loads((run / "run.json").read_text())
    wrong = {"facts": found["facts"] | {key: value}} if key in found["facts"] else {key: value}
    seal(run / "run.json", found | wrong)
    with pytest.raises(cawn.StorageError) as caught:
        scores(run)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", [{"temperature": 0}, {"temperature": -1}, {"temperature": NAN}, {"shift": NAN}])
@pytest.mark.parametrize("number", [None, "cold", 10**400], ids=["", "text", "huge"])
def test_calibration_that_makes_no_sense(run: Path, wrong: dict, number) -> None:
    found = json.loads((run / "report.json").read_text())
    values = wrong if number is None else dict.fromkeys(wrong, number)
    seal(run / "report.json", found | {"calibration": found["calibration"] | values})
    with pytest.raises(cawn.StorageError, match="calibration needs"):
        scores(run)


def test_weights_of_other_shapes_or_not_finite(run: Path) -> None:
    from safetensors.numpy import load_file, save_file

    good = load_file(run / "weights.safetensors")
    name = "walks.position.f1.mlps.1.3.weight"
    for bad in (
        {key: value for key, value in good.items() if key != name},
        good | {name: good[name][:2].copy()},
        good | {name: good[name] * np.float32(np.nan)},
        good | {name: good[name].astype(np.float64)},
        good | {"more": good[name]},
    ):
        save_file(bad, run / "weights.safetensors")
        found = json.loads((run / "report.json").read_text())
        seal(run / "report.json", found | {"weights": stamp_of((run / "weights.safetensors").read_bytes())})
        with pytest.raises(cawn.StorageError, match="weights"):
            scores(run)


def test_no_pipe_is_waited_for(run: Path) -> None:
    for pattern in ("run.json", "config.toml", "weights.safetensors", "network-*/src.npy"):
        path = file_in(run, pattern)
        kept = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(cawn.StorageError):
            scores(run)
        path.unlink()
        path.write_bytes(kept)


class Killed(BaseException):
    """The process is gone: nothing it would still do happens."""


@contextmanager
def failing(at: int, error: BaseException, *, for_ever: bool) -> Iterator[list[str]]:
    """From the operation `at` on, changes to files fail; yields the names of those that were tried."""
    tried: list[str] = []

    def patched(name: str) -> Callable[..., object]:
        original = getattr(os, name)

        def operation(*args, **options) -> object:
            tried.append(name)
            if len(tried) - 1 == at or (for_ever and len(tried) > at):
                raise error
            return original(*args, **options)

        return operation

    with mock.patch.multiple(os, **{name: patched(name) for name in CHANGES}):
        yield tried


def operations_of(action: Callable[[], object]) -> list[int]:
    """Where to fail: every operation, but of a row of the same ones the first and the last."""
    with failing(10**9, Killed(), for_ever=True) as tried:
        action()
    return [k for k, name in enumerate(tried) if tried[k - 1 : k] != [name] or tried[k + 1 : k + 2] != [name]]


def attempt(k: int, error: BaseException, action: Callable[[], object]) -> None:
    """Do it with a failure in its operation k, which must be told in one line."""
    killed = isinstance(error, Killed)
    with failing(k, error, for_ever=killed), suppress(Killed):
        try:
            action()
        except cawn.StorageError as raised:
            if killed or "\n" in str(raised):
                raise


def contents(folder: Path) -> tuple:
    weights = {name: value.tolist() for name, value in read_run(folder, evaluated=True).weights.items()}
    names = ("results.json", "metrics.jsonl", "config.toml")
    return weights, *((folder / name).read_text() for name in names), scores(folder).tolist()


@pytest.mark.parametrize("error", [Killed(), OSError(errno.ENOSPC, "No space left on device")], ids=["kill", "full"])
def test_a_training_that_fails_anywhere_is_resumed_to_the_same(tmp_path: Path, error, monkeypatch) -> None:
    result = Evaluation([a_test()], RollingCalibration.of(Calibration()))
    monkeypatch.setattr("cawn.learn.testing.evaluate_system", lambda *_, **__: result)  # the slowest part
    monkeypatch.setattr("cawn.learn.testing.candidate_recall", lambda *_: {})
    operations = operations_of(lambda: train(tmp_path / "whole", SMALLER))
    expected = contents(tmp_path / "whole")
    assert len(operations) > 10
    for k in operations:
        folder = tmp_path / f"at {k}"
        attempt(k, error, lambda folder=folder: train(folder, SMALLER))
        if (folder / "checkpoint.safetensors").exists():
            assert np.isfinite(scores(folder)).all()
        else:
            with pytest.raises(cawn.StorageError, match=r"holds no run|no weights before"):
                scores(folder)
        train(folder, SMALLER, resume=(folder / "run.json").exists())
        assert contents(folder) == expected, k
        held = {path.name.split("-")[0] for path in folder.iterdir()}
        assert held == {path.name.split("-")[0] for path in (tmp_path / "whole").iterdir()}, k
        assert len(list(folder.iterdir())) == len(list((tmp_path / "whole").iterdir())), k


def longer(run: Path) -> cawn.Events:
    """The links of a run and one more."""
    events = read_events(run)
    more = {name: np.append(getattr(events, name), getattr(events, name)[-1:]) for name in ("src", "dst", "weight")}
    more |= {"t": np.append(events.t, events.t[-1] + 1), "msg": np.vstack([events.msg, events.msg[-1:]])}
    return cawn.Events(**more, x=events.x, labels=events.labels)


@pytest.mark.parametrize("error", [Killed(), OSError(errno.ENOSPC, "No space left on device")], ids=["kill", "full"])
def test_links_are_replaced_in_one_step(smaller: Path, tmp_path: Path, error: BaseException) -> None:
    new = longer(smaller)
    first = Path(shutil.copytree(smaller, tmp_path / "first"))
    operations = operations_of(lambda: replace_links(first, new, changes={"nodes": 77}))
    old, after = scores(smaller).tolist(), scores(first).tolist()
    assert old != after
    assert read_description(first)["nodes"] == 77
    assert len(list(first.iterdir())) == len(list(smaller.iterdir()))
    for k in operations:
        folder = Path(shutil.copytree(smaller, tmp_path / f"at {k}"))
        attempt(k, error, lambda folder=folder: replace_links(folder, new, changes={"nodes": 77}))
        seen = scores(folder).tolist()
        assert seen == (after if read_description(folder)["nodes"] == 77 else old)
        replace_links(folder, new, changes={"nodes": 77})
        assert scores(folder).tolist() == after
        assert len(list(folder.iterdir())) == len(list(smaller.iterdir()))


@pytest.mark.parametrize("error", [Killed(), OSError(errno.ENOSPC, "No space left on device")], ids=["kill", "full"])
def test_a_predictor_is_saved_whole_or_not_at_all(smaller: Path, tmp_path: Path, error: BaseException) -> None:
    predictor = LinkPredictor.load(smaller, device="cpu", threads=1)
    operations = operations_of(lambda: predictor.save(tmp_path / "first"))
    expected = contents(smaller)
    assert contents(tmp_path / "first") == expected
    for k in operations:
        target = tmp_path / f"at {k}"
        attempt(k, error, lambda target=target: predictor.save(target))
        if not target.exists():
            predictor.save(target)
        assert contents(target) == expected


def test_readers_see_old_or_new_links_while_they_are_replaced(run: Path) -> None:
    """The folder the reader was told of is gone before it looks: it starts over with the new one."""
    from cawn.learn import runs

    new = longer(run)
    old, read = scores(run), runs.read_arrays

    def interrupted(folder: Path, *args, **options):
        with mock.patch.object(runs, "read_arrays", read):
            replace_links(run, new)
        with mock.patch.object(runs, "read_arrays", read):
            return read(folder, *args, **options)

    calls = [interrupted, read]
    with mock.patch.object(runs, "read_arrays", lambda *args, **options: calls.pop(0)(*args, **options)):
        seen = scores(run)
    assert seen.tolist() == scores(run).tolist() != old.tolist()


def test_a_predictor_in_memory_survives_the_replacement(run: Path) -> None:
    names = [f"nöde {i}" for i in range(10)]
    predictor = LinkPredictor.load(run, device="cpu", threads=1)
    before = predictor.score(names[:5], names[5:], 5_000.5)
    replace_links(run, longer(run))
    np.testing.assert_array_equal(predictor.score(names[:5], names[5:], 5_000.5), before)


def test_a_run_without_a_validation_does_not_answer(tmp_path: Path) -> None:
    with stopped_after(1):
        train(tmp_path / "run")
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()
    for ask in (LinkPredictor.load, cawn.evaluate):
        with pytest.raises(cawn.StorageError, match="no weights before its first validation; continue with cawn"):
            ask(tmp_path / "run")


def test_a_run_that_has_not_ended_answers_with_its_best_weights(tmp_path: Path) -> None:
    config = TINY.with_(epochs=3)
    with stopped_after(3):
        train(tmp_path / "run", config)
    predictor = LinkPredictor.load(tmp_path / "run", device="cpu")
    assert not predictor.finished
    assert np.isfinite(scores(tmp_path / "run")).all()
    with pytest.warns(UserWarning, match="its training has not ended"):
        cawn.evaluate(tmp_path / "run", negatives=("random",), device="cpu")
    predictor.save(tmp_path / "copy")
    assert not LinkPredictor.load(tmp_path / "copy").finished
    np.testing.assert_array_equal(scores(tmp_path / "copy"), scores(tmp_path / "run"))
    train(tmp_path / "run", config, resume=True)
    assert LinkPredictor.load(tmp_path / "run").finished


def test_results_describe_the_weights_beside_them(run: Path) -> None:
    train(run, resume=True, task=cawn.Task(negatives=("random", "historical")))
    found = json.loads((run / "report.json").read_text())
    assert found["weights"] == stamp_of((run / "weights.safetensors").read_bytes())
    assert found["results"] == stamp_of((run / "results.json").read_bytes())
    rows = json.loads((run / "results.json").read_text())
    assert {"random", "historical"} <= {row["negatives"] for row in rows}


def test_resume_writes_again_what_is_missing(run: Path) -> None:
    expected = contents(run)
    for name in ("weights.safetensors", "results.json", "metrics.jsonl", "config.toml", "report.json"):
        (run / name).unlink()
    train(run, resume=True)
    assert contents(run) == expected


def test_a_damaged_checkpoint_is_not_resumed(run: Path) -> None:
    path = run / "checkpoint.safetensors"
    whole = bytearray(path.read_bytes())
    whole[-5] ^= 1
    path.write_bytes(whole)
    with pytest.raises(cawn.StorageError, match="damaged; remove it to start over"):
        train(run, resume=True)


def test_other_links_of_the_same_shape_are_not_resumed(run: Path) -> None:
    events = links()
    for name in ("dst", "msg", "weight", "negative", "link_id"):
        columns = {key: getattr(events, key) for key in ("src", "dst", "msg", "weight", "negative", "link_id")}
        columns[name] = columns[name].copy()
        columns[name][[3, 4]] = columns[name][[4, 3]]
        other = cawn.Events(**columns, t=events.t, x=events.x, labels=events.labels)
        with pytest.raises(cawn.QueryError, match=r"other .*contents"):
            train(run, events=other, resume=True)
    renamed = cawn.Events(events.src, events.dst, events.t, events.msg, x=events.x, labels=events.labels[::-1])
    with pytest.raises(cawn.QueryError, match="contents"):
        train(run, events=renamed, resume=True)


@pytest.mark.parametrize("name", ["index/thesis", "network/a.npy", "config.toml", "results.json", ".hidden"])
def test_a_folder_with_anything_else_in_it_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    for action in (
        lambda: train(tmp_path),
        lambda: cawn.Trainer(links(), TINY, out=tmp_path, quiet=True),
        lambda: cawn.train_seeds(links(), TINY, seeds=[0], out=tmp_path, quiet=True),
    ):
        with pytest.raises(cawn.QueryError, match="is not empty"):
            action()
    assert [str(found.relative_to(tmp_path)) for found in tmp_path.rglob("*") if found.is_file()] == [name]
    assert path.read_text() == "mine"


def test_save_refuses_what_is_not_empty(run: Path, tmp_path: Path) -> None:
    predictor = LinkPredictor.load(run, device="cpu")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name, reason in (("full", "is not empty"), ("file", "is not a folder"), ("run", "holds a run already")):
        with pytest.raises(cawn.QueryError, match=reason):
            predictor.save(tmp_path / name)
    (tmp_path / "empty").mkdir()
    predictor.save(tmp_path / "empty")
    assert np.isfinite(scores(tmp_path / "empty")).all()


def test_leftovers_of_a_killed_run_do_not_mix_with_the_next(tmp_path: Path) -> None:
    train(tmp_path / "compiles")  # whose files would be counted, too
    with failing(2, Killed(), for_ever=True), pytest.raises(Killed):
        train(tmp_path / "run", events=links(count=90))
    left = [path.name for path in (tmp_path / "run").iterdir()]
    assert any(name.startswith("network-") for name in left)
    train(tmp_path / "run")
    assert len(read_events(tmp_path / "run")) == 120
    assert len(list((tmp_path / "run").glob("network-*"))) == 1


def test_modes_are_those_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        train(tmp_path / "run")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert set(modes.values()) == {0o640}, modes


def test_one_writer_at_a_time(run: Path) -> None:
    new = longer(run)
    with FolderLock(run) as lock:
        for action in (lambda: train(run, resume=True), lambda: replace_links(run, new)):
            with pytest.raises(cawn.StorageError, match="another process is writing to this run"):
                action()
        assert np.isfinite(scores(run)).all()
        replace_links(run, new, lock=lock)
    replace_links(run, new)


def test_a_second_run_started_meanwhile_is_refused(tmp_path: Path) -> None:
    first, second = (cawn.Trainer(links(), TINY, out=tmp_path / "run", quiet=True, device="cpu") for _ in range(2))
    first.fit()
    before = contents(tmp_path / "run")
    with pytest.raises(cawn.QueryError, match="holds a run already"):
        second.fit()
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize("again", [False, True])
def test_a_folder_removed_during_the_run_is_no_success(tmp_path: Path, again: bool) -> None:
    def remove(_: cawn.Trainer) -> None:
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        if again:
            (tmp_path / "run").mkdir()

    with after_each_step(remove), pytest.raises(cawn.StorageError, match="was removed or replaced"):
        train(tmp_path / "run")
    assert not (tmp_path / "run" / "run.json").exists()


def test_save_needs_nothing_of_the_folder_it_was_loaded_from(run: Path, tmp_path: Path) -> None:
    expected = contents(run)
    predictor = LinkPredictor.load(run, device="cpu", threads=1)
    shutil.rmtree(run)
    predictor.save(tmp_path / "copy")
    assert contents(tmp_path / "copy") == expected
    with pytest.raises(cawn.StorageError, match="holds no run"):
        LinkPredictor.load(run)


@pytest.mark.parametrize("version", [2, 3, 4, 99, None])
def test_runs_of_other_formats_are_refused(run: Path, version: int | None) -> None:
    seal(run / "run.json", read_description(run) | {"format": version, "cawn": "9.9"})
    for ask in (scores, cawn.evaluate, run_info, lambda folder: train(folder, resume=True)):
        with pytest.raises(cawn.StorageError, match=r"cawn \(9.9\) in format .*5; the run must be trained again$"):
            ask(run)


def test_the_run_folder(events, tmp_path: Path) -> None:
    run = cawn.train(events, TINY, task="inductive", seed=1, out=tmp_path / "run", quiet=True)
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    network = json.loads((tmp_path / "run" / "run.json").read_text())["network"]["folder"]
    expected = [".lock", "checkpoint.safetensors", "config.toml", "metrics.jsonl", network, "report.json"]
    expected += ["results.json", "run.json", "weights.safetensors"]
    assert names == expected
    assert Config.from_toml((tmp_path / "run" / "config.toml").read_text()) == TINY
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results == list(run.results.tests)
    assert {row["negatives"] for row in results} == {"random", "historical", "inductive"}
    for row in results:
        assert set(row["baselines"]) == {*BASELINES, *STANDING}
        assert row["trained_with"] == "mixed"
        assert row["split"] == split(events, "inductive", seed=1).digest


def test_the_network_of_a_run_is_kept(tmp_path: Path) -> None:
    from cawn.learn.runs import read_events

    columns = {"weight": [0.5, 1, 2], "negative": [2, 0, 1], "link_id": ["i", "j", "k"], "labels": ["ä", "b", "c"]}
    named = cawn.Events([0, 1, 2], [1, 2, 0], [3.5, 1.0, 2.0], msg=[[1, 2]] * 3, x=[1, 2, 3], **columns)
    for events in (named, cawn.Events([0], [5], [2**62])):
        store(tmp_path, events)
        back = read_events(tmp_path)
        for name in ("src", "dst", "t", "msg", "x", "labels", "weight", "negative", "link_id"):
            np.testing.assert_array_equal(getattr(back, name), getattr(events, name))
        assert back.num_nodes == events.num_nodes
    next(tmp_path.glob("network-*/src.npy")).write_bytes(b"damaged")
    with pytest.raises(cawn.StorageError, match="missing or damaged"):
        read_events(tmp_path)


def test_bad_folders(events, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    cawn.train(events, TINY, out=folder, quiet=True, task=cawn.Task(negatives=("random",)))
    with pytest.raises(cawn.QueryError, match="holds a run already"):
        cawn.train(events, TINY, out=folder, quiet=True)
    with pytest.raises(cawn.QueryError, match=r"another config \(lr, dim\)"):
        cawn.train(events, TINY.with_(dim=8, lr=1.0), out=folder, quiet=True, resume=True)
    with pytest.raises(cawn.QueryError, match=r"other task, seed, .*split"):
        cawn.train(events, TINY, seed=5, task="inductive", out=folder, quiet=True, resume=True)
    with pytest.raises(cawn.StorageError, match="holds no run"):
        cawn.train(events, TINY, out=tmp_path / "nowhere", quiet=True, resume=True)
    (folder / "config.toml").write_text("dim = = 3")
    with pytest.raises(cawn.StorageError, match=r"config\.toml: damaged, or changed"):
        cawn.train(events, TINY, out=folder, quiet=True, resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(cawn.StorageError, match="cannot be written"):
        cawn.train(events, TINY, out=tmp_path / "file" / "run", quiet=True)
