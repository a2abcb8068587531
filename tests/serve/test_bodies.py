"""Bodies that arrive in parts, are too large or too many, or never end."""

import asyncio
import threading
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from cawn.serve import bodies
from cawn.serve.bodies import LARGE, Bodies
from cawn.serve.problems import Problem
from cawn.serve.requests import PAIRS, Pairs

TYPE = (b"content-type", b"application/json")
BODY = b'{"src": 1, "dst": 2}'


class Messages:
    """What a server receives, one message after another; then nothing, forever."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.left, self.waiting = list(messages), asyncio.Event()

    async def __call__(self) -> dict[str, Any]:
        if not self.left:
            self.waiting.set()
            await asyncio.Event().wait()
        return self.left.pop(0)


def part(body: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def request(receive: Messages, *headers: tuple[bytes, bytes]) -> Request:
    return Request({"type": "http", "headers": [TYPE, *headers], "method": "POST", "path": "/"}, receive)


def read(receive: Messages, *headers: tuple[bytes, bytes], most: int = len(BODY)) -> Any:
    return asyncio.run(Bodies(most).read(request(receive, *headers), PAIRS))


def refusal(receive: Messages, *headers: tuple[bytes, bytes]) -> int:
    with pytest.raises(Problem) as caught:
        read(receive, *headers)
    return caught.value.status


def test_a_body_that_is_too_large_is_refused_before_it_has_arrived() -> None:
    endless = Messages(*[part(b"1234567890")] * 5)
    assert refusal(endless) == 413
    assert len(endless.left) == 2  # it was not read on
    assert refusal(Messages(part(BODY + b" ", more=False))) == 413
    for length in (b"21", b"9" * 100):
        untouched = Messages(part(BODY, more=False))
        assert refusal(untouched, (b"content-length", length)) == 413
        assert len(untouched.left) == 1
    for length in (b"20", b"-x"):
        assert read(Messages(part(BODY, more=False)), (b"content-length", length))


def test_parts_are_joined_until_the_client_goes_away_or_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    for parts in ([part(BODY, more=False)], [part(BODY[:5]), part(b""), part(BODY[5:], more=False)]):
        assert read(Messages(*parts)) == Pairs([1], [2], None)
    for parts in ([], [part(b"{")]):
        with pytest.raises(ClientDisconnect):
            read(Messages(*parts, {"type": "http.disconnect"}))
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.01)
    assert refusal(Messages(part(b"{"))) == 408


def test_large_bodies_in_transit_are_limited() -> None:  # H13
    async def run() -> None:
        reader = Bodies(most=4 * LARGE, in_transit=4 * LARGE)
        slow = [Messages(part(b" " * 2 * LARGE)) for _ in range(2)]
        tasks = [asyncio.create_task(reader.read(request(each), PAIRS)) for each in slow]
        await asyncio.gather(*(each.waiting.wait() for each in slow))
        large = [part(b" " * (LARGE + 1)), part(BODY, more=False)]
        with pytest.raises(Problem) as caught:
            await reader.read(request(Messages(*large)), PAIRS)
        assert (caught.value.status, "Retry-After" in caught.value.headers) == (429, True)
        assert await reader.read(request(Messages(part(BODY, more=False))), PAIRS)  # small ones are not refused
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert await reader.read(request(Messages(*large)), PAIRS)

    asyncio.run(run())


def test_large_bodies_are_parsed_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:  # H13
    parsed = []
    monkeypatch.setattr(bodies, "parse", lambda *_: parsed.append(threading.current_thread()))
    for body in (BODY, BODY + b" " * LARGE):
        read(Messages(part(body, more=False)), most=2 * LARGE)
    assert parsed[0] is threading.main_thread()
    assert parsed[1] is not threading.main_thread()
