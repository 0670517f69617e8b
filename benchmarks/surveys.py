"""Surveys beside COUNT(*): ``python -m benchmarks.surveys [EVENTS [RUNS]] [--write]``.

Falling trends of random prices over one table in this process: all in one window, and a tenth of
them in windows of 1,000 events. Each query runs again and again; the least CPU time of each counts,
after two runs that compile kernels. The bars: 1,000 draws of 2^1000 matches or more in 3 times the
time of COUNT(*), the blame of all events in 4 times. ``--write`` puts the table into
docs/benchmarks.md.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

BARS = {"SAMPLE(1000)": 3.0, "BLAME()": 4.0}
FALLING = "PATTERN S+ WHERE S.price > NEXT(S).price TIES arrival"
CASES = {
    "one window": (FALLING, ("SAMPLE(1000)", "BLAME()", "VAR(LENGTH)")),
    "windows of 1,000 events": (
        f"{FALLING} WITHIN 1000 us SLIDE 1000 us",
        (
            "BLAME()",
            "VAR(LENGTH), STDDEV(SUM(S.price))",
            "HISTOGRAM(LENGTH)",
            "PERCENTILE(DURATION, 0.5, 0.9)",
            "PERCENTILE(SUM(S.volume), 0.5, 0.9)",
            "TOP(10, SUM(S.price))",
        ),
    ),
}
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- surveys -->\n", "<!-- end of surveys -->\n"


def table_of(count: int) -> Any:
    """Return events with random prices and volumes, one a microsecond."""
    import numpy as np
    import pyarrow as pa

    chance = np.random.default_rng(1)
    prices = chance.random(count)
    times = pa.array(np.arange(count), pa.timestamp("us"))
    volumes = pa.array(chance.integers(1, 10, count))
    return pa.table(
        {"ts": times, "type": ["S"] * count, "price": pa.array(prices), "volume": volumes}
    )


def least_cpu_s(text: str, events: Any, runs: int) -> float:
    """Return the least CPU time of some runs, after two in which kernels compile."""
    import cepheid

    query = cepheid.query(text)
    took = []
    for _ in range(runs + 2):
        begun = time.process_time()
        query.run(events)
        took.append(time.process_time() - begun)
    return min(took[2:])


def main(count: int, runs: int, *, write: bool) -> None:
    """Print the CPU times and their ratios, and write them as a table."""
    import cepheid

    everything = table_of(count)
    lines = ["| events | survey | CPU s | COUNT(*) = 1 | bar |", "|---|---|---|---|---|"]
    for name, (pattern, surveys) in CASES.items():
        events = everything if name == "one window" else everything.slice(0, count // 10)
        counted = cepheid.query(f"RETURN LOG2(COUNT(*)) {pattern}").run(events)
        most = max(counted["log2_count"].to_pylist())
        base = least_cpu_s(f"RETURN COUNT(*) {pattern}", events, runs)
        where = f"{len(events):,}, {name}, up to 2^{most:.0f} matches"
        lines.append(f"| {where} | `COUNT(*)` | {base:.2f} | 1 | |")
        print(lines[-1], flush=True)
        for survey in surveys:
            took = least_cpu_s(f"RETURN {survey} {pattern}", events, runs)
            bar = f"{BARS[survey]:g}" if survey in BARS and name == "one window" else ""
            lines.append(f"| {name} | `{survey}` | {took:.2f} | {took / base:.1f} | {bar} |")
            print(lines[-1], flush=True)
    if write:
        page = PAGE.read_text()
        begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
        PAGE.write_text(page[:begin] + "\n".join(lines) + "\n" + page[end:])


if __name__ == "__main__":
    given = [int(word.replace("_", "")) for word in sys.argv[1:] if word != "--write"]
    main(
        given[0] if given else 1_000_000,
        given[1] if len(given) > 1 else 3,
        write="--write" in sys.argv,
    )
