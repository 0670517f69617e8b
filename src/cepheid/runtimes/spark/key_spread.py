"""Spread keys over tasks by their numbers of events, so that a heavy key does not delay others.

Keys are hashed to many small buckets, whose events one Spark job counts, without Python. The
largest buckets are placed first, each in the task with the fewest events so far: a heavy key has a
task for itself as long as others have more room.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as sf

from cepheid.jobs.kind import needs_of
from cepheid.spark.failures import clear_failures
from cepheid.spark.schema import projected_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cepheid.plans.plan import Plan

SMALL_PER_TASK = 64
"""Small buckets for each task: keys that share one with a heavy key are few."""
SMALL_MAX = 4096
"""More small buckets would take longer to plan than they save."""
UNEVEN_MIN = 1.3
"""The ratio of the largest task to the mean from which tasks are uneven."""


class Spread(NamedTuple):
    """The task of every small bucket, and the ratio of the largest task to the mean."""

    tasks: tuple[int, ...]
    ratio: float

    @property
    def is_uneven(self) -> bool:
        """Check whether one task ends long after the others."""
        return self.ratio > UNEVEN_MIN


Counts = Callable[[tuple[str, ...], int], "DataFrame | None"]
"""Counts the events of small buckets, of which there are so many, by the hash of keys."""


def spread_keys(
    projected: DataFrame, plan: Plan, count: int, counts: Counts | None = None
) -> Spread:
    """Count the events of small buckets of keys, and place these in tasks.

    ``counts`` may count them in another way than by a look at every row in the JVM.
    """
    names = needs_of(plan).keys
    small = min(SMALL_PER_TASK * count, SMALL_MAX)
    if not names or count < 2 or small < 2 * count:
        return Spread(tuple(range(count)), 1.0)
    counted = None if counts is None else counts(names, small)
    if counted is None:
        counted = projected.groupBy(hashed(projected, names, small).alias("small")).count()
    events: Counter[int] = Counter()
    with clear_failures():
        for row in counted.collect():
            events[int(row[0])] += int(row[1])
    return place(events, small, count)


def place(events: Mapping[int, int], small: int, count: int) -> Spread:
    """Place small buckets with known numbers of events in tasks, the largest first.

    Examples
    --------
    >>> place({0: 60, 1: 20, 2: 20, 3: 20}, 4, 2)
    Spread(tasks=(0, 1, 1, 1), ratio=1.0)
    """
    tasks = [number % count for number in range(small)]
    loads = [(0, task) for task in range(count)]
    for number in sorted(events, key=lambda number: (-events[number], number)):
        load, tasks[number] = heapq.heappop(loads)
        heapq.heappush(loads, (load + events[number], tasks[number]))
    total = sum(events.values())
    return Spread(tuple(tasks), max(loads)[0] * count / total if total else 1.0)


def task_of(projected: DataFrame, names: tuple[str, ...], spread: Spread) -> Column:
    """Return the number of the task of every event."""
    # One text, because each value of its own would be a call to the JVM.
    table = sf.expr(f"array({', '.join(map(str, spread.tasks))})")
    return sf.element_at(table, hashed(projected, names, len(spread.tasks)) + sf.lit(1))


def hashed(projected: DataFrame, names: tuple[str, ...], count: int) -> Column:
    """Return the number of the bucket of every event, by the hash of its keys."""
    return sf.pmod(sf.hash(*(canonical(projected, name) for name in names)), sf.lit(count))


def canonical(frame: DataFrame, name: str) -> Column:
    """Normalise a key column so that equal keys have equal bits: one NaN, one zero (§4.6)."""
    column = projected_column(frame, name)
    if frame.select(column).dtypes[0][1] in ("double", "float"):
        zero = sf.lit(0.0)
        return sf.when(sf.isnan(column), sf.lit(float("nan"))).otherwise(column + zero)
    return column
