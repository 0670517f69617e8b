"""Parts of a stream of events, of which a query reads some columns of some events."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns

Places = NDArray[np.int64]


class Distinct(NamedTuple):
    """The distinct values of a column, and the number of each event's value, -1 for NULL."""

    values: pa.Array[Any]
    codes: Places


class EventPart(Protocol):
    """Some events in order, whose columns are read when they are asked for."""

    def __len__(self) -> int:
        """Count the events."""

    def present(self, rows: Places | None) -> set[str] | None:
        """Find the columns that have values in all rows or some; None if nobody knows."""

    def arrow(self, name: str, rows: Places | None) -> pa.ChunkedArray[Any]:
        """Return a column of all rows or of some."""

    def distinct(self, name: str, rows: Places | None) -> Distinct | None:
        """Return the distinct values of a column; None for structures and lists."""

    def table(self, names: list[str]) -> pa.Table:
        """Return columns of all events."""

    def take(self, rows: Places) -> pa.Table:
        """Return some events with all their columns."""


class TablePart:
    """Events of a table."""

    def __init__(self, table: pa.Table) -> None:
        self._table, self._columns = table, Columns(table)
        self._asked: Places | None = None
        self._chosen: pa.Array[Any] | None = None

    def __len__(self) -> int:
        """Count the events."""
        return len(self._table)

    def present(self, rows: Places | None) -> set[str] | None:
        """Return None: to look costs as much as to read."""
        del rows
        return None

    def arrow(self, name: str, rows: Places | None) -> pa.ChunkedArray[Any]:
        """Return a column of all rows or of some."""
        column = self._columns.arrow(name)
        # To take rows of several chunks would copy all of them first.
        return column if rows is None else column.filter(self._mask(rows))

    def distinct(self, name: str, rows: Places | None) -> Distinct | None:
        """Return the distinct values of a column; None for structures and lists."""
        return distinct_values(self.arrow(name, rows))

    def table(self, names: list[str]) -> pa.Table:
        """Return all columns: they are there."""
        del names
        return self._table

    def take(self, rows: Places) -> pa.Table:
        """Return some events."""
        return self._table.filter(self._mask(rows)).combine_chunks()

    def _mask(self, rows: Places) -> pa.Array[Any]:
        if self._chosen is None or self._asked is not rows:
            chosen = np.zeros(len(self._table), np.bool_)
            chosen[rows] = True
            self._asked, self._chosen = rows, pa.array(chosen)
        return self._chosen


def distinct_values(column: pa.ChunkedArray[Any]) -> Distinct | None:
    """Find the distinct values of a column; None for structures and lists, or without events."""
    if pa.types.is_nested(column.type) or not len(column):
        return None
    if pa.types.is_null(column.type):
        return Distinct(pa.nulls(0), np.full(len(column), -1, np.int64))
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded: Any = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes = encoded.indices
    if codes.null_count:
        codes = codes.fill_null(-1)
    return Distinct(encoded.dictionary, codes.to_numpy().astype(np.int64))
