"""The page in a real browser, against a stand-in for the service."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from asgi_client import AsgiClient
from cawn.serve.app import create_app
from serve.fake_server import HOSTILE, LARGE, LINKS, LONG, RIGHT_TO_LEFT, START, FakeServer

LIVE = "body[data-state=live]"
LISTED = f"{LIVE} #newest-table tbody"
CHART = "#accuracy-chart svg[role=slider]"


class Page:
    """The page in a browser, and what the tests ask of it."""

    def __init__(self, browser: Any, server: FakeServer) -> None:
        self.browser, self.server = browser, server

    def open(self, fragment: str = "", until: str = LISTED) -> Page:
        self.browser.get("about:blank")
        self.browser.get(self.server.address + fragment)
        self.wait_for(until)
        return self

    def all(self, selector: str) -> list[Any]:
        return self.browser.find_elements("css selector", selector)

    def one(self, selector: str) -> Any:
        return self.browser.find_element("css selector", selector)

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).textContent.trim()", selector)

    def texts(self, selector: str) -> list[str]:
        return self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent.trim())", selector)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def call(self, module: str, function: str, *arguments: Any) -> Any:
        """What a function of one of the page's modules returns."""
        script = "const [module, name, ...rest] = arguments; return import(module).then(found => found[name](...rest))"
        return self.run(script, f"/page/{module}.js", function, *arguments)

    def wait(self, condition: Callable[[], Any]) -> Any:
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.browser, 60, poll_frequency=0.05).until(lambda _: condition())

    def wait_for(self, selector: str) -> Any:
        return self.wait(lambda: self.all(selector))[0]

    def poll(self) -> None:
        """Ask the server now, as when the tab is shown again."""
        self.run("document.dispatchEvent(new Event('visibilitychange'))")

    def errors(self) -> list[str]:
        entries = self.browser.get_log("browser")
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def resize(self, width: int, scheme: str) -> None:
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    def connect(self, online: bool) -> None:
        conditions = {"offline": not online, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.browser.execute_cdp_cmd("Network.enable", {})
        self.browser.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as running:
        yield running


@pytest.fixture
def page(browser: Any, server: FakeServer) -> Iterator[Page]:
    server.reset()
    opened = Page(browser, server)
    opened.errors()
    yield opened
    opened.connect(True)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    if browser.current_url.startswith(server.address):
        browser.execute_script("sessionStorage.clear()")
    browser.get("about:blank")


def test_files_and_headers(server: FakeServer) -> None:
    with httpx.Client(base_url=server.address) as client:
        answer = client.get("/")
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "'unsafe" not in answer.headers["content-security-policy"]
        again = client.get("/", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert client.get("/page/main.js").headers["content-type"].startswith("text/javascript")
        assert client.get("/page/__init__.py").status_code == 404
        assert client.head("/").status_code == 200


def test_the_stand_in_answers_like_the_service(server: FakeServer, served: Any) -> None:
    server.reset()
    service = served(learn=True)
    t = service.predictor.watermark + 1
    links = {"src": ["n1", "n2", "n3"] * 20, "dst": ["n4", "n5", "n6"] * 20, "t": list(range(t, t + 60))}
    with AsgiClient(create_app(service)) as real, AsgiClient(server.app()) as fake:
        assert real.post("/v1/links", json=links).status_code == 200
        assert real.post("/v1/score", json={"src": "n1", "dst": "n2"}).status_code == 200
        service.writer.between(lambda: None)
        service.monitor.process()
        for path, body in {"rank": {"k": 3}, "explain": {"dst": "n4", "t": t}}.items():
            answers = [client.post(f"/v1/{path}", json={"src": "n1"} | body).json() for client in (real, fake)]
            assert unknown_members(*answers) == [], path
        real.get("/v1/status")  # the next answer has its latency, as those of all others
        for path in ("series", "links/recent", "nodes?name=n1", "status"):
            answers = [client.get(f"/v1/{path}").json() for client in (real, fake)]
            assert unknown_members(*answers) == [], path


def unknown_members(real: Any, fake: Any, path: str = "") -> list[str]:
    """Members of one JSON value that another does not have, where both are known."""
    if isinstance(real, dict) and isinstance(fake, dict):
        missing = [f"{path}.{name}" for name in fake if name not in real]
        both = [name for name in fake if name in real]
        return missing + [found for name in both for found in unknown_members(real[name], fake[name], f"{path}.{name}")]
    if isinstance(real, list) and isinstance(fake, list) and real and fake:
        return unknown_members(real[0], fake[0], f"{path}[0]")
    return []


def test_nothing_is_loaded_from_elsewhere(page: Page) -> None:
    page.open()
    loaded = page.run("return performance.getEntriesByType('resource').map(e => e.name)")
    assert loaded
    assert [address for address in loaded if not address.startswith(page.server.address)] == []
    assert page.errors() == []  # above all, none of the Content-Security-Policy


def test_figures(page: Page) -> None:
    page.open()
    tiles = "812", "4.1 ms", "3 links", "2023-11-14 23:13:20", "version 12", "payments"
    more = "p99 21.2 ms", "1 pair to score", "59,835 links, 1,899 nodes", "weights 9f3c2a71d0e4"
    assert (
        tuple(page.text(f"#{name}") for name in ("rate", "latency", "queue", "watermark", "history", "model")) == tiles
    )
    assert tuple(page.text(f"#{name}-more") for name in ("latency", "queue", "history", "model")) == more
    assert page.texts("#latency-table tbody tr:nth-child(2) > *") == ["Score", "4.1 ms", "21.2 ms", "1,000"]
    assert page.texts("#drift-table tbody tr:first-child > *") == ["Never-seen pairs", "28.7 %", "31.4 %", "+2.7 %"]
    rows = [page.texts(f"#accuracy-table tbody tr:nth-child({i}) > *") for i in (1, 2, 3)]
    assert rows == [
        ["Model", "0.620 ± 0.004", "0.280 ± 0.006", "0.019"],
        ["Shadow model", "0.650 ± 0.004", "0.250 ± 0.006", "0.017"],
        ["Recency baseline", "0.480 ± 0.004", "0.420 ± 0.006", "–"],
    ]
    assert page.texts("#accuracy-table .best") == ["0.650 ± 0.004", "0.250 ± 0.006", "0.017"]


def test_times_names_and_large_integers(page: Page) -> None:
    page.open()
    times = [
        (1_700_000_000, "s", "2023-11-14 22:13:20"),
        (1_700_000_000.25, "s", "2023-11-14 22:13:20.25"),
        (-1, "ms", "1969-12-31 23:59:59.999"),
        ("1700000000000000001", "ns", "2023-11-14 22:13:20.000000001"),
        ("2023-11-14T22:13:20", "s", "2023-11-14 22:13:20"),
        (0.1 + 0.2, None, "0.3"),
        (12, None, "12"),
        (1_700_000_000, None, "2023-11-14 22:13:20"),
        (None, "s", "–"),
    ]
    assert [page.call("format", "dataTime", t, unit) for t, unit, _ in times] == [text for *_, text in times]
    assert page.call("format", "printable", "a\u202eb\u200b\nc") == "a\\u{202e}b\\u{200b}\\u{a}c"
    large = '{"a": 9007199254740993, "b": -9007199254740993, "c": 9007199254740991, "d": 1e300, "e": 0.5}'
    found = page.call("api", "parse", large)
    assert found == {"a": "9007199254740993", "b": "-9007199254740993", "c": 2**53 - 1, "d": 1e300, "e": 0.5}


def test_names_are_only_names(page: Page) -> None:
    page.open()
    assert page.texts("#newest-table tr:nth-child(1) bdi") == [HOSTILE, "alice"]
    assert page.text("#newest-table tr:nth-child(3) bdi") == RIGHT_TO_LEFT.replace("\u202e", "\\u{202e}")
    assert page.one("#newest-table tr:nth-child(5) bdi").get_attribute("title") == LONG
    page.click("#newest-table button")
    page.wait_for("#newest-table .explanation")
    page.click("#newest-table a")
    page.wait_for("#node-result table")
    assert len(page.all("img")) == 1  # that of the header
    assert page.errors() == []


def test_explanation_of_a_link(page: Page) -> None:
    page.open()
    page.click("#newest-table tr:nth-child(7) button")  # its source is a large integer
    page.wait_for(".detail .explanation")
    sent = page.server.requests[-1]
    assert sent == ("POST", "/v1/explain", {"src": str(LARGE), "dst": LINKS[6]["dst"], "t": LINKS[6]["t"]})
    assert page.text(".verdict b") == "0.934"
    assert page.text(".answer").startswith(f"A link between {LARGE} and ")
    numbers = ["−1.200", "+1.821", "+1.630", "−0.611", "+0.250", "+0.010", "0.000", "+1.900"]
    assert page.texts(".explanation tbody .number") == numbers  # base, parts, largest first, and their sum
    parts = page.texts(".explanation tbody td:first-child")
    assert parts[1] == "common neighbours13 sampled walks, through bob; +0.240 of it from exact counts"
    small = "walks along a repeated link, longer pathsless than 0.0005 in absolute value"
    assert parts[6:] == [small, "= log-odds before calibration"]
    assert "two strangers: nodes without any links" in page.text(".explanation > .faint")
    assert page.text(".explanation > .faint").endswith("0.31 less together than separately.")
    assert page.text(".walks details p").startswith("common neighbours: a node that both have linked to; 9 of 32 walks")
    assert page.text(".walks li .faint") == "2023-11-14 22:13:20"
    assert page.texts(".walks summary .number") == ["+1.204", "+0.377", "−0.611"]
    row = page.one(".detail").get_property("previousElementSibling")
    assert row.find_elements("css selector", "[aria-expanded=true]")
    page.click(".detail .actions button:nth-child(2)")
    assert page.all(".detail") == []
    assert page.run("return document.activeElement.getAttribute('aria-expanded')") == "false"


def test_streams(page: Page) -> None:
    page.open()
    assert not page.one("#streams").is_displayed()
    stream = {"name": "redis://localhost/0?stream=links", "added": 1_200, "lag": 7, "rejected": 1}
    page.server.status["sources"] = [
        stream | {"connected": True, "last_error": None, "warning": None},
        stream | {"connected": False, "last_error": "the connection was refused", "warning": None},
    ]
    page.poll()
    page.wait(lambda: page.one("#streams").is_displayed())
    assert page.texts("#streams tbody tr:first-child > *") == [stream["name"], "1,200", "7", "1"]
    assert page.texts("#streams .error") == ["the connection was refused"]


def test_an_explanation_that_fails(page: Page) -> None:
    page.server.problems["/v1/explain"] = (422, "neither node has a link before 3: there is nothing to explain")
    page.open()
    page.click("#newest-table button")
    assert page.wait_for(".detail .error").text.endswith("there is nothing to explain")


def test_the_list_holds_still_while_an_explanation_is_open(page: Page) -> None:
    page.open()
    page.click("#newest-table button")
    page.wait_for(".explanation")
    page.server.links = [{"src": "new", "dst": "newer", "t": START, "probability": 0.5}, *LINKS]
    page.server.status["version"] += 1
    page.poll()
    page.wait(lambda: page.text("#newest-note") == "Paused while in use, 1 newer")
    assert page.text("#newest-table bdi") == HOSTILE
    page.click("#newest-table button")
    page.run("document.activeElement.blur()")
    page.wait(lambda: page.text("#newest-table bdi") == "new")
    assert page.text("#newest-note") == ""


@pytest.mark.parametrize("name", [HOSTILE, "carol/ops", RIGHT_TO_LEFT, " ", "a%2Fb+c", ".."])
def test_search_for_a_node(page: Page, name: str) -> None:
    if not page.browser.current_url.startswith(page.server.address):
        page.open()
    page.run("const n = document.querySelector('#name'); n.value = arguments[0]; n.form.requestSubmit()", name)
    page.wait(lambda: page.texts("#node-result .facts dd") == ["41", "2023-11-14 22:13:20", "2023-11-14 23:13:20"])
    asked = {path: given for _, path, given in page.server.requests}
    assert (asked["/v1/nodes"], asked["/v1/rank"]) == ({"name": name}, {"src": name, "k": 10})
    assert len(page.all("#node-result tbody .place")) == 10
    assert page.run("return decodeURIComponent(location.hash)") == f"#node={name}"


def test_choices_of_the_ranking(page: Page) -> None:
    page.open("#node=unknown")
    page.wait_for("#node-result table")
    assert "not in the network" in page.text("#node-result")
    page.run("const c = document.querySelector('#count'); c.value = 50; c.dispatchEvent(new Event('change'))")
    page.wait(lambda: len(page.all("#node-result tbody .place")) == 50)
    page.click("#node-result button")
    page.wait_for("#node-result .explanation")
    assert page.server.requests[-1][2] == {"src": "unknown", "dst": HOSTILE, "t": START + 3601}
    page.server.status["version"] += 1
    page.poll()
    page.wait_for("#node-note button")
    page.server.requests.clear()
    page.click("#node-note button")
    page.wait(lambda: ("POST", "/v1/rank", {"src": "unknown", "k": 50}) in page.server.requests)
    page.run("location.hash = '#node=alice'")
    page.wait(lambda: page.text("#node-result h3") == "alice")


def test_values_of_the_chart(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    page.open(until=f"{CHART} path")
    chart = page.one(CHART)
    assert page.texts(f"{CHART} .label") == ["Shadow", "Model", "Recency"]  # from top to bottom
    page.run("arguments[0].focus({focusVisible: true})", chart)
    chart.send_keys(Keys.HOME, Keys.ARROW_RIGHT)
    note = "after 1,000 links, 2023-11-14 22:14:20"
    assert chart.get_attribute("aria-valuetext").startswith(f"{note}: Model 0.62")
    assert page.texts("#accuracy-chart .legend .item b")[1:] == ["–", "0.481"]
    assert page.text("#accuracy-chart .when") == note
    assert len(page.all("#accuracy-chart .cursor circle")) == 2  # the shadow model had no value yet
    page.run("arguments[0].blur()", chart)
    page.run(
        "const box = arguments[0].getBoundingClientRect();"
        "arguments[0].dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + 5}))",
        chart,
    )
    assert page.text("#accuracy-chart .when") == "after 500 links, 2023-11-14 22:13:20"
    page.click("input[value=ece]")
    assert page.texts(f"{CHART} .label") == ["Model", "Shadow"]  # the baseline has no probabilities
    assert page.text(f"{CHART} text") == "Calibration error, lower is better"


def test_alarm(page: Page) -> None:
    page.open()
    region = page.one("#alarm[role=alert][aria-live=assertive]")
    assert region.text == ""
    accuracy = page.server.status["accuracy"]
    accuracy |= {"alarm": "the recency baseline ranks better", "alarm_since": "2026-01-01T00:00:00+00:00"}
    page.poll()
    page.wait(lambda: region.text.startswith("Alarm since "))
    assert region.text.endswith(": the recency baseline ranks better")
    assert page.browser.title == "Alarm: cawn"


def test_token(page: Page) -> None:
    page.server.token = "secret"
    page.open(until="dialog[open]")
    assert page.text("#state-text") == "Token needed"
    page.one("#token").send_keys("not a token\n")
    assert page.run("return document.querySelector('dialog').open")
    page.run("document.querySelector('#token').value = ''")
    page.one("#token").send_keys("wrong\n")
    page.wait(lambda: "refused" in page.text("#token-reason"))
    page.one("#token").send_keys("secret\n")
    page.wait_for(LISTED)
    stored = "return [localStorage.length, document.cookie, Object.values({...sessionStorage})]"
    assert page.run(stored) == [0, "", ["secret"]]
    assert "secret" not in page.browser.current_url
    page.click("#newest-table button")
    page.wait_for(".explanation")
    page.run("HTMLAnchorElement.prototype.click = function () { window.saved = [this.download, this.href] }")
    page.click(".detail .actions button")
    name, address = page.wait(lambda: page.run("return window.saved"))
    assert name.endswith(" to alice.html")
    assert page.run("return fetch(arguments[0]).then(a => a.text()).catch(() => '')", address) == ""  # not by this page
    page.click("#forget")
    page.wait_for("dialog[open]")
    assert page.run("return sessionStorage.length") == 0


def test_a_server_that_is_not_ready(page: Page) -> None:
    ready = page.server.status
    page.server.status = {"ready": False, "phase": "starting", "loaded": {"links": 120_000, "of": 400_000}}
    page.open(until="[data-state=replaying] progress")
    assert page.text("#state-text") == "Starting, 30 %"
    assert page.text("#notice-more") == "120,000 of 400,000 links"
    assert "loading its history" in page.text("#notice-text[role=status]")
    page.server.status = ready
    page.poll()
    page.wait_for(LISTED)
    assert page.text("#notice") == ""


def test_a_server_without_links(page: Page) -> None:
    page.server.links, page.server.points = [], []
    page.server.status |= {"accuracy": None, "learning": None, "latency": {}, "watermark": None, "links": 0}
    page.open(until=f"{LIVE} #accuracy-chart .empty:not([hidden])")
    page.wait(lambda: page.text("#accuracy-chart .empty").startswith("No figures yet"))
    assert page.text("#newest-table") == "No links have arrived since the server started."
    assert (page.text("#watermark"), page.text("#latency")) == ("–", "–")
    assert page.errors() == []


def test_a_server_that_is_gone(page: Page) -> None:
    page.open()
    page.connect(False)
    page.poll()
    page.wait_for("body[data-state=lost]")
    assert page.text("#notice").startswith("No answer from the server since ")
    assert page.text("#rate") == "812"
    page.server.status["links_per_second"] = 7
    assert page.text("#notice button") == "Try now"
    page.connect(True)
    page.wait_for(LIVE)
    page.wait(lambda: page.text("#rate") == "7")
    assert page.text("#notice") == ""


def test_a_server_that_fails(page: Page) -> None:
    page.open()
    page.server.problems["/v1/status"] = (500, "an error in the server")
    page.poll()
    page.wait_for("body[data-state=lost]")
    assert (page.text("#state-text"), page.text("#notice-text")) == ("Error 500", "an error in the server")


def test_values_that_are_stale(page: Page) -> None:
    page.open()
    page.run("const now = Date.now; Date.now = () => now() + 20000; window.fetch = () => new Promise(() => {})")
    page.wait_for("body[data-state=stale]")
    assert page.text("#updated").startswith("values from ")


def test_no_requests_from_a_hidden_tab(page: Page) -> None:
    page.open(until=f"{CHART} path")
    page.run("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    page.poll()
    page.wait(lambda: requests_in(page, 500) == [])  # what was under way is finished
    assert requests_in(page, 2500) == []  # longer than the interval
    page.run("delete document.hidden")
    page.poll()
    page.wait(lambda: page.server.requests)


def requests_in(page: Page, milliseconds: int) -> list[Any]:
    page.server.requests.clear()
    page.run("return new Promise(done => setTimeout(done, arguments[0]))", milliseconds)
    return list(page.server.requests)


def test_one_part_that_fails(page: Page) -> None:
    """The other parts are shown, and the failure is said."""
    page.server.problems["/v1/links/recent"] = (429, "64 rankings are waiting; try again later")
    page.open(until=f"{CHART} path")
    page.wait(lambda: page.text("#newest-note") == "64 rankings are waiting; try again later")
    assert page.text("#state-text") == "Live"
    page.server.problems.clear()
    page.poll()
    page.wait_for(LISTED)
    assert page.text("#newest-note") == ""


CONTRASTS = """
const luminance = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map(c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
const background = e => {
  for (; e; e = e.parentElement) {
    const colour = numbers(getComputedStyle(e).backgroundColor);
    if (colour.length === 3 || colour[3] > 0) return colour;
  }
};
const found = [];
for (const e of document.querySelectorAll("body *")) {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  if (!own || !e.getClientRects().length) continue;
  const style = getComputedStyle(e);
  const [a, b] = [numbers(e.closest("svg") ? style.fill : style.color), background(e)].map(luminance);
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) found.push([e.tagName, e.className.baseVal ?? e.className, ratio]);
}
return found;
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_readable(page: Page, width: int, scheme: str) -> None:
    """All text differs enough from its background, and nothing sticks out to the side."""
    page.resize(width, scheme)
    page.server.status["accuracy"]["alarm"] = "the recency baseline ranks better " + LONG
    page.server.links = [{"src": LONG, "dst": HOSTILE, "t": START + 0.123456, "probability": 0.5}, *LINKS]
    page.open(f"#node={quote(LONG)}", until=f"{LISTED} button")
    page.click("#newest-table button")
    page.wait_for("#newest-table .explanation")
    page.wait_for("#node-result table")
    page.wait_for(f"{CHART} path")
    assert page.run("return document.documentElement.scrollWidth") <= width
    inside = "return [...document.querySelectorAll('.scroll')].every(box => box.scrollWidth <= box.clientWidth)"
    assert page.run(inside)
    assert page.run(CONTRASTS) == []


FOCUSED = """
const e = document.activeElement;
const shown = e.type === "radio" ? e.nextElementSibling : e;
return [e.getAttribute("role") || e.id || e.value || e.textContent, getComputedStyle(shown).outlineStyle];
"""


def test_keyboard(page: Page) -> None:
    """Everything can be reached by the Tab key, in the order of reading, with a visible focus."""
    from selenium.webdriver.common.keys import Keys

    page.server.links = LINKS[:1]
    page.open(until=f"{CHART} path")
    reached = []
    for _ in range(10):
        page.browser.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(page.run(FOCUSED))
    names = ["mrr", "slider", "slider", HOSTILE, "alice", "Explain", "name", "count", "Show"]
    assert reached == [[name, "solid"] for name in ("Skip to the newest links", *names)]


def test_tables_have_headers(page: Page) -> None:
    page.open("#node=alice")
    page.click("#newest-table button")
    page.wait_for("#newest-table .explanation")
    page.wait_for("#node-result table")
    missing = page.run(
        "return [...document.querySelectorAll('table')].filter(t => !t.caption?.textContent"
        " || [...t.rows].some((row, i) => i === 0 && [...row.cells].some(c => c.scope !== 'col')))"
        ".map(t => t.textContent)"
    )
    assert missing == []
    assert json.loads(page.run("return JSON.stringify([...document.images].map(i => i.alt))")) == [""]
