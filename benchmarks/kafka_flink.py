"""Flink SQL over a topic of Kafka, run by a Python that has ``apache-flink``.

``python kafka_flink.py CONNECTOR SERVERS RUNS CASES`` prints a line of JSON for each run of a case;
the last one counts. Nothing of Cepheid is imported: that Python need not have it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

CORES = "2"
EVENTS = """
    CREATE TABLE e (
        ts BIGINT, type STRING, `user` STRING, price BIGINT,
        et AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR et AS et - INTERVAL '1' SECOND
    ) WITH (
        'connector' = 'kafka', 'topic' = 'events', 'properties.bootstrap.servers' = '{servers}',
        'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
        'format' = 'json', 'json.ignore-parse-errors' = 'true')"""


def cpu_seconds() -> float:
    """Return the time that this process and its JVM have worked."""
    total, tick = 0.0, os.sysconf("SC_CLK_TCK")
    parents: dict[int, list[int]] = {}
    times: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
            times[int(entry.name)] = sum(map(float, fields[11:15])) / tick
    found = [os.getpid()]
    for pid in found:
        total += times.get(pid, 0.0)
        found += parents.get(pid, [])
    return total


def main(connector: str, servers: str, runs: str, cases: str) -> None:
    """Run every case several times; later runs find the JVM warm."""
    table: Any = importlib.import_module("pyflink.table")
    environment = table.TableEnvironment.create(table.EnvironmentSettings.in_streaming_mode())
    config = environment.get_config()
    config.set("pipeline.jars", f"file://{connector}")
    config.set("parallelism.default", CORES)
    # SUM sends a change for every row otherwise.
    config.set("table.exec.mini-batch.enabled", "true")
    config.set("table.exec.mini-batch.allow-latency", "10 s")
    config.set("table.exec.mini-batch.size", "1000000")
    environment.execute_sql(EVENTS.format(servers=servers))
    for name, text in json.loads(cases).items():
        for _ in range(int(runs)):
            cpu, begun, last = cpu_seconds(), time.perf_counter(), None
            with environment.execute_sql(text).collect() as rows:
                for row in rows:
                    last = row
            seconds, spent = time.perf_counter() - begun, cpu_seconds() - cpu
            sums = [int(value) for value in last or []]
            line = {"case": name, "seconds": seconds, "cpu": spent, "sums": sums}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
