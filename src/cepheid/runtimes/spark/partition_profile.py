"""Profile the partitions of a DataFrame: are they ranges of time, and where to cut them.

One Spark job over the times computes the profile, without Python. Rows are profiled in
blocks: if the blocks are sorted by time, each can be sorted by itself while it is read.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyspark.sql import functions as sf

from cepheid.runtimes.spark.tasks import Ranges
from cepheid.spark.failures import clear_failures
from cepheid.spark.schema import alias_of, micros_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cepheid.plans.plan import Plan

BLOCK_BITS = 18
BLOCK_ROWS = 1 << BLOCK_BITS
"""Rows of a block: one step of the engine."""

BLOCK_POINTS = 64
"""Points of time that stand for the events of a block where the stream is cut."""

ROWS_BITS = 33
"""Low bits of Spark's row ids that number the rows of a partition; the partition is above."""

UNSTABLE = ("Exchange", "LocalTableScan")
"""Steps of a plan whose partitions depend on what follows them."""


def has_fixed_partitions(frame: DataFrame) -> bool:
    """Check whether a DataFrame has the same partitions each time it is read."""
    remote: Any = getattr(frame, "_explain_string", None)
    local: Any = getattr(frame, "_jdf", None)
    shown = remote() if remote else local.queryExecution().executedPlan().toString()
    return not any(word in shown for word in UNSTABLE)


class _Block(NamedTuple):
    partition: int
    block: int
    first: int
    last: int
    rows: int


class Profile(NamedTuple):
    """The profile of the partitions; ``ranges`` is None if they overlap in time.

    ``edges`` cut the ``span`` of time into ranges with equal numbers of events.
    """

    is_empty: bool
    ranges: Ranges | None
    edges: tuple[int, ...]
    span: int


def profile_partitions(projected: DataFrame, plan: Plan, count: int) -> Profile:
    """Profile the partitions of a DataFrame, for ``count`` tasks."""
    measured = (
        projected.select(
            _microseconds(projected, plan.time).alias("t"),
            sf.monotonically_increasing_id().alias("row"),
        )
        .groupBy(sf.expr(f"row div {BLOCK_ROWS}").alias("place"))
        .agg(sf.min("t").alias("first"), sf.max("t").alias("last"), sf.count("*").alias("rows"))
    )
    with clear_failures():
        facts = measured.toArrow().to_pandas()
    if facts.empty or facts["first"].isna().any():
        # Times that are NULL are an error that the task reports in full.
        return Profile(is_empty=True, ranges=None, edges=(), span=0)
    blocks = [
        _Block(int(place) >> (ROWS_BITS - BLOCK_BITS), int(place), int(f), int(t), int(n))
        for place, f, t, n in facts.groupby("place", sort=True)
        .agg({"first": "min", "last": "max", "rows": "sum"})
        .itertuples()
    ]
    return Profile(
        is_empty=False,
        ranges=_ranges(blocks, plan) if has_fixed_partitions(projected) else None,
        edges=_edges(blocks, count),
        span=max(block.last for block in blocks) - min(block.first for block in blocks),
    )


def _microseconds(frame: DataFrame, name: str) -> Column:
    """Convert a time column to integer microseconds, as the engine reads it."""
    return micros_of(sf.col(alias_of(name)), dict(frame.dtypes)[alias_of(name)])


def _ranges(blocks: list[_Block], plan: Plan) -> Ranges | None:
    """Compute the time ranges of partitions, or None if two of them overlap."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    unordered = set()
    for block in blocks:
        here = block.partition
        if here in last and block.first < last[here]:
            unordered.add(here)
        if here in last and plan.tiebreak and block.first == last[here]:
            unordered.add(here)
        first[here] = min(block.first, first.get(here, block.first))
        last[here] = max(block.last, last.get(here, block.last))
    # Events of one time in two partitions are in their order only where that order counts.
    together = plan.orders_ties and not plan.tiebreak
    parts = sorted(first, key=lambda p: (first[p], last[p], p))
    for before, after in itertools.pairwise(parts):
        tied = last[before] == first[after]
        if last[before] > first[after] or (tied and not (together and before < after)):
            return None
    return Ranges(first, last, frozenset(unordered))


def _edges(blocks: list[_Block], count: int) -> tuple[int, ...]:
    """Choose times that cut the events into ranges of about equal size."""
    # A block's events are spread evenly over its time, for all that is known.
    parts = (np.arange(BLOCK_POINTS) + 0.5) / BLOCK_POINTS
    points = np.concatenate([b.first + (b.last - b.first) * parts for b in blocks])
    weights = np.repeat([b.rows / BLOCK_POINTS for b in blocks], BLOCK_POINTS)
    order = np.argsort(points, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    wanted = np.arange(1, count) / count
    cuts = points[order][np.searchsorted(share, wanted)]
    return tuple(int(cut) for cut in np.unique(np.ceil(cuts)))
