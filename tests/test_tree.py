"""Tests mirror the source tree: src/cawn/walks/history.py is tested by tests/walks/test_history.py.

A module may be left to another file of tests, with the reason; and a test that belongs to no one module is named.
"""

from pathlib import Path

from tools.kernel_types import NUMERICAL

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "cawn"

# Modules whose tests stand elsewhere: the file, and why.
ELSEWHERE = {
    "__init__": ("test_public.py", "the list of public names"),
    "__main__": ("cli/test_cli.py", "calls the command line"),
    "cli/__main__": ("cli/test_predict.py", "calls the command line"),
    "cli/demonstration": ("cli/test_demo.py", "what `cawn demo` shows"),
    "data/external/files": ("data/external/test_columns.py", "compared with reading at once"),
    "data/external/pieces": ("data/external/test_columns.py", "compared with reading at once"),
    "data/external/scan": ("data/external/test_columns.py", "compared with reading at once"),
    "data/external/tables": ("data/external/test_columns.py", "compared with reading at once"),
    "data/external/times": ("data/external/test_columns.py", "compared with reading at once"),
    "datasets": ("test_public.py", "the public name of data/datasets"),
    "explain/drawing": ("explain/test_pictures.py", "draws the pictures"),
    "explain/report": ("explain/test_page.py", "fills in the pages"),
    "data/stored": ("learn/test_indexing.py", "index folders"),
    "data/array_folders": ("learn/test_runs.py", "part of a run folder"),
    "kernels/cpu/counts": ("walks/test_identities.py", "compared with identities by hand"),
    "kernels/cpu/growing": ("walks/test_growing.py", "compared with an index built at once"),
    "kernels/cpu/index": ("walks/test_history.py", "builds the index"),
    "kernels/cpu/jodie": ("systems/test_jodie_original.py", "compared with the equations"),
    "kernels/cpu/matrices": ("systems/test_jodie_original.py", "part of the recurrences of JODIE and DyRep"),
    "kernels/cpu/merge": ("kernels/cpu/test_prefixes.py", "merges prefixes"),
    "kernels/cpu/numbering": ("data/external/test_names.py", "numbers names"),
    "kernels/cpu/projections": ("systems/test_tpnet.py", "compared with an enumeration of walks"),
    "kernels/cpu/recency": ("serve/test_recency.py", "compared with the baseline of all links at once"),
    "kernels/cpu/ring": ("walks/test_stream.py", "the lists of a stream"),
    "kernels/cpu/spans": ("walks/test_lists.py", "where lists are"),
    "kernels/cpu/ties": ("data/test_ties.py", "orders simultaneous links"),
    "kernels/cuda/counts": ("walks/test_cuda.py", "compared with the CPU"),
    "kernels/cuda/features": ("systems/cawn/test_cuda.py", "compared with the CPU"),
    "kernels/cuda/links": ("systems/cawn/test_cuda.py", "compared with the CPU"),
    "kernels/cuda/lstm": ("systems/cawn/test_fused.py", "compared with the CPU"),
    "walks/kernels/cuda": ("walks/test_cuda.py", "compared with the CPU"),
    "kernels/threads": ("kernels/test_jit.py", "runs compiled functions"),
    "kernels/reference/rates": ("kernels/cpu/test_rates.py", "what the kernel is compared with"),
    "kernels/reference/walks": ("kernels/cpu/test_walks.py", "what the kernels are compared with"),
    "laws": ("test_public.py", "the public name of data/laws"),
    "learn/checkpoints": ("learn/test_runs.py", "part of a run folder"),
    "learn/field/jobs": ("learn/test_workers.py", "runs in other processes"),
    "learn/field/plot": ("learn/field/test_table.py", "draws the table"),
    "learn/store": ("learn/test_runs.py", "part of a run folder"),
    "learn/testing": ("learn/test_evaluation.py", "results of a finished training"),
    "scale/datasets": ("scale/test_ray_engine.py", "on the same Ray"),
    "systems/cawn/attention": ("systems/cawn/test_model.py", "options of the model"),
    "systems/cawn/host": ("systems/cawn/test_system.py", "how CAW-N is trained on the CPU"),
    "systems/graphs": ("systems/cawn/test_cuda_training.py", "how CAW-N is trained on a GPU"),
    "systems/memory/config": ("systems/memory/test_system.py", "by the systems that it defines"),
    "systems/settings": ("systems/cawn/test_config.py", "by the settings of CAW-N"),
    "walks/external/history": ("walks/external/test_external.py", "compared with the index in memory"),
    "walks/external/pairs": ("walks/external/test_external.py", "compared with the index in memory"),
    "walks/external/sorting": ("walks/external/test_external.py", "compared with the index in memory"),
    "walks/stored": ("learn/test_indexing.py", "index folders"),
}

# Tests that belong to no one module.
ACROSS = {
    "fuzz/*": "malformed input of every kind",
    "kernels/cuda/test_compile.py": "every kernel compiles without a GPU",
    "systems/cawn/test_cuda_training.py": "whole runs on a GPU",
    "systems/test_every_system*.py": "what every system promises",
    "test_benchmarks.py": "benchmarks/",
    "test_deploy.py": "deploy/",
    "test_docs.py": "docs/",
    "test_every_predictor.py": "LinkPredictor and the command line with every system",
    "test_examples.py": "examples/",
    "test_invariants.py": "laws that hold for the package as a whole",
    "test_layers.py": "imports between packages",
    "test_packaging.py": "pyproject.toml and the files of a release",
    "test_public.py": "the public names",
    "test_same_question.py": "the same score whichever way it is asked for",
    "test_statistics_of_draws.py": "tests/statistics_of_draws.py",
    "test_tree.py": "this file",
}


def modules() -> list[str]:
    """Every module with code of its own, by its path in the package."""
    found = []
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).with_suffix("").as_posix()
        has_code = "\ndef " in (text := path.read_text(encoding="utf-8")) or "\nclass " in text
        if path.name != "__init__.py" or has_code:
            found.append(name)
    return sorted(found)


def mirrored(module: str) -> str:
    """The file of tests of a module; of the code of a package itself, one with the name of the package inside it."""
    path = Path(module)
    name = path.parent.name if path.name == "__init__" else path.name
    return path.with_name(f"test_{name}.py").as_posix()


def files_of_tests() -> set[str]:
    return {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}


def test_every_module_has_tests() -> None:
    files = files_of_tests()
    assert [name for name in modules() if mirrored(name) not in files and name not in ELSEWHERE] == []


def test_exceptions_are_needed() -> None:
    files = files_of_tests()
    assert [name for name in ELSEWHERE if name not in modules() or mirrored(name) in files] == []
    assert [name for name, (file, _) in ELSEWHERE.items() if not (TESTS / file).exists()] == []
    assert [pattern for pattern in ACROSS if not list(TESTS.glob(pattern))] == []


def test_every_test_belongs_to_a_module() -> None:
    across = {path.relative_to(TESTS).as_posix() for pattern in ACROSS for path in TESTS.glob(pattern)}
    assert sorted(files_of_tests() - across - {mirrored(name) for name in modules()}) == []


def test_the_tests_of_numbers_exist() -> None:
    assert [name for name in NUMERICAL if not (TESTS / name).exists()] == []
