"""Bearer tokens with a role: `read` allows queries, `write` also allows adding and removing links."""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from cawn.errors import QueryError
from cawn.files import read_file
from cawn.serve.problems import Problem

Role = Literal["read", "write"]

SHORTEST = 8
_VARIABLES: dict[str, Role] = {"CAWN_READ_TOKEN": "read", "CAWN_WRITE_TOKEN": "write"}


class Tokens:
    """The tokens a server accepts; with none of them, every request is allowed."""

    def __init__(self, roles: Mapping[str, Role] | None = None) -> None:
        self._roles = {token.encode(): role for token, role in (roles or {}).items()}

    @classmethod
    def read(cls, path: Path | None = None, environment: Mapping[str, str] = os.environ) -> Tokens:
        """Tokens of the environment (CAWN_READ_TOKEN, CAWN_WRITE_TOKEN) and of a file of lines `role token`."""
        given = [(role, environment[name], name) for name, role in _VARIABLES.items() if environment.get(name)]
        given += [] if path is None else _in_file(path)
        for _, token, where in given:  # the message never quotes a token
            if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
                raise QueryError(f"{where}: a token has {SHORTEST} or more visible ASCII characters, without spaces")
        return cls({token: role for role, token, _ in given})

    def __bool__(self) -> bool:
        return bool(self._roles)

    @property
    def roles(self) -> list[str]:
        """The roles for which there is a token."""
        return sorted(set(self._roles.values()))

    def check(self, authorization: str | None, needed: Role) -> None:
        """Raise `Problem` unless this Authorization header has a token of the role (401, 403)."""
        if not self._roles:
            return
        scheme, _, token = (authorization or "").partition(" ")
        given = token.strip().encode("latin-1")
        # All tokens are compared, each in constant time.
        found = [role for known, role in self._roles.items() if hmac.compare_digest(known, given)]
        if scheme.lower() != "bearer" or not found:
            what = "the token is not known" if authorization else "there is no token"
            challenge = {"WWW-Authenticate": 'Bearer realm="cawn"'}
            raise Problem("unauthenticated", f"{what}; send the header 'Authorization: Bearer TOKEN'", challenge)
        if needed == "write" and "write" not in found:
            raise Problem("forbidden", "this token may only read; use one with the role write")


def check_host(host: str | None) -> None:
    """Refuse other host names: without tokens, a foreign web page could read answers if its own name resolved to this
    machine (DNS rebinding)."""
    name = (host or "localhost").lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    try:
        if name != "localhost":
            ip_address(name)
    except ValueError:
        raise Problem("forbidden", "without tokens, use the server's IP address or localhost as its name") from None


def _in_file(path: Path) -> list[tuple[Role, str, str]]:
    """The role, the token and the place of each line of a file."""
    try:
        lines = read_file(path).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise QueryError(f"{path}: is not a text file; write one 'role token' in each line") from error
    found = list[tuple[Role, str, str]]()
    for number, line in enumerate(lines, start=1):
        match line.split():
            case ["read" | "write" as role, token]:
                found.append((role, token, f"{path}, line {number}"))
            case [first, *_] if not first.startswith("#"):
                raise QueryError(f"{path}, line {number}: write 'read TOKEN' or 'write TOKEN'")
    if not found:
        raise QueryError(f"{path}: has no tokens; write one 'role token' in each line")
    return found
