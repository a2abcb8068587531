"""What is pinned, and what the files of a release say. `make check-install` asks the package index itself."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import cawn

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = {
    canonicalize_name(pin.name): pin
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
    for pin in [Requirement(line)]
}


def version_of(pin: Requirement) -> str:
    return re.fullmatch(r"==([\w.]+)", str(pin.specifier))[1]


def test_every_direct_dependency_is_pinned() -> None:
    extras = PROJECT["optional-dependencies"].values()
    wanted = [Requirement(text) for text in (*PROJECT["dependencies"], *(text for extra in extras for text in extra))]
    names = {canonicalize_name(one.name) for one in wanted} - {"cawn"}
    assert names - set(PINS) == set()
    for one in wanted:
        if canonicalize_name(one.name) in PINS:
            assert one.specifier.contains(version_of(PINS[canonicalize_name(one.name)]))


@pytest.mark.parametrize("package", ["torch", "numba", "tensorboard", "selenium", "pytest"])
def test_no_pin_contradicts_a_dependency(package: str) -> None:
    """The stock build of torch names one version of triton; a CPU build names none."""
    pinned = version_of(PINS[package])
    try:
        if version(package).partition("+")[0] != pinned:
            pytest.skip(f"needs {package} {pinned}, the version that is pinned")
    except PackageNotFoundError:
        pytest.skip(f"needs {package}")
    for one in map(Requirement, requires(package) or []):
        pin = PINS.get(canonicalize_name(one.name))
        if pin is not None and (one.marker is None or one.marker.evaluate({"extra": ""})):
            assert one.specifier.contains(version_of(pin)), f"{package} asks for {one}, constraints.txt has {pin}"


def test_changes_of_this_version_are_listed() -> None:
    assert f"\n## {cawn.__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_classifiers_name_the_pythons_that_are_checked() -> None:
    tool = (ROOT / "tools" / "check_install.py").read_text(encoding="utf-8")
    checked = re.findall(r'"(3\.\d+)"', re.search(r"PYTHONS = (.*)", tool)[1])
    named = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", text)]
    assert checked == named
    assert PROJECT["requires-python"] == f">={checked[0]}"
