"""The registry of systems."""

import pytest

import cawn
from cawn import systems
from cawn.systems.rates import RatesSettings


def test_every_entry_loads_and_is_found_by_its_settings() -> None:
    assert systems.DEFAULT in systems.names()
    for name in systems.names():
        assert systems.name_of(systems.settings_type(name)()) == name
        assert callable(systems.system_type(name))


def test_names_and_settings() -> None:
    assert {"cawn", "rates"} <= set(systems.names())
    assert systems.settings_type("cawn") is cawn.Config
    assert systems.name_of(RatesSettings()) == "rates"


@pytest.mark.parametrize("name", ["unknown", None, 3, ["cawn"]])
def test_unknown_names(name) -> None:
    with pytest.raises(cawn.QueryError, match=r"system is .*: there are cawn, rates"):
        systems.check_system(name)
    with pytest.raises(cawn.StorageError, match=r"its system .* is not one of cawn, rates"):
        systems.recorded(name)


def test_settings_of_no_system() -> None:
    with pytest.raises(cawn.QueryError, match="give the settings of a system"):
        systems.name_of("cawn")
