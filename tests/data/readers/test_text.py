"""Text files: names, times and attributes as they are written."""

from pathlib import Path

import numpy as np
import pytest

import cawn
from link_files import assert_unreadable, named_links, written


def test_names_that_look_like_numbers_at_first(tmp_path: Path) -> None:
    """Type guesses come from the first block of a file; a later name must not break the reading."""
    rows = [f"{i % 1000},{i % 777},{i}" for i in range(200_000)] + ["A17,5,200000", "99999999999999999999,A17,200001.5"]
    events = cawn.read(written(tmp_path / "a.csv", "src,dst,t\n" + "\n".join(rows) + "\n"))
    assert events.labels[events.src[-2:]].tolist() == ["A17", "99999999999999999999"]
    assert events.t[-1] == 200001.5
    assert "5" in set(events.labels.tolist())


def test_names_are_kept_as_they_are_written(tmp_path: Path) -> None:
    events = cawn.read(written(tmp_path / "a.csv", "src,dst,t\n007,7,1\n0x10,16,2\n+5,5,3\n"))
    assert events.labels.tolist() == ["007", "0x10", "+5", "7", "16", "5"]
    assert cawn.read(written(tmp_path / "b.csv", "src,dst,t\n1.0,2,1\n2.0,1,2\n")).labels.tolist() == [1, 2]
    tabs = written(tmp_path / "c.tsv", "src\tdst\tt\tw\nAl  Bo\tCy\t7\t\nCy\tAl  Bo\t9\t\n")
    assert cawn.read(tabs).labels.tolist() == ["Al  Bo", "Cy"]


def test_names_that_look_like_other_things(tmp_path: Path) -> None:
    text = "src,dst,t\n2024-01-01,true,1\n12:30,nan,2\n1.50,1.5,3\n"
    events = cawn.read(written(tmp_path / "a.csv", text))
    assert events.labels.tolist() == ["2024-01-01", "12:30", "1.50", "true", "nan", "1.5"]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["1.25", "2", "3"], [1.25, 2, 3]),
        (["1", "2", "2.5"], [1, 2, 2.5]),
        (["1e3", "2e3", "1082040961.5"], [1000, 2000, 1082040961.5]),
        (["-5", "0", "5"], [-5, 0, 5]),
        (
            ["1700000000000000001", "1700000000000000002", "1700000000000000003"],
            [1700000000000000001 + i for i in range(3)],
        ),
        (["1970-01-01", "1970-01-02", "1970-01-03"], [0, 86400, 172800]),
        (["1970-01-01T00:00:00Z", "1970-01-01T02:00:00+01:00", "1970-01-02T00:00:00Z"], [0, 3600, 86400]),
        (["1970-01-01 00:00:00.5", "1970-01-01 00:00:01", "1970-01-01 00:00:02.25"], [0.5, 1, 2.25]),
    ],
)
def test_times(tmp_path: Path, times: list[str], expected: list) -> None:
    text = "src,dst,t\n" + "".join(f"1,2,{t}\n" for t in times)
    events = cawn.read(written(tmp_path / "a.csv", text))
    assert events.t.tolist() == expected
    assert events.t.dtype == (np.float64 if any(isinstance(e, float) for e in expected) else np.int64)


def test_times_are_exact(tmp_path: Path) -> None:
    rows = "src,dst,t\n1,2,+1600000000000000001\n1,3,+1600000000000000002\n"
    assert cawn.read(written(tmp_path / "a.csv", rows)).t.tolist() == [1600000000000000001, 1600000000000000002]
    late = written(tmp_path / "b.csv", "src,dst,t\n1,2,2300-01-01T00:00:00.5\n")
    assert cawn.read(late).t.tolist() == [10413792000.5]


def test_string_names_and_dates(tmp_path: Path) -> None:
    rows = ["payer,payee,date,amount", "ana,bo,2024-01-02T00:00:00,5", "bo,NA,2024-01-01 12:00,7.5"]
    text = "\n".join([*rows, "né,ana,2024-01-03T01:00:00,1"])
    events = cawn.read(written(tmp_path / "a.csv", text), msg=["amount"])
    assert named_links(events) == [("bo", "NA", 1704110400), ("ana", "bo", 1704153600), ("né", "ana", 1704243600)]
    assert events.msg is not None
    assert events.msg.ravel().tolist() == [7.5, 5, 1]
    assert events.ids(["ana", "nobody", "né", "nobody", "none"]).tolist() == [0, 4, 2, 4, 5]


def test_line_breaks_in_quotes_and_long_lines(tmp_path: Path) -> None:
    note = "x" * 20 + "\n" + "y" * 20
    rows = "".join(f'{i},{i + 1},{i},"{note}"\n' for i in range(40_000))
    assert len(cawn.read(written(tmp_path / "a.csv", "src,dst,t,note\n" + rows))) == 40_000
    with pytest.raises(cawn.DataError, match="line 4, column 't': found 'x'"):
        cawn.read(written(tmp_path / "b.csv", 'src,dst,t,c\n1,2,3,"a\nb"\n2,3,x,"q"\n'))
    header = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
    wide = "".join(f"{i},0,{i}.0,0," + ",".join(["0.123456789"] * 7_000) + "\n" for i in range(3))
    events = cawn.read(written(tmp_path / "c.csv", header + wide))
    assert events.msg is not None
    assert events.msg.shape == (3, 7_000)


def test_jodie(tmp_path: Path) -> None:
    header = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
    events = cawn.read(written(tmp_path / "a.csv", header + "0,0,0.0,0,0.5,1.5\n1,0,36.0,1,2.5,3.5\n"))
    assert events.labels.tolist() == ["user:0", "user:1", "item:0"]
    assert events.t.tolist() == [0.0, 36.0]
    assert events.msg is not None
    assert events.msg.tolist() == [[0.5, 1.5], [2.5, 3.5]]


def test_jodie_sample(data_folder: Path, network) -> None:
    events, wikipedia = cawn.read(data_folder / "jodie_format_sample.csv"), network("wikipedia")
    assert len(events) == 200
    assert events.msg is None  # a column of zeros stands for no features
    np.testing.assert_array_equal(events.t, wikipedia.t[:200])
    pairs = [set(zip(e.src[:200].tolist(), e.dst[:200].tolist(), strict=True)) for e in (events, wikipedia)]
    assert len(pairs[0]) == len(pairs[1])


def test_the_authors_triple(tmp_path: Path) -> None:
    path = written(tmp_path / "ml_x.csv", ",u,i,ts,label,idx\n0,1,3,5.0,0.0,1.0\n1,2,3,4.0,0.0,2.0\n")
    np.save(tmp_path / "ml_x.npy", np.array([[0, 0], [1, 2], [3, 4]]))
    np.save(tmp_path / "ml_x_node.npy", np.array([[0.0], [10], [20], [30]]))
    events = cawn.read(path)
    assert events.labels.tolist() == [1, 2, 3]
    assert events.t.tolist() == [4.0, 5.0]
    assert events.msg is not None
    assert events.msg.tolist() == [[3, 4], [1, 2]]
    assert events.x is not None
    assert events.x.tolist() == [[10], [20], [30]]
    np.save(tmp_path / "ml_x.npy", np.zeros((3, 4)))
    assert cawn.read(path).msg is None
    np.save(tmp_path / "ml_x.npy", np.ones((2, 4)))
    assert_unreadable(path, r"ml_x.npy: has shape \(2, 4\), but the links refer to idx 2")
    (tmp_path / "ml_x.npy").unlink()
    assert cawn.read(path).msg is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a,b,c\nx,y,1\n",
            r"no columns of source and destination among 'a', 'b', 'c'; say which with src and dst \(--src",
        ),
        (
            "src,dst,weight\nx,y,1\n",
            r"no column of times among 'src', .*; say which with time \(--time\)",
        ),
        ("src,dst,from,to,t\n1,2,3,4,5\n", r"more than one choice of source and destination"),
        ("src,dst,date,time\n1,2,3,4\n", r"more than one choice of times"),
        ("src,src,dst,t\n1,1,2,3\n", r"no columns of source and destination among 'src', 'src'"),
        ("src,dst,t\n", r"no rows"),
        ("# only\n# comments\n", r"no rows"),
        ("\n\n", r"no rows"),
        ("src,dst,t\n1,2,3\n1,2,noon\n", r"line 3, column 't': found 'noon'; expected a time: a number or an ISO date"),
        ("src,dst,t\n1,2,2024-01-01\n1,2,yesterday\n", r"line 3, column 't': found 'yesterday'"),
        ("src,dst,t\n1,2,2024-01-01\n1,2,17\n", r"line 3, column 't': found '17'"),
        ("src,dst,t\n1,2,3\n\n1,2,\n", r"line 4, column 't': found nothing"),
        ("src,dst,t\n1,2,\n", r"line 2, column 't': found nothing"),
        ("src,dst,t\n1,2,3.0\n1,2,nan\n", r"line 3, column 't': found (nothing|nan)"),
        ("src,dst,t\n1,2,3.0\n1,2,inf\n", r"line 3, column 't': found inf; every link needs a finite time"),
        ("src,dst,t\n1,2,99999999999999999999999\n1,2,3\n", r"line 2, column 't': found 1e\+23; float64 rounds"),
        ("src,dst,t\n1,2,+9223372036854775808\n", r"float64 rounds times this large"),
        ("src,dst,t\n1,,3\n", r"line 2, column 'dst': found nothing; every link needs two nodes"),
        ("src,dst,t\n1,2,3\n,2,3\n", r"line 3, column 'src': found nothing"),
        ("src,dst,t\na,b,3\n,b,3\n", r"line 3, column 'src': found nothing"),
        ("src,dst,t\n1,2,3\n1,2\n", r"line 3: found 2 fields, expected 3: '1,2'"),
        ("src,dst,t\n1,2,3\n\n4,5,6\n1,2,3,4\n", r"line 5: found 4 fields, expected 3: '1,2,3,4'"),
        ("1 2 3\n1 2\n", r"line 2: found 2 fields, expected 3"),
        ("1,2\n3,4\n", r"2 column\(s\), expected at least source, destination and time; is the delimiter right\?"),
        ("hello\n", r"no rows; expected at least one link below the header"),
        ("src,dst,t", r"no rows"),
        ("hello\nworld\n", r"no columns of source and destination"),
        ("1\n2\n", r"1 column\(s\)"),
    ],
)
def test_text_that_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(text)
    with pytest.raises(cawn.DataError, match=message) as caught:
        cawn.read(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("value", "message"), [("inf", "found inf"), ("1e300", "found 1e.300"), ("", "found nothing")])
def test_attributes_are_finite(tmp_path: Path, value: str, message: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(f"src,dst,t,w\n1,2,3,1.5\n1,2,3,{value}\n")
    assert_unreadable(path, rf"line 3, column 'w': {message}", msg="w")


def test_what_files_say_is_quoted_on_one_printable_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('src,dst,t\n1,2,3\n1,2,"\x1b[2J\nnoon"\n')
    with pytest.raises(cawn.DataError) as caught:
        cawn.read(path)
    assert str(caught.value).isprintable()
    path.write_text("src,dst,\x1b[2J,when\n1,2,3,4\n")
    assert_unreadable(path, r"no column of times among 'src', 'dst', '\\x1b\[2J', 'when'")
