"""What appending needs is compiled before the first append."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pytest

import cawn
from cawn.data import laws
from cawn.index import kernels as index_kernels
from cawn.kernels import cpu
from cawn.systems.compiling import compile_growth
from cawn.walks import kernels as walk_kernels

SMALL = {
    "cawn": cawn.Config(alpha=0.01, num_walks=4, length=1, dim=4, frequencies=2, epochs=1),
    "rates": None,
    "popularity": None,
}


def compiled() -> dict[str, int]:
    """The number of compiled versions of every kernel."""

    def kernels() -> Iterator[tuple[str, int]]:
        for package in (cpu, index_kernels, walk_kernels):
            for module in iter_modules(package.__path__):
                for name, value in vars(import_module(f"{package.__name__}.{module.name}")).items():
                    if hasattr(value, "signatures"):
                        yield f"{package.__name__}.{module.name}.{name}", len(value.signatures)

    return dict(kernels())


def trained(system: str, events: cawn.Events) -> cawn.LinkPredictor:
    options = {"quiet": True, "task": cawn.Task(negatives=("random",), baselines=False), "device": "cpu", "threads": 1}
    return cawn.LinkPredictor.of(cawn.train(events, SMALL[system], **options))


def with_attributes() -> cawn.Events:
    plain, rng = laws.triadic_closure(20, 200, seed=0).events, np.random.default_rng(0)
    msg, x = rng.normal(size=(len(plain), 2)), rng.normal(size=(plain.num_nodes, 3))
    return cawn.Events(plain.src, plain.dst, plain.t, msg, x=x, link_id=np.arange(1, len(plain) + 1))


@pytest.mark.parametrize("system", ["cawn", "rates"])
def test_nothing_is_left_to_compile_for_the_first_append(system: str) -> None:
    predictor = trained(system, laws.triadic_closure(20, 200, seed=0).events)
    t = predictor.watermark
    state = predictor.snapshot()
    compile_growth(state.model.system, state.events, state.names)
    predictor.publish(predictor.extend([]))
    predictor.score([0], [1], t + 1)
    before = compiled()
    assert before
    predictor.append([0, 1], [1, 99], [t, t + 1])  # one of them a new node
    predictor.append([0, 98], [1, 2], [t - 50, t - 2])  # late
    predictor.score([0], [1], t + 1)
    assert compiled() == before


@pytest.mark.parametrize("system", SMALL)
def test_no_result_changes(system: str) -> None:
    events = with_attributes()
    plain, prepared = trained(system, events), trained(system, events)
    prepared.publish(prepared.extend([]))
    assert (prepared.version, prepared.num_links, prepared.watermark) == (0, 200, plain.watermark)
    t, src, dst = plain.watermark, [0, 1, 2], [3, 4, 500]
    np.testing.assert_array_equal(prepared.score(src, dst, t + 1), plain.score(src, dst, t + 1))
    for predictor in (plain, prepared):
        update = predictor.append(src, dst, [t - 9, t, t + 1], attributes=np.ones((3, 2)), link_id=[7, 1001, 1002])
        assert update == (2, 1, 1)
        assert predictor.version == 1
    np.testing.assert_array_equal(prepared.score(src, dst, t + 2), plain.score(src, dst, t + 2))
