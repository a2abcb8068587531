"""What `cawn.read` records about a source, so that the next file like it needs no options."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import cawn
from cawn.data.reading import Reading


def reading_of(path: Path, text: str, **options: object) -> Reading:
    path.write_text(text)
    reading = cawn.read(path, **options).reading
    assert reading is not None
    assert Reading.from_dict(reading.to_dict()) == reading
    return reading


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("from,to,date\na,b,2024-01-01\n", {}, Reading("from", "to", "date", bipartite=False, dates=True)),
        ("user_id,item_id,t\n1,1,5\n", {}, Reading("user_id", "item_id", "t", bipartite=True)),
        ("user_id,item_id,t\n1,1,5\n", {"bipartite": False}, Reading("user_id", "item_id", "t", bipartite=False)),
        ("1 2 3\n4 5 6\n", {}, Reading(0, 1, 2, bipartite=False)),
        ("3 1 2\n6 4 5\n", {"src": 1, "dst": 2, "time": 0}, Reading(1, 2, 0, bipartite=False)),
        (
            "rater,ratee,when,r\na,b,5,1\n",
            {"src": "rater", "dst": 1, "time": "when", "msg": "r"},
            Reading("rater", "ratee", "when", msg=("r",), bipartite=False),
        ),
        ("a,a,t,w\n1,2,3,4\n", {"src": 0, "dst": 1, "weight": "w"}, Reading(0, 1, "t", weight="w", bipartite=False)),
        ("src,dst,t\n1,2,20240131\n", {}, Reading("src", "dst", "t", bipartite=False, dates=True)),
    ],
)
def test_columns_used(tmp_path: Path, text: str, options: dict, expected: Reading) -> None:
    assert reading_of(tmp_path / "a.csv", text, **options) == expected


def test_features_found_by_the_format(tmp_path: Path) -> None:
    header = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
    found = reading_of(tmp_path / "a.csv", header + "0,0,0.0,0,0.5,1.5\n")
    assert found.msg == ("feature 0", "feature 1")
    assert reading_of(tmp_path / "b.csv", header + "0,0,0.0,0,0\n").msg == ()


def test_tables_and_arrays() -> None:
    dates = pa.array(np.array(["2024-01-01", "2024-01-02"], "datetime64[s]"))
    events = cawn.read(pa.table({"u": [1, 2], "v": [2, 3], "time": dates}))
    assert events.reading == Reading("u", "v", "time", bipartite=False, dates=True)
    assert events[:1].reading == events.reading
    assert cawn.Events([0], [1], np.array(["2024-01-01"], "datetime64[D]")).reading == Reading(dates=True)
    assert cawn.Events([0], [1], [5]).reading is None


def test_a_damaged_unit_is_refused() -> None:
    with pytest.raises(cawn.DataError):
        Reading.from_dict({"unit": "weeks"})
