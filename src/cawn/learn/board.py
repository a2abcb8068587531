"""TensorBoard, on request: the epochs of a run as curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cawn.errors import QueryError
from cawn.files import storing


def check_board(out: object) -> None:
    """Refuse TensorBoard without a run folder, or where it is not installed."""
    if out is None:
        raise QueryError("tensorboard=True needs out=, the folder of the run")
    _writer_class()


def _writer_class() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise QueryError("tensorboard=True needs the package tensorboard: pip install 'cawn[tensorboard]'") from error
    return SummaryWriter


class Board:
    """Writes rows of figures into a folder that `tensorboard --logdir` shows; the folder is made with the first."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._open = folder, _writer_class()
        self._writer: Any = None

    def add(self, row: dict[str, Any]) -> None:
        """One epoch: every figure of the row but its number."""
        with storing(self._folder):
            if self._writer is None:
                self._writer = self._open(str(self._folder))
            for name, value in row.items():
                if name != "epoch":
                    self._writer.add_scalar(name, value, row["epoch"])
            self._writer.flush()
