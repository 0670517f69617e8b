"""What the Spark benchmarks measure: each case runs in a process and a session of its own."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from benchmarks.measure import peak_mb
from benchmarks.spark_data import event_files
from pyspark.sql import DataFrame, SparkSession

import cepheid
from cepheid.spark.session import LOG_SETTINGS, SETTINGS, START_SETTINGS

ONE = "RETURN LOG2(COUNT(*)) AS bits PATTERN (SEQ(A+, B))+"
KEYED = "RETURN key, LOG2(COUNT(*)) AS bits PATTERN (SEQ(A+, B))+ GROUP-BY key"
WINDOWED = f"{KEYED} WITHIN 10 minutes SLIDE 10 minutes"
PAIRS = "RETURN key, COUNT(*) AS n PATTERN SEQ(A, B) GROUP-BY key WITHIN 1 minute SLIDE 1 minute"

SELF_JOIN = """
WITH cut AS (SELECT *, date_trunc('MINUTE', ts) AS w FROM events)
SELECT a.key, a.w AS window_start, CAST(count(*) AS DOUBLE) AS n
FROM cut a JOIN cut b ON a.key = b.key AND a.w = b.w AND a.ts < b.ts
WHERE a.type = 'A' AND b.type = 'B' GROUP BY a.key, a.w
"""
WINDOW_FUNCTION = """
SELECT key, w AS window_start, CAST(sum(n) AS DOUBLE) AS n FROM (
  SELECT key, w, type, sum(CASE WHEN type = 'A' THEN 1 ELSE 0 END)
    OVER (PARTITION BY key, w ORDER BY ts ROWS UNBOUNDED PRECEDING) AS n
  FROM (SELECT *, date_trunc('MINUTE', ts) AS w FROM events WHERE type IN ('A', 'B'))
) WHERE type = 'B' AND n > 0 GROUP BY key, w
"""

Run = Callable[[SparkSession, Path], DataFrame]


def _files(text: str) -> Run:
    return lambda spark, folder: cepheid.query(text).run(str(folder), spark=spark)


def _frame(text: str, strategy: str) -> Run:
    def run(spark: SparkSession, folder: Path) -> DataFrame:
        frame = spark.read.parquet(str(folder))
        return cepheid.query(text).run(frame, strategy=strategy)  # type: ignore[no-any-return]

    return run


def _apply_in_pandas(spark: SparkSession, folder: Path) -> DataFrame:
    """Do what one would write by hand: the same engine, group by group."""
    query = cepheid.query(KEYED)

    def of_group(group: pd.DataFrame) -> pd.DataFrame:
        result = query.run(group.sort_values("ts"))
        assert isinstance(result, pd.DataFrame), "pandas gives pandas"
        return result

    frame = spark.read.parquet(str(folder)).select("ts", "type", "key")
    return frame.groupBy("key").applyInPandas(of_group, "key int, bits double")


def _sql(text: str) -> Run:
    def run(spark: SparkSession, folder: Path) -> DataFrame:
        spark.read.parquet(str(folder)).createOrReplaceTempView("events")
        return spark.sql(text)

    return run


CASES: dict[str, Run] = {
    "one": _files(ONE),
    "keyed": _files(KEYED),
    "windowed": _files(WINDOWED),
    "key-shuffle": _frame(KEYED, "key shuffle"),
    "combine": _frame(KEYED, "combine"),
    "apply-in-pandas": _apply_in_pandas,
    "pairs": _files(PAIRS),
    "self-join": _sql(SELF_JOIN),
    "window-function": _sql(WINDOW_FUNCTION),
}


def measure(case: str, event_count: int, key_count: int, cores: int, rounds: int) -> dict[str, Any]:
    """Return the best time, a number to compare answers by, and the workers' peak memory."""
    folder = event_files(event_count, key_count)
    small = event_files(min(event_count, 200_000), key_count)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores}]")
    quiet = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
    options = START_SETTINGS | SETTINGS | {"spark.driver.extraJavaOptions": quiet}
    # Fewer partitions than the default of 200 help every case alike.
    options["spark.sql.shuffle.partitions"] = str(max(cores, 2))
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    CASES[case](spark, small).toArrow()
    seconds, cpu, check = [], [], 0.0
    for _ in range(rounds):
        begin, worked = time.perf_counter(), cpu_seconds()
        table = CASES[case](spark, folder).toArrow()
        seconds.append(time.perf_counter() - begin)
        cpu.append(cpu_seconds() - worked)
        check = sum(float(v or 0) for v in table.column(table.num_columns - 1).to_pylist())
    peak = max(
        row[0] for row in spark.range(0, 8, 1, cores).mapInArrow(_peak, "mb double").collect()
    )
    spark.stop()
    return {"seconds": min(seconds), "cpu_s": min(cpu), "check": check, "worker_mb": peak}


def cpu_seconds() -> float:
    """Return the time that this process, its JVM and all workers have used cores for."""
    parents, used = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # It has just ended.
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(used.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")


def _peak(batches: Any) -> Any:
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"mb": [peak_mb()]})


if __name__ == "__main__":
    name, events, keys, core_count, round_count = sys.argv[1:]
    found = measure(name, int(events), int(keys), int(core_count), int(round_count))
    print(json.dumps(found))
