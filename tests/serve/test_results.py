"""Results of other threads are awaited on the event loop."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from cawn.serve.results import PendingResults


def test_every_result_arrives_once_whenever_it_is_there() -> None:
    results = PendingResults()

    async def ask(pool: ThreadPoolExecutor) -> list[int]:
        done: Future[int] = Future()
        done.set_result(-1)
        return await asyncio.gather(results(done), *(results(pool.submit(int, i)) for i in range(500)))

    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):  # each with an event loop of its own
            assert asyncio.run(ask(pool)) == list(range(-1, 500))


def test_errors_and_cancelled_callers() -> None:
    failed, never, results = Future[int](), Future[int](), PendingResults()
    failed.set_exception(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        asyncio.run(results(failed))
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(results(never), 0.01))
    assert never.cancelled()
