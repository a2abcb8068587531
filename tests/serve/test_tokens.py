import pytest

import cawn
from cawn.serve.problems import Problem
from cawn.serve.tokens import Tokens, check_host

READ, WRITE = "read-token-1", "write-token-1"


def status(tokens: Tokens, header: str | None, role: str) -> int:
    try:
        tokens.check(header, role)
    except Problem as problem:
        return problem.status if ("WWW-Authenticate" in problem.headers) == (problem.status == 401) else 0
    return 200


def test_roles() -> None:
    assert not Tokens()
    assert Tokens().roles == []
    assert status(Tokens(), None, "write") == status(Tokens(), "Bearer x", "read") == 200
    tokens = Tokens({READ: "read", WRITE: "write"})
    wrong = [None, "", READ, "Bearer", *(f"Bearer {token}" for token in ("wrong", "\xff", READ[:-1], f"{READ}2"))]
    for header in (*wrong, f"Basic {READ}"):
        assert status(tokens, header, "read") == status(tokens, header, "write") == 401
    for header, expected in ((f"bearer  {READ} ", 403), (f"Bearer {WRITE}", 200)):
        assert (status(tokens, header, "read"), status(tokens, header, "write")) == (200, expected)


def test_a_file_and_the_environment(tmp_path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# a comment\n\nread {READ}\n  write\t{WRITE}  \n")
    tokens = Tokens.read(file, {"CAWN_READ_TOKEN": "from-environment"})
    assert tokens.roles == ["read", "write"]
    assert status(tokens, "Bearer from-environment", "read") == status(tokens, f"Bearer {WRITE}", "write") == 200
    assert not Tokens.read(None, {"CAWN_WRITE_TOKEN": ""})


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"# nothing\n", "has no tokens"),
        (b"read\n", "line 1: "),
        (b"# a\nadmin secret-token\n", "line 2"),
        (b"read two words-here\n", "line 1"),
        (b"read short\n", "line 1"),
        ("read tökentökentöken\n".encode(), "line 1"),
        (b"\xff\xfe\x00", "is not a text file"),
    ],
)
def test_bad_files(tmp_path, content: bytes, where: str) -> None:
    file = tmp_path / "tokens"
    file.write_bytes(content)
    with pytest.raises(cawn.CawnError, match=where) as caught:
        Tokens.read(file, {})
    assert "secret" not in str(caught.value)
    with pytest.raises(cawn.CawnError, match="CAWN_READ_TOKEN"):
        Tokens.read(None, {"CAWN_READ_TOKEN": "secret!"})


def test_names_of_this_machine() -> None:
    for host in (None, "localhost", "LocalHost:8000", "127.0.0.1:80", "[::1]:8000", "[::1]", "10.0.0.1"):
        check_host(host)
    for host in ("evil.example", "localhost.evil.example:80", "[evil]", "\xff", "127.0.0.1.x"):
        with pytest.raises(Problem) as caught:
            check_host(host)
        assert caught.value.status == 403
