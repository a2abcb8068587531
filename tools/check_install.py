"""Does what is documented resolve on the stock package index? One resolver run for each supported Python at hand.

pip only resolves, nothing is installed, and local settings that name other sources of packages are ignored. A set of
versions that suits all extras together suits the core and each extra alone, so these are tried one by one only to name
the one that fails.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE, STDOUT

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
REASON_LINES = 15  # pip ends with the conflict it found
SOURCES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_CONSTRAINT")
STOCK = {name: value for name, value in os.environ.items() if name not in SOURCES} | {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=STOCK, cwd=ROOT, stdout=PIPE, stderr=STDOUT, text=True, check=False)


def newest_pip(folder: Path) -> Path | None:
    """An environment with the newest pip, the first that fetches nothing but metadata; None if there is no index."""
    run(sys.executable, "-m", "venv", folder)
    pip = folder / ("Scripts" if os.name == "nt" else "bin") / "pip"
    limits = ("--retries", "1", "--timeout", "30")
    done = run(
        pip.with_name("python"), "-m", "pip", "install", "--quiet", *limits, "--force-reinstall", "--upgrade", "pip"
    )
    return pip if done.returncode == 0 else None


def interpreter(version: str) -> str | None:
    """The path of a Python of that version that runs, on the PATH or made by pyenv; None if there is none."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for python in (f"python{version}", *sorted(pyenv.glob(f"{version}.*/bin/python"))):
        try:
            done = run(python, "-c", "import sys; print(sys.executable)")
        except OSError:
            continue
        if done.returncode == 0:
            return done.stdout.strip()
    return None


def resolve(pip: Path, python: str, extras: list[str]) -> tuple[str, dict[str, str]]:
    """pip's reason why it cannot install these extras ("" if it can), and the versions it would install."""
    wanted = f".[{','.join(extras)}]" if extras else "."
    options = ("--dry-run", "--ignore-installed", "--use-feature=fast-deps", "--constraint", "constraints.txt")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        done = run(pip, "--python", python, "install", *options, "--report", report, wanted)
        if done.returncode:
            return "\n".join(done.stdout.strip().splitlines()[-REASON_LINES:]), {}
        found = [part["metadata"] for part in json.loads(report.read_text(encoding="utf-8"))["install"]]
    return "", {part["name"]: part["version"] for part in found}


def check(pip: Path, version: str, extras: list[str]) -> bool:
    python = interpreter(version)
    if python is None:
        print(f"Python {version}: not on this machine, skipped", flush=True)
        return True
    _, found = resolve(pip, python, extras)
    if found:
        names = ", ".join(f"{name} {found[name]}" for name in ("torch", "triton", "numba", "numpy") if name in found)
        print(f"Python {version}: core, {', '.join(extras)}: resolved ({len(found)} packages; {names})", flush=True)
        return True
    for wanted in ([], *([extra] for extra in extras), extras):
        reason, _ = resolve(pip, python, wanted)
        if reason:
            print(f"Python {version}: {', '.join(wanted) or 'core'} does not resolve\n{reason}", flush=True)
            break
    return False


def main() -> int:
    extras = list(
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    )
    folder = Path(tempfile.mkdtemp(prefix="cawn-check-install-"))
    try:
        pip = newest_pip(folder / "pip")
        if pip is None:
            print("check-install: the package index cannot be reached, so nothing was checked")
            return 0
        with ThreadPoolExecutor(2) as pool:
            return 0 if all(list(pool.map(lambda version: check(pip, version, extras), PYTHONS))) else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
