"""Draws docs/demo.svg, the picture in the README, with the code of `cawn demo`."""

import io
import re
from pathlib import Path

from rich.console import Console

from cawn.cli.demonstration import compare_links, show_comparison

if __name__ == "__main__":
    console = Console(record=True, width=132, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    show_comparison(*compare_links(seed=0, num_walks=5, length=2), console)
    svg = console.export_svg(title="cawn demo")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # no font is loaded from elsewhere
    Path(__file__).with_name("demo.svg").write_text(svg.replace("Fira Code", "Consolas, Menlo"))
