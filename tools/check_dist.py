"""Installs the wheel in dist/ into an empty environment and runs tools/smoke.py there, outside the source tree.

The environment borrows the dependencies of the Python that runs this, which takes seconds; with `--index` it installs
them from the package index, as a user would.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("Makefile", "constraints.txt", "pyproject.toml", "tests/conftest.py", "tools/smoke.py", "src/cawn/py.typed")


def only(pattern: str) -> Path:
    """The one file of that kind in dist/."""
    found = list((ROOT / "dist").glob(pattern))
    if len(found) != 1:
        sys.exit(f"check-dist: {len(found)} files dist/{pattern}; run `make dist` first")
    return found[0]


def check_contents(wheel: Path, sdist: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = archive.namelist()
    if "cawn/py.typed" not in packed or any(not name.startswith("cawn") for name in packed):
        sys.exit(f"check-dist: {wheel.name} should hold the package, py.typed and nothing else")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    if missing := [name for name in NEEDED if name not in names]:
        sys.exit(f"check-dist: {sdist.name} lacks {', '.join(missing)}")


def check_installed(wheel: Path, folder: Path, *, index: bool) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: str | Path) -> None:
        subprocess.run(command, cwd=folder, env=environment, check=True)

    run(sys.executable, "-m", "venv", folder / "venv")
    base = {"base": str(folder / "venv"), "platbase": str(folder / "venv")}
    python = Path(sysconfig.get_path("scripts", vars=base)) / "python"
    if index:
        run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    else:
        run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel)
        borrowed = Path(sysconfig.get_path("purelib", vars=base)) / "borrowed.pth"
        borrowed.write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    script = folder / "smoke.py"  # a copy, so that nothing beside the original can be imported
    script.write_bytes((ROOT / "tools" / "smoke.py").read_bytes())
    run(python, script)


def main() -> None:
    wheel, sdist = only("*.whl"), only("*.tar.gz")
    check_contents(wheel, sdist)
    with tempfile.TemporaryDirectory(prefix="cawn-check-dist-") as folder:
        check_installed(wheel, Path(folder), index="--index" in sys.argv[1:])


if __name__ == "__main__":
    main()
