"""The page in a real browser, against a stand-in for the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from serve.fake_server import FakeServer


@pytest.fixture(scope="module")
def server():
    with FakeServer().running() as running:
        yield running


@pytest.fixture(autouse=True)
def _fresh(server: FakeServer):
    server.reset()


class Page:
    """The page in a browser, and what the tests ask of it."""

    def __init__(self, browser: Any, server: FakeServer) -> None:
        self.browser, self.server = browser, server

    def open(self, fragment: str = "", until: str = "body[data-state=live] #newest-table tbody") -> Page:
        self.browser.get("about:blank")
        self.browser.get(self.server.address + fragment)
        self.wait(lambda: self.all(until))
        return self

    def all(self, selector: str) -> list[Any]:
        return self.browser.find_elements("css selector", selector)

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def wait(self, condition: Callable[[], Any]) -> Any:
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.browser, 60, poll_frequency=0.05).until(lambda _: condition())

    def poll(self) -> None:
        """Ask the server now, as when the tab is shown again."""
        self.run("document.dispatchEvent(new Event('visibilitychange'))")

    def errors(self) -> list[str]:
        return [
            entry["message"] for entry in self.browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")
        ]


@pytest.fixture
def shown(browser, server: FakeServer):
    opened = Page(browser, server)
    opened.errors()
    yield opened
    browser.get("about:blank")


def test_files_and_headers(server: FakeServer) -> None:
    client = httpx.Client(base_url=server.address)
    answer = client.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "'unsafe" not in answer.headers["content-security-policy"]
    again = client.get("/", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/page/main.js").headers["content-type"].startswith("text/javascript")
    assert client.get("/page/__init__.py").status_code == 404
    assert client.head("/").status_code == 200
    client.close()


def test_nothing_is_loaded_from_elsewhere(shown: Page) -> None:
    shown.open()
    assert shown.errors() == []
    loaded = shown.run("return performance.getEntriesByType('resource').map(e => e.name)")
    assert loaded
    assert [address for address in loaded if not address.startswith(shown.server.address)] == []


def test_figures(shown: Page) -> None:
    shown.open()
    assert shown.text("#rate") == "812"
    assert (shown.text("#latency"), shown.text("#latency-more")) == ("4.1 ms", "p99 21.2 ms")
    assert (shown.text("#queue"), shown.text("#queue-more")) == ("3", "of 1,024")
    assert shown.text("#watermark") == "2023-11-14 23:13:20"
    assert (shown.text("#history"), shown.text("#history-more")) == ("version 12", "59,835 links, 1,899 nodes")
    assert (shown.text("#model"), shown.text("#model-more")) == ("cawn", "version 3 · 9f3c2a71")
