"""The walk encoder of the authors' code: the states of PyTorch's own bidirectional LSTMs, and whole runs with it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cawn
from cawn.caw.config import Config
from cawn.caw.variants import BidirectionalWalks
from cawn.data import laws
from small_cawn import SMALL, attributed, network, pairs
from small_runs import TINY
from tolerances import assert_same_scores


def whole_lstm(walks: BidirectionalWalks, which: int) -> nn.LSTM:
    """One of the two LSTMs with the weights of an encoder; those that the last position does not need are random."""
    cell, first = walks.forwards[which], walks.backwards[which].gates
    lstm = nn.LSTM(cell.input_size, cell.hidden_size, batch_first=True, bidirectional=True)
    lstm.weight_ih_l0, lstm.weight_hh_l0 = cell.weight_ih, cell.weight_hh
    lstm.bias_ih_l0, lstm.bias_hh_l0 = cell.bias_ih, cell.bias_hh
    with torch.no_grad():
        lstm.bias_hh_l0_reverse.zero_()
        for theirs, ours in ((lstm.weight_ih_l0_reverse, first.weight), (lstm.bias_ih_l0_reverse, first.bias)):
            i, _, new, o = theirs.chunk(4)  # PyTorch's order
            for gate, value in zip((i, o, new), ours.chunk(3), strict=True):
                gate.copy_(value)
    return lstm


@pytest.mark.parametrize("options", [{}, {"identity": "aw"}, {"identity": "none"}, {"time_code": "age"}], ids=str)
def test_states_of_pytorchs_own_lstms(options: dict) -> None:
    """Every prefix by itself, also one that ends before position m: read at its own last position."""
    model, batcher = network(attributed(), Config(**SMALL, rnn="bidirectional", **options))
    batch = batcher.trace(*pairs(6), seed=3).to("cpu")
    walks, position = model.walks, model.walks.position
    lstms = [whole_lstm(walks, which) for which in (0, 1)]
    tables = position.tables(batch)
    paths: list[list[Tensor]] = [[], []]  # the inputs of both LSTMs along every prefix of a depth, [n_i, i + 1, d]
    with torch.no_grad():
        for level, found in zip(batch.levels, walks(batch), strict=True):
            here = position(level, *tables), position.f1(level, *tables)
            for path, z in zip(paths, here, strict=True):
                path.append(torch.cat([path[-1][level.parent], z[:, None]], dim=1) if path else z[:, None])
            alls, alone = (lstm(path[-1])[0][:, -1].chunk(2, dim=-1) for lstm, path in zip(lstms, paths, strict=True))
            both = torch.cat([alls[0], alone[0], alls[1], alone[1]], dim=-1)
            assert_same_scores(found, walks.project(both).relu())


def test_every_weight_is_trained() -> None:
    model, batcher = network(attributed(), Config(**SMALL, rnn="bidirectional", time_code="age", dropout_at="walks"))
    model.train()(batcher.pairs(*pairs(), seed=3)).square().sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().max() > 0, name


def test_a_run_with_all_of_it_can_be_loaded(tmp_path: Path) -> None:
    events = laws.triadic_closure(40, 400, seed=0).events
    config = TINY.with_(alpha=0.1, num_walks=8, tree=(4, 2), rnn="bidirectional", time_code="age", epochs=1)
    run = cawn.train(
        events,
        config.with_(pooling="transformer"),
        out=tmp_path / "run",
        quiet=True,
        task=cawn.Task(negatives=("random",)),
    )
    ends = events.src[-20:], events.dst[-20:], events.t[-20:] + 1
    loaded = cawn.LinkPredictor.load(tmp_path / "run")
    assert_same_scores(loaded.score(*ends), cawn.LinkPredictor.of(run).score(*ends))
    why = loaded.explain(int(ends[0][0]), int(ends[1][0]), int(ends[2][0]))
    assert np.isfinite([why.logit, *(walk.contribution for walk in why.walks)]).all()
