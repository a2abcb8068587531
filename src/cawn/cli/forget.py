"""`cawn forget`."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated

import typer

from cawn.cli.options import AsJson, Quiet, RunFolder, say
from cawn.cli.serve import StateFolder


def forget(
    run: RunFolder,
    node: Annotated[str, typer.Option("--node", metavar="NAME", help="The node to remove, with all its links.")],
    state: StateFolder = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Remove a node and its links from a run and from the state of its server, which must not be running.

    What remains equals a history without them. The weights, which were trained with them, stay as they are; train again
    to have others. A running server removes a node by DELETE /v1/nodes/NAME.

    Example: cawn forget runs/mine --node alice
    """
    from cawn.errors import QueryError
    from cawn.learn.runs import forget_node
    from cawn.serve.state import forget_in_state

    removed, missing = 0, 0
    removals = partial(forget_in_state, run, state, node), partial(forget_node, run, node)
    for remove in removals:
        try:
            removed = max(removed, remove())
        except QueryError:  # one of them may not have the node
            missing += 1
            if missing == len(removals):
                raise
    if as_json:
        print(json.dumps({"run": str(run), "node": node, "removed": removed}))
    else:
        say(f"{removed:,} links removed: {run}", quiet)
