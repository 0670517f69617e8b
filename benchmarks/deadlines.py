"""Deadlines beside the same queries without: ``python -m benchmarks.deadlines [EVENTS]``.

CPU seconds of one process over events of 1,000 keys in memory, the best of three runs after one
that compiles. A query with a deadline has at least 0.3 of the speed of the plain one (§2.12).
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import pyarrow as pa

import cepheid

KEYS = 1_000
RUNS = 3
STEP_US = 1_000

QUERIES = {
    "trailing": "RETURN COUNT(*) PATTERN SEQ(Order o, NOT Payment p{}) WHERE [key] {}",
    "leading": "RETURN COUNT(*) PATTERN SEQ(NOT Payment p{}, Order o) WHERE [key] {}",
    "between": "RETURN COUNT(*) PATTERN SEQ(Order o, NOT Payment p{}, Shipping s) WHERE [key] {}",
    "trailing list": "RETURN o.ts PATTERN SEQ(Order o, NOT Payment p{}) WHERE [key] {}",
}
DEADLINE, WINDOW = " WITHIN 1 second", "WITHIN 1 minute SLIDE 1 minute"


def events_of(count: int) -> pa.Table:
    """Draw orders, payments and shippings of random keys, a millisecond apart."""
    drawn = np.random.default_rng(7)
    kinds = pa.array(["Order", "Payment", "Shipping"])
    kind = pa.array(drawn.integers(0, 3, count, np.int8))
    return pa.table(
        {
            "ts": pa.array(np.arange(count) * STEP_US, pa.timestamp("us")),
            "type": pa.DictionaryArray.from_arrays(kind, kinds),
            "key": pa.array(drawn.integers(0, KEYS, count)),
        }
    )


def seconds_of(text: str, events: pa.Table) -> float:
    """Measure the CPU seconds of a query, without the first run."""
    compiled = cepheid.query(text)
    found = []
    for _ in range(RUNS + 1):
        begin = time.process_time()
        compiled.run(events)
        found.append(time.process_time() - begin)
    return min(found[1:])


def main() -> None:
    """Print a line for each query."""
    warnings.simplefilter("ignore")
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    events = events_of(count)
    for name, text in QUERIES.items():
        plain, due = (seconds_of(text.format(d, WINDOW), events) for d in ("", DEADLINE))
        print(
            f"{name:<14} plain {plain:.3f} s, deadline {due:.3f} s, "
            f"{count / due / 1e6:.1f} M events/s, {plain / due:.2f} of the speed"
        )


if __name__ == "__main__":
    main()
