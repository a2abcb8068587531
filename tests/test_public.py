"""The public face: the names users rely on."""

import pytest

import cawn


def test_names() -> None:
    assert cawn.__all__ == sorted(cawn.__all__)
    assert set(cawn._HOME) | {"datasets", "laws"} == set(cawn.__all__)
    for name in cawn.__all__:
        assert getattr(cawn, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'frob'"):
        _ = cawn.frob


def test_no_module_hides_a_public_name() -> None:
    """Importing a module sets its name on the package; none may be called like a function or class."""
    from pathlib import Path

    modules = {path.stem for path in Path(cawn.__file__).parent.iterdir()}
    assert modules & set(cawn.__all__) == {"datasets", "laws"}


def test_one_tree_of_errors() -> None:
    for error in (cawn.DataError, cawn.QueryError, cawn.LateEventError, cawn.StorageError):
        assert issubclass(error, cawn.CawnError)


def test_the_example_of_the_readme() -> None:
    events = cawn.laws.triadic_closure(seed=0).events
    history = cawn.History(events, alpha=1e-3)
    walks_u = history.sample(events.src[-5:], events.t[-5:], num_walks=64, length=2, seed=0)
    walks_v = history.sample(events.dst[-5:], events.t[-5:], num_walks=64, length=2, seed=0)
    assert cawn.anonymize(walks_u, walks_v).shape == (5, 2, 64, 3, 2, 3)
