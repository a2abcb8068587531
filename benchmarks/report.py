"""Timing, and the table every benchmark prints."""

import gc
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One measured figure beside its bar, if it has one. `sign` says which side of the bar is good."""

    what: str
    measured: float
    bar: float | None
    sign: str = ">="  # or "<="
    unit: str = "x"
    detail: str = ""

    @property
    def passed(self) -> bool:
        if self.bar is None:
            return True
        return self.measured >= self.bar if self.sign == ">=" else self.measured <= self.bar


def best_time(work: Callable[[], object], repeat: int = 5) -> float:
    """The shortest of several runs, in seconds: what the machine can do when nothing disturbs it."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def resident_bytes() -> int:
    """Memory this process holds now."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def processor() -> str:
    with open("/proc/cpuinfo") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def show(title: str, rows: list[Row]) -> None:
    table = Table(title=f"{title}\n{processor()}", title_justify="left")
    for column in ("what", "measured", "bar", "", "detail"):
        table.add_column(column, justify="right" if column in ("measured", "bar") else "left")
    for row in rows:
        verdict = "" if row.bar is None else "[green]reached[/]" if row.passed else "[red]missed[/]"
        bar = "" if row.bar is None else f"{row.sign} {_figure(row.bar)} {row.unit}"
        table.add_row(row.what, f"{_figure(row.measured)} {row.unit}", bar, verdict, row.detail)
    Console(width=160).print(table)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
