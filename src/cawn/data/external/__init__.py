"""Logs larger than memory: read in pieces, written as files of columns, used as memory-mapped `Events`."""

from __future__ import annotations

from cawn.data.external.columns import Columns, write_columns

__all__ = ["Columns", "write_columns"]
