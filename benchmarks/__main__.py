"""`make bench`, or `python -m benchmarks [--quick] [name ...]`: exit code 1 where a bar is missed.

Parts with options of their own, see `python -m benchmarks NAME --help`: `serving` (the live service), `external` (logs
larger than memory), `ranks` (training by several processes), `scoring` (folders of pairs, with Ray) and `against`
(this version against another one).
"""

import sys
from importlib import import_module

from benchmarks import counting, engine, explaining, growing, learning, loading
from benchmarks.report import show

PARTS = {
    "walking": engine.walking,
    "identities": engine.identities,
    "scaling": engine.scaling,
    "streaming": engine.streaming,
    "reading": engine.reading,
    "learning": learning.learning,
    "counting": counting.counting,
    "explaining": explaining.explaining,
    "loading": loading.loading,
    "growing": growing.growing,
    "growth": engine.growth,
}
WITH_OPTIONS = ("serving", "external", "ranks", "scoring", "against")  # modules with a main function of their own
ASKED_FOR = {"growth"}  # too large to run unasked


def main(arguments: list[str]) -> int:
    if arguments and arguments[0] in WITH_OPTIONS:
        return int(import_module(f"benchmarks.{arguments[0]}").main(arguments[1:]))
    quick = "--quick" in arguments
    names = [a for a in arguments if a != "--quick"] or [name for name in PARTS if name not in ASKED_FOR]
    if unknown := [name for name in names if name not in PARTS]:
        print(
            f"benchmarks: no part {unknown[0]!r}; there are {', '.join([*PARTS, *WITH_OPTIONS])}",
            file=sys.stderr,
        )
        return 2
    rows = [row for name in names for row in PARTS[name](0.01 if quick else 1.0)]
    show("cawn" + (" (a hundredth of the size: the bars do not apply)" if quick else ""), rows)
    return 0 if quick or all(row.passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
