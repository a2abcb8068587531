"""The report as Markdown and HTML: complete, escaped, the same bytes each time, and without plots if need be."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import cawn
from cawn.paper import pages, report
from cawn.paper.experiments import Plot, Section, Table
from cawn.paper.pages import blocks, inline, part_markdown, right_aligned, table_markdown, to_html, write_report
from cawn.paper.provenance import Fact
from cawn.paper.report import Part, Report
from cawn.paper.results import Results
from cawn.paper.tables import Table2
from paper_results import row, trained

HOSTILE = "<script>alert('`*_|')</script>"


def line(figure) -> None:
    figure.subplots().plot([1, 2, 3], label=HOSTILE)


@pytest.fixture
def hostile() -> Report:
    table = Table(["system", HOSTILE], [[HOSTILE, "1.0"]], HOSTILE, HOSTILE)
    section = Section([HOSTILE, f"- {HOSTILE}"], [table], [Plot(HOSTILE, line)])
    part = Part(Table2, section, [Fact("Commands", [HOSTILE])], {HOSTILE: HOSTILE})
    return Report(section, [part], {HOSTILE: HOSTILE})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    results = Results(tmp_path)
    for label, ap in (("CAW-N-mean", 0.95), ("TGN", 0.9)):
        results.add(trained(label, row(ap), row(ap - 0.1, negatives="historical")), {"digest": "d" * 64, "links": 900})
    return tmp_path


class Elements(HTMLParser):
    """Counts elements, and collects what a page would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.loaded: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.names.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href", "xlink:href") and value[0] != "#"]


def test_files(folder: Path) -> None:
    found, files = write_report(folder)
    assert [path.name for path in files] == ["report.html", "report.md", "report-negatives.svg"]
    text = (folder / "report.md").read_text()
    assert "| CAW-N-mean |" in text
    assert "](report-negatives.svg)" in text
    assert "- Networks: UCI: 900 links, digest `dddddddddddd`" in text
    assert "- grid: `cawn paper grid -o" in text
    assert len(found.parts) == 3


def test_without_cells_of_the_paper_the_summary_says_so(tmp_path: Path) -> None:
    Results(tmp_path).add(trained("TGN", row(0.9)), {})
    for path in write_report(tmp_path)[1][:2]:
        assert path.read_text().count(pages.NO_SUMMARY) == 1


def test_repeated_reports_are_the_same(folder: Path) -> None:
    first = {path: path.read_bytes() for path in write_report(folder)[1]}
    assert {path: path.read_bytes() for path in write_report(folder)[1]} == first


def test_the_page_loads_nothing(folder: Path) -> None:
    write_report(folder)
    page = (folder / "report.html").read_text()
    found = Elements(page)
    assert set(found.loaded) == {"data:,"}
    assert "url(http" not in page
    assert "@import" not in page
    assert "svg" in found.names
    assert found.names.count("script") == 1  # the data
    for name in ("summary", "table2", "table6", "negatives", "missing"):
        assert f'href="#{name}"' in page
        assert re.search(f'<section id="?{name}"?>', page)
    assert len(re.findall(r'\bid="?figure_1', page)) == 0


@pytest.mark.parametrize("width", [390, 1400])
def test_wide_tables_scroll_inside_their_box(browser, folder: Path, width: int) -> None:
    write_report(folder)
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    )
    browser.get((folder / "report.html").as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    inside = "return [...document.querySelectorAll('table, figure svg')].every(e => e.closest('.scroll'))"
    assert browser.execute_script(inside)


def test_everything_is_escaped(hostile: Report) -> None:
    page = to_html(hostile)
    assert "<script>alert" not in page
    assert Elements(page).names.count("script") == 1


def test_without_matplotlib_one_line_says_so(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(report, "can_draw", lambda: False)
    _, files = write_report(folder)
    assert [path.name for path in files] == ["report.html", "report.md"]
    for path in files:
        assert path.read_text().count("they need matplotlib") == 1
    assert "svg)" not in (folder / "report.md").read_text()


def test_folders_without_results_are_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(cawn.QueryError, match="has no results"):
            write_report(folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(cawn.QueryError, match="is not a folder"):
        write_report(tmp_path / "file")
    assert not (tmp_path / "report.html").exists()


def test_tables_in_markdown() -> None:
    table = Table(["a", "|E|", "in words"], [["x", "**1.5**", "1"], ["y", "", r"a \| b"]])
    assert right_aligned(table) == [False, True, False]
    assert right_aligned(Table(["", ""], [["0 → 1", "<br>(-2.5)"], ["0 → 2", "4 %"]])) == [False, True]
    assert table_markdown(table) == (
        "| a | \\|E\\| | in words |\n| --- | ---: | --- |\n| x | **1.5** | 1 |\n| y |  | a \\| b |\n"
    )


def test_facts_with_several_values_are_lists() -> None:
    part = Part(Table2, Section(["text"]), [Fact("Seeds", ["0"]), Fact("Device", ["CPU", "GPU"])], {})
    assert part_markdown(part, []).endswith(
        "### How it was measured\n\n- Seeds: 0\n- Device:\n    - CPU\n    - GPU\n\n"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**1.0**<br>(2.0)", "<strong>1.0</strong><br>(2.0)"),
        ("`a < **b**`", "<code>a &lt; **b**</code>"),
        ("`` a`b ``", "<code>a`b</code>"),
        ("*title* and 2 * 3 * 4", "<em>title</em> and 2 * 3 * 4"),
        (r"\|E\| <i>", "|E| &lt;i&gt;"),
    ],
)
def test_markdown_in_cells(text: str, expected: str) -> None:
    assert str(inline(text)) == expected


def test_paragraphs_and_lists() -> None:
    assert str(blocks(["one", "- a\n- b"])) == "<p>one</p>\n<ul><li>a<li>b</ul>"


def test_the_title_is_that_of_the_markdown(folder: Path) -> None:
    write_report(folder)
    assert (folder / "report.md").read_text().startswith(f"# {pages.TITLE}\n")
