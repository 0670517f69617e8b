"""Situations: throughput, growth, windows and earliness. ``python benchmarks/situations.py``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if __name__ == "__main__":
    # A script sees its own folder only; the modules import each other from the root.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.baselines.interval_sequence import count_matches

import cepheid
from cepheid.planner.situation_plan import inverse_of

SECOND_US = 1_000_000
EVERY_RELATION = (1 << 13) - 1
DRIVERS = """
    FROM cars PARTITION BY car
    DEFINE A AS accel > 8 AT LEAST 3 s, B AS speed > 70 BETWEEN 4 s AND 30 s,
        C AS accel < -8 AT LEAST 2 s
    PATTERN A meets;overlaps;starts;during B AND B contains;finishes;overlaps;meets C AND A before C
    DETECTED WITHIN 5 minutes
    RETURN AVG(B.speed) AS speed, FIRST(B.speed) AS first
"""
PAIRS = "DEFINE A AS a, B AS b, C AS c, D AS d PATTERN A overlaps B AND C overlaps D {0}"


def make_cars(count: int, cars: int = 1000) -> pa.Table:
    """Return events of cars, one a second each, with phases of acceleration and braking."""
    random = np.random.default_rng(4)
    phase = random.integers(0, 60, cars)
    n = np.arange(count)
    car, second = n % cars, n // cars
    place = (second + phase[car]) % 60
    accel = np.where(place < 6, 9.0, np.where((place > 20) & (place < 25), -9.0, 0.0))
    speed = np.where((place > 3) & (place < 24), 80.0, 50.0) + random.random(count)
    times = second * SECOND_US + car * (SECOND_US // cars)
    return pa.table({"ts": times, "car": car, "accel": accel, "speed": speed})


def make_flags(count: int, rate: float) -> pa.Table:
    """Return events, one a second, with four conditions that turn on and off at a rate."""
    random = np.random.default_rng(5)
    columns: dict[str, Any] = {"ts": np.arange(count) * SECOND_US}
    for name in "abcd":
        columns[name] = np.cumsum(random.random(count) < rate) % 2 == 1
    return pa.table(columns)


def clock(query: cepheid.CompiledQuery, table: pa.Table, runs: int = 3) -> tuple[float, pa.Table]:
    """Return the best time of some runs, and the result."""
    query.run(table.slice(0, 1000))
    best, result = np.inf, table
    for _ in range(runs):
        start = time.perf_counter()
        result = query.run(table)
        best = min(best, time.perf_counter() - start)
    return float(best), result


def wait_for_ends(table: pa.Table, within: int) -> tuple[int, float, float]:
    """Return matches, the mean time of their reports, and how long the search took."""
    listed = cepheid.query("DEFINE A AS a, B AS b, C AS c, D AS d SITUATIONS A, B, C, D").run(table)
    names: NDArray[Any] = np.asarray(listed["situation"]).astype(str)
    ts, te = np.asarray(listed["ts"]), np.asarray(listed["te"])
    order = np.argsort(names, kind="stable")
    bounds = np.searchsorted(names[order], ["A", "B", "C", "D", "E"])
    overlaps = 1 << 2
    masks = np.full((4, 4), EVERY_RELATION)
    masks[0, 1] = masks[2, 3] = overlaps
    masks[1, 0] = masks[3, 2] = inverse_of(overlaps)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    kind = np.searchsorted(bounds[1:], place, side="right")
    ends = np.stack([place, kind], axis=1)[np.argsort(te, kind="stable")]
    arguments = (ts[order], te[order], bounds, ends, masks, within * SECOND_US)
    count_matches(*arguments[:3], ends[:1], *arguments[4:])
    start = time.perf_counter()
    found, when = count_matches(*arguments)
    return found, when / max(found, 1), time.perf_counter() - start


def main() -> int:
    """Print the figures."""
    print("aggressive drivers, 1,000 cars, one core")
    for count in (1_000_000, 2_000_000, 4_000_000):
        seconds, rows = clock(cepheid.query(DRIVERS), make_cars(count))
        print(f"  {count:>9,} events  {count / seconds / 1e6:5.2f} M events/s  {len(rows):,} rows")
    print("A overlaps B AND C overlaps D, 100,000 events, against waiting for ends pair by pair")
    table = make_flags(100_000, 0.02)
    for within in (500, 2_000, 10_000):
        text = PAIRS.format(f"WITHIN {within} s RETURN COUNT(A) AS n")
        seconds, rows = clock(cepheid.query(text), table, 1)
        found, _, waited = wait_for_ends(table, within)
        assert found == len(rows), "both find the same matches"
        print(
            f"  {within:>7,} s  {seconds:7.2f} s with deriving, {waited:8.2f} s  {found:,} matches"
        )
    print("A overlaps B: how much earlier, as a share of the match's length")
    text = "DEFINE A AS a, B AS b PATTERN A overlaps B DETECTED WITHIN 1 hour"
    early = cepheid.query(text).run(table)
    late = cepheid.query(text.replace("DETECTED ", "")).run(table)
    ends = {
        (a, b): t
        for a, b, t in zip(*(late[n].to_pylist() for n in ("A_ts", "B_ts", "ts")), strict=True)
    }
    shares = [
        (ends[a, b] - t) / (ends[a, b] - a)
        for a, b, t in zip(*(early[n].to_pylist() for n in ("A_ts", "B_ts", "ts")), strict=True)
        if (a, b) in ends
    ]
    print(f"  {len(shares):,} matches, mean {np.mean(shares):.0%}, least {np.min(shares):.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
