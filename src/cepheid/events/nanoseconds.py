"""Nanosecond timestamps: nanosecond ticks in a time column, exact or refused elsewhere.

Event times are nanoseconds if their column is. Expressions compute in microseconds: values that are
not whole microseconds stay as they are, compare exactly, and are refused in arithmetic.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.errors import DataError, Diagnostic
from cepheid.events.decimals import Decimals

PER_MICROSECOND = 1_000
_DIGITS = 19


class Nanoseconds(Decimals):
    """Times between two microseconds, as microseconds with three decimal digits."""

    __slots__ = ()

    @staticmethod
    def of(steps: NDArray[np.int64], name: str) -> Nanoseconds:
        """Convert integer nanoseconds to microseconds with decimal digits."""
        whole = pa.array(np.ascontiguousarray(steps)).cast(pa.decimal128(_DIGITS, 0))
        return Nanoseconds(whole.view(pa.decimal128(_DIGITS, 3)), name)

    def take(self, rows: Any) -> Nanoseconds:
        """Select rows."""
        return Nanoseconds(self.array.take(rows), self.name)

    @property
    def numbers(self) -> NDArray[Any]:
        """Convert to integer microseconds if the selected rows are all whole; else raise."""
        steps = self.array.view(pa.decimal128(_DIGITS, 0)).cast(pa.int64()).to_numpy()
        if (steps % PER_MICROSECOND).any():
            self.refuse()
        return steps // PER_MICROSECOND

    def refuse(self) -> NoReturn:
        """Raise an error: these times support only comparison."""
        texts = map(str, self.array.cast(pa.string()).to_pylist())
        part = (text for text in texts if not text.endswith(".000"))
        raise between(next(part, "0.000"), self.name)


def between(microseconds: str, name: str) -> DataError:
    """Build the error for a time between two microseconds (E514)."""
    column = f"column `{name}`" if name else "a column"
    message = f"the time {microseconds} us in {column} is not a whole number of microseconds"
    helps = (
        "expressions can compare such times, but compute with microseconds",
        "cast the column to timestamp[us] if rounding is acceptable",
    )
    return DataError([Diagnostic("E514", message, helps=helps)])


def read_nanoseconds(
    steps: NDArray[np.int64], valid: NDArray[np.bool_] | None, name: str
) -> NDArray[np.int64] | Nanoseconds:
    """Convert nanoseconds to integer microseconds if all are whole; else keep them."""
    micros: NDArray[Any] = steps // PER_MICROSECOND
    part = micros * PER_MICROSECOND != steps
    if valid is not None:
        part &= valid
    if not part.any():
        return micros
    return Nanoseconds.of(steps if valid is None else np.where(valid, steps, 0), name)


def in_microseconds(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast a table to a schema whose times may be coarser.

    Raises
    ------
    DataError
        E514 if a time would be rounded.
    """
    try:
        return table.cast(schema)
    except pa.ArrowInvalid:
        for name in table.column_names:
            _refuse_rounding(table.column(name), schema.field(name))
        raise


def in_units_of(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast times to nanoseconds where the schema has nanoseconds, and only there.

    Raises
    ------
    DataError
        E514 if a time would be rounded, E517 if it is too far from 1970 for nanoseconds.
    """
    kinds = {field.name: field.type for field in schema}
    for place, field in enumerate(table.schema):
        known = kinds.get(field.name, field.type)
        column: Any = table.column(place)
        if is_nanoseconds(field.type) == is_nanoseconds(known):
            continue
        if not pa.types.is_timestamp(field.type) or not pa.types.is_timestamp(known):
            continue
        exact = is_nanoseconds(known)
        kind = field.with_type(pa.timestamp("ns" if exact else "us", field.type.tz))
        try:
            table = table.set_column(place, kind, column.cast(kind.type))
        except pa.ArrowInvalid as error:
            _refuse_rounding(column, kind)
            message = f"a time of column `{field.name}` is too far from 1970 for nanoseconds"
            helps = ("give the column the same type in all events",)
            raise DataError([Diagnostic("E517", message, helps=helps)]) from error
    return table


def _refuse_rounding(column: pa.ChunkedArray[Any], field: pa.Field[Any]) -> None:
    """Raise E514 if a time of a column is not a multiple of a coarser unit."""
    if not is_nanoseconds(column.type) or is_nanoseconds(field.type):
        return
    steps = column.drop_null().cast(pa.int64()).to_numpy()
    part = steps[steps % PER_MICROSECOND != 0]
    if len(part):
        micros, rest = divmod(int(part[0]), PER_MICROSECOND)
        shown = f"{micros}.{rest:03}"
        raise between(shown, field.name)


def is_nanoseconds(kind: pa.DataType) -> bool:
    """Check whether a type counts time in nanoseconds."""
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def type_of_times(kind: pa.DataType) -> pa.DataType:
    """Choose the type in which results return the times of a column.

    Examples
    --------
    >>> type_of_times(pa.timestamp("s", "UTC")), type_of_times(pa.timestamp("ns"))
    (TimestampType(timestamp[us, tz=UTC]), TimestampType(timestamp[ns]))
    """
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ns" if kind.unit == "ns" else "us", kind.tz)
    return pa.timestamp("us") if pa.types.is_date(kind) else pa.int64()
