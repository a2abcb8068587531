"""`cawn demo`."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from cawn.cli.options import AsJson, DeviceName


def demo(
    data: Annotated[Literal["triangles", "flights"], typer.Option(help="A synthetic or a real network.")] = "triangles",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the network.")] = 0,
    walks: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Number of walks shown from each node.")] = 5,
    length: Annotated[int, typer.Option(min=1, max=20, metavar="N", help="Length of the walks shown.")] = 2,
    train: Annotated[bool, typer.Option(help="Also train a model and score two links.")] = True,
    device: DeviceName = "auto",
    as_json: AsJson = False,
) -> None:
    """Show the walks behind a link, train a model, and score a likely and an unlikely link.

    Example: cawn demo --seed 3
    """
    from rich.console import Console

    from cawn.cli import demonstration

    console = Console(stderr=as_json, highlight=False)
    result = demonstration.run(
        console, data=data, seed=seed, num_walks=walks, length=length, train=train, device=device, quiet=as_json
    )
    if as_json:
        print(json.dumps(result))
