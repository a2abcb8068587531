"""`cawn info`."""

from __future__ import annotations

from cawn.cli.options import AsJson, RunFolder


def info(run: RunFolder, as_json: AsJson = False) -> None:
    """What a run is: its data, settings, accuracy, versions and files.

    Example: cawn info runs/mine
    """
