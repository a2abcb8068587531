"""`cawn info`."""

from __future__ import annotations

import json

from cawn.cli.options import AsJson, RunFolder


def info(run: RunFolder, as_json: AsJson = False) -> None:
    """Show the data, settings, accuracy, versions and files of a run.

    Example: cawn info runs/mine
    """
    from cawn.learn.run_info import run_info

    found = run_info(run)
    if as_json:
        print(json.dumps(found))
    else:
        from cawn.cli.reports import show_info

        show_info(found)
