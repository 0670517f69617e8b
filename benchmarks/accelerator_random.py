"""Random queries on the CPU, on a GPU and by ``auto``: is ``auto`` near the better of the two?

``PYTHONPATH=src python -m benchmarks.accelerator_random`` on a machine with a GPU; ``--queries 60``
and ``--seed 1`` choose the queries. The three take turns, so that whatever slows the machine down
slows all of them; each comes first in every third turn, and has its best time of ``--rounds``. The
bar: ``auto`` takes at most 1 / 0.9 of the time of the better one, in all queries.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.accelerator_queries import events, same

import cepheid
from cepheid.accelerator.device import find_device
from cepheid.errors import UnsupportedError

DEVICES = ("cpu", "gpu", "auto")
BAR = 0.9
POWERS = (17, 19, 20, 22)
WINDOWS = ("", "WITHIN 1 s SLIDE 1 s", "WITHIN 100 ms SLIDE 10 ms", "WITHIN 4 ms SLIDE 4 ms")
PATTERNS = ("SEQ(A+, B)", "(SEQ(A+, B))+", "SEQ(A, B, C)", "SEQ(A, NOT C, B)")
AGGREGATES = (
    "LOG2(COUNT(*))",
    "LOG2(COUNT(*)), SUM(A.small)",
    "LOG2(COUNT(*)), MIN(A.price), MAX(A.price)",
)


def random_query(draw: np.random.Generator) -> str:
    """Draw a query: patterns, edge predicates, filters, aggregates, joins, matches and sweeps."""

    def one(items: tuple[Any, ...]) -> Any:
        return items[draw.integers(len(items))]

    kind = one(("pattern", "pattern", "keys", "edge", "filter", "windows", "trailing", "matches"))
    match kind:
        case "pattern":
            return f"RETURN {one(AGGREGATES)} PATTERN {one(PATTERNS)} {one(WINDOWS)}"
        case "keys":
            return (
                f"RETURN key, {one(AGGREGATES)} PATTERN {one(PATTERNS)} WHERE [key] GROUP-BY key "
                f"{one(WINDOWS)}"
            )
        case "edge":
            window = one(("1024 us", "8192 us"))
            return (
                "RETURN COUNT(*) PATTERN A S+ WHERE S.price > NEXT(S).price "
                f"WITHIN {window} SLIDE {window}"
            )
        case "filter":
            return f"SELECT ts, price FROM s WHERE price > {one((0, 1, 2))} AND small < 9"
        case "windows":
            group = one(("", "GROUP BY key"))
            items = "COUNT(*), SUM(small), MAX(price)"
            items = f"key, {items}" if group else items
            window = one(("WINDOW 65536 us", "WINDOW 1 s SLIDE 100 ms"))
            return f"SELECT {items} FROM s {group} {window}"
        case "trailing":
            return f"RETURN {one(AGGREGATES)} PATTERN SEQ(A+, B) WITHIN {one(('50 us', '1 ms'))}"
    return (
        "RETURN a.ts, b.price PATTERN SEQ(A a, B b) "
        f"WHERE a.price < b.price - {one((2, 3))} WITHIN {one(('16 us', '64 us'))}"
    )


def best_times(query: Any, table: pa.Table, rounds: int) -> dict[str, float]:
    """Run a query in turn on each device, and keep the best times."""
    best = dict.fromkeys(DEVICES, float("inf"))
    for turn in range(rounds):
        # What ran before leaves caches and memory as it had them, so each device comes first.
        for device in (*DEVICES[turn % 3 :], *DEVICES[: turn % 3]):
            begin = time.perf_counter()
            query.run(table, device=device)
            best[device] = min(best[device], time.perf_counter() - begin)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3600.0, help="measure no longer than this")
    options = parser.parse_args()
    print(find_device(), pa.cpu_count(), "threads", flush=True)
    draw, begun = np.random.default_rng(options.seed), time.perf_counter()
    tables = {power: events(1 << power) for power in POWERS}
    found = []
    for _ in range(options.queries):
        text, power = random_query(draw), int(draw.choice(POWERS))
        query, table = cepheid.query(text), tables[power]
        try:
            right = same(query.run(table), query.run(table, device="gpu"))
        except UnsupportedError:
            print("refused", text, flush=True)
            continue
        query.run(table, device="auto")
        times = best_times(query, table, options.rounds)
        share = min(times["cpu"], times["gpu"]) / times["auto"]
        shown = " ".join(f"{name} {taken * 1e3:8.1f} ms" for name, taken in times.items())
        found.append((share, f"{share:5.2f} 2^{power} {shown} same {right}  {text}"))
        print(found[-1][1], flush=True)
        if time.perf_counter() - begun > options.seconds:
            break
    print("\nsorted, those that miss first")
    for _, line in sorted(found):
        print(line, flush=True)
    kept = sum(share >= BAR for share, _ in found)
    print(f"{kept} of {len(found)} at {BAR} of the better one or above", flush=True)


if __name__ == "__main__":
    main()
