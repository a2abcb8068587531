"""A client that calls an application without a network."""

import asyncio
from typing import Any

import httpx


class AsgiClient:
    service: Any = None  # for tests that need it

    def __init__(self, app: Any) -> None:
        self._loop = asyncio.new_event_loop()
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    def __enter__(self) -> "AsgiClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._loop.run_until_complete(self._client.request(method, path, **options))

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)
