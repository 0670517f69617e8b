"""Timestamps of nanoseconds: ticks of their own in a time column, exact or refused elsewhere.

The times of events are nanoseconds where their column is. Expressions know microseconds: values
that are none stay as they are, compare exactly, and whatever would compute with them is refused.
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
    """Times between two microseconds, as microseconds with three digits behind the point."""

    __slots__ = ()

    @staticmethod
    def of(steps: NDArray[np.int64], name: str) -> Nanoseconds:
        """Return whole nanoseconds as microseconds with digits behind the point."""
        whole = pa.array(np.ascontiguousarray(steps)).cast(pa.decimal128(_DIGITS, 0))
        return Nanoseconds(whole.view(pa.decimal128(_DIGITS, 3)), name)

    def take(self, rows: Any) -> Nanoseconds:
        """Return some of the rows."""
        return Nanoseconds(self.array.take(rows), self.name)

    @property
    def numbers(self) -> NDArray[Any]:
        """Return microseconds to compute with: of rows that were taken, all may be whole."""
        steps = self.array.view(pa.decimal128(_DIGITS, 0)).cast(pa.int64()).to_numpy()
        if (steps % PER_MICROSECOND).any():
            self.refuse()
        return steps // PER_MICROSECOND

    def refuse(self) -> NoReturn:
        """Say that nothing but comparison is done with these times."""
        texts = map(str, self.array.cast(pa.string()).to_pylist())
        part = (text for text in texts if not text.endswith(".000"))
        raise between(next(part, "0.000"), self.name)


def between(microseconds: str, name: str) -> DataError:
    """Return the error about a time that lies between two microseconds (E514)."""
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
    """Return nanoseconds as whole microseconds if they are some, else as they are."""
    micros: NDArray[Any] = steps // PER_MICROSECOND
    part = micros * PER_MICROSECOND != steps
    if valid is not None:
        part &= valid
    if not part.any():
        return micros
    return Nanoseconds.of(steps if valid is None else np.where(valid, steps, 0), name)


def in_microseconds(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table in the types of a schema, whose times may be coarser.

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
    """Return a table whose times are in nanoseconds where those of a schema are, and only there.

    Raises
    ------
    DataError
        E514 if a time would be rounded, E517 if it is too far from 1970 for nanoseconds.
    """
    for place, field in enumerate(table.schema):
        known = schema.field(field.name).type if field.name in schema.names else field.type
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
    """Raise E514 if a time of a column is no whole one of a coarser unit."""
    if not is_nanoseconds(column.type) or is_nanoseconds(field.type):
        return
    steps = column.drop_null().cast(pa.int64()).to_numpy()
    part = steps[steps % PER_MICROSECOND != 0]
    if len(part):
        micros, rest = divmod(int(part[0]), PER_MICROSECOND)
        shown = f"{micros}.{rest:03}"
        raise between(shown, field.name)


def is_nanoseconds(kind: pa.DataType) -> bool:
    """Return whether times of a type are counted in nanoseconds."""
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def type_of_times(kind: pa.DataType) -> pa.DataType:
    """Return the type in which the times of a column leave in results.

    Examples
    --------
    >>> type_of_times(pa.timestamp("s", "UTC")), type_of_times(pa.timestamp("ns"))
    (TimestampType(timestamp[us, tz=UTC]), TimestampType(timestamp[ns]))
    """
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ns" if kind.unit == "ns" else "us", kind.tz)
    return pa.timestamp("us") if pa.types.is_date(kind) else pa.int64()
