"""Draws docs/why.svg and docs/law.svg: the explanation of a link that closes a triangle, and of the whole model."""

import tempfile
from pathlib import Path

import numpy as np

import cawn
from cawn.data import laws


def main() -> None:
    network = laws.triadic_closure(300, 12_000, seed=1, noise=0.1)
    config = cawn.Config(num_walks=32, dim=32, epochs=4, lr=3e-3)
    with tempfile.TemporaryDirectory() as folder:
        cawn.train(
            network.events, config, out=Path(folder) / "run", task=cawn.Task(negatives=("random",)), device="cpu"
        )
        predictor = cawn.LinkPredictor.load(Path(folder) / "run")
        closing = int(np.flatnonzero(network.caused)[-50])
        src, dst, t = (getattr(network.events, name)[closing].item() for name in ("src", "dst", "t"))
        here = Path(__file__).parent
        (here / "why.svg").write_text(predictor.explain(src, dst, t, what_if=True).to_svg() + "\n", encoding="utf-8")
        (here / "law.svg").write_text(predictor.law().to_svg() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
