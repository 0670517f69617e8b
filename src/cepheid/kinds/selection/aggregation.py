"""Aggregate bounded input: tables of events in, and then the rows of all windows out."""

from __future__ import annotations

import pyarrow as pa

from cepheid.kinds.selection.moments import SumBounds
from cepheid.kinds.selection.operators import ON_CPU, Operators
from cepheid.kinds.selection.plain_folds import PlainFolds, folds_plainly
from cepheid.kinds.selection.windows import (
    Stretches,
    measure,
    rows_of_stretches,
    united_stretches,
)
from cepheid.plans.selection import Extent, Selection


class Aggregation:
    """Aggregates the events of tables, one table after the other."""

    def __init__(self, select: Selection, time: str, by: Operators = ON_CPU) -> None:
        self._select, self._by = select, by
        self._time = time
        self._parts: list[Stretches] = []
        self._sums = SumBounds()
        self._schema: pa.Schema | None = None
        plainly = by is ON_CPU and folds_plainly(select)
        self._folds = PlainFolds(select, time) if plainly else None
        self._is_plain = plainly

    def add(self, table: pa.Table) -> None:
        """Add events; counted windows take all of them at once, in time order."""
        counted = self._select.window.extent is Extent.EVENTS
        assert not (counted and self._parts), "events are numbered once"
        if self._schema is None:
            self._schema = table.schema
        if not self._add_plainly(table):
            self._parts.append(self._measured(table))

    def _add_plainly(self, table: pa.Table) -> bool:
        """Fold plain events as they come; after others, no more are expected."""
        if self._folds is None or not self._is_plain:
            return False
        self._is_plain = self._folds.add(self._by.keep(table, self._select.condition), self._sums)
        return self._is_plain

    def _measured(self, table: pa.Table) -> Stretches:
        part = self._by.measured(self._select, self._time, table, self._sums)
        if part is not None:
            return part
        return measure(self._select, self._time, table, self._sums.added, self._by)

    def result(self) -> pa.Table:
        """Build the rows of all windows, by window and key."""
        assert self._schema is not None, "there is a table, if only an empty one"
        if self._folds is not None and len(self._folds):
            if not self._parts:
                return self._folds.table(self._schema)
            self._parts.append(self._folds.stretches())
        whole = united_stretches(self._parts)
        return rows_of_stretches(self._select, self._time, self._schema, whole)
