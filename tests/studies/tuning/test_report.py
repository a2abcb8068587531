"""The report of a study."""

import csv
import re
from dataclasses import replace

from cawn.studies.tuning.outcome import Tuned
from cawn.studies.tuning.report import summary, to_html, to_markdown, trials_csv
from small_study import TRIALS


def test_all_files_are_there(tuned: Tuned) -> None:
    names = {path.name for path in tuned.folder.iterdir()}
    assert {"trials.csv", "report.md", "report.html", "report-history.svg", "report-parameters.svg"} < names


def test_a_row_for_each_trial(tuned: Tuned) -> None:
    rows = list(csv.DictReader(trials_csv(tuned).splitlines()))
    assert [row["trial"] for row in rows] == [str(number) for number in range(TRIALS)]
    best = rows[tuned.best.number]
    assert float(best["ap"]) == tuned.best.value
    assert float(best["ap of seed 1"]) == tuned.best.seeds[1]["value"]
    assert float(best["lr"]) == tuned.best.parameters["lr"]
    assert rows[0]["hidden"] == "8"


def test_what_the_report_says(tuned: Tuned) -> None:
    text = to_markdown(tuned)
    assert "Validation links were used to choose the settings. Test links were used only at the end" in text
    assert f"| all links, random negatives | AP | {tuned.test[0]['default']}" in text
    assert re.search(r"gain over the preset is \+\d+\.\d\d ± \d+\.\d\d points", text)
    assert "![Trials](report-history.svg)" in text
    assert "| `lr` |" in text
    assert text == (tuned.folder / "report.md").read_text()


def test_the_page_stands_alone(tuned: Tuned) -> None:
    page = (tuned.folder / "report.html").read_text()
    assert page.count("<svg") == 2
    assert "**" not in page
    assert "<strong>best</strong>" in page
    assert not re.search(r"(src|href)=[\"']?(http|/)", page.replace("xlink:href", ""))


def test_in_a_few_lines(tuned: Tuned) -> None:
    lines = summary(tuned)
    assert lines[0].startswith(
        f"best: trial {tuned.best.number} of {TRIALS}, validation AP {100 * tuned.best.value:.2f} (pre"
    )
    assert len(lines) == 5


def test_hostile_names_are_escaped(tuned: Tuned, monkeypatch) -> None:
    monkeypatch.setattr("cawn.studies.tuning.report.plots", lambda *_, **__: {})
    trial = replace(tuned.trials[-1], reason="<script>alert(1)</script>")
    page = to_html(replace(tuned, trials=[*tuned.trials[:-1], trial]))
    assert "<script" not in page
