"""Draws docs/demo.svg, the picture of the README, from `cawn demo` itself."""

import io
import re
from pathlib import Path

from rich.console import Console

from cawn.cli import demonstration as demo

if __name__ == "__main__":
    console = Console(record=True, width=132, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    demo.show(demo.build(seed=0, num_walks=5, length=2), console)
    svg = console.export_svg(title="cawn demo")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # no font fetched from elsewhere
    Path(__file__).with_name("demo.svg").write_text(svg.replace("Fira Code", "Consolas, Menlo"))
