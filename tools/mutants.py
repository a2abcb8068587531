"""Measures the power of tests: changes the sources in one place at a time, and counts the changes that tests notice.

    python tools/mutants.py --work /tmp/mutants --source src/cawn/index --tests tests/index tests/test_goldens.py

A mutant has one small error: a comparison, an operator or a condition turned around, a constant or a bound of a slice
greater by one, a result or a statement left out. At most one is drawn per line, so folders get mutants by their lines.
Texts, annotations, decorators, __repr__, assertions, what is raised, and code for CUDA devices stay as they are.

All tests run first, on a copy in the work folder, which compiles its functions and notes the names that each test uses.
Then each mutant gets a copy of that copy, without compiled code that is out of date, and those test files run in which
a test uses the changed name or a compiled function that does: these tests first, from the fastest to the slowest, until
one fails. Outcomes are appended to WORK/outcomes.jsonl, and the same command continues where it was stopped. A greater
--count adds mutants to the same ones.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

ORDER = "order.json"  # in a copy: the tests to run
COMPILED = b"cawn.kernels.jit"  # stands in modules with functions that numba compiles
FIXED_FIELDS = {"annotation", "returns", "decorator_list", "exc", "cause"}
FIXED_NAMES = ("__repr__", "TYPE_CHECKING", "cuda")
OPPOSITES = [("Lt", "LtE"), ("Gt", "GtE"), ("Eq", "NotEq"), ("Is", "IsNot"), ("In", "NotIn"), ("And", "Or")]
OPPOSITES += [("Add", "Sub"), ("Mult", "FloorDiv"), ("Div", "Mult"), ("BitAnd", "BitOr"), ("LShift", "RShift")]
SWAPS = {getattr(ast, one): getattr(ast, other) for pair in OPPOSITES for one, other in (pair, pair[::-1])}
TOO_LONG = (124, 137, 128 + 24)  # exit statuses: out of time, killed, out of CPU time


class Mutant(NamedTuple):
    path: str
    line: int
    names: set[str]  # of what is changed; "" if it has none
    change: str
    source: bytes  # of the whole file


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what is inside, without what stays as it is."""
    name = ast.unparse(node.test) if isinstance(node, ast.If | ast.IfExp) else str(getattr(node, "name", ""))
    if isinstance(node, ast.JoinedStr | ast.Assert) or any(fixed in name for fixed in FIXED_NAMES):
        return
    yield node
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and field not in FIXED_FIELDS:
                yield from parts(child)


def changes(node: ast.AST) -> Iterator[tuple[Any, ast.AST]]:
    """What can be changed at a node, and into what."""
    new: Any = copy(node)
    match node:
        case ast.Compare(ops=[operator, *others]) if type(operator) in SWAPS:
            new.ops = [SWAPS[type(operator)](), *others]
            yield node, new
        case ast.BinOp(op=operator) | ast.BoolOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in SWAPS:
            new.op = SWAPS[type(operator)]()
            yield node, new
        case ast.Constant(value=int() | float() as value):
            yield node, ast.Constant(not value if isinstance(value, bool) else value + 1)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node, node.operand
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.comprehension(ifs=[test]):
            yield test, ast.UnaryOp(ast.Not(), test)
        case ast.Slice():
            yield from ((end, ast.BinOp(end, ast.Add(), ast.Constant(1))) for end in (node.lower, node.upper) if end)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield node, ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Raise():
            yield node, ast.Pass()
        case ast.Continue() | ast.Break() | ast.Delete():
            yield node, ast.Pass()


def definitions(source: bytes) -> Iterator[tuple[set[str], ast.stmt]]:
    """The functions, methods and variables of a module by their names, other statements by ""."""
    for statement in ast.parse(source).body:
        owner = f"{statement.name}." if isinstance(statement, ast.ClassDef) else ""
        for node in statement.body if isinstance(statement, ast.ClassDef) else [statement]:
            names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
            stored = {name.id for name in names if isinstance(name.ctx, ast.Store)} or {""}
            yield {owner + node.name} if isinstance(node, ast.FunctionDef) else stored, node


def draw(tree: Path, folders: list[str], count: int, seed: int) -> list[Mutant]:
    """Mutants on `count` different lines, in random order."""
    found, rng = defaultdict(list), random.Random(seed)
    for path in (path for folder in folders for path in (tree / folder).rglob("*.py")):
        if "cuda" not in str(path.relative_to(tree)) and b"import triton" not in path.read_bytes():
            for names, definition in definitions(path.read_bytes()):
                for old, new in (change for node in parts(definition) for change in changes(node)):
                    found[path, old.lineno].append((names, old, new))
    places = sorted(found)
    rng.shuffle(places)
    return [changed(tree, path, *rng.choice(found[path, line])) for path, line in places[:count]]


def changed(tree: Path, path: Path, names: set[str], old: Any, new: ast.AST) -> Mutant:
    lines = path.read_bytes().splitlines(keepends=True)
    before = b"".join(lines[: old.lineno - 1]) + lines[old.lineno - 1][: old.col_offset]
    after = lines[old.end_lineno - 1][old.end_col_offset :] + b"".join(lines[old.end_lineno :])
    text = f"({ast.unparse(new)})" if isinstance(new, ast.expr) else ast.unparse(new)
    change = f"{ast.unparse(old)} -> {ast.unparse(new)}"
    return Mutant(path.relative_to(tree).as_posix(), old.lineno, names, change, before + text.encode() + after)


def forget_compiled(tree: Path, changed_names: set[str]) -> set[str]:
    """Deletes the compiled code in which changed names matter; returns them and the names that are made with them."""
    names, before, makers = set(changed_names), 0, []
    for path in tree.glob("src/**/*.py"):
        compiled = COMPILED in (source := path.read_bytes())
        found = [part for part in definitions(source) if compiled or isinstance(part[1], ast.Assign | ast.AnnAssign)]
        makers += [(path, *part) for part in found]
    while len(names) > before:
        before = len(names)
        for path, made, node in makers:
            if any(getattr(part, "attr", getattr(part, "id", None)) in names for part in ast.walk(node)):
                names |= made
                for file in path.parent.glob(f"__pycache__/{path.stem}.*.nb[ci]"):
                    file.unlink()
    return names


def in_order(uses: dict[str, Any], names: set[str]) -> list[str]:
    """The tests of all files in which one uses such a name, or all if none does."""
    hits = {test for test, (used, _) in uses.items() if not names.isdisjoint(used) or "" in names} or set(uses)
    files = {test.partition("::")[0] for test in hits}
    return sorted((t for t in uses if t.partition("::")[0] in files), key=lambda t: (t not in hits, uses[t][1]))


def run_tests(folder: Path, tests: list[str], seconds: int, **variables: str) -> tuple[str, str]:
    """How the sources fare in tests, and what pytest says of the first that fails."""
    (folder / ORDER).write_text(json.dumps(tests), encoding="utf-8")
    paths = os.pathsep.join([str(folder / "src"), str(Path(__file__).parent)])
    environment = os.environ | {"PYTHONPATH": paths, "NUMBA_CACHE_DIR": "", "PYTHONDONTWRITEBYTECODE": "1"} | variables
    limits = ["timeout", "--kill-after=1", str(4 * seconds), "prlimit", f"--cpu={seconds}"]
    options = ["-x", "--tb=line", "-p", "mutants", "-p", "no:cacheprovider", f"--timeout={seconds}"]
    files = sorted({test.partition("::")[0] for test in tests})
    with (folder / "output.txt").open("wb") as file:
        command = [*limits, sys.executable, "-m", "pytest", *options, *files]
        status = subprocess.run(command, cwd=folder, env=environment, stdout=file, stderr=file, check=False).returncode
    output = (folder / "output.txt").read_text(encoding="utf-8", errors="replace")
    failed = "\n".join(line for line in output.splitlines() if line.startswith(("FAILED", "ERROR")))
    if status in TOO_LONG or "Failed: Timeout (" in output:
        return "timed out", failed
    return "killed" if status else "survived", failed


def outcome(mutant: Mutant, work: Path, uses: dict[str, Any], seconds: int) -> dict[str, Any]:
    """Runs the tests on a mutant."""
    folder, begun = work / threading.current_thread().name, time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(work / "original", folder)
    names = forget_compiled(folder, mutant.names)
    (folder / mutant.path).write_bytes(mutant.source)
    result, by = run_tests(folder, in_order(uses, names), seconds)
    place = {"path": mutant.path, "line": mutant.line, "change": mutant.change}
    return place | {"outcome": result, "seconds": round(time.monotonic() - begun), "by": by}


def prepare(options: argparse.Namespace) -> dict[str, Any]:
    """The names that each test uses, and its seconds; the work folder gets a copy of the tree with compiled code."""
    original, found = options.work / "original", options.work / "uses.json"
    if not found.exists():
        ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", ".numba", "dist", "site")
        shutil.copytree(options.tree, original, ignore=ignored, dirs_exist_ok=True)
        for variables in ({}, {"MUTANTS_USES": str(found)}):
            result, failed = run_tests(original, options.tests, 3600, **variables)
            if result != "survived":
                sys.exit(f"the tests fail without any change; see {original / 'output.txt'}\n{failed}")
    return dict(json.loads(found.read_text(encoding="utf-8")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=Path(__file__).resolve().parents[1], help="the checkout")
    parser.add_argument("--source", nargs="+", required=True, help="folders of the checkout to change")
    parser.add_argument("--tests", nargs="+", required=True, help="test files and folders of the checkout to run")
    parser.add_argument("--work", type=Path, required=True, help="folder for copies and outcomes, one per checkout")
    parser.add_argument("--count", type=int, default=60, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seconds", type=int, default=90, help="CPU time for the tests of a mutant; 4 times as long in all"
    )
    parser.add_argument("--processes", type=int, default=1, help="mutants tried at a time")
    options = parser.parse_args()
    options.work = options.work.resolve()
    uses, path = prepare(options), options.work / "outcomes.jsonl"
    results = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(result["path"], result["line"], result["change"]) for result in results}
    mutants = draw(options.work / "original", options.source, options.count, options.seed)
    left = [mutant for mutant in mutants if (mutant.path, mutant.line, mutant.change) not in done]
    with ThreadPoolExecutor(options.processes, "copy") as pool, path.open("a") as file:
        for result in pool.map(lambda mutant: outcome(mutant, options.work, uses, options.seconds), left):
            results.append(result)
            print(json.dumps(result), file=file, flush=True)
            print("{outcome:9} {seconds:4} s  {path}:{line}  {change}  {by}".format(**result), flush=True)
    print(f"of {len(results)} mutants:", dict(Counter(result["outcome"] for result in results)))


# What follows runs in pytest, which loads this file as a plugin: it orders the tests and notes the names they use.
codes: dict[int, Any] = {}  # the code of functions that ran, by its address
used: dict[str, Any] = {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ranks = {test: rank for rank, test in enumerate(json.loads((config.rootpath / ORDER).read_bytes()))}
    items.sort(key=lambda item: ranks.get(item.nodeid, 0))


def note(frame: FrameType, event: str, arg: object) -> None:
    codes[id(frame.f_code)] = frame.f_code


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    codes.clear()
    begun = time.perf_counter()
    if "MUTANTS_USES" in os.environ:
        threading.settrace(note)
        sys.settrace(note)
    result = yield
    sys.settrace(None)
    own = [code for code in codes.values() if code.co_filename.startswith(str(item.config.rootpath))]
    names = {name for code in own for name in (code.co_qualname, *code.co_names)}
    used[item.nodeid] = sorted(names), time.perf_counter() - begun
    return result


def pytest_sessionfinish() -> None:
    if "MUTANTS_USES" in os.environ:
        Path(os.environ["MUTANTS_USES"]).write_text(json.dumps(used), encoding="utf-8")


if __name__ == "__main__":
    main()
