"""The files in deploy/ fit the command line and the repository."""

import re
import shlex
from configparser import ConfigParser
from pathlib import Path

import pytest
import typer

from cawn.cli import app

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


def parse_serve(arguments: list[str]) -> dict[str, object]:
    """The values of the options of `cawn serve`; fails for those that it does not have."""
    command = typer.main.get_command(app).commands["serve"].commands["run"]
    return command.make_context("serve", arguments).params


@pytest.fixture
def unit() -> ConfigParser:
    found = ConfigParser(interpolation=None, comment_prefixes="#", delimiters="=")
    found.optionxform = str
    found.read_string((DEPLOY / "cawn.service").read_text(encoding="utf-8"))
    return found


@pytest.fixture
def dockerfile() -> list[str]:
    """The instructions, each on one line."""
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_the_unit_starts_the_server_with_its_state_where_it_may_write(unit: ConfigParser) -> None:
    assert unit.sections() == ["Unit", "Service", "Install"]
    service = unit["Service"]
    program, command, *arguments = shlex.split(service["ExecStart"])
    assert (Path(program).name, command) == ("cawn", "serve")
    options = parse_serve(arguments)
    assert options["host"] == "127.0.0.1"
    assert options["state"].is_relative_to(Path("/var/lib") / service["StateDirectory"])
    assert service["Environment"] == f"NUMBA_CACHE_DIR=/var/cache/{service['CacheDirectory']}"


def test_the_image_is_built_from_files_that_exist(dockerfile: list[str]) -> None:
    copied = [line.split()[1:-1] for line in dockerfile if line.startswith("COPY ") and "--from" not in line]
    assert copied
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []
    extras = re.search(r"cawn-\*\.whl\)\[([\w,]+)\]", "\n".join(dockerfile))[1].split(",")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert [extra for extra in extras if not re.search(rf"^{extra} = \[", project, re.MULTILINE)] == []


def test_the_image_serves_as_a_user_with_its_state_in_the_volume(dockerfile: list[str]) -> None:
    instructions = dict(line.split(maxsplit=1) for line in dockerfile)
    assert instructions["USER"] == "cawn"
    assert instructions["ENTRYPOINT"] == '["cawn", "serve"]'
    options = parse_serve(re.findall(r'"([^"]*)"', instructions["CMD"]))
    assert options["state"].is_relative_to(instructions["VOLUME"])
    assert str(options["port"]) == instructions["EXPOSE"]
    assert f":{options['port']}/readyz" in instructions["HEALTHCHECK"]
