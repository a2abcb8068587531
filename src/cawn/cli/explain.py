"""`cawn explain`."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cawn.cli.options import AsJson, DeviceName, Prior, Quiet, RunFolder, Threads, load_predictor, moment, say

if TYPE_CHECKING:
    from cawn.explain.law import Law
    from cawn.explain.link import Explanation

_KINDS = (".html", ".svg", ".png", ".json")


def explain(
    run: RunFolder,
    src: Annotated[str | None, typer.Option(help="One end of the link.")] = None,
    dst: Annotated[str | None, typer.Option(help="The other end.")] = None,
    time: Annotated[str | None, typer.Option(help="When: a number in the data's unit, or an ISO date.")] = None,
    whole: Annotated[
        bool, typer.Option("--global", help="Instead of one link: the law the model goes by, over test links.")
    ] = False,
    links: Annotated[int, typer.Option(min=1, help="Test links to look at for --global.")] = 5_000,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A page (.html), a picture (.svg, .png) or the data (.json).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT.")] = False,
    draws: Annotated[int, typer.Option(min=2, max=1000, help="Draws of walks, for the error of the probability.")] = 8,
    prior: Prior = 0.5,
    device: DeviceName = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Why a link is scored as it is: the walks for and against it, and the links behind them.

    Example: cawn explain runs/mine --src alice --dst bob --time 2024-05-01 -o why.html
    """
    from cawn.errors import QueryError

    if whole and (src, dst, time) != (None, None, None):
        raise QueryError("--global is about the whole model: leave out --src, --dst and --time")
    if not whole and None in (src, dst, time):
        raise QueryError("give --src, --dst and --time of the link to explain, or --global")
    if out is not None:
        _refuse_output(out, force)
    predictor = load_predictor(run, device, threads, quiet)
    found: Law | Explanation
    if whole:
        with _waiting(quiet):
            found = predictor.law(links)
    else:
        assert src is not None
        assert dst is not None
        assert time is not None
        found = predictor.explain(src, dst, moment(time), draws=draws, prior=prior)
    if out is not None:
        _write(found, out)
    if as_json:
        print(json.dumps(found.to_dict()))
    elif out is None:
        from cawn.explain.tables import show_law, show_link

        show_law(found) if whole else show_link(found)  # type: ignore[arg-type]
        say("for a page that shows it: -o why.html", quiet)
    else:
        say(f"written: {out}", quiet)


def _refuse_output(out: Path, force: bool) -> None:
    from importlib.util import find_spec

    from cawn.errors import QueryError

    if out.suffix.lower() not in _KINDS:
        raise QueryError(f"{out}: is written as one of {', '.join(_KINDS)}; choose such a name")
    if out.is_dir():
        raise QueryError(f"{out}: is a folder; name the file to write")
    if not out.absolute().parent.is_dir():
        raise QueryError(f"{out}: no such folder; make it first")
    if out.exists() and not force:
        raise QueryError(f"{out}: exists already; give --force to overwrite it")
    if out.suffix.lower() == ".png" and find_spec("matplotlib") is None:
        raise QueryError(f"{out}: PNG needs matplotlib; install cawn[plots], or write .svg")


def _write(found: Law | Explanation, out: Path) -> None:
    from cawn.files import write_atomically, write_text

    kind = out.suffix.lower()
    if kind == ".png":
        write_atomically(out, lambda path: found.to_picture().to_png(path))
    else:
        as_json = json.dumps(found.to_dict(), indent=1)
        text = found.to_html() if kind == ".html" else found.to_svg() if kind == ".svg" else as_json
        write_text(out, text + "\n")


def _waiting(quiet: bool) -> AbstractContextManager[object]:
    """Something that spins on a terminal while a law is looked for."""
    if quiet or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status("asking the model about its test links ...")
