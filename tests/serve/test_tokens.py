import pytest

import cawn
from cawn.serve.problems import Problem
from cawn.serve.tokens import Tokens, check_host

READ, WRITE = "read-token-1", "write-token-1"


def status(tokens: Tokens, header: str | None, role: str) -> int:
    try:
        tokens.check(header, role)
    except Problem as problem:
        return problem.status
    return 200


def test_a_challenge_says_how_to_authenticate() -> None:
    with pytest.raises(Problem) as caught:
        Tokens({READ: "read"}).check(None, "read")
    assert caught.value.headers["WWW-Authenticate"].startswith("Bearer")


def test_without_tokens_everything_is_allowed() -> None:
    tokens = Tokens()
    assert not tokens
    assert tokens.roles == []
    assert status(tokens, None, "write") == status(tokens, "Bearer x", "read") == 200


@pytest.mark.parametrize(
    ("header", "read", "write"),
    [
        (None, 401, 401),
        ("", 401, 401),
        ("Bearer", 401, 401),
        ("Bearer wrong", 401, 401),
        ("Bearer \xff\xfe", 401, 401),
        ("Basic read-token-1", 401, 401),
        ("read-token-1", 401, 401),
        ("Bearer read-token-1", 200, 403),
        ("bearer  read-token-1 ", 200, 403),
        ("Bearer write-token-1", 200, 200),
        ("Bearer read-token-", 401, 401),
        ("Bearer read-token-12", 401, 401),
    ],
)
def test_roles(header: str | None, read: int, write: int) -> None:
    tokens = Tokens({READ: "read", WRITE: "write"})
    assert status(tokens, header, "read") == read
    assert status(tokens, header, "write") == write


def test_a_file_and_the_environment(tmp_path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# a comment\n\nread {READ}\n  write\t{WRITE}  \n")
    tokens = Tokens.read(file, {"CAWN_READ_TOKEN": "from-environment"})
    assert tokens.roles == ["read", "write"]
    assert status(tokens, "Bearer from-environment", "read") == status(tokens, f"Bearer {WRITE}", "write") == 200
    assert not Tokens.read(None, {"CAWN_WRITE_TOKEN": ""})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no tokens"),
        (b"# nothing\n", "has no tokens"),
        (b"read\n", "line 1: write 'read TOKEN'"),
        (b"# a\nadmin secret-token\n", "line 2"),
        (b"read two words-here\n", "line 1"),
        (b"read short\n", "8 or more"),
        ("read tökentökentöken\n".encode(), "visible ASCII"),
        (b"\xff\xfe\x00", "is not a text file"),
    ],
)
def test_bad_files(tmp_path, content: bytes, message: str) -> None:
    file = tmp_path / "tokens"
    file.write_bytes(content)
    with pytest.raises(cawn.CawnError, match=message) as caught:
        Tokens.read(file, {})
    assert "secret" not in str(caught.value)


def test_a_bad_token_in_the_environment() -> None:
    with pytest.raises(cawn.CawnError, match="CAWN_READ_TOKEN: a token has 8 or more"):
        Tokens.read(None, {"CAWN_READ_TOKEN": "secret!"})


@pytest.mark.parametrize(
    "host", [None, "localhost", "LocalHost:8000", "127.0.0.1:80", "[::1]:8000", "[::1]", "10.0.0.1"]
)
def test_names_of_this_machine(host: str | None) -> None:
    check_host(host)


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:80", "[evil]", "\xff", "127.0.0.1.x"])
def test_names_of_other_machines(host: str) -> None:
    with pytest.raises(Problem) as caught:
        check_host(host)
    assert caught.value.status == 403
