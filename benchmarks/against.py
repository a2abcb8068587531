"""This version against another one, such as the commit before a change: `python -m benchmarks against FOLDER`.

    git clone . /tmp/before && git -C /tmp/before checkout COMMIT
    python -m benchmarks against /tmp/before walking training

runs the parts of `benchmarks.public` in turns, each in a new process, with the sources of this checkout and of FOLDER,
and prints the median of each figure and their ratio: what other programs do to the machine happens to both.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from benchmarks.public import PARTS
from benchmarks.report import Row, show

HERE = Path(__file__).parents[1]


def figures(checkout: Path, part: str) -> dict[str, float]:
    """The figures of one part, of the version in a checkout."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(checkout / "src"), str(HERE), str(HERE / "tests")])}
    command = [sys.executable, "-m", "benchmarks.public", part]
    done = subprocess.run(command, env=environment, cwd=HERE, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks against", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a checkout of the other version")
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"some of {', '.join(PARTS)}; by default all")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    rows = []
    for part in given.parts:
        rounds = [(figures(given.folder.resolve(), part), figures(HERE, part)) for _ in range(given.rounds)]
        for what in rounds[0][1]:
            before, after = (median(each[i][what] for each in rounds) for i in (0, 1))
            ratio = after / before if before else float("nan")
            rows.append(Row(what, ratio, None, detail=f"{before:,.4g} before, {after:,.4g} now"))
    show(f"now / before, medians of {given.rounds}", rows)
    return 0
