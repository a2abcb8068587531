"""The documentation names what exists: public names, pages, files."""

import ast
import importlib.util
import re
from importlib import import_module
from pathlib import Path

import pytest
import typer

import cawn
from cawn import systems
from cawn.cli import app
from cawn.paper import EXPERIMENTS
from cawn.serve.app import create_app
from cawn.serve.bodies import parse
from cawn.serve.service import Service, ServiceSettings
from systems.small_settings import NAMES

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def test_the_api_reference_has_every_public_name() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    assert set(re.findall(r"^::: cawn\.(\w+)$", pages, re.MULTILINE)) >= set(cawn.__all__)


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(page.relative_to(ROOT / "docs").as_posix() for page in PAGES)


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_names_in_examples_exist(page: Path) -> None:
    """Every `cawn.a.b` in Python code and in the text."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        ast.parse(block)
    for path in set(re.findall(r"(?<![\w/])cawn((?:\.[A-Za-z_]\w*)+)\b(?!/)", text)):
        found = cawn
        for name in path[1:].split("."):
            found = getattr(found, name, None) or import_module(f"{found.__name__}.{name}")


def test_the_architecture_page_names_files_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:src/cawn|tests|docs|benchmarks|tools)/[\w./-]*)`", page)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_table_of_systems_is_that_of_the_registry() -> None:
    page = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \| [^|]* \| (yes|no) \| (yes|no) \| \[", page, re.MULTILINE)
    found = {name: facts for names, *facts in rows for name in re.findall(r"`([^`]*)`", names)}
    entries = {name: systems.entry(name) for name in NAMES}
    words = {True: "yes", False: "no"}
    assert found == {name: [words[entry.new_nodes], words[entry.state]] for name, entry in entries.items()}


def test_the_page_about_the_server_names_what_it_has() -> None:
    """Routes, options and metrics."""
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    paths = {route.path for route in create_app(Service(ServiceSettings(ROOT))).described}
    patterns = [re.sub(r"\{\w+\}", "NAME", path) + r"[`?]" for path in sorted(paths)]
    assert [pattern for pattern in patterns if not re.search(pattern, page)] == []
    commands = list(typer.main.get_command(app).commands.values())
    commands += [each for group in commands for each in getattr(group, "commands", {}).values()]
    options = {option for command in commands for parameter in command.params for option in parameter.opts}
    theirs = {"--stop-timeout", "--constraint"}  # of docker and pip
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", page)) - options - theirs == set()
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "cawn" / "serve").glob("*.py"))
    metrics = {name.removesuffix("_total") for name in re.findall(r"`(cawn_\w+)", page)}
    assert len(metrics) > 20
    assert {name for name in metrics if f'"{name}"' not in source and "prequential" not in name} == set()


def test_requests_in_the_documentation_are_accepted() -> None:
    described = create_app(Service(ServiceSettings(ROOT))).described
    forms = {route.path.removeprefix("/v1/"): route.body for route in described if route.body}
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8").replace("\\\n", "")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    sent = re.findall(r"curl .*?/v1/(\w+) .*?-d '(.*?)'", page + readme)
    assert len(sent) == 6
    for route, cells in re.findall(r"^\| `POST /v1/(\w+)` \| \w+ \| (.*?) \|", page, re.MULTILINE):
        sent += [(route, body) for body in re.findall(r"`(\{.*?\})`", cells)]
    assert len(sent) == 12
    for route, body in sent:
        parse(body.encode(), forms[route])


@pytest.fixture(scope="module")
def results():
    """docs/results.py as a module."""
    spec = importlib.util.spec_from_file_location("results_of_docs", ROOT / "docs" / "results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_of_the_paper_are_those_of_the_results(results, capsys) -> None:
    assert results.main(check=True) == 0, capsys.readouterr().err
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert set(results.MARKED.findall(page)) == {"summary", *EXPERIMENTS}
    assert results.MARKED.findall((ROOT / "README.md").read_text(encoding="utf-8")) == ["compact", "counting"]


def test_a_changed_table_is_noticed(results, tmp_path: Path, capsys, monkeypatch) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "PAGES", (page,))
    monkeypatch.setattr(results, "RESULTS", tmp_path / "none")
    page.write_text("before\n<!-- paper:table2 -->\nold\n<!-- end -->\nafter\n")
    assert results.main(check=True) == 1
    assert "page.md: the tables differ" in capsys.readouterr().err
    assert results.main(check=False) == 0
    assert results.main(check=True) == 0
    assert page.read_text().splitlines()[3] == "Not measured yet: `cawn paper table2`."
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("after\n")
