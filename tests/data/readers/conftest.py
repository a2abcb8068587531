"""Links with attributes, and a table of their nodes."""

from pathlib import Path

import pytest

LINKS = "src,dst,t,amount,currency,code\nann,bob,1,2.5,eur,7\nbob,cid,2,4,usd,07\nann,cid,3,1,,7\n"
NODES = "name,age,city\nbob,40,rome\nann,20,oslo\nzoe,99,paris\n"


@pytest.fixture
def links(tmp_path: Path) -> Path:
    path = tmp_path / "links.csv"
    path.write_text(LINKS)
    return path


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    path = tmp_path / "nodes.csv"
    path.write_text(NODES)
    return path
