"""Pages in a real browser: nothing goes wrong, a walk can be chosen, and what is shown is what was computed."""

import json
from pathlib import Path

import pytest

import cawn
from small_explanation import HOSTILE, explain_late_link, hostile_explanation


@pytest.fixture(scope="module")
def opened(browser, law_run, tmp_path_factory):
    """open("link") or open("law") shows a page and returns the browser and what the page was made of."""
    predictor = cawn.LinkPredictor.load(law_run("triadic closure"))
    found = {"link": explain_late_link(predictor), "law": predictor.law(300)}
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


def test_names_are_only_names(browser, tmp_path: Path) -> None:
    page = tmp_path / "hostile.html"
    page.write_text(hostile_explanation().to_html(), encoding="utf-8")
    browser.get(page.as_uri())
    assert browser.get_log("browser") == []
    assert browser.find_elements("css selector", "img") == []
    assert json.loads(text(browser, "#data"))["src"] == HOSTILE
    assert HOSTILE in text(browser, "h1")
