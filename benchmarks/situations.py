"""The benchmark of situations: sizes in, tables out; every case is a process of its own.

DuckDB runs with the Python that CEPHEID_RIVALS names; CEPHEID_DATA names the folder of Linear Road.
Figures are processor time, the best of three rounds, because a busy machine changes all others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.measure import ROOT
from benchmarks.situation_data import DATA_VARIABLE
from rich.table import Table

RIVALS_VARIABLE = "CEPHEID_RIVALS"
LIMIT_S = 300
ROUNDS = 3
SIZES = (1_000_000, 2_000_000, 4_000_000)
WINDOWS = (500, 2_000, 10_000, 30_000, 100_000)
METHODS = ("ours", "iseq", "phases", "points", "duckdb")


class Figure(NamedTuple):
    """What a method took for a size; ``part`` is the table that shows it."""

    part: str
    method: str
    size: int
    cpu_s: float


def run(
    *, shrink: int, only: str | None, tell: Callable[[str], None]
) -> tuple[list[Table], list[Figure]]:
    """Measure all cases, or those of one part, and return tables and the figures of a chart."""
    tables, figures = [], []
    for title, cases in _parts(shrink).items():
        if only is not None and not title.lower().startswith(only):
            continue
        table = Table(title=title, title_justify="left")
        for name in ("method", "size", "matches", "cpu s", "M events/s", "seconds", "peak MB"):
            table.add_column(name, justify="left" if name == "method" else "right")
        for case, method, size in cases:
            tell(f"{title}: {method} {size:,}")
            found = measure("benchmarks.situation_cases", case, method, size, ROUNDS)
            table.add_row(method, f"{size:,}", *_texts(found))
            if "failed" not in found:
                figures.append(Figure(case, method, size, found["cpu_s"]))
        tables.append(table)
    if only in (None, "early", "adapts", "spark"):
        tables += [_facts(part, shrink) for part in ("early", "adapts") if only in (None, part)]
    if only in (None, "spark"):
        tables.append(_spark(shrink))
    return tables, figures


def _parts(shrink: int) -> dict[str, list[tuple[str, str, int]]]:
    parts: dict[str, list[tuple[str, str, int]]] = {}
    if DATA_VARIABLE in os.environ:
        parts["Drivers of Linear Road, meets and overlaps"] = [
            ("road-simple", method, 1_000_000) for method in METHODS
        ]
        parts["Drivers of Linear Road, all relations of the query"] = [
            ("road-full", method, 1_000_000) for method in ("ours", "iseq")
        ]
    parts["Drivers, 1,000 made cars, meets and overlaps"] = [
        ("cars-simple", method, SIZES[0] // shrink) for method in METHODS
    ]
    parts["Drivers, 1,000 made cars, all relations of the query"] = [
        ("cars-full", "ours", size // shrink) for size in SIZES
    ]
    parts["Windows: A starts B before C overlaps D, windows of so many seconds"] = [
        ("disconnected", method, within)
        for within in WINDOWS
        for method in ("ours", "iseq", "duckdb")
    ] + [("disconnected", "phases", WINDOWS[0])]
    return parts


def _texts(found: dict[str, Any]) -> list[str]:
    if "failed" in found:
        return ["-", found["failed"], "-", "-", "-"]
    return [
        f"{found['matches']:,}", f"{found['cpu_s']:.3f}",
        f"{found['events'] / found['cpu_s'] / 1e6:.2f}", f"{found['seconds']:.3f}",
        f"{found['peak_mb']:.0f}",
    ]  # fmt: skip


def _facts(part: str, shrink: int) -> Table:
    found = measure("benchmarks.situation_facts", part, "ours", shrink, 1)
    titles = {"early": "Early: how much sooner than the last end", "adapts": "Adapts to rates"}
    table = Table(title=titles[part], title_justify="left")
    table.add_column("what")
    table.add_column("figure", justify="right")
    for what, figure in found.items():
        table.add_row(what, f"{figure:,.3f}" if isinstance(figure, float) else str(figure))
    return table


def _spark(shrink: int) -> Table:
    """Compare one and two cores on a stream without partitions, from Parquet files."""
    table = Table(title="Spark: a stream without partitions, from files", title_justify="left")
    for name in ("cores", "events", "rows", "seconds"):
        table.add_column(name, justify="right")
    for cores in (1, 2):
        found = measure("benchmarks.situation_facts", f"spark{cores}", "ours", shrink, 1)
        table.add_row(str(cores), *(str(v) for v in found.values()))
    return table


def measure(module: str, case: str, method: str, size: int, rounds: int) -> dict[str, Any]:
    """Return what a case of a module prints."""
    python = os.environ.get(RIVALS_VARIABLE, "") if method == "duckdb" else sys.executable
    if not python:
        return {"failed": f"{RIVALS_VARIABLE} names no Python"}
    command = [python, "-m", module, case, method, str(size), str(rounds)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=True
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {LIMIT_S} s"}
    except subprocess.CalledProcessError as error:
        return {"failed": (error.stderr.strip().splitlines() or ["failed"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
