"""Compute what follows from the columns of a batch once, for all queries that read them.

The members of a workload get tables of their own, with some of the columns, but of the same memory.
Whoever runs them one after the other says so (``sharing_columns``); what they ask for is then
remembered by the place of the columns in memory. Without a block, everything is computed as asked.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import pyarrow as pa

Value = TypeVar("Value")

ROWS_MAX = 1 << 27
"""Rows of all values together that are remembered; of a truth value, a row takes a byte."""


class Known:
    """Values by what they are and where their columns are.

    The columns are kept: memory that is in use cannot become that of others.
    """

    def __init__(self) -> None:
        self.values: dict[Hashable, tuple[Any, Any]] = {}
        self.rows = 0


_CURRENT: ContextVar[Known | None] = ContextVar("shared_columns", default=None)


@contextmanager
def sharing_columns() -> Iterator[None]:
    """Let all that is asked for inside this block be computed once."""
    token = _CURRENT.set(_CURRENT.get() or Known())
    try:
        yield
    finally:
        _CURRENT.reset(token)


def is_shared() -> bool:
    """Check whether several queries may ask for the same."""
    return _CURRENT.get() is not None


def once(
    what: Hashable, columns: Sequence[pa.ChunkedArray[Any]], compute: Callable[[], Value]
) -> Value:
    """Compute a value that follows from columns, or return it if it is known; it is not changed.

    Examples
    --------
    >>> column = pa.chunked_array([["a", "b"]])
    >>> with sharing_columns():
    ...     first = once("encoded", [column], column.dictionary_encode)
    ...     again = once("encoded", [column.slice(0)], column.dictionary_encode)
    >>> first is again
    True
    """
    known = _CURRENT.get()
    if known is None:
        return compute()
    place = (what, *map(_place, columns))
    if place in known.values:
        found: Value = known.values[place][1]
        return found
    value = compute()
    known.rows += max(map(len, columns), default=0)
    if known.rows <= ROWS_MAX:
        known.values[place] = (columns, value)
    return value


def _place(column: pa.ChunkedArray[Any]) -> Hashable:
    """Tell a column by its type and its memory."""
    chunks = tuple(
        (
            chunk.offset,
            len(chunk),
            *((buffer.address, buffer.size) if buffer else None for buffer in chunk.buffers()),
        )
        for chunk in column.chunks
    )
    return column.type, chunks, _dictionaries(column)


def _dictionaries(column: pa.ChunkedArray[Any]) -> Hashable:
    """Tell the dictionaries of a column, which are not among its own buffers."""
    if not pa.types.is_dictionary(column.type):
        return ()
    return tuple(
        _place(pa.chunked_array([chunk.dictionary], chunk.dictionary.type))
        for chunk in column.chunks
        if isinstance(chunk, pa.DictionaryArray)
    )
