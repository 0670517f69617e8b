"""How much of a store is read: intervals as long as windows and shorter, situations by the index.

Machines report their load, and few of them are hot for a short time. Whole windows are what is
replayed if conditions on times and adjacent events are left out of account.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from rich.table import Table

import cepheid
from cepheid.kinds.trend import reaching, replay
from cepheid.patterns import time_limits
from cepheid.runtimes.store import StoreRun, measure_store

EVENTS = 10_000_000
PER_SECOND = 100
MACHINES = 1_000
BURSTS = 4
BURST_S = 60
SECOND_US = 1_000_000
RUNS = 3

TRENDS = {
    "B within 10 s after a hot A, windows of an hour": """RETURN COUNT(*) PATTERN SEQ(A a, B b)
        WHERE [machine] AND a.load > 120 AND b.ts - a.ts < 10 seconds WITHIN 1 hour SLIDE 1 hour""",
    "two links of 1 minute up to a hot C, windows of a day": """RETURN COUNT(*), MAX(b.load)
        PATTERN SEQ(A a, B b, C c) WHERE [machine] AND c.load > 120 AND b.ts - a.ts <= 1 minute
        AND c.ts - b.ts <= 1 minute WITHIN 1 day SLIDE 1 day""",
    "hot A and then a B, adjacent, windows of 10 minutes": """RETURN COUNT(*) PATTERN SEQ(A a, B b)
        SEMANTICS contiguous WHERE a.load > 120 WITHIN 10 minutes SLIDE 10 minutes TIES arrival""",
}
SITUATIONS = {
    "hot for 30 s, listed": """PARTITION BY machine DEFINE Hot AS load > 120 AT LEAST 30 seconds
        SITUATIONS Hot RETURN COUNT(Hot), MAX(Hot.load)""",
    "hot by its average, with UNTIL": """PARTITION BY machine
        DEFINE Hot AS load > 120 AND AVG(load) > 125 UNTIL load < 60 SITUATIONS Hot""",
    "hot overlaps fast (half of the time), in 2 minutes": """PARTITION BY machine
        DEFINE Hot AS load > 120, Fast AS speed > 50
        PATTERN Hot overlaps;during;contains;overlapped by Fast WITHIN 2 minutes""",
}


def machines(shrink: int) -> pa.Table:
    """Make events: types at random, loads around 50, and machines that are hot for minutes."""
    random = np.random.default_rng(25)
    count = EVENTS // shrink
    times = np.sort(random.integers(0, count // PER_SECOND * SECOND_US, count))
    machine = random.integers(0, MACHINES, count)
    load = np.round(random.normal(50.0, 10.0, count), 2)
    for begin in random.integers(0, count // PER_SECOND, BURSTS):
        low, high = np.searchsorted(times, np.array([begin, begin + BURST_S]) * SECOND_US)
        hot = low + np.flatnonzero(machine[low:high] == random.integers(0, MACHINES))
        load[hot] = np.round(random.normal(130.0, 5.0, len(hot)), 2)
    columns: dict[str, Any] = {
        "ts": pa.array(times).view(pa.timestamp("us")),
        "type": pa.array(np.array(list("ABC"))[random.integers(0, 3, count)]),
        "machine": machine,
        "load": load,
        "speed": np.round(random.uniform(0.0, 100.0, count), 1),
    }
    return pa.table(columns)


@contextmanager
def whole_windows() -> Iterator[None]:
    """Replay whole windows, as before."""

    def unknown(*arguments: Any) -> time_limits.Reach:
        return time_limits.reach_of_symbols(*arguments)._replace(conditions=())

    with ExitStack() as stack:
        stack.enter_context(patch.object(reaching, "reach_of_symbols", unknown))
        for module in (reaching, replay):
            stack.enter_context(patch.object(module, "looks_outside", lambda _: True))
        yield


def measured(store: cepheid.EventStore, query: Any, method: str) -> tuple[float, StoreRun]:
    """Run a query with a store that is opened anew; return the fewest CPU seconds of some runs."""
    best, run = np.inf, None
    for _ in range(2 if method == "replay" else RUNS):
        begin = time.process_time()
        run = measure_store(query, cepheid.EventStore(store.path), method)
        best = min(best, time.process_time() - begin)
    assert run is not None, "there is a run"
    return float(best), run


def parts(store: cepheid.EventStore, shrink: int) -> Table:
    """Run all queries each way; all rows are the same."""
    shown = Table(title="Parts of a store, CPU seconds", title_justify="left")
    for name in ("query", "way", "CPU s", "events read", "row groups", "times"):
        shown.add_column(name, justify="right")
    store.append(machines(shrink))
    store.index("load")
    for name, text in (TRENDS | SITUATIONS).items():
        query = cepheid.query(text)
        measured(store, query, "auto")  # Compiles.
        ways = {"replay": measured(store, query, "replay")}
        if name in TRENDS:
            with whole_windows():
                ways["whole windows"] = measured(store, query, "auto")
        ways["now"] = measured(store, query, "auto")
        first = ways["replay"]
        for way, (seconds, run) in ways.items():
            assert run.table.equals(first[1].table), "all ways have the same rows"
            shown.add_row(
                name,
                way,
                f"{seconds:.3f}",
                f"{run.effort.rows:,}",
                f"{run.effort.groups:,} of {run.replay.total:,}",
                f"{first[0] / seconds:.1f}",
            )
    return shown
