"""Vectors in, vectors of other types out: CAST, constants of time, and values as text."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from cepheid.events.schema import ValueKind
from cepheid.expressions import tree
from cepheid.expressions.arrow import Value, pa, pc, read_value, value_of
from cepheid.expressions.cast_types import TARGETS, is_convertible
from cepheid.expressions.conversions import convert
from cepheid.expressions.vectors import MisfitError, Vector

_WHOLE = frozenset({"TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "LONG"})
_COMPUTED = _WHOLE | {"BOOLEAN", "DOUBLE"}
"""The types to which SQL converts as the language does."""
_TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "REAL": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "VARCHAR": pa.string(),
    "CHAR": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
}


def cast(vector: Vector, node: tree.Cast, *, sql: bool) -> Vector:
    """Return ``CAST(x AS type)``; SQL has more types than the language, and converts more.

    Raises
    ------
    MisfitError
        If there is no such type.
    """
    target = TARGETS.get(node.type_name)
    # SQL keeps the digits of decimals, and makes texts and times of what the language does not.
    plain = not sql or (vector.kind is not ValueKind.DECIMAL and node.type_name in _COMPUTED)
    if plain and not node.parameters and target is not None:
        if not is_convertible(vector.kind, target):
            message = f"a cast of {vector.kind.value} to {node.type_name}"
            raise MisfitError(message)
        found = convert(vector, target, lenient=node.lenient)
        kept = _TYPES[node.type_name] if sql and target.bits < 64 else None
        return found._replace(type=kept)
    if not sql:
        message = f"a cast to {node.type_name}, which the language does not have"
        raise MisfitError(message)
    return read_value(_cast(value_of(vector), node))


def _cast(value: Value, node: tree.Cast) -> Value:
    if node.type_name in ("DECIMAL", "NUMERIC", "DEC"):
        precision, scale = (*node.parameters, 0, 0)[:2] if node.parameters else (10, 0)
        target: Any = pa.decimal128(precision, scale)
        if pa.types.is_integer(value.type):
            # Arrow wants room for every integer of the type, not of the column.
            value = value.cast(pa.decimal256(76, scale))
    elif node.type_name in _TYPES:
        target = _TYPES[node.type_name]
    else:
        message = f"a cast to {node.type_name}, which is no known type"
        raise MisfitError(message)
    if pa.types.is_decimal(value.type):
        if pa.types.is_boolean(target):
            return pc.not_equal(value, pa.scalar(Decimal(0), value.type))
        value = pc.trunc(value) if pa.types.is_integer(target) else value
    if pa.types.is_integer(value.type) and pa.types.is_timestamp(target):
        value = value.cast(pa.timestamp("s"))
    if node.lenient:
        return _cast_lenient(value, target)
    found = value.cast(target)
    if pa.types.is_string(target) and node.parameters:
        found = pc.utf8_slice_codeunits(found, 0, node.parameters[0])
    return found


def _cast_lenient(value: Value, target: Any) -> Value:
    if isinstance(value, pa.Scalar):
        return _cast_lenient(pa.array([value.as_py()], value.type), target)[0]
    cells = []
    for cell in value:
        try:
            cells.append(cell.cast(target).as_py())
        except pa.ArrowInvalid:
            cells.append(None)
    return pa.array(cells, target)


def moment(kind: str, written: str) -> Vector:
    """Return a DATE or TIMESTAMP constant."""
    if kind == "DATE":
        return read_value(pa.scalar(dt.date.fromisoformat(written.strip())))
    found = dt.datetime.fromisoformat(written.strip())
    return read_value(pa.scalar(found, pa.timestamp("us", "UTC" if found.tzinfo else None)))


def as_text(vector: Vector) -> Vector:
    """Return values as text, where SQL takes them as such.

    Raises
    ------
    MisfitError
        If they have none.
    """
    if vector.kind in (ValueKind.TEXT, ValueKind.UNKNOWN):
        return vector
    if vector.kind is ValueKind.OTHER:
        message = f"of type {vector.type}, which is no text"
        raise MisfitError(message)
    return read_value(value_of(vector).cast(pa.string()))
