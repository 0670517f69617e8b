"""The benchmark of Spark batch: sizes in, tables with verdicts out."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.linear import rate_text
from benchmarks.measure import ROOT
from rich.table import Table

LIMIT_S = 900


class Case(NamedTuple):
    """One way to answer one question."""

    what: str
    case: str
    event_count: int
    key_count: int
    cores: int = 2
    rounds: int = 8


def cases(shrink: int) -> dict[str, list[Case]]:
    """Return the cases of each part, over streams that are ``shrink`` times smaller."""
    large, middle, small = 100_000_000 // shrink, 10_000_000 // shrink, 1_000_000 // shrink
    return {
        "a: Parquet to result": [
            Case("one key, no window", "one", large, 1000),
            Case("1,000 keys, no window", "keyed", large, 1000),
            Case("1,000 keys, windows of 10 minutes", "windowed", large, 1000),
            Case("the same, a tenth of the events", "windowed", large // 10, 1000),
        ],
        "b: 1,000 keys, four ways": [
            Case("groupBy.applyInPandas", "apply-in-pandas", middle, 1000, rounds=2),
            Case("key shuffle", "key-shuffle", middle, 1000),
            Case("combine", "combine", middle, 1000),
            Case("scan slices", "keyed", middle, 1000),
        ],
        "c: one stream, one and two cores": [
            # Long runs, or what the JVM does on the other core meanwhile would count.
            Case("local[1]", "one", 3 * large, 1000, cores=1, rounds=4),
            Case("local[2]", "one", 3 * large, 1000, cores=2, rounds=4),
        ],
        "d: SEQ(A, B) in windows of a minute": [
            Case("Spark SQL, self-join", "self-join", small, 10, rounds=1),
            Case("Spark SQL, window function", "window-function", middle, 1000),
            Case("Cepheid, the join's events", "pairs", small, 10),
            Case("Cepheid, scan slices", "pairs", middle, 1000),
        ],
    }


class Rate(NamedTuple):
    """How fast a case of a part is, for a chart."""

    part: str
    what: str
    events_per_second: float


def run(
    *, shrink: int, only: str | None, tell: Callable[[str], None]
) -> tuple[list[Table], list[Rate]]:
    """Measure all cases and return one table a part, and all rates."""
    tables, rates = [], []
    for title, part in cases(shrink).items():
        if only not in (None, title[0]):
            continue
        table = Table(title=title, title_justify="left")
        for name in ("what", "events", "seconds", "cpu s", "events/s", "peak MB", "check"):
            table.add_column(name, justify="left" if name == "what" else "right")
        for case in part:
            tell(f"{title}: {case.what}")
            found = _measure(case)
            rate = case.event_count / found["seconds"]
            if math.isfinite(rate):
                rates.append(Rate(title, case.what, rate))
            table.add_row(
                case.what,
                f"{case.event_count:,}",
                f"{found['seconds']:.2f}",
                f"{found['cpu_s']:.2f}",
                rate_text(rate) if math.isfinite(rate) and rate else "-",
                f"{found['worker_mb']:.0f}",
                f"{found['check']:.8g}",
            )
        tables.append(table)
    return tables, rates


def _measure(case: Case) -> dict[str, Any]:
    """Run one case in a process of its own."""
    numbers = (case.event_count, case.key_count, case.cores, case.rounds)
    command = [sys.executable, "-m", "benchmarks.spark_cases", case.case, *map(str, numbers)]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        sys.stderr.write(done.stderr[-2000:])
        return {"seconds": math.nan, "cpu_s": math.nan, "check": math.nan, "worker_mb": math.nan}
    found: dict[str, Any] = json.loads(lines[-1])
    return found
