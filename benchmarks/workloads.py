"""The benchmark of workloads: shared against not shared, as in A-Seq's figures 15 and 16.

Windows without SLIDE are A-Seq's own: matches leave with their first events.

A row is one workload over one stream from memory. *Shared* is the workload; *read once* is the
workload without merging; *alone* runs each query by itself. All three must give the same rows. The
time is that of the processor, the best of several runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
from rich.table import Table

import cepheid

TYPES = [f"T{n}" for n in range(20)]
KEYS = 10
EVENTS = 2_000_000
RULES_EVENTS = 10_000_000
TUMBLING = "WITHIN 10 seconds SLIDE 10 seconds"
SLIDING = "WITHIN 10 seconds SLIDE 5 seconds"
TRAILING = "WITHIN 10 seconds"
EXPIRING_EVENTS = 200_000
EXPIRING = {
    "EMIT ON EXPIRY": "WHERE [key] GROUP-BY key WITHIN 10 seconds EMIT ON EXPIRY",
    f"{KEYS} partitions in a group": "WHERE [key] WITHIN 10 seconds",
}
"""Windows without SLIDE that have rows when events leave, too."""
WINDOWS = {"without SLIDE": TRAILING, "tumbling": TUMBLING, "sliding": SLIDING}
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Row:
    """One workload: its queries, and the least gain over running them alone, if there is a bar."""

    what: str
    queries: list[str]
    events: int
    bar: float | None = None
    most: float | None = None
    read_once: bool = True


def make_events(count: int) -> pa.Table:
    """Return a thousand events a second of twenty types and ten keys."""
    random = np.random.default_rng(11)
    types = pa.array(TYPES).take(pa.array(random.integers(0, len(TYPES), count)))
    return pa.table(
        {"ts": np.arange(count) * 1000, "type": types, "key": random.integers(0, KEYS, count)}
    )


def _sequence(types: list[str], clauses: str) -> str:
    return f"RETURN COUNT(*) PATTERN SEQ({', '.join(types)}) {clauses}"


def prefixes(length: int, count: int, clauses: str) -> list[str]:
    """Return queries that share their first types and end in one of their own."""
    return [_sequence([*TYPES[:length], TYPES[10 + n]], clauses) for n in range(count)]


def substrings(length: int, count: int, clauses: str) -> list[str]:
    """Return queries that share the types between their first and their last one."""
    ends = [(TYPES[8 + n], TYPES[14 + n]) for n in range(count)]
    return [_sequence([first, *TYPES[:length], last], clauses) for first, last in ends]


def make_rules(count: int) -> list[str]:
    """Return rules as people write them: short sequences, some Kleene, some with NOT, by key."""
    random = np.random.default_rng(5)
    rules = []
    for number in range(count):
        length = int(random.integers(2, 5))
        types = [TYPES[n] for n in random.choice(len(TYPES), length + 1, replace=False)]
        parts = types[:length]
        if number % 5 == 1:
            parts[0] += "+"
        if number % 5 == 2:
            parts.insert(1, f"NOT {types[length]}")
        rules.append(_sequence(parts, f"WHERE [key] {TUMBLING}"))
    return rules


def rows(shrink: int) -> Iterator[Row]:
    """Yield the workloads of the figures."""
    events = EVENTS // shrink
    for name, window in WINDOWS.items():
        for length in range(2, 7):
            bar = 2.5 if length == 6 else None
            what = f"3 queries, shared prefix of {length}, {name} (16b)"
            yield Row(what, prefixes(length, 3, window), events, bar)
        for count in range(2, 7):
            what = f"{count} queries, shared prefix of 3, {name} (16a)"
            yield Row(what, prefixes(3, count, window), events)
        for length in range(2, 7):
            what = f"3 queries, shared substring of {length}, {name} (16c)"
            yield Row(what, substrings(length, 3, window), events)
        for count in range(2, 7):
            bar = 1.5 if count == 6 else None
            what = f"{count} queries, shared substring of 6, {name} (16d)"
            yield Row(what, substrings(6, count, window), events, bar)
    for name, clauses in EXPIRING.items():
        what = f"10 queries, shared prefix of 3, {name}"
        yield Row(what, prefixes(3, 10, clauses), EXPIRING_EVENTS // shrink)
    for count in (10, 100, 500, 1000):
        most = 20.0 if count == 500 else None
        rules = make_rules(count)
        yield Row(f"{count:,} rules by key, tumbling", rules, RULES_EVENTS // shrink, most=most)


def run(*, shrink: int, tell: Callable[[str], None]) -> tuple[Table, list[str]]:
    """Measure all workloads; return a table, and a sentence for every wrong answer."""
    return measure("Workloads (A-Seq figure 16)", rows(shrink), make_events, tell)


def measure(
    title: str,
    workloads: Iterator[Row],
    make: Callable[[int], pa.Table],
    tell: Callable[[str], None],
) -> tuple[Table, list[str]]:
    """Measure workloads over streams; return a table, and a sentence for every wrong answer."""
    table = Table(title=f"{title}, processor time", title_justify="left")
    table.add_column("workload")
    for name in ("events", "nodes", "shared", "read once", "alone", "gain", "x one query", "bar"):
        table.add_column(name, justify="right")
    wrong: list[str] = []
    streams: dict[int, pa.Table] = {}
    found = []
    for row in workloads:
        tell(row.what)
        if row.events not in streams:
            streams[row.events] = make(row.events)
        events = streams[row.events]
        found.append(_measure(row, events, wrong))
    # What misses a bar, or gains nothing, comes first.
    for cells in sorted(found, key=lambda c: ("missed" not in c[-1], float(c[-3]) >= 1)):
        table.add_row(*cells)
    return table, wrong


ALONE_MAX = 20
"""Of more queries, so many run alone, and their time counts for all."""


def _measure(row: Row, events: pa.Table, wrong: list[str]) -> list[str]:
    workload = cepheid.workload(row.queries)
    reading = cepheid.workload(row.queries, merge=False)
    many = len(row.queries) > ALONE_MAX
    sample = list(range(0, len(row.queries), max(1, len(row.queries) // ALONE_MAX)))
    shared_s, found = _best(lambda: workload.run(events, separate=True))
    reading_s = (
        None if many or not row.read_once else _best(lambda: reading.run(events, separate=True))[0]
    )
    alone_s, expected = _best(lambda: {n: workload.queries[n].run(events) for n in sample})
    one_s = alone_s / len(sample)
    for n, table in expected.items():
        if not _same(found[workload.names[n]], table):
            wrong.append(f"{row.what}: `{row.queries[n]}` gives other rows")
    plan = workload.shared(events.schema)
    systems = [g.system for g in plan.groups] + [p.system for g in plan.looking for p in g.passes]
    nodes = sum(len(s.nodes) for s in systems), sum(len(s.places) for s in systems)
    gain, factor = one_s * len(row.queries) / shared_s, shared_s / one_s
    bar = ""
    if row.bar is not None:
        bar = f"{row.bar:g} {'met' if gain >= row.bar else 'missed'}"
    if row.most is not None:
        bar = f"x {row.most:g} {'met' if factor <= row.most else 'missed'}"
    return [
        row.what,
        f"{row.events:,}",
        f"{nodes[0]:,} of {nodes[1]:,}",
        f"{shared_s * 1000:,.0f} ms",
        "" if reading_s is None else f"{reading_s * 1000:,.0f} ms",
        f"{one_s * len(row.queries) * 1000:,.0f} ms",
        f"{gain:.1f}",
        f"{factor:.2f}",
        bar,
    ]


T = TypeVar("T")


def _best(call: Callable[[], T], rounds: int = 3) -> tuple[float, T]:
    result = call()  # Compiles.
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        result = call()
        best = min(best, time.process_time() - start)
    return best, result


def _same(mine: pa.Table, theirs: pa.Table) -> bool:
    if mine.schema != theirs.schema or len(mine) != len(theirs):
        return False
    return all(
        np.allclose(a.to_numpy().astype(float), b.to_numpy().astype(float), rtol=TOLERANCE)
        for a, b in zip(mine.columns, theirs.columns, strict=True)
    )
