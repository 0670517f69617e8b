"""Profile the partitions of a DataFrame: are they ranges of time, and where to cut them.

One Spark job over the times computes the profile, without Python. Rows are profiled in
blocks: if the blocks are sorted by time, each can be sorted by itself while it is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyspark.sql import functions as sf

from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.scan import RowGroup
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


PAIR_ROWS = 16
"""Of so many rows of a block, one is looked at to count pairs of a key and a pane."""


class _Block(NamedTuple):
    partition: int
    block: int
    first: int
    last: int
    rows: int
    pairs: int


class Profile(NamedTuple):
    """The profile of the partitions; ``ranges`` is None if they overlap in time.

    ``edges`` cut the ``span`` of time into ranges with equal numbers of events. ``pairs`` are pairs
    of a key and a pane, for each event.
    """

    is_empty: bool
    ranges: Ranges | None
    edges: tuple[int, ...]
    span: int
    rows: int = 0
    partitions: int = 1
    pairs: float = 0.0
    blocks: tuple[_Block, ...] = ()

    def cut(self, count: int) -> Profile:
        """Choose other edges, for another number of tasks."""
        return self._replace(edges=_edges(self.blocks, count))


def profile_partitions(projected: DataFrame, plan: Plan, count: int) -> Profile:
    """Profile the partitions of a DataFrame, for ``count`` tasks."""
    measured = (
        projected.select(
            _microseconds(projected, plan.time).alias("t"),
            sf.monotonically_increasing_id().alias("row"),
            _pair(projected, plan).alias("pair"),
        )
        .groupBy(sf.expr(f"row div {BLOCK_ROWS}").alias("place"))
        .agg(
            sf.min("t").alias("first"),
            sf.max("t").alias("last"),
            sf.count("*").alias("rows"),
            sf.approx_count_distinct(sf.expr(f"if(row % {PAIR_ROWS} = 0, pair, NULL)"), 0.1).alias(
                "pairs"
            ),
        )
    )
    with clear_failures():
        facts = measured.toArrow().to_pandas()
    if facts.empty or facts["first"].isna().any():
        # Times that are NULL are an error that the task reports in full.
        return Profile(is_empty=True, ranges=None, edges=(), span=0)
    blocks = tuple(
        _Block(int(place) >> (ROWS_BITS - BLOCK_BITS), int(place), int(f), int(t), int(n), int(d))
        for place, f, t, n, d in facts.groupby("place", sort=True)
        .agg({"first": "min", "last": "max", "rows": "sum", "pairs": "sum"})
        .itertuples()
    )
    rows = sum(block.rows for block in blocks)
    return Profile(
        is_empty=False,
        ranges=_ranges(blocks, plan) if has_fixed_partitions(projected) else None,
        edges=_edges(blocks, count),
        span=max(block.last for block in blocks) - min(block.first for block in blocks),
        rows=rows,
        partitions=len({block.partition for block in blocks}),
        pairs=sum(distinct_of(b.pairs, b.rows, PAIR_ROWS) for b in blocks) / rows,
        blocks=blocks,
    )


def profile_of_footers(groups: Sequence[RowGroup]) -> Profile:
    """Profile files by their footers; how Spark puts them into partitions is not known."""
    blocks = tuple(
        _Block(place, place, group.first, group.last, group.rows, 0)
        for place, group in enumerate(groups)
    )
    span = max(block.last for block in blocks) - min(block.first for block in blocks)
    rows = sum(block.rows for block in blocks)
    return Profile(False, None, (), span, rows, len(blocks), blocks=blocks)


def distinct_of(found: int, rows: int, every: int) -> float:
    """Estimate the distinct values of rows from those of a sample, if all are equally frequent.

    Examples
    --------
    >>> round(distinct_of(10, 16_000, 16)), round(distinct_of(100, 1600, 16))
    (10, 1600)
    >>> round(distinct_of(632, 16_000, 16))  # A thousand draws of a thousand values.
    1000
    """
    sample = max(rows / every, 1.0)
    if found >= sample:
        return float(rows)
    low, high = float(found), 1e12
    for _ in range(60):
        middle = (low * high) ** 0.5 if low else high / 2
        seen = -middle * np.expm1(-sample / middle)
        low, high = (middle, high) if seen < found else (low, middle)
    return float(min(-high * np.expm1(-rows / high), rows))


def _pair(frame: DataFrame, plan: Plan) -> Column:
    """Return a hash of the key and the pane of an event."""
    keys = [sf.col(alias_of(name)) for name in plan.partition.attributes]
    pane = pane_of(plan)
    if pane:
        keys.append(sf.floor(_microseconds(frame, plan.time) / sf.lit(pane)))
    return sf.xxhash64(*keys) if keys else sf.lit(0).cast("bigint")


def pane_of(plan: Plan) -> int:
    """Return the length of a pane in ticks; 0 for plans without panes."""
    return plan.window.pane if isinstance(plan, TrendPlan) else 0


def _microseconds(frame: DataFrame, name: str) -> Column:
    """Convert a time column to integer microseconds, as the engine reads it."""
    return micros_of(sf.col(alias_of(name)), dict(frame.dtypes)[alias_of(name)])


def _ranges(blocks: tuple[_Block, ...], plan: Plan) -> Ranges | None:
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


def _edges(blocks: tuple[_Block, ...], count: int) -> tuple[int, ...]:
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
