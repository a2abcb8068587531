import json
import os
from pathlib import Path

import pytest
import torch

from cawn.serve.server import Server
from command_line import assert_refused, call_cawn


@pytest.fixture
def ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that stop as soon as they are ready."""

    def run(server: Server, announce) -> None:
        with server._socket:
            server._service.start()
            announce()
            server._service.stop()

    monkeypatch.setattr(Server, "run", run)
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    monkeypatch.setitem(os.environ, "CAWN_READ_TOKEN", "")
    monkeypatch.setitem(os.environ, "CAWN_WRITE_TOKEN", "")


@pytest.mark.usefixtures("ended_at_once")
def test_the_start_line(run: Path, tmp_path: Path) -> None:
    options = ("--port", 0, "--device", "cpu", "--threads", 1)
    done = call_cawn("serve", run, *options)
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("http://127.0.0.1:")
    assert done.err.endswith(f" serves {run}: 400 links; tokens: none, for this machine only\n")
    tokens = tmp_path / "tokens"
    tokens.write_text("read some-token\nwrite other-token\n")
    done = call_cawn("serve", run, *options, "--host", "0.0.0.0", "--token-file", tokens, "--json")
    found = json.loads(done.out)
    assert found.pop("address").startswith("http://0.0.0.0:")
    assert found == {"run": str(run), "links": 400, "roles": ["read", "write"]}
    done = call_cawn("serve", run, *options, "--quiet", CAWN_WRITE_TOKEN="some-token")
    assert (done.code, done.out, done.err) == (0, "", "")


@pytest.mark.usefixtures("ended_at_once")
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--host", "0.0.0.0"), "other machines can reach this address; give tokens"),
        (("--host", "::"), "give tokens"),
        (("--late", "drop"), "--late is 'drop': give one of insert, refuse"),
        (("--token-file", "no-such-file"), "no-such-file"),
        (("--source", "ftp://x"), "--source: ftp"),
        (("--port", 70_000), "--port"),
        (("--threads", 0), "threads is 0"),
        (("--batch-wait-ms", -1), "--batch-wait-ms"),
        (("--max-ahead", -1), "--max-ahead"),
        (("--retain", "5 apples"), "--retain is '5 apples': give an age"),
        (("--weights", 3), "has no weights with the number 3"),
    ],
)
def test_bad_options(run: Path, options: tuple[object, ...], reason: str) -> None:
    assert_refused(
        call_cawn("serve", run, "--device", "cpu", *(options if "--port" in options else (*options, "--port", 0))),
        reason,
    )


def test_a_folder_that_is_not_a_run(tmp_path: Path) -> None:
    assert_refused(call_cawn("serve", tmp_path), "run")


def test_what_is_missing_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert_refused(call_cawn("serve", run), 'cawn serve needs starlette: pip install "cawn[serve]"')
