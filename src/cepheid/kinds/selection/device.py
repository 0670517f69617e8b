"""A SELECT on a GPU: its filters, folds and pairs run there, the rest of the plan on the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.accelerator import selecting
from cepheid.accelerator.conditions import LEFT, Forming
from cepheid.accelerator.room import events_at_once
from cepheid.arrays.columns import Columns, values_of_keys
from cepheid.expressions.vectors import Vector
from cepheid.kinds.selection.device_columns import keep_there, measure_there
from cepheid.kinds.selection.groups import Codes
from cepheid.kinds.selection.join import PAIR_BYTES
from cepheid.kinds.selection.local import LocalSelect, read_only
from cepheid.kinds.selection.moments import Moments, Parts, SumBounds
from cepheid.kinds.selection.operators import (
    Candidates,
    Joined,
    Measured,
    Operators,
    Pairs,
    matching,
)
from cepheid.kinds.selection.windows import Stretches
from cepheid.language import tree
from cepheid.memory_limits import current, too_much_state
from cepheid.plans.plan import SelectPlan
from cepheid.plans.selection import Selection, SelectKind

BATCH_ROWS = 1 << 26
"""Events that are on the device at once."""


class DeviceSelect:
    """A SELECT whose operators run on a device."""

    def __init__(self, plan: SelectPlan) -> None:
        self._plan = plan

    @property
    def in_order(self) -> bool:
        """Accept events in any order."""
        return False

    @property
    def whole(self) -> bool:
        """Take all events at once, because a device needs many."""
        return True

    def answer(self, events: pa.Table | pa.RecordBatchReader, *, forced: bool) -> pa.Table | None:
        """Run over the events of one stream; None where the host would have to read columns."""
        assert isinstance(events, pa.Table), "all events are there"
        select = self._plan.select
        if select.kind is SelectKind.FILTER:
            events = read_only(events, select.streams[0])
        job = LocalSelect(self._plan, DeviceOperators(alone=not forced))
        try:
            return job.answer_table(events, events_at_once(BATCH_ROWS))
        except _Unread:
            return None

    def answer_streams(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Join two streams."""
        return LocalSelect(self._plan, DeviceOperators()).answer_streams(tables)


class _Unread(Exception):  # noqa: N818  # it never leaves this module
    """The device cannot read the columns of a table alone."""


class DeviceOperators(Operators):
    """The operators on a device; ``alone`` if the host may not read columns for them.

    The host takes longer for that than a CPU takes for filters and aggregates.
    """

    def __init__(self, *, alone: bool = False) -> None:
        self._alone = alone

    def keep(self, table: pa.Table, conditions: Sequence[tree.Expression]) -> pa.Table:
        """Keep the events for which all conditions are true, in order."""
        if not conditions or not len(table):
            return table
        kept = keep_there(table, conditions)
        if kept is not None:
            return kept
        if self._alone:
            raise _Unread
        columns, length = Columns(table), len(table)

        def look_up(attribute: tree.Attribute) -> tuple[int, Vector]:
            return LEFT, columns.vector(attribute.attribute.text)

        forming = Forming(look_up, (length, 0))
        rows = selecting.find_rows(forming.conditions(conditions, columns.mask), length)
        return table if len(rows) == length else table.take(rows)

    def measured(
        self, select: Selection, time: str, table: pa.Table, sums: SumBounds
    ) -> Stretches | None:
        """Aggregate columns as they lie in Arrow; None where the host must read them."""
        found = measure_there(select, time, table, sums)
        if found is None and self._alone:
            raise _Unread
        return found

    def fold(
        self, measured: Sequence[Measured], rows: Codes, slots: Codes, size: int
    ) -> tuple[Codes, list[Measured]]:
        """Fold what was measured of rows into slots; count the events of each slot, too."""
        folding = _Folding(rows)
        places = [folding.add(one) for one in measured if isinstance(one, Moments)]
        found = selecting.fold_slots(folding.folds, slots, size)
        taken = iter(places)
        return found.counts, [
            next(taken).moments(one, found)
            if isinstance(one, Moments)
            else one.gathered(slots, size)
            for one in measured
        ]

    def match(self, joined: Joined, candidates: Candidates) -> Iterator[Pairs]:
        """Find the pairs of candidates for which all conditions are true."""
        probes, rows, begins, ends, swapped = candidates
        own = (rows, probes) if swapped else (probes, rows)

        def look_up(attribute: tree.Attribute) -> tuple[int, Vector]:
            # On the device, probes are the left side, and candidates lie in their order.
            side, vector = joined.lookup(attribute)
            return int((side == 1) != swapped), _taken(vector, own[side])

        forming = Forming(look_up, (len(probes), len(rows)))
        conditions = forming.conditions(joined.conditions)
        places = selecting.Probes(np.arange(len(probes)), begins, ends)
        total, write = selecting.count_pairs(conditions, places)
        bound = current().state // PAIR_BYTES
        if total > bound:
            too_much_state("pairs", bound)
        if not total:
            return
        probe, partner = write()
        pairs = candidates.pairs(probes[probe], rows[partner])
        yield matching(joined._replace(conditions=conditions.rest), pairs)


def _taken(vector: Vector, rows: NDArray[np.int64]) -> Vector:
    """Select some rows of numbers; text is not for the device."""
    if not isinstance(vector.data, np.ndarray):
        return vector
    valid = None if vector.valid is None else vector.valid[rows]
    return vector._replace(data=vector.data[rows], valid=valid)


class _Place:
    """Where the folds of one measure are among all of them."""

    def __init__(self, folding: _Folding, one: Moments) -> None:
        folds = folding.folds
        total, least, largest = one.parts
        self._known = -1 if one.known is folding.rows else _added(folds.whole, one.known)
        self._total: list[int] = []
        if total is not None:
            halves = total.T if total.ndim == 2 else [total]
            target = folds.doubles if total.dtype == np.float64 else folds.whole
            self._total = [_added(target, half) for half in halves]
        self._least = self._largest = -1
        if least is not None:
            folds.doubled_low.append(least.dtype == np.float64)
            self._least = _added(folds.low, _bits(least))
        if largest is not None:
            folds.doubled_high.append(largest.dtype == np.float64)
            self._largest = _added(folds.high, _bits(largest))

    def moments(self, one: Moments, found: selecting.Folded) -> Moments:
        """Build the moments of slots from the folds."""
        total, least, largest = one.parts
        known = found.counts if self._known < 0 else found.whole[self._known]
        sums: NDArray[Any] | None = None
        if total is not None:
            source = found.doubles if total.dtype == np.float64 else found.whole
            sums = source[self._total[0]] if total.ndim == 1 else source[self._total].T
        parts: Parts = (
            sums,
            None if least is None else _values(found.low[self._least], least.dtype),
            None if largest is None else _values(found.high[self._largest], largest.dtype),
        )
        return Moments(known, parts, one.kind)


class _Folding:
    """Collects the folds of all measures."""

    def __init__(self, rows: Codes) -> None:
        self.rows = rows
        self.folds = selecting.Folds([], [], [], [], [], [])

    def add(self, one: Moments) -> _Place:
        """Add the folds of a measure."""
        return _Place(self, one)


def _added(rows: list[NDArray[np.int64]] | list[NDArray[np.float64]], row: NDArray[Any]) -> int:
    rows.append(row)
    return len(rows) - 1


def _bits(values: NDArray[Any]) -> NDArray[np.int64]:
    """View doubles as their bits; whole numbers stay as they are."""
    return values.view(np.int64) if values.dtype == np.float64 else values


def _values(orders: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert the order of doubles back to doubles; whole numbers stay as they are."""
    return values_of_keys(orders, largest=False, double=dtype == np.float64)
