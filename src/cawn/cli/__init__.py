"""The command line: parse, call, print. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated, cast

import typer

from cawn.cli import (
    compare,
    data,
    demo,
    explain,
    forget,
    index,
    info,
    paper,
    predict,
    serve,
    systems,
    tgb,
    train,
    tune,
    update,
)
from cawn.cli.options import Command, OptionGroup, OutputClosedError
from cawn.errors import CawnError, is_out_of_memory, one_line

BAD_INPUT, INTERRUPTED, CLOSED_PIPE = 2, 130, 141

app = typer.Typer(
    cls=OptionGroup,
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        import cawn

        print(f"cawn {cawn.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, help="Show the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """Predict links in temporal networks with causal anonymous walks (CAW-N).

    Example: cawn train edges.csv -o runs/mine && cawn rank runs/mine --node alice --time 2024-05-01
    """


for _command in (
    demo.demo,
    train.train,
    train.evaluate,
    compare.compare,
    tune.tune,
    tgb.tgb,
    paper.paper,
    predict.predict,
    predict.rank,
    update.update,
    explain.explain,
    index.index,
    info.info,
    systems.systems,
    forget.forget,
):
    app.command(cls=Command)(_command)
app.add_typer(data.app, name="datasets", cls=OptionGroup)
app.add_typer(
    serve.app, name="serve", cls=serve.ServeGroup, help="Serve a run over HTTP; back up and restore the state."
)


def main() -> None:
    """Entry point: bad input is one line on stderr and exit code 2, Ctrl-C is exit code 130, a closed pipe 141."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller has closed it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        if hasattr(stream := getattr(sys, name), "reconfigure"):
            stream.reconfigure(errors="replace")  # characters the terminal cannot show are replaced

    warnings.showwarning = _warn
    # The base of all usage errors, wherever typer keeps its parser.
    usage_error = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])
    try:
        status = app(standalone_mode=False, prog_name="cawn")
        sys.stdout.flush()
    except CawnError as error:
        sys.exit(_fail(str(error), error))
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except usage_error as error:
        reason = error.format_message().rstrip(".")
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "cawn"
        sys.exit(_fail(f"{reason}. Try '{command} --help'.") if reason else BAD_INPUT)
    except (BrokenPipeError, OutputClosedError):
        sys.exit(_stop_writing())
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich and typer turn a closed pipe into an exit
            sys.exit(_stop_writing())
        raise
    except OSError as error:
        sys.exit(_fail(f"{error.filename or 'output'}: {error.strerror or error}"))
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        sys.exit(_fail("out of memory; use fewer links, or the settings that 'cawn systems NAME' names for this case"))
    sys.exit(status if isinstance(status, int) else 0)


def _stop_writing() -> int:
    """End quietly after the reader has closed the pipe, as `head` does; nothing is written at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CLOSED_PIPE


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    if os.environ.get("RANK", "0") == "0":  # of several processes
        print(f"cawn: {one_line(str(message))}", file=sys.stderr)


def _fail(reason: str, error: CawnError | None = None) -> int:
    if "RANK" in os.environ:  # one of several processes: only one prints
        from cawn.learn.ranks import exit_at_once, prints

        if prints(reason, error):
            print(f"cawn: {one_line(reason)}", file=sys.stderr)
        exit_at_once(BAD_INPUT)
        return BAD_INPUT
    print(f"cawn: {one_line(reason)}", file=sys.stderr)
    return BAD_INPUT
