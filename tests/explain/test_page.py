"""Pages in a real browser: nothing goes wrong, a walk can be chosen, and what is shown is what was computed."""

import json
from contextlib import contextmanager
from pathlib import Path

import pytest

import cawn
from cawn.explain.page import DRAWING_WIDTHS
from cawn.explain.pictures import better_timeline
from cawn.explain.time_axis import KINDS
from cawn.explain.views import EarlierLink, Walk, signed
from small_explanation import (
    HOSTILE,
    LONG,
    RIGHT_TO_LEFT,
    explain_late_link,
    hostile_explanation,
    small_explanation,
    small_law,
)


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
    view = why.view()
    assert json.loads(text(browser, "#data")) == json.loads(json.dumps(why.to_dict()))
    assert (text(browser, "#probability"), text(browser, "#error")) == (f"{why.probability:.3f}", f"{why.error:.4f}")
    assert (text(browser, "#logit"), text(browser, "#part-base")) == (signed(why.logit), signed(why.base))
    walks = [e.get_attribute("textContent") for e in browser.find_elements("css selector", "details .path + .number")]
    assert walks == [signed(walk.contribution) for walk in view.walks]
    path = browser.find_element("css selector", "details .path")
    assert path.text == "1. " + " → ".join(map(str, why.raised[0].nodes))
    assert text(browser, "details summary small").startswith(view.title(why.raised[0]))


def test_the_parts_of_the_page_are_in_order(opened) -> None:
    browser, _ = opened("link")
    tops = browser.execute_script(
        "return ['#answer', '#probability', '#parts', '#notes', 'details', '#drawing', '#what-if', '#shapes']"
        ".map(s => document.querySelector(s).getBoundingClientRect().top)"
    )
    assert tops == sorted(tops)


def test_a_walk_can_be_selected(opened) -> None:
    browser, why = opened("link")
    drawing = browser.find_element("id", "drawing")
    assert "dimmed" not in drawing.get_attribute("class")
    browser.find_element("css selector", "details[data-walk='0'] summary").click()
    browser.implicitly_wait(2)
    lit = browser.find_elements("css selector", "#drawing .linear.wide line.on")
    assert len(lit) == len({step.event for step in why.raised[0].links})
    assert "dimmed" in drawing.get_attribute("class")
    for part in browser.find_elements("css selector", "#drawing [data-walks]"):
        is_of_walk = "0" in part.get_attribute("data-walks").split()
        assert ("on" in (part.get_attribute("class") or "").split()) == is_of_walk
    link = why.raised[0].links[0]
    assert f"{link.src} → {link.dst} {link.time}" in browser.find_element("css selector", "details[open] ol").text
    browser.find_element("css selector", "details[data-walk='0'] summary").click()
    assert (
        browser.execute_script(
            "return new Promise(done => setTimeout(() => done(document.querySelector('#drawing').className), 200))"
        )
        == ""
    )


def test_the_time_axis_can_be_switched(opened) -> None:
    """One drawing is shown at a time, at first the one on which the links are spread best; no script is needed."""
    browser, why = opened("link")

    def shown() -> list[str]:
        drawings = browser.find_elements("css selector", "#drawing > div")
        return [drawing.get_attribute("class") for drawing in drawings if drawing.is_displayed()]

    for width, size in ((1280, "wide"), (390, "narrow")):
        browser.get(browser.current_url)
        with phone(browser, width):
            better = better_timeline(why.view(), DRAWING_WIDTHS["wide"]).kind
            assert shown() == [f"{better} {size}"]
            for kind in KINDS:
                browser.find_element("css selector", f"#drawing input[value={kind}]").click()
                assert shown() == [f"{kind} {size}"]
                label = browser.find_element("css selector", f"#drawing .{kind}.{size} svg").get_attribute("aria-label")
                assert f"{kind} scale" in label


def test_the_numbers_of_a_law(opened) -> None:
    browser, law = opened("law")
    view = law.view()
    for line, row in zip(browser.find_elements("css selector", "#parts tbody tr"), view.evidence, strict=True):
        cells = line.find_elements("css selector", "td")
        evidence = f"{signed(row.value)} ({row.interval})"
        assert [cell.text for cell in cells] == [row.title, evidence, row.share, f"{row.ap} ({row.drop})"]
        assert ("strong" in cells[1].get_attribute("class")) == row.significant
    means = [e.get_attribute("textContent") for e in browser.find_elements("css selector", "#means td")]
    expected = ["{} ({})".format(*mean) if mean else "–" for mean in view.evidence[0].means]
    assert [" ".join(cell.split()) for cell in means[1:5]] == expected
    for name, rows in (("shapes", law.shapes), ("orders", law.orders)):
        lines = browser.find_elements("css selector", f"#{name} tr")[1:]
        shown = [row for i, row in enumerate(rows) if row.significant or i < 8 or i >= len(rows) - 4]
        for line, row in zip(lines, shown, strict=True):
            cells = [cell.text for cell in line.find_elements("css selector", "td")]
            assert cells[0].splitlines()[0] == row.shape
            assert cells[1:4] == [signed(row.score), f"{row.with_true:.3f}", f"{row.with_false:.3f}"]


@contextmanager
def phone(browser, width: int = 390, scheme: str = "light"):
    """A screen of this width."""
    size = {"width": width, "height": 740, "deviceScaleFactor": 2, "mobile": width < 500}
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


STICKING_OUT = """
return [...document.querySelectorAll('body *:not(script):not(title)')].filter(e => {
  const box = e.getBoundingClientRect();
  return box.width > 1 && (box.left < 0 || box.right > arguments[0] + 0.5);
}).map(e => e.tagName + ': ' + e.textContent.slice(0, 60));
"""


@pytest.mark.parametrize("name", ["link", "law"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readable_on_a_phone(opened, name: str, scheme: str) -> None:
    """Nothing sticks out to the side, letters are large enough, and ink differs from paper in either scheme."""
    browser, _ = opened(name)
    with phone(browser, 375, scheme):
        browser.execute_script("for (const e of document.querySelectorAll('details')) e.open = true")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 375
        assert browser.execute_script(STICKING_OUT, 375) == []
        if name == "link":
            size = browser.execute_script(
                "return Math.min(...[...document.querySelectorAll('#drawing text')]"
                ".filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().height))"
            )
            assert size >= 9
        colours = browser.execute_script(
            "const s = getComputedStyle(document.body);"
            "return [s.color, s.backgroundColor].map(c => c.match(/\\d+/g).slice(0, 3).map(Number))"
        )
    ink, paper = (_luminance(colour) for colour in colours)
    assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) > 7  # the contrast that WCAG asks for at best
    assert (paper > ink) == (scheme == "light")


OVERPRINTED = """
const drawing = [...document.querySelectorAll('#drawing svg')].find(e => e.checkVisibility());
const boxes = [...drawing.querySelectorAll('text, line[stroke-dasharray]')].map(e => [e, e.getBoundingClientRect()]);
const before = (a, b) => a.left >= b.right - 1 || a.top >= b.bottom - 3;
const overlap = ([, a], [, b]) => !before(a, b) && !before(b, a);
const found = [];
boxes.forEach((a, i) => boxes.slice(0, i).forEach(b => {
  if (overlap(a, b)) found.push([a, b].map(([e]) => e.textContent || 'the link in question'));
}));
return found;
"""


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_the_drawing_cover_nothing(opened, width: int, kind: str) -> None:
    browser, _ = opened("link")
    with phone(browser, width):
        browser.find_element("css selector", f"#drawing input[value={kind}]").click()
        assert browser.execute_script(OVERPRINTED) == []


def test_long_names_wrap_at_words(browser, tmp_path: Path) -> None:
    """No title is broken into single letters, and nothing sticks out, whatever the names are."""
    name = "a rather long name of a node, as they are in some networks"
    links = [EarlierLink(name, LONG, 5, 0, "2016-01-07T15:55:49.281950"), EarlierLink(RIGHT_TO_LEFT, LONG, 4, 1, "4")]
    walks = [
        Walk("src", 3, 1.5, "(0,1) → (1,0)", [name, LONG, RIGHT_TO_LEFT], links, "source → common node", "repeated"),
        Walk("src", 3, 0.5, "(0,1) → (1,0)", [name, name], links[:1], "source → common node", "repeated"),
    ]
    page = tmp_path / "long.html"
    page.write_text(small_explanation(walks, src=name, dst=LONG).to_html(), encoding="utf-8")
    browser.get(page.as_uri())
    with phone(browser):
        assert browser.execute_script(STICKING_OUT, 390) == []
        assert browser.execute_script(OVERPRINTED) == []
        heights = browser.execute_script(
            "return [...document.querySelectorAll('summary')].map(e => e.getBoundingClientRect().height)"
        )
        assert max(heights) < 300
        path = "const p = document.querySelectorAll('.path')[1]; const r = document.createRange();"
        lines = browser.execute_script(
            path + "r.selectNodeContents(p); return new Set([...r.getClientRects()].map(b => Math.round(b.top))).size"
        )
        assert lines <= 6


def test_in_a_notebook(browser, tmp_path: Path) -> None:
    """The page is in a frame of its own: it works, and neither changes how the other looks."""
    for i, report in enumerate((hostile_explanation(), small_law())):
        cell = report._repr_html_()
        assert cell.startswith("<iframe ")
        assert cell.count("<") == 2  # the page is escaped
        notebook = tmp_path / f"{i}.html"
        notebook.write_text(f"<!DOCTYPE html><meta charset=utf-8><h1>Notebook</h1><p>text</p>{cell}", encoding="utf-8")
        browser.get(notebook.as_uri())
        assert browser.find_elements("css selector", "style") == []
        font = "return getComputedStyle(document.querySelector('h1')).fontSize"
        assert browser.execute_script(font) == "32px"  # that of the browser
        frame = browser.find_element("css selector", "iframe")
        assert frame.size["height"] >= 400
        browser.switch_to.frame(frame)
        answer = report.answer if i == 0 else report.in_words[0]
        assert text(browser, "#answer") == answer
        assert browser.find_elements("css selector", "img") == []
        if i == 0:
            browser.find_element("css selector", "details summary").click()
            browser.implicitly_wait(10)  # for the event
            browser.find_element("css selector", "#drawing.dimmed")
            browser.implicitly_wait(0)
            browser.find_element("css selector", "details a").click()
            assert browser.execute_script("return document.querySelector('#drawing').getBoundingClientRect().top") < 500
        browser.switch_to.default_content()
        assert [entry for entry in browser.get_log("browser") if "favicon" not in entry["message"]] == []


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
    with phone(browser):
        browser.execute_script("for (const e of document.querySelectorAll('details')) e.open = true")
        assert browser.execute_script(STICKING_OUT, 390) == []
        assert browser.execute_script(OVERPRINTED) == []
