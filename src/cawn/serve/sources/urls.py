"""URLs of streams."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, urlsplit

from cawn.errors import QueryError, printable

PASSWORD = "CAWN_SOURCE_PASSWORD"  # in the environment, for a URL without a password


@dataclass
class SourceUrl:
    """A URL and the options after its question mark. Messages never show the URL, which may have a password."""

    parts: SplitResult
    options: dict[str, str]

    @classmethod
    def parse(cls, url: str) -> SourceUrl:
        try:
            parts = urlsplit(url)
            options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
            _ = parts.scheme == "kafka" or parts.port  # only Kafka takes several hosts
        except ValueError as error:
            raise QueryError(f"--source: not a URL ({error})") from error
        if twice := {name for name, _ in options if [each for each, _ in options].count(name) > 1}:
            raise QueryError(f"--source: {printable(min(twice))}= is given twice")
        return cls(parts, dict(options))

    def take(self, name: str, default: str | None = None) -> str:
        """Remove an option and return its value; an option without a default must be given."""
        value = self.options.pop(name, default)
        if not value:
            raise QueryError(f"--source: {name}= is missing; write {self.parts.scheme}://...?{name}=...")
        return value

    def take_if_given(self, name: str) -> str | None:
        """Remove an option and return its value; None without it."""
        return self.take(name) if name in self.options else None

    def refuse_others(self, allowed: str) -> None:
        """Refuse options that were not taken."""
        if self.options:
            raise QueryError(f"--source: unknown option {printable(min(self.options))}=; known: {allowed}")

    @property
    def password(self) -> str | None:
        """The password in the environment, if the URL has none."""
        return os.environ.get(PASSWORD) if self.parts.password is None else None
