"""The benchmark of workloads with a common Kleene part and edge predicate, HAMLET's shape.

    .venv/bin/python benchmarks/run.py --only kleene-workloads

Ten to a hundred queries have ``S+`` with ``S.x > NEXT(S).x``, and differ in what comes before it,
after it, or both. Every second event is an S; the others are of forty types. The bar is that of a
gain over running the queries alone of half their number, up to 20 queries.

Source: Poppe et al., "To Share, or not to Share Online Event Trend Aggregation Over Bursty Event
Streams" (HAMLET), SIGMOD 2021, section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from benchmarks.workloads import Row, measure
from rich.table import Table

TYPES = [f"T{n}" for n in range(40)]
EVENTS = 1_000_000
TRAILING_EVENTS = 20_000
EXPIRING_EVENTS = 5_000
NEGATED_EVENTS = 100_000
KEYS = 4
COUNTS = (10, 20, 50, 100)
BARRED_MAX = 20
WINDOWS = {
    "tumbling": "WITHIN 10 seconds SLIDE 10 seconds",
    "sliding": "WITHIN 10 seconds SLIDE 2 seconds",
}
TRAILING = "WITHIN 0.1 seconds"
EXPIRING = {
    "EMIT ON EXPIRY": ("", f"{TRAILING} EMIT ON EXPIRY"),
    f"{KEYS} partitions in a group": ("[key] AND ", TRAILING),
}
"""Windows without SLIDE that are evaluated when events leave, too: conditions and clauses."""


def make_events(count: int) -> pa.Table:
    """Return a thousand events a second, every second of them an S."""
    random = np.random.default_rng(13)
    names = pa.array(["S", *TYPES])
    kind = np.where(random.random(count) < 0.5, 0, random.integers(1, len(TYPES) + 1, count))
    types = names.take(pa.array(kind))
    columns = {"ts": np.arange(count) * 1000, "type": types, "x": random.random(count)}
    return pa.table(columns | {"key": random.integers(0, KEYS, count)})


def _patterns(count: int) -> dict[str, list[str]]:
    """Return patterns that differ before the Kleene part, after it, and on both sides."""
    pairs = [(TYPES[n % 10], TYPES[10 + n // 10]) for n in range(count)]
    found = {
        "each begins in its own way": [f"SEQ({a}, {b}, S+)" for a, b in pairs],
        "each ends in its own way": [f"SEQ(S+, {a}, {b})" for a, b in pairs],
        "ten beginnings, several ends": [f"SEQ({a}, S+, {b})" for a, b in pairs],
    }
    if count <= len(TYPES) // 2:
        own = [(TYPES[n], TYPES[20 + n]) for n in range(count)]
        found["own beginnings and ends"] = [f"SEQ({a}, S+, {b})" for a, b in own]
    return found


def rows(shrink: int) -> Iterator[Row]:
    """Yield the workloads."""
    for name, window in WINDOWS.items():
        for count in COUNTS:
            for what, patterns in _patterns(count).items():
                bar = count / 2 if count <= BARRED_MAX else None
                queries = [_query("COUNT(*)", pattern, window) for pattern in patterns]
                title = f"{count} queries, {what}, {name}"
                yield Row(title, queries, EVENTS // shrink, bar, read_once=False)
    count = BARRED_MAX
    for what, patterns in _patterns(count).items():
        queries = [_query("AVG(S.x)", pattern, WINDOWS["tumbling"]) for pattern in patterns]
        title = f"{count} queries with AVG(S.x), {what}, tumbling"
        yield Row(title, queries, EVENTS // shrink, count / 2, read_once=False)
        queries = [_query("COUNT(*)", pattern, TRAILING) for pattern in patterns]
        title = f"{count} queries, {what}, without SLIDE"
        yield Row(title, queries, TRAILING_EVENTS // shrink, count / 2, read_once=False)
    count = COUNTS[0]
    patterns = _patterns(count)["each begins in its own way"]
    for what, (condition, window) in EXPIRING.items():
        queries = [_query("COUNT(*)", pattern, window, condition) for pattern in patterns]
        title = f"{count} queries, {what}, without SLIDE"
        yield Row(title, queries, EXPIRING_EVENTS // shrink, count / 2, read_once=False)

    for where, window in (*WINDOWS.items(), ("without SLIDE", TRAILING)):
        events = EXPIRING_EVENTS if window == TRAILING else NEGATED_EVENTS
        queries = [
            _query("COUNT(*)", f"SEQ({TYPES[n]}, NOT {TYPES[-1]}, S+)", window)
            for n in range(count)
        ]
        title = f"{count} queries with NOT, each begins in its own way, {where}"
        yield Row(title, queries, events // shrink, count / 2, read_once=False)


def _query(aggregate: str, pattern: str, window: str, condition: str = "") -> str:
    return f"RETURN {aggregate} PATTERN {pattern} WHERE {condition}S.x > NEXT(S).x {window}"


def run(*, shrink: int, tell: Callable[[str], None]) -> tuple[Table, list[str]]:
    """Measure all workloads; return a table, and a sentence for every wrong answer."""
    return measure("Workloads with an edge predicate (HAMLET)", rows(shrink), make_events, tell)
