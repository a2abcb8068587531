"""The public face: the names users rely on."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import cawn


def test_names() -> None:
    assert cawn.__all__ == sorted(cawn.__all__)
    for name in cawn.__all__:
        assert getattr(cawn, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'frob'"):
        _ = cawn.frob


def test_names_can_be_completed() -> None:
    fresh = "import cawn; assert not {*cawn.__all__, '__version__'} - {*dir(cawn)}"
    subprocess.run([sys.executable, "-c", fresh], check=True)


def test_type_checkers_see_every_name() -> None:
    """They read the imports that never run, and need the package to be marked as typed."""
    source = Path(cawn.__file__).read_text(encoding="utf-8")
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert {name.asname for node in imports for name in node.names if name.asname} == set(cawn.__all__)
    assert Path(cawn.__file__).with_name("py.typed").exists()


def test_no_module_hides_a_public_name() -> None:
    """Importing a module sets its name on the package; none may be called like a function or class."""
    modules = {path.stem for path in Path(cawn.__file__).parent.iterdir()}
    assert modules & set(cawn.__all__) == {"datasets", "laws", "scale"}


def test_one_tree_of_errors() -> None:
    for error in (cawn.DataError, cawn.QueryError, cawn.LateEventError, cawn.StorageError):
        assert issubclass(error, cawn.CawnError)


def test_the_example_of_the_readme() -> None:
    events = cawn.laws.triadic_closure(seed=0).events
    history = cawn.History(events, alpha=1e-3)
    walks_u = history.sample(events.src[-5:], events.t[-5:], num_walks=64, length=2, seed=0)
    walks_v = history.sample(events.dst[-5:], events.t[-5:], num_walks=64, length=2, seed=0)
    assert cawn.anonymize(walks_u, walks_v).shape == (5, 2, 64, 3, 2, 3)


def test_public_modules_can_be_imported_by_their_public_names() -> None:
    import cawn.datasets
    from cawn.laws import triadic_closure

    assert cawn.datasets is cawn.data.datasets
    assert triadic_closure is cawn.laws.triadic_closure
