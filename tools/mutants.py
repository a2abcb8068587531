"""Measures the power of tests: changes the sources in one place at a time, and counts the changes that tests notice.

    python tools/mutants.py --work /tmp/mutants --source src/cawn/index --tests tests/index tests/test_goldens.py

A mutant is a function with one small error: a comparison, an operator or a condition turned around, a constant or a
bound of a slice greater by one, a result or a statement left out. At most one is drawn per line, so folders get mutants
by their lines. Texts, annotations, __repr__, assertions, what is raised, and code for CUDA devices stay as they are.

No file is changed: pytest collects the tests once, and for each mutant a copy of that process exchanges the function,
forgets the compiled code that contains it, and runs tests until one fails. It takes the test files in which a test uses
the name of the function, or that of a compiled function that does: these tests first, the fastest first. What each test
uses is noted in WORK/uses.json when they run for the first time, without an error. Outcomes are appended to
WORK/outcomes.jsonl; the same command continues where it was stopped, and a greater --count adds mutants to the same
ones. Functions that only run while modules are imported cannot be exchanged in time: they count as skipped.
"""

import argparse
import ast
import contextlib
import gc
import importlib
import json
import os
import random
import resource
import signal
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple, TextIO

import pytest

COMPILED = "cawn.kernels.jit"  # stands in modules with functions that numba compiles
FIXED = ("__repr__", "TYPE_CHECKING", "cuda")  # in names and conditions
FIXED_FIELDS = ("annotation", "decorator_list", "returns", "exc", "cause")
OPPOSITES = [("Lt", "LtE"), ("Gt", "GtE"), ("Eq", "NotEq"), ("Is", "IsNot"), ("In", "NotIn"), ("And", "Or")]
OPPOSITES += [("Add", "Sub"), ("Mult", "FloorDiv"), ("Div", "Mult"), ("BitAnd", "BitOr"), ("LShift", "RShift")]
SWAPS = {getattr(ast, one): getattr(ast, other) for pair in OPPOSITES for one, other in (pair, pair[::-1])}
ENDS = {1: "skipped", -signal.SIGXCPU: "timed out", -signal.SIGKILL: "timed out"}  # by exit status, not by a test


class Mutant(NamedTuple):
    path: str
    line: int
    change: str
    name: str  # of the function
    code: CodeType


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what is inside, without what stays as it is."""
    name = ast.unparse(node.test) if isinstance(node, ast.If | ast.IfExp) else str(getattr(node, "name", ""))
    if isinstance(node, ast.JoinedStr | ast.Assert) or any(fixed in name for fixed in FIXED):
        return
    yield node
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and field not in FIXED_FIELDS and not isinstance(child, ast.arguments):
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


def functions(source: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions and methods of a module and their names."""
    for statement in ast.parse(source).body:
        owner = f"{statement.name}." if isinstance(statement, ast.ClassDef) else ""
        for node in statement.body if isinstance(statement, ast.ClassDef) else [statement]:
            if isinstance(node, ast.FunctionDef):
                yield owner + node.name, node


def draw(folders: list[Path], count: int, seed: int) -> list[Mutant]:
    """Mutants on `count` different lines, in random order."""
    found, rng = defaultdict(list), random.Random(seed)
    for path in (path for folder in folders for path in folder.rglob("*.py") if "cuda" not in path.name):
        for name, function in functions(path.read_text(encoding="utf-8")):
            if not any(word in ast.unparse(function) for word in ("triton", "super()")):
                for old, new in (change for node in parts(function) for change in changes(node)):
                    found[path, old.lineno].append((name, function, old, new))
    places = sorted(found)
    rng.shuffle(places)
    drawn = [(path, rng.choice(found[path, line])) for path, line in places]
    chosen = [(path, *choice) for path, choice in drawn if path.parent.name != "cuda"]
    return [changed(*choice) for choice in chosen[:count]]


def changed(path: Path, name: str, function: ast.FunctionDef, old: Any, new: ast.AST) -> Mutant:
    lines = path.read_bytes().splitlines(keepends=True)
    before = b"".join(lines[: old.lineno - 1]) + lines[old.lineno - 1][: old.col_offset]
    after = lines[old.end_lineno - 1][old.end_col_offset :] + b"".join(lines[old.end_lineno :])
    text = f"({ast.unparse(new)})" if isinstance(new, ast.expr) else ast.unparse(new)
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    inside = codes(compile(before + text.encode() + after, path.absolute(), "exec"))
    code = next(code for code in inside if (code.co_qualname, code.co_firstlineno) == (name, first))
    return Mutant(str(path), old.lineno, f"{ast.unparse(old)} -> {ast.unparse(new)}", name, code)


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def compiled_modules() -> dict[Path, str]:
    sources = {path: path.read_text(encoding="utf-8") for path in Path("src").rglob("*.py")}
    return {path: source for path, source in sources.items() if COMPILED in source}


def compiled_users(name: str) -> set[str]:
    """The name of a function with those of the compiled functions that use it."""
    words: dict[str, set[str]] = defaultdict(set)
    for source in compiled_modules().values():
        for user, node in functions(source):
            if node.decorator_list:
                words[user] |= {getattr(part, "attr", getattr(part, "id", "")) for part in ast.walk(node)}
    names, before = {name}, 0
    while len(names) > before:
        before = len(names)
        names |= {user for user in words if words[user] & names}
    return names


def in_copy(work: Callable[[], object]) -> int:
    """Start a copy of this process that does some work; returns its id."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def wait_for_one(ends: dict[int, float]) -> tuple[int, int]:
    """The first of some copies to end, and how; a copy that waits for itself would only end at its time."""
    while not (ended := os.waitpid(-1, os.WNOHANG))[0]:
        for child in (child for child, end in ends.items() if time.monotonic() > end):
            kill_group(child)
        time.sleep(0.02)
    kill_group(ended[0])  # what the tests have started
    return ended


def do_not_shrink() -> None:
    """Let hypothesis stop at the first example that fails; making it smaller takes minutes."""
    from hypothesis.internal.conjecture import engine

    runner: Any = engine.ConjectureRunner
    runner.shrink_interesting_examples = lambda _: None


def kill_group(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


class Trials:
    """A plugin of pytest: instead of all tests once, it runs those of each mutant in a copy of the process."""

    def __init__(self, options: argparse.Namespace, output: TextIO) -> None:
        self.options, self.output = options, output
        self.uses_file, self.outcomes = options.work / "uses.json", options.work / "outcomes.jsonl"
        self.uses: dict[str, Any] = {}  # names that a test uses, and its seconds; of "", what runs while importing
        self.ran: dict[int, CodeType] = {}  # code of functions, by its address
        self.failed = ""  # the first test that failed in this process, and why
        self._note(not self.uses_file.exists())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed:
            return None  # pytest says what cannot be imported
        self.hook, self.items = session.config.hook, {item.nodeid: item for item in session.items}
        for path in [*compiled_modules(), *(path for folder in self.options.source for path in folder.rglob("*.py"))]:
            if "triton" not in path.read_text(encoding="utf-8"):
                importlib.import_module(".".join(path.relative_to("src").with_suffix("").parts))
        self._note(False)
        self.functions = [found for found in gc.get_objects() if type(found) is FunctionType]
        gc.freeze()
        if not self.uses_file.exists() and os.waitpid(in_copy(self._note_uses), 0)[1]:
            sys.exit("a test fails without any change")
        self.uses = json.loads(self.uses_file.read_text(encoding="utf-8"))
        self._try_all()
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = f"{report.nodeid}\n{report.longrepr}"

    def _note(self, on: bool) -> None:
        def note(frame: FrameType, event: str, argument: object) -> None:
            self.ran[id(frame.f_code)] = frame.f_code

        sys.settrace(note if on else None)
        threading.settrace(note if on else None)

    def _codes(self) -> list[CodeType]:
        """The code of the functions of the checkout that ran since the last call."""
        ran, self.ran = self.ran, {}
        codes = ran.copy().values()  # threads of the tests may still add to it
        return [code for code in codes if code.co_filename.startswith(str(Path.cwd()))]

    def _note_uses(self) -> None:
        self.uses[""] = [code.co_qualname for code in self._codes()], 0.0
        self._run(list(self.items), note=True)
        if self.failed:
            raise RuntimeError(self.failed)
        self.uses_file.write_text(json.dumps(self.uses), encoding="utf-8")

    def _run(self, tests: list[str], note: bool = False) -> None:
        """Run tests until one fails."""
        items = [self.items[test] for test in tests]
        for item, following in zip(items, [*items[1:], None], strict=False):
            begun = time.perf_counter()
            self._note(note)
            self.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self._note(False)
            names = {name for code in self._codes() for name in (code.co_qualname, *code.co_names)}
            self.uses[item.nodeid] = sorted(names), time.perf_counter() - begun
            if self.failed:
                break

    def _try_all(self) -> None:
        known = self._known_outcomes()
        mutants = draw(self.options.source, self.options.count, self.options.seed)
        left = [mutant for mutant in mutants[::-1] if mutant[:3] not in known]
        running: dict[int, tuple[Mutant, float]] = {}  # by process, with the time at which it is ended
        while left or running:
            while left and len(running) < self.options.processes:
                mutant = left.pop()
                running[in_copy(partial(self._try, mutant))] = mutant, time.monotonic() + self.options.elapsed
            child, status = wait_for_one({child: end for child, (_, end) in running.items()})
            mutant, _ = running.pop(child)
            if status:
                self._record(mutant, ENDS.get(os.waitstatus_to_exitcode(status), "killed"))
        known = self._known_outcomes()
        print(f"{len(mutants)} mutants:", dict(Counter(known[mutant[:3]] for mutant in mutants)), file=self.output)

    def _known_outcomes(self) -> dict[tuple[str, int, str], str]:
        lines = self.outcomes.read_text(encoding="utf-8").splitlines() if self.outcomes.exists() else []
        return {(found["path"], found["line"], found["change"]): found["outcome"] for found in map(json.loads, lines)}

    def _record(self, mutant: Mutant, outcome: str) -> None:
        found = {"path": mutant.path, "line": mutant.line, "change": mutant.change, "outcome": outcome}
        found["by"] = self.failed.partition("\n")[0]
        print("{outcome:9}  {path}:{line}  {change}  {by}".format(**found), file=self.output)
        with self.outcomes.open("a", encoding="utf-8") as file:
            print(json.dumps(found), file=file)

    def _try(self, mutant: Mutant) -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (self.options.seconds, self.options.seconds))
        names = compiled_users(mutant.name)
        hits = {test for test, (used, _) in self.uses.items() if not names.isdisjoint(used)}
        files = {test.partition("::")[0] for test in hits}
        tests = [test for test in self.items if test.partition("::")[0] in files]
        self._exchange(mutant, names)
        do_not_shrink()
        self._run(sorted(tests, key=lambda test: (test not in hits, self.uses.get(test, ([], 0.0))[1])))
        outcome = "timed out" if "Timeout (>" in self.failed else "killed" if self.failed else "survived"
        self._record(mutant, "skipped" if hits == {""} else outcome)

    def _exchange(self, mutant: Mutant, names: set[str]) -> None:
        """Put a changed function in the place of the right one; do not load compiled code that may contain it."""
        from numba.core.caching import Cache

        load = Cache.load_overload

        def load_unchanged(cache: Any, *arguments: Any) -> Any:
            function = cache._py_func
            changed = function.__name__ in names or not function.__module__.startswith("cawn.")
            return None if changed else load(cache, *arguments)

        Cache.load_overload, Cache.save_overload = load_unchanged, lambda *_: None
        place = (mutant.code.co_filename, mutant.code.co_qualname, mutant.code.co_firstlineno)
        for found in self.functions:
            code = found.__code__
            if (code.co_filename, code.co_qualname, code.co_firstlineno) == place:
                found.__code__ = mutant.code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=Path(__file__).resolve().parents[1], help="the checkout")
    parser.add_argument("--source", type=Path, nargs="+", required=True, help="folders of the checkout to change")
    parser.add_argument("--tests", nargs="+", required=True, help="test files and folders of the checkout to run")
    parser.add_argument("--work", type=Path, required=True, help="folder for results, one per checkout")
    parser.add_argument("--count", type=int, default=60, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=90, help="CPU time of a mutant, and time of a test, at most")
    parser.add_argument("--elapsed", type=int, default=900, help="time of a mutant at most, also on a busy machine")
    parser.add_argument("--processes", type=int, default=1, help="mutants tried at a time")
    options = parser.parse_args()
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    os.chdir(options.tree)
    sys.path.insert(0, str(Path("src").absolute()))
    os.environ["PYTHONPATH"] = sys.path[0]
    output = os.fdopen(os.dup(1), "w", buffering=1)
    with (options.work / "pytest.txt").open("w") as log, open(os.devnull) as nothing:
        for number, file in enumerate((nothing, log, log)):
            os.dup2(file.fileno(), number)
    settings = ["-s", "-p", "no:cacheprovider", f"--timeout={options.seconds}", "-otmp_path_retention_policy=none"]
    if status := pytest.main([*settings, *options.tests], plugins=[Trials(options, output)]):
        print(f"the tests do not run: see {options.work / 'pytest.txt'}", file=output)
    sys.exit(status)


if __name__ == "__main__":
    main()
