"""Pages in a real browser: nothing goes wrong, a walk can be chosen, and what is shown is what was computed."""

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

import cawn
from cawn.explain.link import Explanation, Link, Past, Walk

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs chromium and chromedriver")
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def link_of(predictor: cawn.LinkPredictor) -> Explanation:
    events = predictor._events
    return predictor.explain(int(events.src[-30]), int(events.dst[-30]), events.t[-30].item())


@pytest.fixture(scope="module")
def opened(browser, law_run, tmp_path_factory):
    """open("link") or open("law") shows a page and returns the browser and what the page was made of."""
    predictor = cawn.LinkPredictor.load(law_run("triadic closure"))
    found = {"link": link_of(predictor), "law": predictor.law(300)}
    folder = tmp_path_factory.mktemp("pages")

    def open_page(name: str):
        page = folder / f"{name}.html"
        page.write_text(found[name].to_html(), encoding="utf-8")
        browser.get(page.as_uri())
        return browser, found[name]

    return open_page


def text(browser, selector: str) -> str:
    return browser.find_element("css selector", selector).get_attribute("textContent").strip()


@pytest.mark.parametrize("name", ["link", "law"])
def test_no_errors_and_nothing_fetched(opened, name: str) -> None:
    browser, _ = opened(name)
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [address for address in fetched if not address.startswith("data:")] == []


def test_the_numbers_of_a_link(opened) -> None:
    browser, why = opened("link")
    data = json.loads(text(browser, "#data"))
    assert data == json.loads(json.dumps(why.to_dict()))
    assert text(browser, "#probability") == f"{data['probability']:.3f}"
    assert text(browser, "#error") == f"{data['error']:.4f}"
    for name in ("logit", "base", "rates", "rest"):
        assert text(browser, f"#{name}") == f"{data[name]:+.3f}"
    assert text(browser, "#walks") == f"{data['walked']:+.3f}"
    assert sum(data[name] for name in ("base", "rates", "walked", "rest")) == pytest.approx(data["logit"])
    shown = [e.get_attribute("textContent") for e in browser.find_elements("css selector", "details .path + .number")]
    contributions = [walk["contribution"] for walk in data["walks"]]
    expected = [c for c in contributions if c >= 0.0005][:6] + [c for c in contributions if c <= -0.0005][:6]
    assert shown == [f"{c:+.3f}" for c in expected]
    paths = [e.get_attribute("textContent") for e in browser.find_elements("css selector", "details .path")]
    assert paths[0] == "1. " + " → ".join(map(str, why.raised[0].nodes))


def test_a_walk_can_be_selected(opened) -> None:
    browser, why = opened("link")
    drawing = browser.find_element("id", "drawing")
    assert "dimmed" not in drawing.get_attribute("class")
    browser.find_element("css selector", "details[data-walk='0'] summary").click()
    browser.implicitly_wait(2)
    lit = browser.find_elements("css selector", "#drawing line.on")
    assert len(lit) == len({step.event for step in why.raised[0].links})
    assert "dimmed" in drawing.get_attribute("class")
    for part in browser.find_elements("css selector", "#drawing [data-walks]"):
        is_of_walk = "0" in part.get_attribute("data-walks").split()
        assert ("on" in (part.get_attribute("class") or "").split()) == is_of_walk
    link = why.raised[0].links[0]
    assert f"{link.src} → {link.dst}" in browser.find_element("css selector", "details[open] ol").text
    browser.find_element("css selector", "details[data-walk='0'] summary").click()
    assert (
        browser.execute_script(
            "return new Promise(done => setTimeout(() => done(document.querySelector('#drawing').className), 200))"
        )
        == ""
    )


def test_the_numbers_of_a_law(opened) -> None:
    browser, law = opened("law")
    for name, rows in (("shapes", law.shapes), ("orders", law.orders)):
        lines = browser.find_elements("css selector", f"#{name} tr")[1:]
        shown = [row for i, row in enumerate(rows) if row.significant or i < 8 or i >= len(rows) - 4]
        assert len(lines) == len(shown)
        for line, row in zip(lines, shown, strict=True):
            cells = [cell.text for cell in line.find_elements("css selector", "td")]
            assert cells[0].splitlines()[0] == row.shape
            assert cells[1:4] == [f"{row.score:+.3f}", f"{row.with_true:.3f}", f"{row.with_false:.3f}"]


@pytest.mark.parametrize("name", ["link", "law"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readable_on_a_phone(opened, name: str, scheme: str) -> None:
    """Nothing sticks out to the side, letters are large enough, and ink differs from paper in either scheme."""
    browser, _ = opened(name)
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 375, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    )
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 375
    if name == "link":
        size = browser.execute_script(
            "const t = document.querySelector('#drawing text'); return t.getBoundingClientRect().height"
        )
        assert size >= 9
    colours = browser.execute_script(
        "const s = getComputedStyle(document.body);"
        "return [s.color, s.backgroundColor].map(c => c.match(/\\d+/g).slice(0, 3).map(Number))"
    )
    ink, paper = (_luminance(colour) for colour in colours)
    assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) > 7  # the contrast that WCAG asks for at best
    assert (paper > ink) == (scheme == "light")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def _luminance(rgb: list[int]) -> float:
    linear = [c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


PAST = Past(src_links=3, dst_links=2, pair_links=1, pair_last=5)
NASTY = "</script><img src=x onerror=alert(1)> \"q\" & 'x' $a$ é"


def nasty() -> Explanation:
    links = [Link(NASTY, "b", 5, 0), Link("c" * 80, NASTY, 4, 1)]
    walks = [
        Walk("src", 3, 1.5, "(0,1) → (1,0)", [NASTY, "b"], links[:1]),
        Walk("dst", 2, -0.5, "(1,0) → (0,1)", ["b", NASTY, "c" * 80], links),
        Walk("dst", 1, -0.1, "(1,0)", ["b"], []),
    ]
    return Explanation(NASTY, "b", 7, 0.5, 0.01, 8, 0.3, -0.6, None, "additive", walks, 4, PAST)


def test_names_are_only_names(browser, tmp_path: Path) -> None:
    page = tmp_path / "nasty.html"
    page.write_text(nasty().to_html(), encoding="utf-8")
    browser.get(page.as_uri())
    assert browser.get_log("browser") == []
    assert browser.find_elements("css selector", "img") == []
    assert json.loads(text(browser, "#data"))["src"] == NASTY
    assert NASTY in text(browser, "h1")


def test_pictures(law_run, tmp_path: Path) -> None:
    predictor = cawn.LinkPredictor.load(law_run("triadic closure"))
    for i, found in enumerate((link_of(predictor), predictor.law(100), nasty())):
        root = ElementTree.fromstring(found.to_svg())
        assert root.tag.endswith("svg")
        assert "http" not in found.to_svg().replace("http://www.w3.org/2000/svg", "")
        found.to_picture().to_png(tmp_path / f"{i}.png")
        assert (tmp_path / f"{i}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "<title>" in link_of(predictor).to_svg()


def test_nothing_but_a_root() -> None:
    """A link whose walks are all empty on one side is drawn all the same."""
    walks = [Walk("src", 4, 0.5, "(0,∞)", ["a"], [])]
    why = Explanation("a", "b", 7, 0.5, 0.0, 8, 0.3, -0.2, 0.1, "leave-group-out", walks, 4, PAST)
    assert "no link before this time" in why.to_html()
    ElementTree.fromstring(why.to_svg())


def test_links_at_one_time_stand_side_by_side() -> None:
    links = [Link("a", "b", 5, 0), Link("a", "c", 5, 1), Link("b", "c", 5, 2)]
    walks = [Walk("src", 1, 3.0 - i, "(0,1) → (1,0)", [link.src, link.dst], [link]) for i, link in enumerate(links)]
    why = Explanation("a", "b", 7, 0.5, 0.01, 8, 0.3, -0.6, None, "additive", walks, 4, PAST)
    lines = [element for element in why.to_picture().elements if element.find("title") is not None]
    assert len(lines) == len({line.get("x1") for line in lines}) == 3


def test_long_shapes_do_not_run_into_bars() -> None:
    shape = " → ".join(["(10,10)"] * 12)
    walks = [Walk("src", 64, -1.0, shape, ["a", "b"], [Link("a", "b", 5, 0)])]
    drawing = Explanation("a", "b", 7, 0.5, 0.01, 8, 0.3, -0.6, None, "additive", walks, 64, PAST).to_picture()
    (text,) = (element for element in drawing.elements if (element.text or "").startswith(shape))
    bars = [element.attrib for element in drawing.elements if element.tag == "rect"]
    assert float(text.get("x")) + 6 * len(text.text) < min(float(bar["x"]) for bar in bars)
    assert drawing.width > max(float(bar["x"]) + float(bar["width"]) for bar in bars)


@pytest.mark.parametrize("name", ["<!-- a", "a\x01\x1b[31m", "日本", "two\nlines", "bad\ud800"])
def test_any_name_makes_whole_files(name: str, tmp_path: Path) -> None:
    walks = [Walk("src", 1, 1.0, "(0,1) → (1,0)", [name, "b"], [Link(name, "b", 5, 0)])]
    why = Explanation(name, "b", 7, 0.5, 0.01, 8, 0.3, -0.6, None, "additive", walks, 4, PAST)
    ElementTree.fromstring(why.to_svg())
    page = why.to_html()
    held = page.split("id=data>")[1].split("</script>")[0]
    assert json.loads(held)["src"] == name
    why.to_picture().to_png(tmp_path / "why.png")
