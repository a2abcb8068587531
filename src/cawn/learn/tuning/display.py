"""The progress of a study on the terminal: trials done, the best so far, time left."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import Any

from cawn.learn.reporting import format_duration
from cawn.learn.tuning.study import SharedStudy, Trial, ranking, where_stopped
from cawn.progress import Report, progress


class Display:
    """Shows a progress bar on a terminal, and prints a line for each trial that ends."""

    def __init__(self, study: SharedStudy, total: int, *, quiet: bool) -> None:
        self._study, self._quiet = study, quiet
        self._total = max(total, len(study.trials()))
        self._shares: dict[int, float] = {}  # completed fraction of the running trials
        self._start, self._begun = time.monotonic(), _ended(study.trials())
        self._ended = self._begun
        self._stack = ExitStack()
        self._bar: Report = lambda _: None

    def __enter__(self) -> Display:
        self._show("tuning", self._total)
        if self._begun:
            self.message(f"{self._begun} of {self._total} trials are already done")
        self._bar(self._begun)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __call__(self, now: dict[str, Any]) -> None:
        """Show what `work` reports."""
        if "share" in now:
            self._shares[now["trial"]] = now["share"]
            self._bar(self._ended + sum(self._shares.values()))
            return
        if "waiting" in now:
            self.message(f"waiting for {_trials(now['waiting'])} of other processes")
            return
        trials = self._study.trials()
        self._shares = {number: share for number, share in self._shares.items() if trials[number].state == "running"}
        self._ended = _ended(trials)
        self.message(self._line(trials[now["ended"]], trials))

    def message(self, text: str) -> None:
        """Print a line."""
        if not self._quiet:
            print(text, file=sys.stderr, flush=True)

    def begin(self, what: str) -> None:
        """Print what is done next, and show a bar for it."""
        self.message(what)
        self._show(what, 1.0)

    def testing(self, share: float) -> None:
        """Show the completed fraction of the tests."""
        self._bar(share)

    def _show(self, title: str, total: float) -> None:
        self._stack.close()
        self._bar = self._stack.enter_context(progress(title, total, quiet=self._quiet))

    def _line(self, trial: Trial, trials: list[Trial]) -> str:
        best = ranking(trials)
        if trial.state == "complete":
            what = f"{self._study.plan.metric_name} {trial.value:.4f}"
        elif trial.state == "pruned":
            what = f"pruned ({where_stopped(self._study.plan, trial)})"
        else:
            what = f"failed: {trial.reason}"
        held = f"; best {best[0].value:.4f} (trial {best[0].number})" if best else ""
        done = _ended(trials)
        return f"trial {trial.number}: {what}{held}; {done} of {self._total} done{self._left(done)}"

    def _left(self, done: int) -> str:
        made, remaining = done - self._begun, self._total - done
        if made <= 0 or remaining <= 0:
            return ""
        seconds = (time.monotonic() - self._start) / made * remaining
        return f", about {format_duration(seconds)} left"


def _trials(count: int) -> str:
    return "1 trial" if count == 1 else f"{count} trials"


def _ended(trials: list[Trial]) -> int:
    return sum(trial.state != "running" for trial in trials)
