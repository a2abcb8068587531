"""`cawn demo`."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from cawn.cli.options import AsJson, DeviceName


def demo(
    data: Annotated[
        Literal["triangles", "flights"], typer.Option(help="A network made for the purpose, or a real one.")
    ] = "triangles",
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another network.")] = 0,
    walks: Annotated[int, typer.Option(min=1, max=1000, help="Walks from each end of the links shown.")] = 5,
    length: Annotated[int, typer.Option(min=1, max=20, help="Steps of a walk shown.")] = 2,
    train: Annotated[bool, typer.Option(help="Also train a model and score both links.")] = True,
    device: DeviceName = "auto",
    as_json: AsJson = False,
) -> None:
    """Show what the method sees, train it, and score a link that should come and one that should not.

    Example: cawn demo --seed 3
    """
    from rich.console import Console

    from cawn import demo as demonstration

    console = Console(stderr=as_json, highlight=False)
    result = demonstration.run(
        console, data=data, seed=seed, num_walks=walks, length=length, train=train, device=device, quiet=as_json
    )
    if as_json:
        print(json.dumps(result))
