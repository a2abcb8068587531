"""The errors a user can meet. Every message says what was found, where, and what to do."""

from __future__ import annotations


class CawnError(Exception):
    """Base of all errors that bad input can cause; anything else is a bug in cawn."""


class DataError(CawnError):
    """A file, table or array that cannot become `Events`."""


class QueryError(CawnError):
    """An argument of a question (nodes, times, walk counts, decays) that cannot be answered."""


class LateEventError(CawnError):
    """An event older than what a `Stream` has already taken in."""


class StorageError(CawnError):
    """A run folder or file that could not be written, or cannot be read back."""


class DeviceError(CawnError):
    """A GPU that is not there, cannot be used, or has too little memory."""
