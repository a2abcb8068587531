"""The command line: parse, call, print. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated, cast

import typer

from cawn.cli import data, demo, explain, predict, train
from cawn.cli.options import OutputClosedError

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Learn the law by which a temporal network evolves, and apply it to nodes never seen.",
)


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        import cawn

        print(f"cawn {cawn.__version__}")
        raise typer.Exit


app.command()(demo.demo)
app.command()(train.train)
app.command()(train.evaluate)
app.command()(predict.predict)
app.command()(predict.rank)
app.command()(explain.explain)
app.add_typer(data.app, name="datasets")


def main() -> None:
    """Entry point: bad input is one line on stderr and exit code 2, Ctrl-C is exit code 130."""
    from cawn.errors import CawnError

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever called us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        if hasattr(stream := getattr(sys, name), "reconfigure"):
            stream.reconfigure(errors="replace")  # what the terminal cannot show is no reason to stop

    warnings.showwarning = _warn
    # The base of all usage errors, wherever typer keeps its parser.
    usage_error = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])
    try:
        status = app(standalone_mode=False)
        sys.stdout.flush()
    except CawnError as error:
        sys.exit(_fail(str(error)))
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except usage_error as error:
        reason = error.format_message().rstrip(".")
        context = getattr(error, "ctx", None)
        command = context.command_path.split(" ", 1)[1:] if context is not None else []
        sys.exit(_fail(f"{reason}. Try '{' '.join(['cawn', *command])} --help'.") if reason else 2)
    except (BrokenPipeError, OutputClosedError, SystemExit):  # the last is rich's, whose output was closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more is written at exit
        sys.exit(_fail("the output was closed before all was written"))
    except OSError as error:
        sys.exit(_fail(f"{error.filename or 'output'}: {error.strerror or error}"))
    sys.exit(status if isinstance(status, int) else 0)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    print(f"cawn: {message}", file=sys.stderr)


def _fail(reason: str) -> int:
    print(f"cawn: {reason}", file=sys.stderr)
    return 2
