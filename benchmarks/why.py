"""Measure ``why_not`` over many events: ``python -m benchmarks.why [events] [name ...]``."""

from __future__ import annotations

import sys
import time

import numpy as np
import pyarrow as pa
from benchmarks.measure import peak_mb

import cepheid

SEQ = "PATTERN SEQ(A a, B b, C c) WHERE [k]"
LOOP = "PATTERN SEQ(A a+, B b) WHERE {}a.x > NEXT(a).x AND b.x > 2"
QUERIES = {
    "seq": f"RETURN k, COUNT(*) {SEQ} AND a.x > 2 GROUP-BY k WITHIN 10 seconds",
    "windows": f"RETURN k, COUNT(*) {SEQ} AND a.x > 0.5 GROUP-BY k WITHIN 10 ms SLIDE 10 ms",
    "trailing": f"RETURN k, COUNT(*) {SEQ} GROUP-BY k WITHIN 5 ms",
    "found": f"RETURN k, COUNT(*) {SEQ} GROUP-BY k WITHIN 10 seconds",
    "no-keys": "RETURN COUNT(*) PATTERN SEQ(A a, B b, C c) WHERE a.x > 2 WITHIN 10 seconds",
    "loop": f"RETURN k, COUNT(*) {LOOP.format('[k] AND ')} GROUP-BY k "
    "WITHIN 1 minute SLIDE 1 minute",
    "loop-trailing": f"RETURN k, COUNT(*) {LOOP.format('[k] AND ')} GROUP-BY k WITHIN 10 seconds",
    "loop-no-keys": f"RETURN COUNT(*) {LOOP.format('')} WITHIN 10 seconds",
    "negation": "RETURN k, COUNT(*) PATTERN SEQ(A a, NOT C, B b) WHERE [k] AND b.x > 2 GROUP-BY k "
    "WITHIN 10 seconds",
    "matches": f"RETURN MATCHES {SEQ} AND a.x > 2 WITHIN 10 seconds",
    "skip": f"RETURN MATCHES {SEQ} WITHIN 10 seconds AFTER MATCH SKIP PAST LAST",
    "funnel": "RETURN FUNNEL(k) PATTERN SEQ(A a, B b, C c) WHERE c.x > 2 WITHIN 10 seconds",
    "pipeline": "CREATE STREAM P AS RETURN MATCHES PATTERN SEQ(A a, B b) WHERE [k] AND a.x > 0.999 "
    "WITHIN 10 seconds; RETURN COUNT(*) PATTERN SEQ(P p, C c) WHERE c.x > 2",
}


def events_of(count: int) -> pa.Table:
    """Make events of four types and a thousand keys, one each millisecond."""
    random = np.random.default_rng(1)
    types = np.array(["A", "B", "C", "D"])
    return pa.table(
        {
            "ts": np.arange(count) * 1000,
            "type": types[random.integers(0, 4, count)],
            "k": random.integers(0, 1000, count),
            "x": random.random(count),
        }
    )


def main() -> None:
    """Ask every query, and print what it took and said."""
    words = sys.argv[1:]
    count = int(words[0]) if words else 1_000_000
    events = events_of(count)
    for name in words[1:] or QUERIES:
        wall, cpu = time.perf_counter(), time.process_time()
        answer = cepheid.query(QUERIES[name]).why_not(events)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        sys.stdout.write(
            f"{name:14} {cpu:6.1f} s of CPU, {wall:6.1f} s, {peak_mb():.0f} MiB\n{answer}\n\n"
        )


if __name__ == "__main__":
    main()
