"""The network without PyTorch gives what PyTorch gives."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from cawn.systems.cawn.config import Config
from cawn.systems.cawn.engines import HostEngine, TorchNetwork, engine_of
from cawn.systems.cawn.inference import Inference, supports
from small_cawn import OPTIONS, SMALL, attributed, network, pairs
from tolerances import assert_same_scores

SUPPORTED = [options for options in OPTIONS if supports(Config(**SMALL, **options))]


def test_what_is_supported() -> None:
    assert len(SUPPORTED) >= 9
    assert supports(Config())
    assert supports(Config.preset("paper-mean"))
    assert not supports(Config.preset("paper-attn"))


@pytest.mark.parametrize("options", SUPPORTED)
def test_it_is_the_same_network(options: dict) -> None:
    model, batcher = network(attributed(), Config(**SMALL, **options))
    with torch.no_grad():
        for parameter in model.parameters():  # biases and all, away from where they begin
            parameter += 0.1 * torch.randn_like(parameter)
    asked = (batcher, *pairs(300))
    mine, theirs = engine_of(model), HostEngine(TorchNetwork(model))
    assert isinstance(mine, HostEngine)
    assert isinstance(mine.network, Inference)
    assert_same_scores(mine.logits(*asked, seed=3), theirs.logits(*asked, seed=3))
    assert_same_scores(mine.embed(*asked, seed=3), theirs.embed(*asked, seed=3))
    assert mine.network.width == theirs.network.width == mine.embed(*asked, seed=3).shape[1]


@pytest.mark.parametrize("options", SUPPORTED)
def test_merging_equal_prefixes_changes_nothing(options: dict) -> None:
    """Pairs that have ends and times in common, as those of a ranking do; and some that have not."""
    model, batcher = network(attributed(), Config(**SMALL, **options))
    network_of_numpy = engine_of(model).network
    src, dst, t = pairs(300)
    src[:200], t[:150] = src[0], t[0]
    asked = src, dst, t
    merged = batcher.merged(*asked, seed=3)
    plain = batcher.pairs(*asked, seed=3)
    assert sum(len(level.elapsed) for level in merged.levels) < sum(len(level.elapsed) for level in plain.levels)
    assert_same_scores(network_of_numpy.logits(merged), network_of_numpy.logits(plain))


def test_other_models_go_to_torch() -> None:
    model, batcher = network(attributed(), Config(**SMALL, pooling="attention"))
    engine = engine_of(model)
    assert isinstance(engine, HostEngine)
    assert isinstance(engine.network, TorchNetwork)
    assert np.isfinite(engine.logits(batcher, *pairs(), seed=1)).all()


def test_a_prediction_does_not_load_torch(tmp_path) -> None:
    import cawn
    from cawn.data import laws

    events = laws.triadic_closure(60, 800, seed=0).events
    config = Config(alpha="ladder", num_walks=8, dim=4, epochs=1)
    cawn.train(events, config, out=tmp_path / "run", quiet=True, kinds=("random",), device="cpu")
    (tmp_path / "pairs.csv").write_text("src,dst,t\n1,2,9000\n")
    script = (
        "import sys; from cawn.cli import app\n"
        f"app(['predict', {str(tmp_path / 'run')!r}, {str(tmp_path / 'pairs.csv')!r}, '--device', 'cpu'],"
        " standalone_mode=False)\n"
        "print('torch' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "False"
