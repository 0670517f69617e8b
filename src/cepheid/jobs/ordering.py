"""Put events in time order: sort one table, or merge several sorted ones.

Sorted pieces of a stream are merged as they come: events before the begin of the next piece can be
released at once. So memory holds only the overlap of the pieces.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import DataError, Diagnostic
from cepheid.kernels.columns import scan_times
from cepheid.plans.plan import Plan

STEP_ROWS = 1 << 18
"""Events of one step: large enough to hide the cost of a step, small enough for the caches."""


SORT_ROWS_MAX = 50_000_000
"""Unsorted tables up to this size are sorted in memory, with a notice."""


def order_of(table: pa.Table, plan: Plan) -> NDArray[np.int64] | None:
    """Compute the row order by time, tie-breakers and arrival; None if rows are sorted already."""
    columns = Columns(table)
    times = read_times(columns, plan.time)
    back, ties = scan_times(times)
    if back < 0 and not (ties and plan.tiebreak):
        return None
    if not plan.tiebreak:
        return np.argsort(times, kind="stable")
    keys: list[Any] = [np.arange(len(table))]
    keys += [ranks(columns.arrow(name)) for name in reversed(plan.tiebreak)]
    return np.lexsort([*keys, times])


def ordered(table: pa.Table, plan: Plan) -> pa.Table:
    """Sort a table by time, then tie-breakers, then arrival."""
    rows = order_of(table, plan)
    return table if rows is None else table.take(rows)


def sort_events(table: pa.Table, plan: Plan) -> pa.Table:
    """Sort events by time, then tie-breakers, then arrival."""
    rows = order_of(table, plan)
    if rows is None:
        return table
    back, _ = scan_times(read_times(Columns(table), plan.time))
    if back >= 0:
        row = int(back)
        if len(table) > SORT_ROWS_MAX:
            message = f"the events are not in the order of `{plan.time}`, from row {row} on"
            helps = (f"sort them first: {len(table):,} events are more than {SORT_ROWS_MAX:,}",)
            raise DataError([Diagnostic("E509", message, helps=helps)])
        message = f"the events are not in the order of `{plan.time}` (row {row}); they were sorted"
        warnings.warn(message, stacklevel=4)
    return table.take(rows)


def with_ties_ordered(batches: Iterable[pa.Table], plan: Plan) -> Iterable[pa.Table]:
    """Sort events of equal time by tie-breakers, also across batches."""
    return _with_ties_ordered(batches, plan) if plan.tiebreak else batches


def _with_ties_ordered(batches: Iterable[pa.Table], plan: Plan) -> Iterator[pa.Table]:
    held: pa.Table | None = None
    for batch in batches:
        # The next batch may have more events of the last time.
        whole = batch if held is None else pa.concat_tables([held, batch])
        times = read_times(Columns(whole), plan.time)
        if scan_times(times)[0] >= 0:
            # Pass unsorted events on: their consumer reports them.
            yield whole
            held = whole.slice(0, 0)
            continue
        cut = int(np.searchsorted(times, times[-1])) if len(times) else 0
        if cut:
            yield ordered(whole.slice(0, cut), plan)
        held = whole.slice(cut)
    if held is not None:
        yield ordered(held, plan)


def ranks(column: pa.ChunkedArray[Any]) -> Any:
    """Rank the values of a column."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)  # Arrow ranks no dictionaries.
    return np.asarray(pc.rank(column, sort_keys="ascending", tiebreaker="dense"))


class _Piece(NamedTuple):
    seq: int
    table: pa.Table
    times: NDArray[np.int64]


class TimeMerge:
    """Merges sorted pieces that come in the order of their begin times."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._pieces: list[_Piece] = []
        self._rows = 0

    def add(self, seq: int, begin: int, table: pa.Table) -> Iterator[pa.Table]:
        """Add a piece; yield the events before it, once there are many.

        ``seq`` orders events of equal time: pieces with a lower number came first.
        """
        if self._rows >= STEP_ROWS:
            yield from self._release(begin)
        self._pieces.append(_Piece(seq, table, read_times(Columns(table), self._plan.time)))
        self._rows += len(table)

    def rest(self) -> Iterator[pa.Table]:
        """Release all remaining events."""
        yield from self._release(None)

    def _release(self, before: int | None) -> Iterator[pa.Table]:
        ready, left = [], []
        for piece in sorted(self._pieces, key=lambda p: p.seq):
            cut = len(piece.times)
            if before is not None:
                cut = int(np.searchsorted(piece.times, before, side="left"))
            if cut:
                ready.append(piece.table.slice(0, cut))
            if cut < len(piece.times):
                left.append(_Piece(piece.seq, piece.table.slice(cut), piece.times[cut:]))
        self._pieces = left
        self._rows = sum(len(piece.times) for piece in left)
        if ready:
            yield from slices(ordered(pa.concat_tables(ready), self._plan), STEP_ROWS)


def put_together(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Concatenate batches to tables of at least ``rows`` rows; the last may have fewer."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += len(batch)
        if count >= rows:
            yield pa.Table.from_batches(waiting)
            waiting, count = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def slices(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """Slice a table into pieces of at most ``rows`` rows."""
    for offset in range(0, len(table), rows):
        yield table.slice(offset, rows)
