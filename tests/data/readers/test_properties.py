"""Random tables and files: valid Events or a CawnError, never anything else."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import cawn

FIELD = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(str),
    st.datetimes().map(str),
    st.sampled_from(
        ["", "NA", "nan", "inf", "a", "é", '"', '"x"', "a b", "1e999", "true", "src", "t", "-0", "0x1f", "#", "%"]
    ),
    st.text(max_size=4),
)
LINE = st.lists(FIELD, min_size=1, max_size=5)
HEADER = st.sampled_from(
    ["", "src,dst,t", "u,i,ts,label", "user_id,item_id,timestamp,state_label,f", "a,b,c", "t,src,dst,w"]
)
SETTINGS = settings(max_examples=200)


def check(events: cawn.Events) -> None:
    assert len(events) == len(events.src) == len(events.dst) == len(events.t) > 0
    assert events.src.dtype == events.dst.dtype == np.int32
    assert events.t.dtype in (np.int64, np.float64)
    assert (events.t[1:] >= events.t[:-1]).all()
    assert np.isfinite(events.t).all()
    assert 0 <= min(events.src.min(), events.dst.min()) <= max(events.src.max(), events.dst.max()) < events.num_nodes
    assert len(events.labels) == events.num_nodes == len(set(events.labels.tolist()))
    assert sorted(events.rows.tolist()) == list(range(len(events)))
    if events.msg is not None:
        assert np.isfinite(events.msg).all()
        assert len(events.msg) == len(events)


def read_or_refuse(source: object, **options: object) -> None:
    try:
        check(cawn.read(source, **options))
    except cawn.CawnError as error:
        reason = str(error)
    else:
        return
    assert "\n" not in reason
    assert len(reason) < 2000


@SETTINGS
@given(
    header=HEADER,
    rows=st.lists(LINE, max_size=8),
    delimiter=st.sampled_from([",", "\t", " ", ";", "  "]),
    end=st.sampled_from(["\n", "\r\n", ""]),
)
def test_any_text(tmp_path: Path, header: str, rows: list[list[str]], delimiter: str, end: str) -> None:
    path = tmp_path / "any.csv"
    body = "\n".join([header.replace(",", delimiter)] * bool(header) + [delimiter.join(row) for row in rows]) + end
    path.write_text(body, encoding="utf-8", errors="surrogatepass", newline="")
    read_or_refuse(path)


@SETTINGS
@given(
    content=st.binary(max_size=200),
    start=st.sampled_from([b"", b"src,dst,t\n", b"PAR1", b"ARROW1", b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd"]),
)
def test_any_bytes(tmp_path: Path, content: bytes, start: bytes) -> None:
    path = tmp_path / "any"
    path.write_bytes(start + content)
    read_or_refuse(path)


@SETTINGS
@given(
    src=st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.none()), max_size=6),
    dst=st.lists(st.one_of(st.text(max_size=3), st.none()), max_size=6),
    t=st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(), st.none()), max_size=6),
    w=st.lists(st.floats(width=32), max_size=6),
)
def test_any_table(src: list, dst: list, t: list, w: list) -> None:
    size = min(map(len, (src, dst, t, w)))
    try:
        table = pa.table({"src": src[:size], "dst": dst[:size], "t": t[:size], "w": w[:size]})
    except (pa.ArrowInvalid, OverflowError):
        return
    read_or_refuse(table)
    read_or_refuse(table, msg=["w"])


@SETTINGS
@given(
    links=st.lists(
        st.tuples(
            st.sampled_from(["ann", "bob", "é, x", 'q"q', "7", "NA"]),
            st.sampled_from(["ann", "zoe", "8"]),
            st.integers(-(2**61), 2**61).filter(lambda t: not 1900_01_01 <= t <= 2199_12_31),  # no dates
        ),
        min_size=1,
        max_size=20,
    )
)
def test_what_is_written_is_read(tmp_path: Path, links: list[tuple[str, str, int]]) -> None:
    import csv

    path = tmp_path / "links.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("src", "dst", "t"), *links])
    events = cawn.read(path)
    got = list(
        zip(events.labels[events.src].tolist(), events.labels[events.dst].tolist(), events.t.tolist(), strict=True)
    )
    expected = sorted(links, key=lambda link: link[2])
    assert [(str(a), str(b), t) for a, b, t in got] == expected
