"""Training and scoring on all cores: the default preset on UCI, M=64, m=2."""

import time
from dataclasses import replace

import torch

import cawn
from benchmarks.engine import uci
from benchmarks.report import Row, best_time
from cawn.caw.features import Batch
from cawn.learn.trainer import Trainer
from cawn.walks.kernels.prefixes import Level


def unshared(batch: Batch, num_walks: int) -> Batch:
    """The same walks without sharing: every position of every walk a prefix of its own."""
    below = [torch.zeros(len(level.owner), dtype=torch.long) for level in batch.levels]
    for i in reversed(range(len(batch.levels))):
        below[i] += (batch.levels[i].weight * num_walks).round().long()
        if i > 0:
            below[i - 1].index_add_(0, batch.levels[i].parent, below[i])
    levels = []
    for level, count in zip(batch.levels, below, strict=True):
        index = torch.repeat_interleave(torch.arange(len(count)), count)
        fields = {name: value[index] for name, value in level._asdict().items() if value is not None}
        if levels:  # any copy of the parent does: all are alike
            first = torch.cumsum(below[len(levels) - 1], 0) - below[len(levels) - 1]
            fields["parent"] = first[level.parent][index]
        levels.append(Level(**fields | {"weight": fields["weight"] / count[index]}))
    return replace(batch, levels=levels)


def learning(scale: float = 1.0) -> list[Row]:
    events = uci()
    trainer = Trainer(events, cawn.Config(), quiet=True)
    size, steps = trainer.config.batch_size, max(int(40 * scale), 3)
    training = size / seconds_per_step(trainer, 100, steps)
    links = trainer.split.val[: 2 * size]
    ends = (events.src[links], events.dst[links], events.t[links])
    scorer, model = trainer.system.scorer(trainer.visible), trainer.system.module.eval()
    with torch.no_grad():
        scoring = len(links) / best_time(lambda: scorer(*ends), 5)
        batch = scorer.batcher.trace(*ends, seed=0).to("cpu")
        every = unshared(batch, trainer.config.num_walks)
        assert torch.allclose(model(batch), model(every), atol=1e-4)
        once, always = (best_time(lambda b=b: model(b), 5) for b in (batch, every))
    return [
        Row("training, UCI, default preset, all cores", training, 1_000, unit="links/s"),
        Row("scoring, same", scoring, 4_000, unit="pairs/s"),
        Row("encoding shared prefixes once against every walk", always / once, 2),
        *epochs_are_linear(scale),
    ]


def seconds_per_step(trainer: Trainer, first: int, steps: int) -> float:
    """The mean over consecutive steps of the first epoch, after two that are not counted; links are shuffled."""
    updates = trainer.steps(0, first)
    for _ in range(2):
        next(updates)
    start = time.perf_counter()
    for _ in range(steps):
        next(updates)
    return (time.perf_counter() - start) / steps


def epochs_are_linear(scale: float) -> list[Row]:
    """Seconds per link of a pass over the first links of UCI, and over twice as many."""
    events, rates = uci(), []
    for share in (0.5, 1.0):
        part = events[: int(len(events) * share)]
        trainer = Trainer(part, cawn.Config(), quiet=True)
        rates.append(seconds_per_step(trainer, 0, max(int(30 * scale), 3)))
    return [Row("time per link of an epoch, twice the links against once", rates[1] / rates[0], 1.3, "<=")]
