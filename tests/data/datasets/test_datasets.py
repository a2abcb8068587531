"""Named networks as users ask for them."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import cawn
from cawn.data import datasets
from cawn.data.datasets import CATALOG


@pytest.mark.parametrize("name", ["frob", "", "../uci", None, ["uci"]])
@pytest.mark.parametrize("ask", [datasets.load, datasets.where, datasets.download, datasets.verify])
def test_an_unknown_name_is_one_line(ask: Callable[[object], object], name: object) -> None:
    with pytest.raises(cawn.QueryError, match=r"^there is no dataset .*; there are bitcoin-otc, enron, .*$"):
        ask(name)


def test_looking_into_it_is_quick() -> None:
    code = "import sys; from cawn import datasets; datasets.where('uci')\n"
    code += "print({'numpy', 'pyarrow', 'ssl'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "set()\n"


@pytest.mark.parametrize("name", ["wikipedia", "mooc", "enron", "uci", "bitcoin-otc"])
def test_numbers_are_those_of_the_real_network(name: str, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAWN_DATA", str(data_folder))
    if datasets.where(name) is None:
        pytest.skip(f"needs the network {name!r} in $CAWN_DATA")
    events = datasets.load(name)
    assert (events.num_nodes, len(events)) == (CATALOG[name].nodes, CATALOG[name].links)
