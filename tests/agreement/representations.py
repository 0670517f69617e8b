"""Columns in every form that Arrow has: values of Python in, an array out, and back again.

A representation is a name and an Arrow type. Values are made to fit it first, so that what an array
holds is exact; ``plain_rows`` gives them back in one form, whatever the representation was: times
and durations are whole nanoseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

compute: Any = pc
"""The stubs of Arrow know no runs."""

DAY_NS = 86_400_000_000_000
TICK_NS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}

INTEGERS: dict[str, Any] = {str(t): t for t in (
    pa.int64(), pa.int32(), pa.int16(), pa.int8(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()
)}  # fmt: skip
DOUBLES: dict[str, Any] = {
    "float64": pa.float64(),
    "float32": pa.float32(),
    "float16": pa.float16(),
    "decimal(12,2)": pa.decimal128(12, 2),
    "decimal(38,18)": pa.decimal128(38, 18),
}
TEXTS: dict[str, Any] = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
}
DAYS: dict[str, Any] = {
    "date32": pa.date32(),
    "timestamp[s]": pa.timestamp("s"),
    "timestamp[us, UTC]": pa.timestamp("us", "UTC"),
    "timestamp[ms, zone]": pa.timestamp("ms", "America/New_York"),
    "timestamp[ns]": pa.timestamp("ns"),
}
FLAGS: dict[str, Any] = {"bool": pa.bool_()}
DECIMALS: dict[str, Any] = {
    "decimal(20,2)": pa.decimal128(20, 2),
    "decimal(30,4)": pa.decimal128(30, 4),
}


def _encoded(plain: dict[str, Any]) -> dict[str, Any]:
    """Return types as they are, and with a dictionary, and as runs."""
    found = dict(plain)
    for name, kind in plain.items():
        if kind in (pa.string_view(), pa.float16()):
            continue
        found[f"dictionary<{name}>"] = pa.dictionary(pa.int32(), kind)
    first, kind = next(iter(plain.items()))
    found[f"dictionary<int8, {first}>"] = pa.dictionary(pa.int8(), kind)
    found[f"runs<{first}>"] = pa.run_end_encoded(pa.int32(), kind)
    return found


KINDS: dict[str, dict[str, Any]] = {
    "int": _encoded(INTEGERS),
    "double": _encoded(DOUBLES),
    "string": _encoded(TEXTS),
    "day": _encoded(DAYS),
    "bool": _encoded(FLAGS),
    "decimal": _encoded(DECIMALS),
}
"""The representations of each kind of values."""


def value_type(kind: Any) -> Any:
    """Return the type of values, without dictionary or runs."""
    if isinstance(kind, pa.DictionaryType | pa.RunEndEncodedType):
        return kind.value_type
    return kind


def array_of(values: Sequence[Any], kind: Any) -> Any:
    """Return values, made to fit, as an array of a type."""
    inner = value_type(kind)
    flat: Any = pa.array([fitted(v, inner) for v in values], _storage(inner)).cast(inner)
    if isinstance(kind, pa.RunEndEncodedType):
        return compute.run_end_encode(flat, run_end_type=kind.run_end_type)
    if isinstance(kind, pa.DictionaryType):
        coded: Any = flat.dictionary_encode()
        indices = coded.indices.cast(kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, coded.dictionary)
    return flat


def _storage(kind: pa.DataType) -> pa.DataType:
    """Return the type from which Arrow casts without a loss: times come as whole numbers."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_string_view(kind):
        return pa.string()
    return kind


def fitted(value: Any, kind: Any) -> Any:
    """Return a value that a type can hold: the same one, or one like it."""
    if value is None:
        return None
    if pa.types.is_integer(kind):
        return _wrapped(int(value), kind.bit_width, signed=pa.types.is_signed_integer(kind))
    if pa.types.is_float16(kind):
        with np.errstate(over="ignore"):
            return np.float16(value)
    if pa.types.is_float32(kind):
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    if isinstance(kind, pa.Decimal128Type):
        if isinstance(value, Decimal):
            return value.quantize(Decimal(1).scaleb(-kind.scale))
        return _decimal(float(value), kind)
    if pa.types.is_timestamp(kind):
        return int(value) * (DAY_NS // TICK_NS[kind.unit])
    return value


def _wrapped(value: int, bits: int, *, signed: bool) -> int:
    low = value % (1 << bits)
    return low - (1 << bits) if signed and low >> (bits - 1) else low


def _decimal(value: float, kind: Any) -> Decimal | None:
    if not math.isfinite(value) or abs(value) >= 10 ** (kind.precision - kind.scale):
        return None
    with localcontext(prec=60):
        rounded: Decimal = round(Decimal(value), min(kind.scale, 6))
        return rounded.quantize(Decimal(1).scaleb(-kind.scale))


# ---------------------------------------------------------------------------------------
# Back again


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows of Python's values; times and durations are whole nanoseconds."""
    columns = {name: plain_values(table.column(name)) for name in table.column_names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def plain_values(column: Any) -> list[Any]:
    """Return the values of a column in one form."""
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in plain_values(chunk)]
    kind = column.type
    if isinstance(kind, pa.DictionaryType):
        return plain_values(column.dictionary_decode())
    if isinstance(kind, pa.RunEndEncodedType):
        return plain_values(compute.run_end_decode(column))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return list(_lists(column))
    if pa.types.is_struct(kind):
        return list(_structs(column))
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return _ticks(column.cast(pa.int64()), TICK_NS[kind.unit])
    if pa.types.is_date32(kind):
        return _ticks(column.cast(pa.int32()), DAY_NS)
    if pa.types.is_float16(kind):
        return list(column.cast(pa.float32()).to_pylist())
    return list(column.to_pylist())


def _ticks(column: pa.Array[Any], tick_ns: int) -> list[int | None]:
    return [None if value is None else value * tick_ns for value in column.to_pylist()]


def _lists(column: Any) -> Iterator[Any]:
    values = iter(plain_values(column.flatten()))
    for length in compute.list_value_length(column).to_pylist():
        yield None if length is None else [next(values) for _ in range(length)]


def _structs(column: Any) -> Iterator[Any]:
    names = [field.name for field in column.type]
    cells = zip(*(plain_values(part) for part in column.flatten()), strict=True)
    for valid, row in zip(column.is_valid().to_pylist(), cells, strict=True):
        yield dict(zip(names, row, strict=True)) if valid else None
