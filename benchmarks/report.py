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
    """One measured figure beside its bar. `sign` says which side of the bar is good."""

    what: str
    measured: float
    bar: float
    sign: str  # ">=" or "<="
    unit: str = "x"
    detail: str = ""

    @property
    def passed(self) -> bool:
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
        verdict = "[green]reached[/]" if row.passed else "[red]missed[/]"
        measured, bar = (f"{value:,.3g} {row.unit}".replace("e+0", "e") for value in (row.measured, row.bar))
        table.add_row(row.what, measured, f"{row.sign} {bar}", verdict, row.detail)
    Console(width=160).print(table)
