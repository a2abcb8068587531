"""Where the entries of each row's list are in an array shared by all lists.

A span is one integer, start << LENGTH_BITS | length. Spans are stored in pages of PAGE rows, which a table lists, so
that a version in which a few rows changed shares all other pages with the one before (see `kernels.cpu.growing`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.kernels.jit import inline

Array = npt.NDArray[Any]

LENGTH_BITS = 30  # a list has fewer than 2**30 entries, all lists together fewer than 2**33
LENGTH_MASK = (1 << LENGTH_BITS) - 1
PAGE_BITS = 5
PAGE = 1 << PAGE_BITS


class Spans(NamedTuple):
    """The spans of rows 0, 1, ..., size - 1; the lists of all other rows are empty."""

    table: Array  # [ceil(size / PAGE)] int32, the page of each PAGE rows
    pages: Array  # [pages * PAGE] int64
    size: int

    @classmethod
    def of(cls, starts: Array) -> Spans:
        """Spans of lists one after the other; list i is at starts[i]..starts[i + 1]."""
        return cls.packed(starts[:-1], np.diff(starts))

    @classmethod
    def packed(cls, first: Array, length: Array) -> Spans:
        """Spans of lists with these first entries and lengths."""
        size = len(first)
        num_pages = -(-size // PAGE)
        pages = np.zeros(num_pages * PAGE, np.int64)
        pages[:size] = first << LENGTH_BITS | length
        return cls(constant(np.arange(num_pages, dtype=np.int32)), constant(pages), size)


def lengths(spans: Spans) -> npt.NDArray[np.int64]:
    """The length of every list: [size]."""
    return np.asarray(packed_spans(spans) & LENGTH_MASK)


def packed_spans(spans: Spans) -> npt.NDArray[np.int64]:
    """The span of every row: [size]."""
    return spans.pages.reshape(-1, PAGE)[spans.table].reshape(-1)[: spans.size]


def constant(array: Array) -> Array:
    """A read-only view. A stored index is read-only; if all arrays are, kernels are compiled only once."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@inline
def span(spans: Spans, row: Any) -> tuple[Any, Any]:
    """The first entry of a row's list, and the one after its last."""
    if row < 0 or row >= spans.size:
        return 0, 0
    packed = spans.pages[(np.int64(spans.table[row >> PAGE_BITS]) << PAGE_BITS) | (row & (PAGE - 1))]
    start = packed >> LENGTH_BITS
    return start, start + (packed & LENGTH_MASK)
