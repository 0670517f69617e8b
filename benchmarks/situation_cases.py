"""One benchmark of situations in a process of its own: a name and a size in, JSON out.

python -m benchmarks.situation_cases drivers ours 1000000
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from benchmarks.measure import peak_mb
from benchmarks.situation_data import (
    SECOND_US,
    linear_road,
    make_cars,
    make_flags,
    thresholds,
)

WITHIN_US = 300 * SECOND_US
FULL = """
    PATTERN A meets;overlaps;starts;during B AND B contains;finishes;overlaps;meets C AND A before C
    DETECTED WITHIN 5 minutes RETURN FIRST(B.speed) AS first, AVG(B.speed) AS speed"""
SIMPLE = """
    PATTERN A meets;overlaps B AND B meets;overlaps C AND A before C
    WITHIN 5 minutes RETURN AVG(B.speed) AS speed"""
APART = "DEFINE A AS a, B AS b, C AS c, D AS d"
DISCONNECTED = APART + " PATTERN A starts B AND B before C AND C overlaps D WITHIN {0} s"
FLAG_EVENTS = 1_000_000
DISCONNECTED_PHASES = """
    RETURN b.s AS first PATTERN SEQ(A a, B b, C c, D d) WHERE a.s = b.s AND b.ts < c.s
    AND c.s < d.s AND d.s < c.ts AND d.ts - LAST(a).s <= {within} WITHIN {within} us"""

Run = Callable[[], dict[str, Any]]


def drivers(case: str, method: str, size: int) -> Run:
    """Return a run over aggressive drivers, of Linear Road or of ``size`` made events."""
    table = linear_road() if case.startswith("road") else make_cars(size)
    up, fast, down = thresholds(table) if case.startswith("road") else (8.0, 70.0, -8.0)
    conditions = {"A": f"accel > {up}", "B": f"speed > {fast}", "C": f"accel < {down}"}
    define = ", ".join(f"{name} AS {text}" for name, text in conditions.items())
    define = f"FROM cars PARTITION BY car DEFINE {define}"
    if method == "duckdb":
        from benchmarks import situation_rivals as rivals

        return rivals.duckdb(table, conditions, rivals.DRIVERS.format(within=WITHIN_US), keyed=True)
    from benchmarks import situation_methods as methods

    pattern = FULL if case.endswith("full") else SIMPLE
    if method == "phases":
        query = methods.DRIVERS_PHASES.format(within=WITHIN_US)
        return methods.phases(table, conditions, query, keyed=True)
    if method == "points":
        query = methods.DRIVERS_POINTS.format(up=up, fast=fast, down=down, within=WITHIN_US)
        return methods.points(table, query)
    return ours_or_waits(table, method, define + pattern, f"{define} SITUATIONS A, B, C")


def disconnected(_case: str, method: str, size: int) -> Run:
    """Return a run over `A starts B before C overlaps D` in windows of ``size`` seconds."""
    table = make_flags(FLAG_EVENTS)
    conditions = {name: name.lower() for name in "ABCD"}
    within = size * SECOND_US
    if method == "duckdb":
        from benchmarks import situation_rivals as rivals

        query = rivals.DISCONNECTED.format(within=within)
        return rivals.duckdb(table, conditions, query, keyed=False)
    if method == "phases":
        from benchmarks import situation_methods as methods

        return methods.phases(
            table, conditions, DISCONNECTED_PHASES.format(within=within), keyed=False
        )
    listing = f"{APART} SITUATIONS A, B, C, D"
    return ours_or_waits(table, method, DISCONNECTED.format(size), listing)


def ours_or_waits(table: pa.Table, method: str, text: str, listing: str) -> Run:
    from benchmarks import situation_methods as methods

    import cepheid

    query = cepheid.query(text)
    if method == "iseq":
        return methods.waits(table, listing, query.with_schema(table.schema).plan)
    query.run(table.slice(0, 1000))
    return lambda: {"matches": len(query.run(table))}


PREPARE = {
    "road-simple": drivers,
    "road-full": drivers,
    "cars-simple": drivers,
    "cars-full": drivers,
    "disconnected": disconnected,
}


def main() -> None:
    """Measure the case that the arguments name; the best of some rounds counts."""
    case, method, size, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    run = PREPARE[case](case, method, size)
    best: dict[str, Any] = {}
    for _ in range(rounds):
        began, cpu = time.perf_counter(), time.process_time()
        found = run()
        found |= {"seconds": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}
        best = found if not best or found["cpu_s"] < best["cpu_s"] else best
    best["events"] = FLAG_EVENTS if case == "disconnected" else size
    best["peak_mb"] = peak_mb()
    sys.stdout.write(json.dumps(best) + "\n")


if __name__ == "__main__":
    main()
