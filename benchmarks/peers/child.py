"""Measure one case of one system of Python in a process of its own: arguments in, JSON lines out.

``python -m benchmarks.peers.child SYSTEM CASE LIMIT_S ROUNDS FILE,FILE...``: the files are Parquet,
each ten times as large as the one before. Every text of the case answers from the first file twice,
which also loads and compiles; the fastest one goes on to the next file as long as that should not
take more CPU seconds than the limit. A line tells the file, the seconds, the CPU seconds and the
check: the number of rows and the sum of every column.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

GROWTH = 4
"""A file of ten times the events may take so many times as long, as Runs.java has it."""


def check_of(table: Any) -> list[float]:
    """Return the number of rows and the sum of each column."""
    import pyarrow.compute as pc

    return [len(table), *(float(pc.sum(column).as_py() or 0) for column in table.columns)]


def main(system: str, case: str, limit_s: str, rounds: str, paths: str) -> None:
    """Print a line for every run."""
    peer = importlib.import_module(f"benchmarks.peers.{system}_peer")
    limit, files = float(limit_s), paths.split(",")

    def run(variant: int, path: str) -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        found = peer.answer(peer.VARIANTS[case][variant], path)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        line = {"file": path, "variant": variant, "wall": wall, "cpu": cpu}
        print(json.dumps(line | {"check": check_of(found)}), flush=True)
        return wall, cpu

    variants = range(len(peer.VARIANTS[case]))
    best = []
    for variant in variants:
        first = run(variant, files[0])
        is_slow = first[1] > limit / GROWTH
        best.append(first if is_slow else min(first, run(variant, files[0])))
    fastest, (_, cpu) = best.index(min(best)), min(best)
    size = 0
    while size + 1 < len(files) and cpu <= limit / GROWTH:
        size += 1
        _, cpu = run(fastest, files[size])
    spent = cpu
    for _ in range(1, int(rounds)):
        if spent + cpu > limit:
            break
        spent += run(fastest, files[size])[1]


if __name__ == "__main__":
    main(*sys.argv[1:])
