"""The command line: parse, call, print."""

from __future__ import annotations

import json
import sys
from typing import Annotated, cast

import typer

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Learn the law by which a temporal network evolves, and apply it to nodes never seen.",
)


@app.callback()
def _root() -> None:
    """Keeps `cawn demo` a command of its own while it is the only one."""


@app.command()
def demo(
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another network.")] = 0,
    walks: Annotated[int, typer.Option(min=1, max=1000, help="Walks from each end of a link.")] = 5,
    length: Annotated[int, typer.Option(min=1, max=20, help="Steps of a walk.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable result on stdout.")] = False,
) -> None:
    """Show what the method sees: the walks of a link that closes a triangle, and of one that does not.

    Example: cawn demo --seed 3 --walks 8
    """
    from rich.console import Console

    from cawn import demo as demonstration

    result = demonstration.build(seed=seed, num_walks=walks, length=length)
    if as_json:
        print(json.dumps(demonstration.as_json(result)))
    else:
        demonstration.show(result, Console())


def main() -> None:
    """Entry point: bad input is one line on stderr and exit code 2, Ctrl-C is exit code 130."""
    from cawn.errors import CawnError

    # The base of all usage errors, wherever typer keeps its parser.
    usage_error = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])
    try:
        status = app(standalone_mode=False)
    except CawnError as error:
        sys.exit(_fail(str(error)))
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except usage_error as error:
        sys.exit(_fail(f"{error.format_message().rstrip('.')}. Try 'cawn --help'."))
    sys.exit(status if isinstance(status, int) else 0)


def _fail(reason: str) -> int:
    print(f"cawn: {reason}", file=sys.stderr)
    return 2
