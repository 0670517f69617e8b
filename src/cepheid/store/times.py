"""Convert time columns of Arrow to integer ticks: microseconds, nanoseconds, or plain integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.errors import DataError, Diagnostic, suggest_names
from cepheid.events.nanoseconds import PER_MICROSECOND, is_nanoseconds
from cepheid.events.temporal import TIME_MAX

_UNIT_US = {"s": 1_000_000, "ms": 1_000}
_DAY_US = 86_400_000_000

Times = NDArray[np.int64]


def is_time(kind: pa.DataType) -> bool:
    """Check whether a column of a type can be the time of events."""
    types = pa.types
    return types.is_timestamp(kind) or types.is_date(kind) or types.is_integer(kind)


def one_array(column: Any) -> pa.Array[Any]:
    """Combine the chunks of a column to one array."""
    if isinstance(column, pa.ChunkedArray):
        chunks = column.num_chunks
        column = (
            column.chunk(0) if chunks == 1 else pa.concat_arrays([*column.chunks, _none(column)])
        )
    array: pa.Array[Any] = column
    return array


def _none(column: Any) -> pa.Array[Any]:
    """Build an empty array: a column may have no chunk at all."""
    empty: pa.Array[Any] = pa.array([], column.type)
    return empty


def ticks_of(array: pa.Array[Any]) -> Times:
    """Convert times, dates, durations or integers to 64-bit ticks; NULLs become arbitrary values.

    Raises
    ------
    DataError
        E517 if one of them overflows 64 bits.
    """
    types, kind = pa.types, array.type
    if types.is_date32(kind):
        return _in_us(_values(array.view(pa.int32())).astype(np.int64), _DAY_US, kind)
    if types.is_date64(kind):
        return _in_us(_values(array.view(pa.int64())), 1_000, kind)
    if types.is_timestamp(kind) or types.is_duration(kind):
        steps = _values(array.view(pa.int64()))
        return _in_us(steps, _UNIT_US[kind.unit], kind) if kind.unit in _UNIT_US else steps
    values = _values(array)
    if values.dtype == np.uint64 and (values >= np.uint64(2**63)).any():
        raise _beyond(int(values.max()), kind)
    return values.astype(np.int64, copy=False)


def _in_us(steps: Times, unit_us: int, kind: pa.DataType) -> Times:
    most = (2**63 - 1) // unit_us
    far = (steps > most) | (steps < -most)
    if far.any():
        raise _beyond(int(steps[far][0]), kind)
    return steps * unit_us


def _beyond(value: int, kind: pa.DataType) -> DataError:
    message = f"the time {value} of type {kind} is too far from 1970"
    helps = ("use a coarser unit of time, or leave such events out",)
    return DataError([Diagnostic("E517", message, helps=helps)])


def _values(array: pa.Array[Any]) -> NDArray[Any]:
    filled = array.fill_null(0) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def read_ticks(table: pa.Table, name: str) -> Times:
    """Read the times of a table.

    Raises
    ------
    DataError
        E505 if there is no such column, E506 if it holds no times or a NULL, E517 if a time is
        out of the range of a store.
    """
    if name not in table.column_names:
        helps = (suggest_names(name, table.column_names, owner="the input"),)
        raise DataError([Diagnostic("E505", f"the input has no column `{name}`", helps=helps)])
    array = one_array(table.column(name))
    if not is_time(array.type):
        message = f"the time column `{name}` is of type {array.type}, not a time"
        helps = ("use a timestamp, a date, or whole microseconds",)
        raise DataError([Diagnostic("E506", message, helps=helps)])
    if array.null_count:
        row = int(np.flatnonzero(np.asarray(array.is_null()))[0])
        message = f"the time column `{name}` is NULL in row {row}"
        raise DataError([Diagnostic("E506", message, helps=("leave out events without a time",))])
    times = ticks_of(array)
    if len(times) and (times.max() > TIME_MAX or times.min() < -TIME_MAX):
        raise _beyond(int(times.max() if times.max() > TIME_MAX else times.min()), array.type)
    return times


def tick_of(value: Any, kind: pa.DataType) -> int:
    """Convert one time to a tick: integers are microseconds, others have the column's type.

    Examples
    --------
    >>> tick_of("1970-01-01 00:00:01", pa.timestamp("ms"))
    1000000
    """
    if isinstance(value, int | np.integer):
        return int(value) * PER_MICROSECOND if is_nanoseconds(kind) else int(value)
    array: pa.Array[Any] = pa.array([value])
    if pa.types.is_string(array.type) or array.type != kind:
        wanted = kind if not pa.types.is_integer(kind) else pa.timestamp("us")
        if pa.types.is_string(array.type):
            array = array.cast(pa.timestamp("ns" if is_nanoseconds(kind) else "us"))
        array = array.cast(wanted, safe=False)
    return int(ticks_of(array)[0])
