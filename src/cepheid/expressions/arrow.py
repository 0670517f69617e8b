"""Arrow's columns and vectors: what SQL reads becomes vectors, which know what type they had.

What a column holds is known when a query runs, and the stubs of pyarrow want to know it before:
they would need a cast at every call. So the modules that compute with columns take pyarrow from
here, and ``Value`` is an Arrow array, or an Arrow scalar that stands for a column of one value.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as _arrow  # noqa: ICN001  # `pa` is what the others take
import pyarrow.compute as _compute

from cepheid.events.decimals import DIGITS_MAX, Decimals
from cepheid.events.nanoseconds import Nanoseconds
from cepheid.events.schema import ValueKind
from cepheid.expressions.room import Room
from cepheid.expressions.vectors import Vector, full_length, plain_texts, truth_of, vector_of

pa: Any = _arrow
pc: Any = _compute

Value: TypeAlias = Any

_USUAL = {
    ValueKind.BOOLEAN: pa.bool_(),
    ValueKind.INTEGER: pa.int64(),
    ValueKind.DOUBLE: pa.float64(),
    ValueKind.TIMESTAMP: pa.timestamp("us"),
    ValueKind.DATE: pa.date32(),
    ValueKind.DURATION: pa.duration("us"),
}


def is_text(kind: Any) -> bool:
    """Check whether a type holds text."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def read_value(value: Value) -> Vector:
    """Return a value of Arrow as a vector that knows its type; decimals stay decimals."""
    array = pa.repeat(value, 1) if isinstance(value, pa.Scalar) else value
    kind, types = array.type, pa.types
    if types.is_decimal(kind):
        valid = truth_of(array.is_valid()) if array.null_count else None
        if kind.scale < 0:
            array = array.cast(pa.string()).cast(pa.decimal256(DIGITS_MAX, 0))
        filled = array if valid is None else array.fill_null(pa.scalar(0, array.type))
        return Vector(Decimals(filled, ""), valid, ValueKind.DECIMAL, array.type)
    if types.is_nested(kind) or types.is_time(kind) or types.is_binary(kind):
        valid = truth_of(array.is_valid()) if array.null_count else None
        return Vector(array, valid, ValueKind.OTHER, kind)
    vector = vector_of(array)
    return vector if _USUAL.get(vector.kind, kind) == kind else vector._replace(type=kind)


def arrow_of(vector: Vector) -> Value:
    """Return a vector as an Arrow array."""
    data, valid = vector.data, vector.valid
    if vector.kind is ValueKind.UNKNOWN:
        return pa.nulls(len(data), vector.type or pa.null())
    if isinstance(data, Nanoseconds) and vector.type is not None:
        whole = data.array.view(pa.decimal128(data.array.type.precision, 0)).cast(pa.int64())
        data = whole.view(vector.type)
    if isinstance(data, np.ndarray):
        if vector.kind is ValueKind.DATE:
            array = _array(data, valid, pa.timestamp("us")).cast(pa.date32())
        else:
            array = _array(data, valid, _USUAL.get(vector.kind, pa.float64()))
        return array if vector.type is None else array.cast(vector.type)
    if isinstance(data, Decimals) and vector.type is None:
        return arrow_of(vector._replace(data=data.numbers))
    if isinstance(data, pa.DictionaryArray) and len(data.dictionary) == 1:
        # A constant is written into every row.
        Room().take(len(data) * (len(data.dictionary[0].as_py().encode())))
    array = data.array if isinstance(data, Decimals) else plain_texts(data)
    if valid is None:
        return array
    return pc.if_else(pa.array(valid), array, pa.scalar(None, array.type))


def _array(data: Any, valid: Any, kind: Any) -> Value:
    """Return numbers or truth values as an array, without a copy of numbers."""
    kept: Any = np.packbits(data, bitorder="little") if data.dtype == np.bool_ else data
    if data.dtype != np.bool_:
        kept = np.ascontiguousarray(data, np.float64 if kind == pa.float64() else np.int64)
    known = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(data), [known, pa.py_buffer(kept)])


def value_of(vector: Vector) -> Value:
    """Return a vector as Arrow has it: one value is a scalar."""
    lengths = [len(vector.data), *([] if vector.valid is None else [len(vector.valid)])]
    array = arrow_of(full_length(vector, max(lengths) if all(lengths) else 0))
    return array[0] if len(array) == 1 else array
