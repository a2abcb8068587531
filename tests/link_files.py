"""Files of links, what was read from them, and what is refused."""

from pathlib import Path

import pytest

import cawn

ROWS = [(10, 20, 3), (20, 30, 1), (10, 30, 2), (30, 30, 2)]
SORTED = [(20, 30, 1), (10, 30, 2), (30, 30, 2), (10, 20, 3)]  # by time, stable among the ties at 2


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def named_links(events: cawn.Events) -> list[tuple]:
    """(source, destination, time) by name."""
    src, dst = events.labels[events.src], events.labels[events.dst]
    return list(zip(src.tolist(), dst.tolist(), events.t.tolist(), strict=True))


def assert_unreadable(source: object, message: str, **options: object) -> str:
    """`cawn.read` refuses it in one short line, which is returned."""
    with pytest.raises(cawn.DataError, match=message) as caught:
        cawn.read(source, **options)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    return str(caught.value)
