"""A job whose process is killed once, in the middle of a partition."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cawn.predictor import LinkPredictor
from cawn.scale.jobs import PairJob, Part


@dataclass(frozen=True)
class DyingJob(PairJob):
    """Kills its process between two chunks, unless the file `died` exists."""

    died: str = ""

    def run(self, predictor: LinkPredictor, first: int = 0, stop: int | None = None) -> Iterator[Part]:
        for i, part in enumerate(super().run(predictor, first, stop)):
            if i == 1 and not os.path.exists(self.died):
                Path(self.died).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield part
