"""Does an installed cawn work? Reads, samples walks, trains, scores, explains, and calls the command line."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import cawn


def main() -> None:
    assert cawn.__version__ == version("cawn")
    command = Path(sys.executable).with_name("cawn")
    shown = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert cawn.__version__ in shown.stdout

    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder) / "links.csv", Path(folder) / "run"
        rows = (f"{k % 20},{(3 * k + k // 20) % 20},{k}\n" for k in range(600))
        table.write_text("src,dst,t\n" + "".join(rows), encoding="utf-8")
        events = cawn.read(table)
        walks = cawn.History(events, alpha=1e-2).sample([1, 2], [500, 600], num_walks=4, length=2, seed=0)
        assert walks.nodes.shape == (2, 4, 3)
        config = cawn.Config(alpha=(1e-2,), num_walks=4, dim=8, epochs=1)
        cawn.train(events, config, out=out, quiet=True, task=cawn.Task(negatives=("random",)), device="cpu")
        predictor = cawn.LinkPredictor.load(out, device="cpu")
        probabilities = predictor.score([1, 2], [3, 4], [600, 600])
        assert ((probabilities > 0) & (probabilities < 1)).all()
        assert "</html>" in predictor.explain(1, 3, 600).to_html()  # the templates are installed, too
    print(f"cawn {cawn.__version__} from {Path(cawn.__file__).parent} on Python {sys.version.split()[0]}: works")


if __name__ == "__main__":
    main()
