"""Surveys beside COUNT(*): ``python -m benchmarks.surveys [EVENTS [RUNS]]``.

Falling trends of random prices, and trends of any prices, over one table in this process. Each
query runs again and again, one after the other; the least CPU time of each counts. The bars: 1,000
draws of 2^1000 matches or more in 3 times the time of COUNT(*), the blame of all events in 4 times.
"""

from __future__ import annotations

import sys
import time
from typing import Any

BARS = {"SAMPLE(1000)": 3.0, "BLAME()": 4.0}
SURVEYS = ("SAMPLE(1000)", "BLAME()", "TOP(10, SUM(S.price))", "LONGEST(5)")
PATTERNS = {
    "falling": "PATTERN S+ WHERE S.price > NEXT(S).price TIES arrival",
    "any, 1,500 events a window": "PATTERN S+ WITHIN 1500 us SLIDE 1500 us TIES arrival",
}


def table_of(count: int) -> Any:
    """Return events with random prices, one a microsecond."""
    import numpy as np
    import pyarrow as pa

    prices = np.random.default_rng(1).random(count)
    times = pa.array(np.arange(count), pa.timestamp("us"))
    return pa.table({"ts": times, "type": ["S"] * count, "price": pa.array(prices)})


def least_cpu_s(text: str, events: Any, runs: int) -> float:
    """Return the least CPU time of some runs, after one whose kernels compile."""
    import cepheid

    query = cepheid.query(text)
    query.run(events.slice(0, 5_000))
    took = []
    for _ in range(runs):
        begun = time.process_time()
        query.run(events)
        took.append(time.process_time() - begun)
    return min(took)


def main(count: int, runs: int) -> None:
    """Print the CPU times and their ratios."""
    import cepheid

    events = table_of(count)
    for name, pattern in PATTERNS.items():
        counted = cepheid.query(f"RETURN LOG2(COUNT(*)) {pattern}").run(events)
        most = max(counted["log2_count"].to_pylist())
        base = least_cpu_s(f"RETURN COUNT(*) {pattern}", events, runs)
        print(f"{name}: {count:,} events, 2^{most:.0f} matches; COUNT(*) {base:.3f} s", flush=True)
        surveys = SURVEYS if name == "falling" else ("BLAME()",)
        for survey in surveys:
            took = least_cpu_s(f"RETURN {survey} {pattern}", events, runs)
            bar = f", bar {BARS[survey]:g}" if survey in BARS else ""
            print(f"  {survey:<22} {took:8.3f} s  {took / base:6.2f} x{bar}", flush=True)


if __name__ == "__main__":
    given = [int(word.replace("_", "")) for word in sys.argv[1:]]
    main(given[0] if given else 1_000_000, given[1] if len(given) > 1 else 3)
