"""Bearer tokens with a role: `read` allows queries, `write` also allows adding links."""

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
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="cawn"'}


class Tokens:
    """The tokens a server accepts; with none of them, every request is allowed."""

    def __init__(self, roles: Mapping[str, Role] | None = None) -> None:
        self._roles = {token.encode(): role for token, role in (roles or {}).items()}

    @classmethod
    def read(cls, path: Path | None = None, environment: Mapping[str, str] = os.environ) -> Tokens:
        """Tokens of the environment (CAWN_READ_TOKEN, CAWN_WRITE_TOKEN) and of a file of lines `role token`."""
        found: dict[str, Role] = {}
        for variable, role in _VARIABLES.items():
            if environment.get(variable):
                found[_checked(environment[variable], variable)] = role
        if path is not None:
            found |= _in_file(path)
        return cls(found)

    def __bool__(self) -> bool:
        return bool(self._roles)

    @property
    def roles(self) -> list[str]:
        """The roles for which there is a token."""
        return sorted(set(self._roles.values()))

    def role(self, token: bytes) -> Role | None:
        """The role of a token. All tokens are compared, each in constant time."""
        found: Role | None = None
        for known, role in self._roles.items():
            if hmac.compare_digest(known, token):
                found = role
        return found

    def check(self, authorization: bytes | None, needed: Role) -> None:
        """Raise `Problem` unless this Authorization header has a token of the role (401, 403)."""
        if not self._roles:
            return
        scheme, _, token = (authorization or b"").partition(b" ")
        role = self.role(token.strip()) if scheme.lower() == b"bearer" else None
        if role is None:
            what = "the token is not known" if authorization else "there is no token"
            raise Problem("unauthenticated", f"{what}; send the header 'Authorization: Bearer TOKEN'", _CHALLENGE)
        if needed == "write" and role != "write":
            raise Problem("forbidden", "this token may only read; use one with the role write")


def check_host(host: bytes | None) -> None:
    """Refuse other host names: without tokens, a foreign web page could read answers if its own name resolved to this
    machine (DNS rebinding)."""
    name = (host or b"localhost").decode("latin-1").lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    if name == "localhost":
        return
    try:
        ip_address(name)
    except ValueError:
        raise Problem("forbidden", "without tokens, use the server's IP address or localhost as its name") from None


def _in_file(path: Path) -> dict[str, Role]:
    try:
        lines = read_file(path).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise QueryError(f"{path}: is not a text file; write one 'role token' in each line") from error
    found: dict[str, Role] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or words[0] not in ("read", "write"):
            raise QueryError(f"{path}, line {number}: write 'read TOKEN' or 'write TOKEN'")
        found[_checked(words[1], f"{path}, line {number}")] = "read" if words[0] == "read" else "write"
    if not found:
        raise QueryError(f"{path}: has no tokens; write one 'role token' in each line")
    return found


def _checked(token: str, where: str) -> str:
    """A token that can be sent in a header; the message never quotes it."""
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise QueryError(f"{where}: a token has {SHORTEST} or more visible ASCII characters, without spaces")
    return token
