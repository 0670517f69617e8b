"""Measure the parts of Spark's tasks that need no Spark: reading, sending, and running events."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from cepheid.jobs.blobs import split
from cepheid.jobs.ordering import TimeMerge, ordered
from cepheid.jobs.tables import table_from_bytes, table_to_bytes
from cepheid.kinds.trend.program.job import job_of
from cepheid.kinds.trend.windows.summaries import Summariser
from cepheid.plans.plan import Plan
from cepheid.runtimes.local import CompiledQueryLike, run_table

ROWS = 1 << 18
KEYS = 1000
RUNS = 3
BUCKETS = 8
QUERIES = {
    "linear_ns": "RETURN key, COUNT(*) PATTERN SEQ(A a+, B b) WHERE [key] GROUP-BY key {window}",
    "indexed_ns": "RETURN key, COUNT(*) PATTERN A a+ WHERE [key] AND a.x < NEXT(a).x "
    "GROUP-BY key {window}",
    "previous_ns": "RETURN key, COUNT(*) PATTERN A a+ SEMANTICS contiguous WHERE [key] "
    "AND a.x < NEXT(a).x GROUP-BY key {window}",
    "other_ns": "RETURN key, COUNT(*) PATTERN A a+ WHERE [key] AND a.x * NEXT(a).x < 0.1 "
    "GROUP-BY key {window}",
}
WINDOW = "WITHIN 20 ms SLIDE 20 ms"


def measure_work(compile_query: Callable[[str], CompiledQueryLike]) -> dict[str, float]:
    """Measure reading, sending, running and summarising, in nanoseconds of processor time."""
    table = _events(KEYS)
    found = {}
    for name, text in QUERIES.items():
        plan = compile_query(text.format(window=WINDOW)).with_schema(table.schema).plan
        found[name] = _least(partial(run_table, plan, table)) / ROWS
    plan = compile_query(QUERIES["linear_ns"].format(window="")).with_schema(table.schema).plan
    few, many = _events(16), _events(ROWS // 16)
    found["summary_ns"] = _least(lambda: _summarise(plan, few)) / ROWS
    more = _least(lambda: _summarise(plan, many)) / ROWS - found["summary_ns"]
    found["matrix_ns"] = more * 16
    values = ROWS * table.num_columns
    found["send_ns"] = _least(lambda: _send(plan, table)) / values
    with tempfile.TemporaryDirectory(prefix="cepheid-calibrate-") as folder:
        path = Path(folder) / "events.parquet"
        parquet.write_table(table, path)
        found["value_ns"] = _least(lambda: parquet.ParquetFile(path).read()) / values
    return found


def events_of(rows: int, keys: int) -> pa.Table:
    """Draw events of two types, in the order of time."""
    random = np.random.default_rng(5)
    columns: dict[str, Any] = {
        "ts": np.arange(rows),
        "type": np.array(["A", "B"])[random.integers(0, 2, rows)],
        "key": random.integers(0, keys, rows),
        "x": random.random(rows),
    }
    return pa.table(columns)


def _events(keys: int) -> pa.Table:
    return events_of(ROWS, keys)


def _summarise(plan: Plan, table: pa.Table) -> None:
    summariser = Summariser(job_of(plan.to_json()))
    summariser.feed(table)
    summariser.close()


def _send(plan: Plan, table: pa.Table) -> None:
    """Do what tasks do with events that are shuffled, but for the JVM."""
    sent = ordered(table, plan)
    bucket = sent["key"].to_numpy() % BUCKETS
    merge = TimeMerge(plan)
    for number, part in split(sent, bucket, BUCKETS):
        for _ in merge.add(number, 0, table_from_bytes(table_to_bytes(part))):
            pass
    for _ in merge.rest():
        pass


def _least(work: Callable[[], Any]) -> float:
    """Measure the least nanoseconds of processor time of some runs, after a first one."""
    work()
    spent = []
    for _ in range(RUNS):
        begin = time.process_time_ns()
        work()
        spent.append(time.process_time_ns() - begin)
    return float(min(spent))
