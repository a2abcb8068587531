"""Tables of any library, categories, and several files as one table."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cawn
from cawn.data.attributes import Attribute
from link_files import assert_unreadable

LINKS = "src,dst,t\n10,20,3\n20,30,1\n"


def test_attributes_of_several_files(tmp_path: Path) -> None:
    for name, rows in (("a", "1,2,3,0.5,x\n"), ("b", "2,3,1,1.5,\n1,2,2,2.5,9\n")):
        (tmp_path / f"{name}.csv").write_text(f"src,dst,t,w,no\n{rows}")
    events = cawn.read(tmp_path / "*.csv", msg="w", weight="w", negative="no")
    assert events.msg.ravel().tolist() == events.weight.tolist() == [1.5, 2.5, 0.5]
    assert [None if i < 0 else events.labels[i] for i in events.negative] == [None, "9", "x"]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("from,to,t\n1,2,3\n", r"b.csv: src is 'from', but 'src' in .*a.csv; files read together need the same col"),
        ("src,dst,t\n1,2,2024-01-01\n", "b.csv: times are dates, but numbers in .*a.csv"),
        ("src,dst,t\n1,2,noon\n", "b.csv, line 2, column 't': found 'noon'"),
        ("src,dst,t\n", "b.csv: no rows"),
    ],
)
def test_files_that_do_not_belong_together(tmp_path: Path, second: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(LINKS)
    (tmp_path / "b.csv").write_text(second)
    assert_unreadable(tmp_path / "*.csv", message)


def test_dates_of_several_files_share_a_unit(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("src,dst,t\n1,2,2024-01-01\n")
    (tmp_path / "b.csv").write_text("src,dst,t\n1,2,2024-01-01T00:00:00.0000001\n")
    events = cawn.read(tmp_path / "*.csv")
    assert events.t.tolist() == [1_704_067_200 * 10**9, 1_704_067_200 * 10**9 + 100]
    assert events.reading.unit == "ns"


def test_text_is_a_category(links: Path) -> None:
    events = cawn.read(links, msg=["amount", "currency"])
    assert events.columns == (Attribute("amount"), Attribute("currency", "category", ("eur", "usd", "")))
    assert events.msg.tolist() == [[2.5, 0], [4, 1], [1, 2]]
    assert events.reading.msg == ("amount", "currency")
    assert events.reading.categorical == ("currency",)
    assert events[1:].columns == events.columns


def test_numbers_may_be_categories(links: Path) -> None:
    events = cawn.read(links, msg="amount", categorical="code")
    assert events.columns[1] == Attribute("code", "category", ("7", "07"))
    assert events.msg[:, 1].tolist() == [0, 1, 0]
    assert cawn.read(links, msg=["amount", "code"]).columns[1].kind == "number"


def test_categories_of_binary_files(tmp_path: Path) -> None:
    table = pa.table({"src": [1, 2], "dst": [2, 3], "t": [1, 2], "kind": [5, None], "flag": [True, False]})
    table = table.append_column("word", pa.array(["a", "b"]).dictionary_encode())
    pq.write_table(table, tmp_path / "a.parquet")
    events = cawn.read(tmp_path / "a.parquet", msg=["word", "flag"], categorical=["kind"])
    assert [column.levels for column in events.columns] == [("a", "b"), (), ("5", "")]
    assert events.msg.tolist() == [[0, 1, 0], [1, 0, 1]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"categorical": "colour"}, "categorical='colour', but there is no such column"),
        ({"msg": "colour"}, "msg='colour', but there is no such column"),
        ({"categorical": 1.5}, "categorical=1.5: name a column or a list of columns"),
        ({"node": "name"}, "node='name': is a column of nodes, but nodes is not given"),
        ({"nodes": 5}, "nodes is a int: give a path or a table"),
        ({"nodes": "nowhere.csv"}, "nowhere.csv: no such file"),
    ],
)
def test_attributes_that_are_refused(links: Path, columns, message: str) -> None:
    assert_unreadable(links, message, **columns)


def test_a_number_column_with_one_word_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("src,dst,t,w\n1,2,3,1\n1,2,3,x\n")
    assert_unreadable(path, r"line 3, column 'w': found 'x'; .* named in categorical", msg="w")
    assert cawn.read(path, categorical="w").columns[0].levels == ("1", "x")


def test_tables_that_are_refused() -> None:
    def refused(columns: dict, message: str) -> None:
        assert_unreadable(pa.table(columns), message)

    good = {"src": [1, 2], "dst": [2, 3], "t": [1, 2]}
    refused(good | {"t": [1, None]}, r"table, row 2, column 't': found nothing")
    refused(good | {"t": [1.0, float("nan")]}, r"table, row 2, column 't': found nan")
    refused(good | {"t": pa.array([1, 2], pa.float32())}, "rounds times")
    refused(good | {"t": [True, False]}, "found bool; expected a time")
    refused(good | {"t": pa.array([1, 2**63], pa.uint64())}, r"row 2, column 't': found 9223372036854775808")
    refused(good | {"src": [1.0, 1.5]}, r"row 2, column 'src': found 1.5; node names are whole numbers or strings")
    refused(good | {"src": [[1], [2]]}, "expected node names")
    refused(good | {"src": ["a", ""]}, r"row 2, column 'src': found nothing")
    refused(good | {"src": [None, 1]}, r"row 1, column 'src': found nothing")
    refused({"src": [], "dst": [], "t": []}, "no rows")
    refused({}, "no columns")
    assert cawn.read(pa.table(good | {"src": [1.0, 2.0]})).labels.tolist() == [1, 2, 3]
    assert cawn.read(pa.table(good | {"src": ["a", "2"]})).labels.tolist() == ["a", "2", "3"]


def test_parquet_rows_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"src": [1, 2], "dst": [2, 3], "t": ["1", "x"]}), tmp_path / "a.parquet")
    assert_unreadable(tmp_path / "a.parquet", r"a.parquet, row 2, column 't': found 'x'")


def test_encodings_of_other_libraries() -> None:
    polars = pytest.importorskip("polars")
    names = polars.Series(["a", "b"], dtype=polars.Categorical)
    frame = polars.DataFrame({"src": names, "dst": ["a", "c"], "t": ["2020-01-01", "2020-01-02"], "w": ["1", "2"]})
    events = cawn.read(frame, msg="w")
    assert events.labels.tolist() == ["a", "b", "c"]
    assert events.t.tolist() == [1577836800, 1577923200]
    table = pa.table({"src": pa.array([b"a", b"b"]), "dst": [b"a", b"c"], "t": [1, 2], "w": [2**53 + 1, 2]})
    assert cawn.read(table, msg="w").labels.tolist() == ["a", "b", "c"]


def test_events_do_not_share_memory_with_their_source() -> None:
    column = np.array([5, 6, 7])
    events = cawn.read(pa.table({"src": [0, 1, 2], "dst": [1, 2, 0], "t": pa.array(column)}))
    column[0] = 99
    assert events.t.tolist() == [5, 6, 7]
