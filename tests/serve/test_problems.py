import logging

import pytest

import cawn
from cawn.errors import DeviceError, StorageError
from cawn.serve.problems import KINDS, Problem, of_error
from cawn.serve.writer import LateLinks, QueueFull


def test_kinds_have_statuses_of_their_own() -> None:
    assert len({status for status, _ in KINDS.values()}) == len(KINDS)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (QueueFull("full"), 429),
        (LateLinks("late"), 409),
        (cawn.DataError("bad"), 422),
        (cawn.QueryError("bad"), 422),
        (Problem("not-found", "two\nlines"), 404),
    ],
)
def test_errors_of_the_client(error: Exception, status: int) -> None:
    problem = of_error(error)
    assert problem.status == problem.response().status_code == status
    assert problem.detail == " ".join(str(error).split())
    assert ("Retry-After" in problem.headers) == (status == 429)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (StorageError("/secret/path: disk full"), 503),
        (DeviceError("/secret/path"), 503),
        (ZeroDivisionError("/secret/path"), 500),
        (OSError(2, "no such file", "/secret/path"), 500),
    ],
)
def test_errors_of_the_server_are_logged_and_not_shown(error: Exception, status: int, caplog) -> None:
    with caplog.at_level(logging.ERROR):
        problem = of_error(error)
    assert problem.status == status
    assert b"secret" not in problem.response().body
    assert b"acknowledged" not in problem.response().body  # H12: what was stored is not known
    reference = problem.detail.split()[-1]
    assert reference in caplog.text
    assert "secret" in caplog.text
    assert ("\n" in caplog.text.strip()) == (status == 500)  # a full disk must not fill the log with tracebacks


def test_running_out_of_memory_is_not_the_fault_of_the_client(caplog) -> None:
    error = cawn.QueryError("out of memory while answering; lower batch_size")
    error.__cause__ = MemoryError()
    assert of_error(error).status == 503
