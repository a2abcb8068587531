"""`cawn explain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cawn.cli.options import AsJson, DeviceName, Quiet, RunFolder, Threads, load_predictor, refuse_output, say

if TYPE_CHECKING:
    from cawn.explain.explanation import Explanation
    from cawn.explain.law import Law

_KINDS = (".html", ".svg", ".png", ".json")


def explain(
    run: RunFolder,
    src: Annotated[str | None, typer.Option(metavar="NAME", help="Source of the link.")] = None,
    dst: Annotated[str | None, typer.Option(metavar="NAME", help="Destination of the link.")] = None,
    time: Annotated[
        str | None, typer.Option("--time", metavar="TIME", help="A number in the data's unit, or an ISO date.")
    ] = None,
    whole: Annotated[
        bool,
        typer.Option("--global", help="Explain the whole model: which inputs and walk shapes it relies on."),
    ] = False,
    links: Annotated[
        int | None, typer.Option(min=2, metavar="N", help="Number of test links for --global; 5,000 by default.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A page (.html), a picture (.svg, .png) or data (.json).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output file.")] = False,
    draws: Annotated[
        int | None,
        typer.Option(min=2, max=1000, metavar="N", help="Number of walk samples to average over; 8 by default."),
    ] = None,
    prior: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, metavar="SHARE", help="Assumed share of positives; 0.5 by default."),
    ] = None,
    background: Annotated[
        str | None,
        typer.Option(
            metavar="strangers|pairs",
            help="Reference for contributions: two nodes without links (default), or 32 random pairs.",
        ),
    ] = None,
    shapes: Annotated[
        bool, typer.Option("--shapes", help="Also show the contributions of single walk shapes.")
    ] = False,
    what_if: Annotated[
        bool,
        typer.Option("--what-if", help="Also find links whose removal or addition would flip the prediction."),
    ] = False,
    device: DeviceName = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Explain a score: what the history of the pair, the activity of its nodes and each walk contribute.

    Example: cawn explain runs/mine --src alice --dst bob --time 2024-05-01 -o why.html
    """
    from cawn.errors import QueryError
    from cawn.progress import progress

    of_link = {"--src": src, "--dst": dst, "--time": time, "--draws": draws, "--prior": prior}
    of_link |= {"--background": background, "--shapes": shapes or None, "--what-if": what_if or None}
    if whole and (given := [name for name, value in of_link.items() if value is not None]):
        raise QueryError(f"--global explains the whole model: it cannot be combined with {', '.join(given)}")
    if not whole and links is not None:
        raise QueryError("--links requires --global")
    if out is not None:
        _refuse_output(out, force)
    link = None if whole else _link(src, dst, time)
    predictor = load_predictor(run, device, threads, quiet)
    found: Law | Explanation
    if link is None:
        count = links or 5_000
        with progress("explaining test links", count, quiet=quiet) as report:
            found = predictor.law(count, progress=lambda done, total: report(count * done // total))
    else:
        draws, prior = draws or 8, 0.5 if prior is None else prior
        options = {"background": background or "strangers", "shapes": shapes, "what_if": what_if}
        found = predictor.explain(*link, draws=draws, prior=prior, **options)  # type: ignore[arg-type]
    if out is not None:
        _write(found, out)
        say(f"written: {out}", quiet)
    if as_json:
        print(json.dumps(found.to_dict()))
    elif out is None:
        from cawn.explain.tables import show

        show(found.view())
        say(f"to write a page: -o {'law' if whole else 'why'}.html", quiet)


def _link(src: str | None, dst: str | None, time: str | None) -> tuple[str, str, str]:
    from cawn.errors import QueryError

    if src is None or dst is None or time is None:
        raise QueryError("give --src, --dst and --time of the link to explain, or --global")
    return src, dst, time


def _refuse_output(out: Path, force: bool) -> None:
    from importlib.util import find_spec

    from cawn.errors import QueryError

    if out.suffix.lower() not in _KINDS:
        raise QueryError(f"{out}: the file name must end in {', '.join(_KINDS)}")
    refuse_output(out, force)
    if not out.absolute().parent.is_dir():
        raise QueryError(f"{out}: no such folder; create it first")
    if out.suffix.lower() == ".png" and find_spec("matplotlib") is None:
        raise QueryError(f"{out}: PNG needs matplotlib; install it, or write .svg")


def _write(found: Law | Explanation, out: Path) -> None:
    from cawn.files import write_atomically, write_text

    kind = out.suffix.lower()
    if kind == ".png":
        write_atomically(out, lambda path: found.to_picture().to_png(path))
    else:
        as_json = json.dumps(found.to_dict(), indent=1)
        text = found.to_html() if kind == ".html" else found.to_svg() if kind == ".svg" else as_json
        write_text(out, text + "\n")
