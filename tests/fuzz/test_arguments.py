"""Wrong types and values for every argument of the public functions: success, or a CawnError of one line.

Cases are drawn from a seed. `CAWN_FUZZ_CASES` sets how many there are in all, `CAWN_FUZZ_SEED` which.
"""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import cawn
from cawn.cli import main
from cawn.cli.settings import parse_settings
from cawn.errors import brief
from cawn.learn.testing import Run
from cawn.learn.trainer import Trainer

CASES = int(os.environ.get("CAWN_FUZZ_CASES", "900"))
SEED = os.environ.get("CAWN_FUZZ_SEED", "0")
MAX_LENGTH = 600
pytestmark = pytest.mark.filterwarnings("ignore:t is ", "ignore:the same ")  # of far times, and of links added twice


class Hostile:
    """Has every method that a careless check would call, and each of them fails."""

    def fail(self, *_: object) -> Any:
        raise ZeroDivisionError("a method of the user's object failed")

    __repr__ = __str__ = __len__ = __iter__ = __array__ = __bool__ = __getitem__ = __float__ = __index__ = fail
    __hash__ = None  # type: ignore[assignment]


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


VALUES: list[Callable[[], Any]] = [
    *(
        lambda value=value: value
        for value in (
            *(None, True, False, 0, 1, -1, 2, 7, 2**31, 2**40, 2**63, 2**64, -(2**63), 10**5000, -(10**30)),
            *(0.0, -0.0, 0.5, 1.5, float("nan"), float("inf"), float("-inf"), 1e308, 5e-324, 1j),
            *("", "x", "1", "auto", "random", "cuda", "meta", "two\nlines \x1b[31m", "\ud800", "y" * 5_000, "\0", "."),
            *(b"", b"\xff\xfe", bytearray(b"a"), Ellipsis, NotImplemented, int, len, Path("no/such"), Path("\0")),
            *((), (1,), (1, 2), ("random",), (None,), (0.5, "a"), range(3), range(0), slice(1, 0, -1), frozenset({1})),
            *(Decimal("1.5"), Fraction(1, 3), date(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC), timedelta(1)),
            *(np.int64(3), np.uint64(2**63), np.float32(1.5), np.float64("nan"), np.bool_(True)),
            *(np.datetime64("NaT", "s"), np.str_("x"), np.void(b"abc")),
        )
    ),
    *(lambda value=value: list(value) for value in ([], [1], [1, 2, 3], ["a"], [None], [1, [2]], [float("nan")])),
    dict,
    lambda: {"a": 1},
    lambda: {1, 2},
    lambda: nested(3),
    lambda: nested(2_000),
    lambda: iter([1, 2]),
    lambda: (i for i in range(2)),
    Hostile,
    lambda: [Hostile()],
    object,
    lambda: np.array(3),
    lambda: np.zeros(0),
    lambda: np.zeros((2, 2)),
    lambda: np.zeros((2, 0, 3)),
    lambda: np.array([1, 2], np.uint8),
    lambda: np.array([1.5, 2], np.float32),
    lambda: np.array([np.nan, 1e300]),
    lambda: np.array(["a", "b"]),
    lambda: np.array([None, 1], object),
    lambda: np.array([1j]),
    lambda: np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    lambda: np.array(["NaT", "2020"], "M8[s]"),
    lambda: np.ma.masked_array([1, 2], [True, False]),
    lambda: np.full(3, 2**63 - 1),
    lambda: torch.tensor([1, 2]),
    lambda: torch.tensor([1.0], requires_grad=True),
    lambda: torch.ones(2, dtype=torch.bfloat16),
    lambda: pa.array([1, None]),
    lambda: pa.array(["a", "b"]),
    lambda: pa.table({"src": [1], "dst": [2], "time": [3]}),
    lambda: pa.table({}),
    lambda: cawn.Events([], [], []),
    lambda: cawn.Events([0, 1], [1, 0], [1, 2]),
    lambda: cawn.Config(num_walks=3),
]


class AcceptedError(Exception):
    """The arguments of a training were accepted."""


def network() -> cawn.Events:
    rng = np.random.default_rng(0)
    return cawn.Events(rng.integers(0, 8, 120), rng.integers(0, 8, 120), np.arange(120))


CONFIG = cawn.Config(num_walks=2, length=1, dim=2, frequencies=1, alpha=(0.1,), epochs=1, batch_size=64)
SETTINGS = CONFIG.to_dict()
LINKS = pa.table({"a": [1, 2], "b": [2, 3], "c": [5, 6], "d": [0.5, 1.0]})
COLUMNS = {"src": "a", "dst": "b", "time": "c", "msg": ["d"], "bipartite": False}
TEXT = {"src": "u", "dst": "i", "time": "ts", "msg": None, "bipartite": False, "delimiter": ",", "header": True}
WALKS = {"nodes": [0, 1], "t": [3, 4], "seed": 0, "num_walks": 2, "length": 1, "threads": 1}
TREE = {"nodes": [0, 1], "t": 3, "seed": 0, "fanouts": (2, 2)}
STREAM = {"num_nodes": 3, "alpha": 0.5, "capacity": 2, "tau": 1.0, "tolerance": 0.1, "late": "drop", "dtype": "int64"}
PAIRS = {"src": 1, "dst": [2, 3], "t": 60}
RANKING = {"src": 1, "t": 60, "k": 3, "kinds": ("recent",), "prior": 0.5, "byte_budget": None}
RANKING_MANY = {"nodes": [1, 2], "t": 60, "k": 3, "candidates": [2, 3], "kinds": ("recent",), "byte_budget": None}
LAW = {"num_nodes": 9, "num_links": 30, "seed": 0, "noise": 0.1}
OPTIONAL = dict.fromkeys(("msg", "x", "labels", "num_nodes", "weight", "negative", "link_id"))


@dataclass
class Workshop:
    """What the calls need: a network, its history, walks, and a run with its predictor."""

    folder: Path
    events: cawn.Events
    history: cawn.History
    walks: cawn.Walks
    run: Run
    predictor: cawn.LinkPredictor

    def training(self) -> dict[str, Any]:
        return {
            "events": self.events,
            "config": CONFIG,
            "task": cawn.Task("inductive", negatives=("random",)),
            "seed": 1,
            "out": None,
            "device": "cpu",
            "threads": 1,
            "resume": False,
            "quiet": True,
        }


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    folder = tmp_path_factory.mktemp("arguments")
    (folder / "edges.csv").write_text("u,i,ts\n" + "".join(f"{i % 3},{i % 4},{i}\n" for i in range(20)))
    events = network()
    run = cawn.train(
        events, CONFIG, out=folder / "run", quiet=True, device="cpu", task=cawn.Task(negatives=("random",))
    )
    history = cawn.History(events, (0.1, 1.0))
    walks = history.sample([1, 2], 50, num_walks=2, length=2, seed=0)
    return Workshop(folder, events, history, walks, run, cawn.LinkPredictor.load(folder / "run", device="cpu"))


@pytest.fixture(autouse=True)
def sandbox(workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files go to a temporary folder, no training is begun, and nothing is downloaded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CAWN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def accept(*_: object, **__: object) -> None:
        raise AcceptedError

    monkeypatch.setattr(Trainer, "fit", accept)
    monkeypatch.setattr(Trainer, "trial", accept)


def stream() -> cawn.Stream:
    held = cawn.Stream(4, 0.5, capacity=2)
    held.append([0, 1], [1, 2], [1, 2])
    return held


def anonymize_fields(**fields: Any) -> Any:
    return cawn.anonymize(*2 * [cawn.Walks(**fields)])


Call = tuple[Callable[..., Any], dict[str, Any]]
CALLS: dict[str, Callable[[Workshop], Call]] = {  # a public function, and good arguments for it
    "Events": lambda w: (cawn.Events, {"src": [0, 1], "dst": [1, 0], "t": [1, 2]} | OPTIONAL),
    "Events[]": lambda w: (lambda chosen: w.events[chosen], {"chosen": slice(3)}),
    "Events.ids": lambda w: (w.events.ids, {"names": [1]}),
    "History": lambda w: (cawn.History, {"events": w.events, "alpha": 0.5, "threads": 1}),
    "History.sample": lambda w: (w.history.sample, WALKS),
    "History.sample, fanouts": lambda w: (w.history.sample, TREE),
    "History.degree": lambda w: (w.history.degree, {"nodes": [0, 1], "t": 3}),
    "History.to": lambda w: (w.history.to, {"device": "cpu"}),
    "Stream": lambda w: (cawn.Stream, STREAM),
    "Stream, auto": lambda w: (cawn.Stream, STREAM | {"capacity": "auto"}),
    "Stream.append": lambda w: (stream().append, {"src": [1], "dst": [2], "t": [5]}),
    "Stream.sample": lambda w: (stream().sample, WALKS),
    "Stream.missing_mass": lambda w: (stream().missing_mass, {"nodes": [0, 1], "t": 3}),
    "anonymize": lambda w: (cawn.anonymize, {"walks_u": w.walks, "walks_v": w.walks, "threads": 1}),
    "anonymize_each": lambda w: (cawn.anonymize_each, {"walks": w.walks}),
    "anonymize, fields": lambda w: (anonymize_fields, {n: getattr(w.walks, n) for n in ("nodes", "t", "events")}),
    "walk_shapes": lambda w: (cawn.walk_shapes, {"counts": cawn.anonymize(w.walks, w.walks)}),
    "read, table": lambda w: (cawn.read, {"source": LINKS} | COLUMNS),
    "read, file": lambda w: (cawn.read, {"source": str(w.folder / "edges.csv")} | TEXT),
    "Config": lambda w: (cawn.Config, SETTINGS),
    "Config.with_": lambda w: (CONFIG.with_, SETTINGS),
    "Config.preset": lambda w: (cawn.Config.preset, {"name": "default"}),
    "Config.from_dict": lambda w: (cawn.Config.from_dict, {"values": {"dim": 3}}),
    "Config.from_toml": lambda w: (cawn.Config.from_toml, {"text": "dim = 3"}),
    "Task": lambda w: (cawn.Task, {"nodes": "inductive", "split": cawn.TimeSplit(), "negatives": ("random",)}),
    "Search": lambda w: (cawn.Search, {"metric": "auc", "seeds": [1, 2], "seed": 3, "timeout": 60.0}),
    "TimeSplit": lambda w: (cawn.TimeSplit, {"train_share": 0.5, "val_share": 0.2}),
    "train, split by times": lambda w: (split_by_times, w.training() | {"train_until": 70, "test_from": 90}),
    "train": lambda w: (cawn.train, w.training()),
    "train_seeds": lambda w: (train_seeds, w.training() | {"seeds": [1, 2]}),
    "Trainer": lambda w: (Trainer, w.training() | {"facts": None}),
    "evaluate": lambda w: (
        cawn.evaluate,
        {"folder": w.folder / "run", "negatives": ("random",), "device": "cpu", "threads": 1},
    ),
    "LinkPredictor.load": lambda w: (
        cawn.LinkPredictor.load,
        {"folder": w.folder / "run", "device": "cpu", "threads": 1},
    ),
    "LinkPredictor.of": lambda w: (cawn.LinkPredictor.of, {"run": w.run}),
    "LinkPredictor.save": lambda w: (w.predictor.save, {"folder": "saved"}),
    "LinkPredictor.score": lambda w: (w.predictor.score, PAIRS | {"prior": 0.5, "draws": None, "strict": False}),
    "LinkPredictor.embed": lambda w: (w.predictor.embed, PAIRS),
    "LinkPredictor.rank": lambda w: (w.predictor.rank, RANKING),
    "LinkPredictor.rank, candidates": lambda w: (w.predictor.rank, RANKING | {"candidates": [2, 3]}),
    "LinkPredictor.rank_many": lambda w: (lambda **given: list(w.predictor.rank_many(**given)), RANKING_MANY),
    "LinkPredictor.nodes": lambda w: (w.predictor.nodes, {"side": "src"}),
    "LinkPredictor.explain": lambda w: (
        w.predictor.explain,
        {"src": int(w.events.src[-1]), "dst": int(w.events.dst[-1]), "t": 119, "draws": 2, "prior": 0.5},
    ),
    "LinkPredictor.law": lambda w: (w.predictor.law, {"links": 3}),
    "LinkPredictor.update": lambda w: (cawn.LinkPredictor.of(w.run).update, {"new_events": network()}),
    "LinkPredictor.update, table": lambda w: (cawn.LinkPredictor.of(w.run).update, {"new_events": LINKS} | COLUMNS),
    "LinkPredictor.knows": lambda w: (w.predictor.knows, {"name": 1}),
    "LinkPredictor.append": lambda w: (
        cawn.LinkPredictor.of(w.run).append,
        {"src": [1], "dst": [2], "t": [200], "attributes": None, "link_id": ["a"]},
    ),
    "LinkPredictor.forget": lambda w: (cawn.LinkPredictor.of(w.run).forget, {"name": 1}),
    "LinkPredictor.remove": lambda w: (cawn.LinkPredictor.of(w.run).remove, {"link_id": ["a"]}),
    "LinkPredictor.retain": lambda w: (cawn.LinkPredictor.of(w.run).retain, {"since": 5, "links": 20}),
    "Snapshot.unknown": lambda w: (w.predictor.snapshot().unknown, {"src": [1], "dst": [2]}),
    "Snapshot.count_unknown": lambda w: (w.predictor.snapshot().count_unknown, {"src": [1], "dst": [2]}),
    "datasets.load": lambda w: (cawn.datasets.load, {"name": "none", "progress": None}),
    "datasets.where": lambda w: (cawn.datasets.where, {"name": "uci"}),
    "datasets.verify": lambda w: (cawn.datasets.verify, {"name": "uci"}),
    "datasets.download": lambda w: (cawn.datasets.download, {"name": "none", "progress": None, "force": False}),
    "laws.triadic_closure": lambda w: (cawn.laws.triadic_closure, LAW),
    "laws.feed_forward": lambda w: (cawn.laws.feed_forward, LAW),
    "laws.two_pairs": lambda w: (cawn.laws.two_pairs, {"num_pairs": 2, "num_times": 2}),
    "laws.null": lambda w: (cawn.laws.null, {"num_nodes": 9, "num_links": 30, "seed": 0}),
}


def split_by_times(train_until: Any, test_from: Any, **arguments: Any) -> Any:
    split = cawn.TimeSplit(train_until=train_until, test_from=test_from)
    return cawn.train(**arguments | {"task": cawn.Task(split=split)})


def train_seeds(**arguments: Any) -> Any:
    arguments.pop("seed")
    return cawn.train_seeds(**arguments)


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_are_refused_in_one_line(name: str, workshop: Workshop) -> None:
    chance = random.Random(f"{SEED} {name}")
    failures = []
    for _ in range(max(CASES // len(CALLS), 1)):
        function, given = CALLS[name](workshop)
        good = defaults(function) | given
        wrong = chance.sample(list(good), min(chance.choice((1, 1, 1, 2)), len(good)))
        arguments = good | {argument: chance.choice(VALUES)() for argument in wrong}
        if problem := call(function, arguments):
            failures.append(f"{', '.join(f'{a}={brief(arguments[a])}' for a in wrong)}: {problem}")
    assert not failures, f"{len(failures)} failures\n" + "\n".join(dict.fromkeys(failures))


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """The optional arguments of a function."""
    parameters = signature(function).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty}


def call(function: Callable[..., Any], arguments: dict[str, Any]) -> str | None:
    """What is wrong with how a call ends."""
    try:
        function(**arguments)
    except AcceptedError:
        return None
    except cawn.CawnError as error:
        message = str(error)
        fine = message.isprintable() and 0 < len(message) < MAX_LENGTH
        return None if fine else f"message {brief(message)}"
    except Exception as error:  # the subject of the test
        return f"{type(error).__name__}: {brief(str(error))}"
    return None


PIECES = (
    *("[", "]", "{", "}", "=", '"', "'", ",", "\n", "#", ".", "-", "1", "0x", "1e999", "nan", "inf", "true", "\\u00ff"),
    *("dim", "alpha", "num_walks", "rnn", "auto", "lstm", "2020-01-01", "\x00", "\x1b[31m", "é", "\ud800", "  "),
    *("[" * 3_000, "9" * 5_000, "a." * 2_000, "{a=" * 1_000, "dim = 3\n", "alpha = [0.1, 0.2]\n", '"""', "'''"),
)


def text_of(chance: random.Random) -> str:
    return "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 6)))


def test_settings_as_text_are_refused_in_one_line() -> None:
    chance = random.Random(f"{SEED} settings")
    failures = []
    for _ in range(CASES):
        text = text_of(chance)
        for function in (cawn.Config.from_toml, lambda text: CONFIG.with_(**parse_settings([text, f"alpha={text}"]))):
            if problem := call(function, {"text": text}):
                failures.append(f"{brief(text)}: {problem}")
    assert not failures, f"{len(failures)} failures\n" + "\n".join(dict.fromkeys(failures))


COMMANDS = {
    "evaluate": ("--negatives", "--threads", "--device"),
    "rank": ("--node", "--time", "-k", "--candidate", "--kind", "--prior", "--threads"),
    "explain": ("--src", "--dst", "--time", "--out", "--draws", "--prior", "--links"),
    "predict": ("--out", "--at", "--draws", "--prior", "--src", "--dst", "--time"),
    "info": ("--json",),
    "update": ("--src", "--dst", "--time", "--out", "--once"),
    "train": ("--out", "--src", "--time", "--msg", "--task", "--preset", "--set", "--seed", "--seeds", "--threads"),
    "datasets": ("where", "verify", "--json"),
}
GOOD = {"--node": "1", "--src": "1", "--dst": "2", "--time": "60", "--negatives": "random", "--set": "epochs=1"}


def test_command_lines_end_well(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0, or 2 and one line."""
    chance = random.Random(f"{SEED} commands")
    places = [str(workshop.folder / name) for name in ("run", "edges.csv", "none")]
    failures = []
    for _ in range(max(CASES // 15, 1)):
        command = chance.choice(list(COMMANDS))
        line = [command, places[0] if command not in ("train", "datasets") else places[1]]
        for option in chance.sample(COMMANDS[command], chance.randint(0, len(COMMANDS[command]))):
            value = chance.choice((GOOD.get(option, "1"), *places, text_of(chance).replace("\0", "")))
            line += [option, value] if chance.random() < 0.9 else [option]
        monkeypatch.setattr("sys.argv", ["cawn", *line])
        try:
            main()
        except AcceptedError:
            continue
        except SystemExit as error:
            shown = capsys.readouterr()
            if error.code == 0:
                continue
            fine = error.code == 2 and shown.err.count("cawn: ") == 1 and len(shown.err.splitlines()[-1]) < MAX_LENGTH
            problem = "" if fine else f"exit {error.code}: {brief(shown.err)}"
        except Exception as error:  # the subject of the test
            problem = f"{type(error).__name__}: {brief(str(error))}"
        if problem:
            failures.append(f"{' '.join(map(brief, line))}: {problem}")
    assert not failures, f"{len(failures)} failures\n" + "\n".join(dict.fromkeys(failures))
