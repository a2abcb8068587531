"""The state of a training, and its checkpoints in the run folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cawn import systems
from cawn.data.attributes import Encoder
from cawn.data.events import Events
from cawn.data.forms import Form, NameForm, bipartite_prefixes
from cawn.data.reading import Reading
from cawn.data.times import TimeForm
from cawn.errors import CawnError, QueryError, StorageError
from cawn.files import FolderLock, write_text
from cawn.learn.results import Results
from cawn.learn.runs import (
    Weights,
    begin_run,
    continue_run,
    digest_of_links,
    link_index,
    load_weights,
    part,
    read_checkpoint,
    read_description,
    read_encoder,
    refuse_existing,
    write_checkpoint,
    write_report,
    write_served,
)
from cawn.learn.splits import ALL_LINKS, Split
from cawn.systems.base import Context, HasTrainingState, System
from cawn.systems.settings import Settings
from cawn.systems.training import Optimizer


@dataclass
class State:
    """The progress of a training."""

    epoch: int = 0
    step: int = 0  # within the epoch
    best_ap: float = -1.0
    best_epoch: int = -1
    loss: float = 0.0  # summed over the steps of the epoch
    seconds: float = 0.0  # in training and validation, so far
    step_seconds: float = 0.0  # in training steps alone
    peak_memory: int = 0  # bytes, see `cawn.devices.peak_memory`
    log: list[dict[str, Any]] = field(default_factory=list)  # the metrics of each epoch
    best: dict[str, Tensor] = field(default_factory=dict)  # the weights of the best epoch

    @property
    def metrics(self) -> str:
        """The log as lines of JSON."""
        return "".join(json.dumps(row) + "\n" for row in self.log)

    def numbers(self) -> dict[str, Any]:
        """All fields except the log and the weights."""
        return {name: value for name, value in asdict(self).items() if name not in ("log", "best")}


def encode(events: Events, config: Settings, split: Split, resumed: Path | None) -> Events:
    """Encode attributes as fitted on the training links, or as recorded in the run folder `resumed`."""
    if resumed is not None:
        encoder = read_encoder(resumed)
    elif events.encoder is not None:
        raise QueryError("the attributes of these links were encoded for another run; train on the original data")
    else:
        encoder = Encoder.fit(events, split.train, standardise=config.standardise) if config.attributes else None
    return events if encoder is None else encoder.transform(events)


def describe(context: Context, events: Events, split: Split) -> dict[str, Any]:
    """The description of a training in run.json; a run can be resumed only if it is unchanged."""
    reading, prefixes = events.reading or Reading(), bipartite_prefixes(events)
    form = Form.of(NameForm.of(events.names, prefixes), TimeForm.of(events.t, reading), events, reading)
    return {
        "system": systems.name_of(context.config),
        **split.task.to_dict(),
        "seed": context.seed,
        "facts": context.facts,
        "links": len(events),
        "contents": digest_of_links(events),
        "nodes": events.num_nodes,
        "split": split.digest,
        "prefixes": prefixes,
        **form.to_dict(),
        "encoder": None if events.encoder is None else events.encoder.to_dict(),
        "reading": None if events.reading is None else events.reading.to_dict(),
    }


class Checkpoints:
    """Writes checkpoints to the run folder and restores them; does nothing without a folder, or unless it `writes`."""

    def __init__(
        self,
        folder: Path | None,
        system: System,
        optimizer: Optimizer,
        file: str = "checkpoint.safetensors",
        *,
        writes: bool = True,
    ) -> None:
        self.folder, self._system, self._optimizer, self._file = folder, system, optimizer, file
        self._lock: FolderLock | None = None  # held while the folder is written to
        self._writes = writes

    def for_refit(self, system: System, optimizer: Optimizer) -> Checkpoints:
        """The checkpoints of a training on all links in the same folder, under the same lock."""
        found = Checkpoints(self.folder, system, optimizer, "refit.safetensors", writes=self._writes)
        found._lock = self._lock
        return found

    def refuse_existing(self) -> None:
        """Refuse a folder that already holds a run or other files."""
        if self.folder is not None and self._writes:
            refuse_existing(self.folder)

    def open(self, config: Settings, events: Events, description: dict[str, Any], *, begun: bool) -> None:
        """Start the run, or continue it if it has `begun`."""
        if self.folder is not None and self._lock is None and self._writes:
            start = continue_run if begun else begin_run
            self._lock = start(self.folder, config, events, description)

    def take_over(self) -> bool:
        """Write from now on, if no living process holds the lock on the folder."""
        if self.folder is None or self._writes:
            return self._writes
        try:
            read_description(self.folder)
            self._lock = FolderLock(self.folder)
        except CawnError:
            return False
        self._writes = True
        return True

    def close(self) -> None:
        """Release the lock on the folder."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def save(self, state: State) -> None:
        """Write a checkpoint; a reader sees either this one or the previous one."""
        if self.folder is None or self._lock is None:
            return
        self._lock.check()
        tensors = {f"model.{name}": value for name, value in self._system.module.state_dict().items()}
        tensors |= {f"adam.{name}": value for name, value in moments(self._optimizer).items()}
        if isinstance(self._system, HasTrainingState) and state.step > 0:
            tensors |= {f"state.{name}": value for name, value in self._system.training_state().items()}
        if state.best_epoch >= 0:  # no best weights before a validation
            tensors |= {f"best.{name}": value for name, value in state.best.items()}
        write_checkpoint(self.folder / self._file, tensors, {"progress": state.numbers(), "log": state.log})
        self._write_metrics(state)

    def _write_metrics(self, state: State) -> None:
        if self.folder is not None and self._writes and self._file == "checkpoint.safetensors":
            write_text(self.folder / "metrics.jsonl", state.metrics)

    def restore(self, config: Settings, events: Events, description: dict[str, Any]) -> State | None:
        """Continue a run with the same settings, links, task and seed; None if it has no checkpoint yet."""
        if self.folder is None:
            raise QueryError("resume=True needs out=, the folder of the run to resume")
        self.open(config, events, description, begun=True)
        return self.read()

    def read(self) -> State | None:
        """Load the weights and the optimizer of the last checkpoint, if there is one."""
        if self.folder is None:
            return None
        path = self.folder / self._file
        found = read_checkpoint(path)
        if found is None:
            return None
        tensors, saved = found
        try:
            state = State(**saved["progress"], log=list(saved["log"]))
            load_weights(self._system.module, part(tensors, "model."), self.folder)
            load_moments(self._optimizer, part(tensors, "adam."))
            if isinstance(self._system, HasTrainingState) and state.step > 0:
                held = part(tensors, "state.")
                self._system.load_training_state({name: torch.from_numpy(array) for name, array in held.items()})
            weights = self._system.module.state_dict()
            if state.best_epoch >= 0:
                best = part(tensors, "best.")
                state.best = {name: torch.from_numpy(best[name]).to(value.device) for name, value in weights.items()}
        except (KeyError, TypeError, ValueError, StorageError) as error:
            raise StorageError(f"{path}: damaged; remove it to start over") from error
        self._write_metrics(state)
        return state

    def finish(self, events: Events, state: State, report: dict[str, Any], results: Results) -> None:
        """Write the best weights and their results."""
        if self.folder is None or self._lock is None:
            return
        self._lock.check()
        link_index(self.folder, events, self._system)
        write_report(self.folder, as_arrays(state.best), report, results, state.metrics)

    def serve(self, report: dict[str, Any], weights: Weights) -> dict[str, Any]:
        """Record that these weights, trained on all links, are served; returns the report."""
        report = report | {"served": ALL_LINKS}
        if self.folder is None or self._lock is None:
            return report
        self._lock.check()
        return write_served(self.folder, weights, report)


def as_arrays(weights: dict[str, Tensor]) -> Weights:
    """Weights as NumPy arrays that later training does not change."""
    return {name: value.detach().cpu().numpy().copy() for name, value in weights.items()}


def moments(optimizer: Optimizer) -> dict[str, Tensor]:
    """The state of Adam, by parameter index and name."""
    held = optimizer.adam.state_dict()["state"]
    return {f"{i}.{name}": value for i, moments in held.items() for name, value in moments.items()}


def load_moments(optimizer: Optimizer, arrays: dict[str, Any]) -> None:
    """The inverse of `moments`; raises ValueError if the shapes do not match the parameters."""
    state = optimizer.adam.state_dict()
    for i, parameter in enumerate(optimizer.parameters):
        held = {name: torch.from_numpy(array) for name, array in part(arrays, f"{i}.").items()}
        if any(value.ndim and value.shape != parameter.shape for value in held.values()):
            raise ValueError(f"the moments of parameter {i} have the wrong shape")
        if held:
            state["state"][i] = held
    optimizer.adam.load_state_dict(state)
