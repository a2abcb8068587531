"""Delimiters, headers and encodings of text files."""

from pathlib import Path

import pytest

import cawn
from cawn.data.readers import dialect
from link_files import assert_unreadable, written


def test_a_header_can_be_denied_or_demanded(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "from,to,5\na,b,6\n")
    assert len(cawn.read(path, header=False)) == 2
    path = written(tmp_path / "b.csv", "1,2,3\n4,5,6\n")
    assert len(cawn.read(path, header=True, src="1", dst="2", time="3")) == 1


@pytest.mark.parametrize(
    "content", [b"# " + b"x" * (4 << 20) + b"\n", b"# a comment\n" * 400_000], ids=["line", "comments"]
)
def test_looking_at_a_file_takes_linear_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    decoded = []
    original = dialect._decoded

    def counted(raw: bytes, *arguments, **options) -> str:
        decoded.append(len(raw))
        return original(raw, *arguments, **options)

    monkeypatch.setattr(dialect, "_decoded", counted)
    path = tmp_path / "a.csv"
    path.write_bytes(content + b"1,2,3\n" * 3)
    assert len(cawn.read(path, header=False)) == 3
    assert sum(decoded) < 4 * len(content)


def test_fields_of_any_size(tmp_path: Path) -> None:
    import csv

    limit = csv.field_size_limit()
    path = tmp_path / "a.csv"
    long = "x" * 200_000
    path.write_text(f'src,dst,t,note\n1,2,3,"{long}"\n1,3,4,{long}\n')
    assert len(cawn.read(path)) == 2
    path.write_text(f'src,dst,t,note\n1,2,3,"{long}"\n1,3,noon,{long}\n')
    assert_unreadable(path, "line 3, column 't': found 'noon'")
    assert csv.field_size_limit() == limit


def test_a_ragged_row_that_is_not_unicode(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"src,dst,t\n" + b"a,b,1\n" * 20_000 + b"\xe9,b,1,2\n")
    assert_unreadable(path, "line 20002: byte 0xe9 is not UTF-8 text")
    path.write_bytes(b"src,dst,t\n" + b"a,b,1\n" * 20_000 + b"a,b,1,\xc3")
    assert_unreadable(path, "line 20002: byte 0xc3 is not UTF-8 text")
