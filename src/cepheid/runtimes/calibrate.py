"""Measure the cost of reads, look-ups and event processing on this machine, for the planner."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from cepheid.decoding import from_values
from cepheid.kinds.row_pattern.bind import bind_clause
from cepheid.kinds.row_pattern.recognize import recognize
from cepheid.kinds.row_pattern.statement import read_statement
from cepheid.runtimes.local import CompiledQueryLike, run_table
from cepheid.store.event_store import EventStore
from cepheid.store.manifest import Segment
from cepheid.store.rates import Rates
from cepheid.store.snapshot import RUN_GROUPS, Snapshot

ROWS = 1 << 19
"""Events that are measured."""

COLUMNS = ("a", "b", "c", "d")
RUNS = 5
QUERY = (
    "RETURN COUNT(*) PATTERN SEQ(E x, E y) WHERE x.a > 0.9 AND y.b > 0.9 WITHIN 300 us SLIDE 300 us"
)

CLAUSE = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.ts AS a PATTERN (A T* B T* C)
    WITHIN 300 DEFINE A AS a > 0.95, B AS b BETWEEN 0.2 AND 0.25, C AS c < 0.05)"""


def measure_rates(compile_query: Callable[[str], CompiledQueryLike]) -> Rates:
    """Measure the unit costs of this machine; takes some seconds and some megabytes of disk."""
    random = np.random.default_rng(3)
    columns: dict[str, Any] = {"ts": np.arange(ROWS)}
    table = pa.table(columns | {name: random.random(ROWS) for name in COLUMNS})
    with tempfile.TemporaryDirectory(prefix="cepheid-calibrate-") as folder:
        store = EventStore(folder)
        store.append(table)
        store.index("a")
        group, value = _reading(store)
        entry, look_up = _looking(store)
        query = compile_query(QUERY).with_schema(table.schema)
        run = _best(lambda: run_table(query.plan, table), RUNS) / ROWS
        match = _matching(table)
    found = {"group": group, "value": value, "run": run, "match": match}
    found |= {"entry": entry, "look_up": look_up}
    # A clock that stands still must not make anything free.
    return from_values({name: max(us * 1e6, 1e-4) for name, us in found.items()}, Rates)


def _matching(table: pa.Table) -> float:
    """Measure the seconds per row and variable of SQL matching."""
    statement = read_statement(CLAUSE)
    plan = bind_clause(statement.sites[0].clause, table.column_names, CLAUSE)
    needed = table.select(list(plan.read_columns))
    return _best(lambda: recognize(plan, needed), RUNS) / ROWS / (1 + len(plan.variables))


def _best(work: Callable[[], object], runs: int) -> float:
    seconds = []
    for _ in range(runs):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def _opened(store: EventStore) -> tuple[Snapshot, Segment]:
    snapshot = EventStore(store.path).snapshot()
    return snapshot, snapshot.manifest.segments[0]


def _reading(store: EventStore) -> tuple[float, float]:
    """Measure the seconds per row group, and per value in it."""
    snapshot, segment = _opened(store)
    groups = snapshot.tree(segment).groups
    # Every other one, as many at once as a replay reads.
    some = list(range(0, groups, 2))[:RUN_GROUPS]
    opened: dict[int, Any] = {}

    def read(names: tuple[str, ...]) -> float:
        def work() -> None:
            snapshot.read_groups(segment, some, names, opened=opened)

        work()
        return _best(work, RUNS) / len(some)

    narrow, wide = read(COLUMNS[:1]), read(COLUMNS)
    held = ROWS / groups
    value = max(wide - narrow, 0.0) / ((len(COLUMNS) - 1) * held)
    return max(narrow - value * held, 0.0), value


def _looking(store: EventStore) -> tuple[float, float]:
    """Measure the seconds per entry that is read and sorted, and per look-up."""

    def look(low: float) -> None:
        snapshot, segment = _opened(store)
        index = snapshot.secondary(segment, "a")
        assert index is not None, "it was just made"
        snapshot.look_up(segment, "a", index.find(">=", low))

    few, many = _best(lambda: look(1.0), RUNS), _best(lambda: look(0.5), RUNS)
    opening = _best(lambda: _opened(store), RUNS)
    return max(many - few, 0.0) / (ROWS / 2), max(few - opening, 0.0)
