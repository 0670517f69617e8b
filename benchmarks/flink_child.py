"""Flink's MATCH_RECOGNIZE over a file of CSV, run by a Python that has ``apache-flink``.

``python flink_child.py EVENTS CORES RUNS`` prints a line of JSON for each run. Nothing of Cepheid
is imported: that Python need not have it.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

EVENTS = """
    CREATE TABLE e (
        ts BIGINT, type STRING, key BIGINT,
        et AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR et AS et - INTERVAL '1' SECOND
    ) WITH ('connector' = 'filesystem', 'path' = 'file://{events}', 'format' = 'csv')"""

MATCHES = """
    SELECT COUNT(*), SUM(c - a) FROM e MATCH_RECOGNIZE (
        PARTITION BY key ORDER BY et
        MEASURES A.ts AS a, C.ts AS c
        ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
        PATTERN (A X*? B Y*? C) WITHIN INTERVAL '1' SECOND
        DEFINE A AS A.type = 'A', X AS X.type <> 'B', B AS B.type = 'B',
               Y AS Y.type <> 'C', C AS C.type = 'C')"""
"""Every A, the next B, the next C, within a second: skip-till-next-match."""


def main(events: str, cores: str, runs: str) -> None:
    """Run the query several times; later runs find the JVM warm."""
    table: Any = importlib.import_module("pyflink.table")

    settings = table.EnvironmentSettings.in_streaming_mode()
    environment = table.TableEnvironment.create(settings)
    config = environment.get_config()
    config.set("parallelism.default", cores)
    # COUNT sends a change for every match otherwise.
    config.set("table.exec.mini-batch.enabled", "true")
    config.set("table.exec.mini-batch.allow-latency", "10 s")
    config.set("table.exec.mini-batch.size", "1000000")
    environment.execute_sql(EVENTS.format(events=events))
    for _ in range(int(runs)):
        begin = time.perf_counter()
        last: Any = (0, 0)
        with environment.execute_sql(MATCHES).collect() as rows:
            for row in rows:
                last = row
        seconds = time.perf_counter() - begin
        print(json.dumps({"seconds": seconds, "matches": last[0], "sum": last[1]}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
