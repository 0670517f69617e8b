"""Sweeps beside single runs: ``python -m benchmarks.sweep [EVENTS]``.

`SEQ(A+, B)` by key and window over random events, in CPU time: one run of the plain query, then
all values of one threshold, and a grid of two. Values that are drawn at random are compared with
runs of their own. The bars: 10,000 values cost at most 50 runs, 100 x 100 at most 100 runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import cepheid

KEYS = 10
STEP_US = 1_000
ROUNDS = 3
CHECKED = 5
"""Values that are compared with a run of their own."""
RELATIVE = 1e-12

ONE = """RETURN k, COUNT(*) PATTERN SEQ(A+, B) WHERE [k] AND A.x > {x}
GROUP-BY k WITHIN {window} seconds SLIDE {window} seconds"""
TWO = ONE.replace("A.x > {x}", "A.x > {x} AND B.x < {y}")
SLIDING = TWO.replace("SLIDE {window} seconds", "SLIDE {half} ms")
GRID = ("SWEEP x (0.01 TO 1 STEP 0.01)", "SWEEP y (0.01 TO 1 STEP 0.01)")

CASES = {
    "100 values": (ONE, "SWEEP x (0.01 TO 1 STEP 0.01)", "", None),
    "1,000 values": (ONE, "SWEEP x (0.001 TO 1 STEP 0.001)", "", None),
    "10,000 values": (ONE, "SWEEP x (0.0001 TO 1 STEP 0.0001)", "", 50),
    "100 x 100 values": (TWO, *GRID, 100),
    "100 x 100 values, SUM": (TWO.replace("COUNT(*)", "SUM(A.x)"), *GRID, 100),
    "100 x 100 values, MIN": (TWO.replace("COUNT(*)", "MIN(A.x)"), *GRID, 100),
    "100 x 100 values, MAX": (TWO.replace("COUNT(*)", "MAX(B.x)"), *GRID, 100),
    "100 x 100 values, sliding": (SLIDING, *GRID, 100),
}


def events(count: int) -> pa.Table:
    """Draw events of three types, a millisecond apart."""
    draw = np.random.default_rng(1)
    kinds = pa.DictionaryArray.from_arrays(draw.integers(0, 3, count), pa.array(["A", "B", "C"]))
    columns: dict[str, Any] = {
        "ts": pa.array(np.arange(count) * STEP_US),
        "type": kinds.cast(pa.string()),
        "k": pa.array(draw.integers(0, KEYS, count)),
        "x": pa.array(draw.random(count)),
    }
    return pa.table(columns)


def cpu_seconds(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Measure the best of several runs, after one that compiles."""
    run()
    best = float("inf")
    for _ in range(rounds):
        begin = time.process_time()
        run()
        best = min(best, time.process_time() - begin)
    return best


def filled(text: str, window: int, **values: object) -> str:
    """Write values and the window, in seconds, into a query."""
    return text.format(**values, window=window, half=500 * window)


def agree(sweep: pa.Table, table: pa.Table, text: str, window: int) -> bool:
    """Compare some values with runs of their own."""
    draw = np.random.default_rng(2)
    names = [name for name in ("x", "y") if name in sweep.column_names]
    for row in draw.integers(0, len(sweep), CHECKED).tolist():
        values = {name: sweep[name][row].as_py() for name in names}
        own = sweep
        for name, value in values.items():
            own = own.filter(pc.equal(own[name], pa.scalar(value)))
        plain = cepheid.query(filled(text, window, **{"y": 0, **values})).run(table)
        counts = [np.asarray(found.columns[-1], np.float64) for found in (own, plain)]
        if len(own) != len(plain) or not np.allclose(counts[0], counts[1], rtol=RELATIVE):
            return False
    return True


def main(count: int) -> None:
    """Print a line for each case."""
    table = events(count)
    window = max(count * STEP_US // 10 // 1_000_000, 1)
    missed = []
    for name, (text, x, y, bar) in CASES.items():
        plain = cepheid.query(filled(text, window, x=0.5, y=0.5))
        sweep = cepheid.query(filled(text, window, x=x, y=y))
        one = cpu_seconds(partial(plain.run, table))
        whole = cpu_seconds(partial(sweep.run, table), 1)
        same = agree(sweep.run(table), table, text, window)
        ratio = whole / one
        told = "" if bar is None else f", bar {bar} x {'kept' if ratio <= bar else 'missed'}"
        print(
            f"{name:<26} one run {one * 1e3:6.1f} ms, sweep {whole * 1e3:8.1f} ms, "
            f"{ratio:6.1f} x{told}, equal: {same}",
            flush=True,
        )
        if not same or (bar is not None and ratio > bar):
            missed.append(name)
    sys.exit(f"missed: {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
