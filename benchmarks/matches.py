"""The benchmark of matches: sizes in, tables out; every case is a process of its own.

Rivals run with the Python that CEPHEID_RIVALS names, an environment that has polars and duckdb;
Flink CEP with the jars in the folder that CEPHEID_FLINK names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks import flink_cep
from benchmarks.match_cases import FALLING_EVENTS, QUERIES
from benchmarks.match_rivals import RIVALS
from benchmarks.measure import ROOT
from rich.table import Table

RIVALS_VARIABLE = "CEPHEID_RIVALS"
LIMIT_S = 300
FLINK_LIMIT_S = 120
SIZES = (10, 15, 20, 25, 30)
WIDE_SIZES = (20, 40, 60, 80)
METHODS = {"ours": "Cepheid", "partial": "partial matches (SASE)", "flink": "Flink CEP"}

PARTS = {
    "Query 1 of RCEP, 20,000 events, windows of so many events of a key": [
        ("v-shape", method, size) for size in SIZES for method in METHODS
    ],
    "Big after small, 20,000 events": [
        ("big-after-small", method, size) for size in WIDE_SIZES for method in METHODS
    ],
    "First matches of 2^n - 1": [("first", "ours", size) for size in (40, 1_000, 10_000)],
    "Contiguous falling runs, 100 keys": [
        ("falling", method, FALLING_EVENTS)
        for method in ("ours", "ours-trend", "polars", "polars-ends", "duckdb")
    ],
    "Contiguous falling runs on Spark, from Parquet": [
        ("falling", method, FALLING_EVENTS) for method in ("spark", "spark-windows")
    ],
}


class Growth(NamedTuple):
    """What a method takes for windows of some size."""

    query: str
    method: str
    size: int
    cpu_s: float
    peak_mb: float


def run(*, shrink: int, tell: Callable[[str], None]) -> tuple[list[Table], list[Growth]]:
    """Measure all cases; return one table a part, and what grows with the window."""
    tables: list[Table] = []
    grown: list[Growth] = []
    hopeless: set[tuple[str, str]] = set()
    for title, cases in PARTS.items():
        table = Table(title=title, title_justify="left")
        for name in ("method", "size", "matches", "cpu s", "seconds", "peak MB", "more"):
            table.add_column(name, justify="left" if name == "method" else "right")
        for query, method, size in cases:
            tell(f"{title}: {method} {size:,}")
            wanted = size // shrink if query == "falling" else size
            if (query, method) in hopeless:
                continue
            found = _measure(query, method, wanted)
            table.add_row(method, f"{wanted:,}", *_texts(found))
            if "failed" in found or not found["ok"]:
                # Wider windows have more matches still.
                hopeless.add((query, method))
            elif method in METHODS and query in QUERIES:
                grown.append(Growth(query, method, size, found["cpu_s"], found["peak_mb"]))
        tables.append(table)
    return tables, grown


def _texts(found: dict[str, Any]) -> list[str]:
    if "failed" in found:
        return ["-", "-", "-", "-", found["failed"]]
    more = {k: v for k, v in found.items() if k in ("partial", "first_s", "grown_mb")}
    words = [f"{name} {value:.3g}" for name, value in more.items()]
    words += [] if found["ok"] else ["out of room"]
    return [
        f"{found['matches']:,}", f"{found['cpu_s']:.2f}", f"{found['seconds']:.2f}",
        f"{found['peak_mb']:.0f}", ", ".join(words),
    ]  # fmt: skip


def _measure(query: str, method: str, size: int) -> dict[str, Any]:
    if method == "flink":
        return flink_cep.measure(query, size, FLINK_LIMIT_S)
    is_ours = method not in RIVALS
    python = sys.executable if is_ours else os.environ.get(RIVALS_VARIABLE, "")
    if not python:
        return {"failed": f"{RIVALS_VARIABLE} names no Python"}
    rounds = "5" if query == "falling" else "1"
    command = [python, "-m", "benchmarks.match_cases", query, method, str(size), rounds]
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
