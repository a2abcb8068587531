"""Learning from arriving links: a shadow model, which replaces the served weights once it is significantly better.

The shadow model starts from the served weights. It is trained on arriving links and on older ones, with the loss and
the negatives of training, after the monitor has scored them: it never scores a link that it was trained on.
"""

from __future__ import annotations

import logging
import math
from copy import deepcopy
from dataclasses import replace
from threading import RLock
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_of
from torch import Tensor, nn

from cawn.data.events import Events
from cawn.errors import DataError, QueryError, StorageError
from cawn.kernels.rng import seed_for
from cawn.learn.calibration import Calibration, RollingCalibration
from cawn.learn.checkpoints import load_moments, moments
from cawn.learn.negatives import PERIODS, some_training_links
from cawn.learn.runs import part
from cawn.predictor import LinkPredictor
from cawn.serve.accuracy import Recalibrated
from cawn.serve.evidence import LEVEL, WINDOW, PairedTest, Verdict
from cawn.serve.recency import Recency
from cawn.serve.store import SHADOW, LiveStore
from cawn.serve.weights import KeptWeights, as_bytes
from cawn.snapshot import Snapshot
from cawn.systems.base import Scorer
from cawn.systems.indexed import IndexedScorer
from cawn.systems.training import Optimizer, TrainingLinks, contrast_loss, seed_step

Array = npt.NDArray[Any]

REPLAY = 0.5  # share of older links in a step
RATE = 0.1  # relative to the learning rate of training
CONTEXT = 100_000  # newest links, from which negatives other than random ones are drawn
LEAST_GAIN = 0.001  # in log loss; a smaller gain does not justify changing the scores
MOST_STEPS = 8  # in one round of the monitor
AVERAGED = 20  # steps whose weights the shadow model averages, with exponential weights
_log = logging.getLogger(__name__)


class _Shadow(NamedTuple):
    """The network in training, and the mean of its last weights, which is what is scored and promoted."""

    training: nn.Module
    optimizer: Optimizer
    module: nn.Module
    calibrated: Recalibrated

    def average(self, steps: int) -> None:
        """Move the mean towards the weights in training, as one of `steps`."""
        with torch.no_grad():
            for mean, value in zip(self.module.state_dict().values(), self.training.state_dict().values(), strict=True):
                mean.lerp_(value, 1 / steps) if mean.is_floating_point() else mean.copy_(value)


class Learner:
    """Trains a shadow model, and replaces the served weights once the shadow model is better.

    Its methods are called by the monitor, in one thread; `summary` and `save` by any.

    Args:
        store: For the weights that were or are served, and for the shadow model; None keeps nothing on disk.
        replay: The share of older links, drawn from the whole history, among those of a step.
        rate: The learning rate, relative to that of training.
        most_steps: The most steps in one round of the monitor. If more links arrive, a random part of them is used.
        window: The number of scored links between two tests.
        level: The expected number of promotions per window of a shadow model that is no better; see `PairedTest`.
    """

    def __init__(
        self,
        predictor: LinkPredictor,
        store: LiveStore | None = None,
        *,
        replay: float = REPLAY,
        rate: float = RATE,
        most_steps: int = MOST_STEPS,
        window: int = WINDOW,
        level: float = LEVEL,
        seed: int = 0,
    ) -> None:
        snapshot = predictor.snapshot()
        model = snapshot.model
        if not isinstance(snapshot.scorer, IndexedScorer):
            raise QueryError(
                f"the system {model.name!r} cannot learn while it is served: only cawn and rates can; leave out --learn"
            )
        self._predictor, self._config, self._seed = predictor, model.config, seed
        self._replay, self._rate, self._most_steps = replay, rate, most_steps
        self._random = np.random.default_rng(seed)
        self._evidence = PairedTest(window, level, columns=2)  # that the shadow model is better, or worse
        self._until: Any = snapshot.events.t[-1] if len(snapshot.events) else None  # learned up to this time
        self._counts = dict.fromkeys(("steps", "learned", "restarts", "promotions"), 0)
        self._lock = RLock()
        self._serving: int | None = None
        self._store, self._kept = store, None if store is None else KeptWeights(store)
        self._shadow = self._new_shadow(snapshot)
        if self._kept is not None and store is not None:
            self._open(self._kept, store)

    @property
    def calibrated(self) -> Recalibrated:
        """The calibration of the shadow model."""
        return self._shadow.calibrated

    def scorer(self, snapshot: Snapshot) -> Scorer:
        """The shadow model on a history."""
        return cast("IndexedScorer", snapshot.scorer).with_module(self._shadow.module)

    def summary(self) -> dict[str, Any]:
        """The state of learning and the evidence so far, as JSON values."""
        return {
            "steps": self._counts["steps"],
            "links": self._counts["learned"],
            "replay": self._replay,
            "rate": self._rate,
            "promotions": self._counts["promotions"],
            "restarts": self._counts["restarts"],
            "serving": self._serving,
            "evidence": {
                "links": self._evidence.links,
                "window": self._evidence.window,
                "level": self._evidence.level,
                "log_loss_gain": self._evidence.newest_mean(),
            },
        }

    # Deciding

    def judge(self, differences: Array) -> bool:
        """Add evidence; promotes the shadow model if it is better, and restarts it if it is worse.

        It is better if its log loss is significantly lower (see `PairedTest`) and by at least `LEAST_GAIN`, and its
        MRR over the same links is not lower. Returns whether it was promoted.

        Args:
            differences: Of reciprocal ranks and of log losses, the served model's less the shadow model's: [m, 2].
        """
        rank_gain, loss_gain = -differences[:, 0], differences[:, 1]
        with self._lock:
            full_windows = self._evidence.links // self._evidence.window
            verdict = self._evidence.add(np.stack([loss_gain, rank_gain], axis=1))
            if self._evidence.links // self._evidence.window == full_windows:
                return False
            promoted = verdict is not None and verdict.means[0] >= LEAST_GAIN and verdict.means[1] >= 0
            if verdict is not None and promoted:
                self._promote(verdict)
            elif verdict is not None and verdict.means[0] < 0:
                _log.info("the shadow model has become worse than the served weights: it starts again from them")
                self._restart()
            self.save()
            return promoted

    def _promote(self, verdict: Verdict) -> None:
        """Serve the weights of the shadow model."""
        predictor, module = self._predictor, self._shadow.module
        calibration = RollingCalibration.of(self.calibrated.calibration or Calibration())
        calibration = calibration.known_since(predictor.watermark)
        if self._kept is None:
            predictor.replace_weights(module.state_dict(), calibration)
        else:
            about = {"links": predictor.num_links, "evidence": verdict.to_dict()}
            self._serving = self._kept.serve(predictor, self._kept.keep(module.state_dict(), calibration, **about))
        self._counts["promotions"] += 1
        self._evidence.clear()
        _log.info(
            "the shadow model is served now: its log loss was lower by %.4f ± %.4f over %d links",
            verdict.means[0],
            verdict.error,
            verdict.links,
        )

    def _restart(self) -> None:
        self._shadow = self._new_shadow(self._predictor.snapshot())
        self._counts["restarts"] += 1
        self._evidence.clear()

    def _new_shadow(self, snapshot: Snapshot) -> _Shadow:
        """A copy of the served model."""
        module, training = (deepcopy(snapshot.model.system.module) for _ in range(2))
        optimizer = Optimizer(training, self._config, 1)
        optimizer.set_learning_rate(self._rate * self._config.lr)
        return _Shadow(training, optimizer, module, Recalibrated(snapshot.calibration.steps[-1]))

    # Training

    def learn(self, snapshot: Snapshot, scored: Recency) -> None:
        """Train on the links since the last call, once there are enough of them for a step.

        Links at the time of the newest one are left for later: more of them may arrive, and none may be learned before
        it is scored.

        Args:
            scored: The baseline after all links that were scored or could have been.
        """
        events, newest = snapshot.events, scored.newest
        first = 0 if self._until is None else int(np.searchsorted(events.t, self._until))
        last = int(np.searchsorted(events.t, newest))
        enough = math.ceil(self._config.batch_size * (1 - self._replay))
        if last - first < enough:
            return
        with self._lock:
            self._until = newest
            chosen = self._choose(events, first, last, enough * self._most_steps)
            if len(chosen) and len(scored.destinations) > 1:
                self._train(snapshot, self._with_negatives(events, chosen, last, scored))

    def _choose(self, events: Events, first: int, last: int, most: int) -> Array:
        """At most `most` of the links from position `first` to `last`, and older ones in proportion: positions."""
        new = np.arange(first, last)
        if len(new) > most:
            new = np.sort(self._random.choice(new, most, replace=False))
        self._counts["learned"] += len(new)
        old = np.empty(0, np.int64)
        if first > 0:
            old = np.unique(self._random.integers(0, first, round(len(new) * self._replay / (1 - self._replay))))
        chosen = np.concatenate([old, new])
        return chosen if events.weight is None else chosen[events.weight[chosen] > 0]

    def _with_negatives(self, events: Events, chosen: Array, last: int, scored: Recency) -> TrainingLinks:
        """Links to train on, with the choices of their negatives as in training.

        Random negatives are drawn from all destinations; all others from these and the newest `CONTEXT` links.
        """
        positions = np.union1d(chosen, np.arange(max(last - CONTEXT, 0), last))
        some, links = events[positions], np.searchsorted(positions, chosen)
        seen, visible = np.arange(len(some)), np.ones(len(some), np.bool_)
        seed = seed_for(self._seed, "learning", self._counts["steps"])
        found = some_training_links(some, links, self._config, seed, seen=seen, visible=visible)
        period = PERIODS * chosen // last if self._config.pool == "period" else np.full(len(chosen), PERIODS - 1)
        ends = events.t[-((1 + period) * -last // PERIODS) - 1]
        known = np.searchsorted(scored.first_times, ends, side="right")
        count, skipped = np.maximum(known - 1, 1), scored.place[some.dst[links]]
        return replace(found, random=replace(found.random, nodes=scored.destinations, count=count, skipped=skipped))

    def _train(self, snapshot: Snapshot, training: TrainingLinks) -> None:
        """One step for each batch of links."""
        shadow = self._shadow
        scorer = cast("IndexedScorer", snapshot.scorer).with_module(shadow.training)
        device = next(shadow.training.parameters()).device
        for step, links in enumerate(training.batches(0, 0)):
            shadow.training.train()
            seed_step(device, training.seed_for("dropout", step))
            logits = scorer.training_logits(links, seed=training.seed_for("epoch", 0))
            loss = contrast_loss(logits, links.weight, training.num_negatives)
            if not math.isfinite(float(loss.detach())):
                _log.warning("the loss of the shadow model is not finite: it starts again from the served weights")
                self._restart()
                return
            shadow.optimizer.minimise(loss)
            self._counts["steps"] += 1
            shadow.average(AVERAGED)

    # On disk

    def _open(self, kept: KeptWeights, store: LiveStore) -> None:
        """Keep the weights that are served, and continue with a shadow model that was saved."""
        if not kept.numbers():
            served, calibration = self._shadow.module.state_dict(), self._predictor.calibration
            number = kept.keep(served, calibration, links=self._predictor.num_links, evidence=None)
            kept.serve(self._predictor, number)
        self._serving = kept.serving
        try:
            if (content := store.tensors(SHADOW)) is not None:
                self._load(tensors_of(content), store.weights()[SHADOW])
        except (ValueError, KeyError, TypeError, DataError, StorageError, SafetensorError) as error:
            _log.warning("the shadow model cannot be read (%s): it starts again", error)
            self._shadow = self._new_shadow(self._predictor.snapshot())
            self._evidence.clear()

    def save(self) -> None:
        """Store the shadow model, its optimizer and the evidence, so that they survive a restart."""
        if self._store is None:
            return
        with self._lock:
            training, optimizer, module, calibrated = self._shadow
            tensors = {f"model.{name}": value for name, value in module.state_dict().items()}
            tensors |= {f"training.{name}": value for name, value in training.state_dict().items()}
            tensors |= {f"adam.{name}": value for name, value in moments(optimizer).items()}
            state = self._counts | {
                "serving": self._serving,
                "until": None if self._until is None else self._until.item(),
                "calibration": None if calibrated.calibration is None else calibrated.calibration.to_dict(),
                "better": self._evidence.state(),
            }
            self._store.keep_weights(SHADOW, state, as_bytes(tensors))

    def _load(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Continue with the shadow model that was saved, unless other weights are served since."""
        if state["serving"] != self._serving:
            _log.info("other weights are served than when the shadow model was saved: it starts again")
            return
        training, optimizer, module, _ = self._shadow
        module.load_state_dict(part(tensors, "model."))
        training.load_state_dict(part(tensors, "training."))
        load_moments(optimizer, {name: value.numpy() for name, value in part(tensors, "adam.").items()})
        optimizer.set_learning_rate(self._rate * self._config.lr)
        fitted = state["calibration"]
        calibrated = Recalibrated(None if fitted is None else Calibration.from_dict(fitted))
        self._shadow = _Shadow(training, optimizer, module, calibrated)
        self._evidence.load(state["better"])
        self._until = None if state["until"] is None else np.asarray(state["until"])[()]
        self._counts = {name: int(state[name]) for name in self._counts}
