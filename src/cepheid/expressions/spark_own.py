"""Functions of one's own as columns of Spark: Spark sends them to its workers, as any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf

from cepheid.events.schema import TEMPORAL, ValueKind
from cepheid.expressions.own import OwnFunction
from cepheid.expressions.own_calls import ARROW_TYPES, call_arrays

if TYPE_CHECKING:
    from pyspark.sql import Column

_TYPES = {
    ValueKind.BOOLEAN: "boolean",
    ValueKind.INTEGER: "bigint",
    ValueKind.DOUBLE: "double",
    ValueKind.DECIMAL: "double",
    ValueKind.TEXT: "string",
    ValueKind.TIMESTAMP: "timestamp_ntz",
    ValueKind.DATE: "date",
    ValueKind.DURATION: "interval day to second",
}
"""The types of Spark in which arguments and results travel; times are in UTC."""

_NULL_TYPE = "string"
"""The type of a NULL without a type, which Spark sends to no function."""


def own_column(
    function: OwnFunction, columns: Sequence[Column], kinds: Sequence[ValueKind]
) -> Column:
    """Return the call of a function; times among the arguments have no zone."""
    takes = function.takes or kinds
    # Where the function names no kinds, it is called with those of the arguments.
    known = [a if b is ValueKind.UNKNOWN else b for a, b in zip(kinds, takes, strict=True)]
    cast = [
        column.cast(_TYPES.get(kind, _NULL_TYPE))
        for column, kind in zip(columns, known, strict=True)
    ]
    types = [ARROW_TYPES.get(kind, pa.null()) for kind in known]
    return called_column(_on_arrays(function, types), cast, types, _TYPES[function.gives])


def called_column(
    call: Callable[..., Any], columns: Sequence[Column], types: Sequence[pa.DataType], gives: str
) -> Column:
    """Return the call of a function of arrays, whose hints say so, as a column."""
    if hasattr(sf, "arrow_udf"):
        made: Any = sf.arrow_udf(call, gives)
    else:
        # Spark 4.0 has no function over arrays, and pandas would round whole numbers beside NULL.
        made = sf.udf(_on_values(call, types), gives)
    column: Column = made(*columns)
    return column


def _on_arrays(function: OwnFunction, types: Sequence[pa.DataType]) -> Callable[..., Any]:
    """Return the function that Spark's workers call with arrays."""

    def call(*arrays: Any) -> Any:
        given = [_as_type(array, kind) for array, kind in zip(arrays, types, strict=True)]
        found = call_arrays(function, given)
        return found.cast(ARROW_TYPES[function.gives])

    # By its hints Spark knows that it takes and gives arrays.
    call.__annotations__ = {"arrays": pa.Array, "return": pa.Array}
    return call


def _on_values(call: Callable[..., Any], types: Sequence[pa.DataType]) -> Callable[..., Any]:
    def call_one(*values: Any) -> Any:
        pairs = zip(values, types, strict=True)
        return call(*(pa.array([value], kind) for value, kind in pairs))[0].as_py()

    return call_one


def _as_type(array: Any, kind: pa.DataType) -> Any:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return pa.nulls(len(array)) if pa.types.is_null(kind) else array.cast(kind)


def is_instant(kind: ValueKind) -> bool:
    """Check whether values of a kind travel as times without a zone."""
    return kind in TEMPORAL and kind is not ValueKind.DATE
