"""Call a function of a user: vectors in, a vector of the kind that it promised out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import pyarrow as pa

from cepheid.errors import CepheidError, DataError, Diagnostic
from cepheid.events.nanoseconds import Nanoseconds
from cepheid.events.schema import NUMERIC, TEMPORAL, ValueKind, kind_of
from cepheid.expressions.arrow import arrow_of
from cepheid.expressions.own import OwnFunction
from cepheid.expressions.vectors import Vector, full_length, vector_of

ARROW_TYPES: dict[ValueKind, pa.DataType] = {
    ValueKind.BOOLEAN: pa.bool_(),
    ValueKind.INTEGER: pa.int64(),
    ValueKind.DOUBLE: pa.float64(),
    ValueKind.TEXT: pa.string(),
    ValueKind.TIMESTAMP: pa.timestamp("us"),
    ValueKind.DATE: pa.date32(),
    ValueKind.DURATION: pa.duration("us"),
}
"""The kinds that a function may take and give, and their types."""

_TEXT_BYTES_MAX = 1 << 31


def call_vectors(function: OwnFunction, vectors: Sequence[Vector]) -> Vector:
    """Call a function for every event.

    Raises
    ------
    DataError
        E574 if it raises, or if its result is no array of the right length and kind; E575 if the
        process does not have it.
    """
    lengths = [len(vector.data) for vector in vectors]
    length = max(lengths) if all(lengths) else 0
    kinds = function.takes or (None,) * len(vectors)
    arrays = [
        _argument(full_length(vector, length), kind, function)
        for vector, kind in zip(vectors, kinds, strict=True)
    ]
    return vector_of(call_arrays(function, arrays), name=function.name)


def call_arrays(function: OwnFunction, arrays: Sequence[Any]) -> Any:
    """Call a function with arrays of one length; raises as ``call_vectors``."""
    usual = ARROW_TYPES[function.gives]
    length = len(arrays[0])
    if not length:
        # Where only types are asked for, nothing is computed.
        return pa.array([], usual)
    callee = function.callee
    try:
        result = callee(*arrays)
    except Exception as error:  # it is the user's, and may raise anything
        if isinstance(error, CepheidError) and error.diagnostics[0].code == "E574":
            raise  # Another one that it called went wrong, and is named.
        lines = str(error).splitlines()
        said = f": {lines[0]}" if lines else ""
        _refuse(f"the function `{function.name}` raised {type(error).__name__}{said}")
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if not isinstance(result, pa.Array):
        what = f"`{type(result).__module__}.{type(result).__qualname__}`"
        message = f"the function `{function.name}` gave {what} and not an array of pyarrow"
        _refuse(message, "return a `pyarrow.Array`: `pyarrow.array(values)` makes one")
    if len(result) != length:
        message = f"the function `{function.name}` gave {len(result)} values for {length} events"
        _refuse(message, "return one value for each event, in their order")
    return _of_kind(function, result, usual)


def _of_kind(function: OwnFunction, result: Any, usual: pa.DataType) -> Any:
    kind = kind_of(str(result.type))
    widens = kind is ValueKind.INTEGER and function.gives in NUMERIC
    if not (kind in (function.gives, ValueKind.UNKNOWN) or widens):
        message = (
            f"the function `{function.name}` gave values of type {result.type}, "
            f"and promised {function.gives.value}"
        )
        _refuse(message, "cast the result, or correct `returns`")
    if function.gives in TEMPORAL | {ValueKind.DURATION}:
        return result if kind is not ValueKind.UNKNOWN else result.cast(usual)
    if kind is ValueKind.TEXT:
        return result
    try:
        return result.cast(usual)
    except pa.ArrowException as error:
        message = f"the function `{function.name}` gave a value that does not fit: {error}"
        _refuse(message.splitlines()[0])


def _argument(vector: Vector, kind: ValueKind | None, function: OwnFunction) -> Any:
    """Return a vector as an array of the usual type of its kind."""
    if isinstance(vector.data, Nanoseconds):
        array = arrow_of(vector._replace(type=pa.timestamp("ns")))
    else:
        array = arrow_of(vector._replace(type=None))
    if vector.kind is ValueKind.TEXT and array.type != pa.string():
        array = array.cast(pa.string()) if array.nbytes < _TEXT_BYTES_MAX else array
    wanted = None if kind is None else ARROW_TYPES[kind]
    if kind in (None, vector.kind) or array.type == wanted:
        return array
    widens = {kind, vector.kind} <= NUMERIC and kind is not ValueKind.INTEGER
    if not (widens or vector.kind is ValueKind.UNKNOWN):
        form = f"its form is `{function.usage}`"
        message = f"the function `{function.name}` got a value of kind {vector.kind.value}"
        _refuse(message, form)
    return array.cast(wanted)


def _refuse(message: str, *helps: str) -> NoReturn:
    raise DataError([Diagnostic("E574", message, helps=helps)])
