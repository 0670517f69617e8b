"""SQL's operators over Arrow values: comparison, arithmetic, logic, casts.

Integers have 64 bits and do not wrap; ``/`` gives a double, and NULL where the divisor is zero.
NaN equals itself and is greater than every other number, as in Spark SQL. Numbers of different
types compare by value: neither side is rounded.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import numpy as np

from cepheid.events.decimals import Decimals, compare_decimals, read_decimals
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.arrow import Value, pa, pc
from cepheid.kinds.row_pattern.texts import concat, is_text

_COMPARE = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
COMPARISONS = frozenset(_COMPARE) | {"DISTINCT"}
EXACT_MAX = 2**53
"""Up to here whole numbers are doubles."""
_CHECKED = {"+": "add_checked", "-": "subtract_checked", "*": "multiply_checked"}


def as_truth(value: Value) -> Value:
    """Return a value as a condition; an untyped NULL becomes one."""
    if pa.types.is_null(value.type):
        return pa.scalar(None, pa.bool_()) if isinstance(value, pa.Scalar) else value.cast("bool")
    if not pa.types.is_boolean(value.type):
        message = f"a value of type {value.type} is no condition"
        raise TypeError(message)
    return value


# ---------------------------------------------------------------------------------------
# Operators


def binary(operator: str, a: Value, b: Value) -> Value:
    """Return ``a operator b``."""
    if operator == "AND":
        return pc.and_kleene(as_truth(a), as_truth(b))
    if operator == "OR":
        return pc.or_kleene(as_truth(a), as_truth(b))
    if operator == "||":
        return concat(a, b)
    if operator == "DISTINCT":
        both = pc.fill_null(binary("<>", a, b), fill_value=False)
        return pc.or_(both, pc.xor(pc.is_null(a), pc.is_null(b)))
    if pa.types.is_null(a.type) or pa.types.is_null(b.type):
        return null_like(operator, a, b)
    if operator in _COMPARE:
        if _is_number(a.type) and _is_number(b.type):
            return _compare_numbers(operator, a, b)
        return compare(operator, *agree(a, b))
    a, b = agree(a, b)
    return _arithmetic(operator, a, b)


def null_like(operator: str, a: Value, b: Value) -> Value:
    """Return the NULL that an operator gives for an untyped NULL."""
    other = b if pa.types.is_null(a.type) else a
    kind = pa.bool_() if operator in _COMPARE else other.type
    if operator == "/" or pa.types.is_null(kind):
        kind = pa.float64()
    null = pa.scalar(None, kind)
    return null if isinstance(other, pa.Scalar) else pa.nulls(len(other), kind)


def agree(a: Value, b: Value) -> tuple[Value, Value]:
    """Return two values with types that operators take together."""
    types = pa.types
    if is_text(a.type) and types.is_temporal(b.type):
        return _parse_times(a, b.type), b
    if is_text(b.type) and types.is_temporal(a.type):
        return a, _parse_times(b, a.type)
    if types.is_timestamp(a.type) and types.is_timestamp(b.type) and a.type.tz != b.type.tz:
        if a.type.tz is None:
            return pc.assume_timezone(a, b.type.tz), b
        if b.type.tz is None:
            return a, pc.assume_timezone(b, a.type.tz)
        return a, b.cast(pa.timestamp(b.type.unit, a.type.tz))
    if types.is_date(a.type) and types.is_timestamp(b.type):
        return agree(a.cast(pa.timestamp("us")), b)
    if types.is_date(b.type) and types.is_timestamp(a.type):
        return agree(a, b.cast(pa.timestamp("us")))
    if _is_number(a.type) and _is_number(b.type):
        if types.is_floating(a.type) or types.is_floating(b.type):
            return as_double(a), as_double(b)
        return a, b
    if is_text(a.type) != is_text(b.type):
        message = f"{a.type} and {b.type}"
        raise TypeError(message)
    return a, b


def _parse_times(value: Value, kind: Any) -> Value:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        try:
            naive = value.cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            # Arrow reads texts that name a zone as such only.
            return value.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us", kind.tz))
        return pc.assume_timezone(naive, kind.tz)
    return value.cast(kind)


def _is_number(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _compare_numbers(operator: str, a: Value, b: Value) -> Value:
    """Return a comparison of two numbers of any types."""
    types = pa.types
    if types.is_decimal(a.type) or types.is_decimal(b.type):
        return _compare_decimals(operator, a, b)
    if types.is_floating(a.type) and types.is_integer(b.type):
        return _compare_mixed(_MIRRORED[operator], b, a)
    if types.is_integer(a.type) and types.is_floating(b.type):
        return _compare_mixed(operator, a, b)
    return compare(operator, _widened(a), _widened(b))


def _compare_mixed(operator: str, whole: Value, doubles: Value) -> Value:
    """Compare whole numbers with doubles; where the nearest ones are equal, the rest decides."""
    near, other = as_double(whole), as_double(doubles)
    found = compare(operator, near, other)
    ends = pc.min_max(pa.array([whole.as_py()]) if isinstance(whole, pa.Scalar) else whole).as_py()
    if ends["min"] is None or max(-ends["min"], ends["max"]) <= EXACT_MAX:
        return found
    tie = pc.equal(near, other)
    inside = pc.and_(tie, pc.less(other, 2.0**63))
    back = pc.if_else(inside, other, 0.0).cast(pa.int64())
    exact = pc.call_function(_COMPARE[operator], [_widened(whole), back])
    below = pa.scalar(operator in ("<", "<=", "<>"))
    return pc.if_else(tie, pc.if_else(inside, exact, below), found)


def _compare_decimals(operator: str, a: Value, b: Value) -> Value:
    """Compare decimals with numbers, digit by digit."""
    sides: list[Any] = []
    valid = pc.and_(pc.is_valid(a), pc.is_valid(b))
    for value in (a, b):
        array = pa.array([value.as_py()], value.type) if isinstance(value, pa.Scalar) else value
        filled = array.fill_null(pa.scalar(0, array.type)) if array.null_count else array
        decimal = pa.types.is_decimal(array.type)
        if decimal and array.type.scale < 0:
            filled = filled.cast(pa.string()).cast(pa.decimal256(76, 0))
        sides.append(Decimals(filled, "") if decimal else _widened(filled).to_numpy())
    found = pa.array(compare_decimals(operator, *sides))
    if isinstance(a, pa.Scalar) and isinstance(b, pa.Scalar):
        found = found[0]
    return pc.if_else(valid, found, pa.scalar(None, pa.bool_()))


def compare(operator: str, a: Value, b: Value) -> Value:
    """Return a comparison of two values of one kind."""
    if pa.types.is_list(a.type) or pa.types.is_list(b.type):
        return _compare_lists(operator, a, b)
    found = pc.call_function(_COMPARE[operator], [a, b])
    if not (pa.types.is_floating(a.type) and pa.types.is_floating(b.type)):
        return found
    if not (_has_nan(a) or _has_nan(b)):
        return found
    a_nan, b_nan = pc.is_nan(a), pc.is_nan(b)
    rank_a, rank_b = pc.cast(a_nan, pa.int8()), pc.cast(b_nan, pa.int8())
    ranked = pc.call_function(_COMPARE[operator], [rank_a, rank_b])
    return pc.if_else(pc.or_(a_nan, b_nan), ranked, found)


def _has_nan(value: Value) -> bool:
    return bool(pc.any(pc.is_nan(value)).as_py()) if isinstance(value, pa.Array) else (
        value.is_valid and value.as_py() != value.as_py()
    )  # fmt: skip


def _compare_lists(operator: str, a: Value, b: Value) -> Value:
    if operator not in ("=", "<>"):
        message = "arrays compare by = and <> only"
        raise TypeError(message)
    lengths = [len(v) for v in (a, b) if isinstance(v, pa.Array)]
    length = lengths[0] if lengths else 1
    left, right = (
        v.to_pylist() if isinstance(v, pa.Array) else [v.as_py()] * length for v in (a, b)
    )
    found = [
        None if x is None or y is None else (x == y) == (operator == "=")
        for x, y in zip(left, right, strict=True)
    ]
    if not lengths:
        return pa.scalar(found[0], pa.bool_())
    return pa.array(found, pa.bool_())


def _arithmetic(operator: str, a: Value, b: Value) -> Value:
    types = pa.types
    if types.is_boolean(a.type) or types.is_boolean(b.type) or is_text(a.type):
        message = f"`{operator}` takes no {a.type} and {b.type}"
        raise TypeError(message)
    a, b = _widened(a), _widened(b)
    if operator in _CHECKED:
        if types.is_decimal(a.type) or types.is_decimal(b.type):
            return _decimal_arithmetic(operator, a, b)
        if types.is_date(a.type) and types.is_duration(b.type):
            a = a.cast(pa.timestamp("us"))
        return pc.call_function(_CHECKED[operator], [a, b])
    if operator == "DIV":
        safe = _without_zero(b)
        whole = types.is_integer(a.type) and types.is_integer(b.type)
        if whole:
            return pc.divide_checked(a, safe).cast(pa.int64())
        return to_whole(pc.trunc(pc.divide(as_double(a), as_double(safe))))
    if operator == "%":
        return _remainder(a, b)
    return pc.divide(as_double(a), as_double(_without_zero(b)))


def _decimal_arithmetic(operator: str, a: Value, b: Value) -> Value:
    """Return a sum or product of decimals, as doubles if no type of decimals has room for it."""
    try:
        return pc.call_function(_CHECKED[operator], [a, b])
    except pa.ArrowInvalid:
        return pc.call_function(_CHECKED[operator], [as_double(a), as_double(b)])


def _widened(value: Value) -> Value:
    """Return narrow integers as 64 bits, so that sums of them do not leave their type."""
    if pa.types.is_integer(value.type) and value.type != pa.int64():
        return value.cast(pa.int64())
    if pa.types.is_float16(value.type) or pa.types.is_float32(value.type):
        return value.cast(pa.float64())
    return value


def as_double(value: Value) -> Value:
    """Return a number as the nearest double; a decimal is refused if it would lose digits."""
    if pa.types.is_decimal(value.type):
        if isinstance(value, pa.Scalar):
            return as_double(pa.array([value.as_py()], value.type))[0]
        data, _ = read_decimals(value)
        if isinstance(data, Decimals):
            data.refuse()
        missing = value.is_null().to_numpy(zero_copy_only=False)
        return pa.array(data.astype(float), mask=missing)
    return value if pa.types.is_float64(value.type) else value.cast(pa.float64(), safe=False)


def _without_zero(value: Value) -> Value:
    zero = pc.equal(value, pa.scalar(0, value.type))
    return pc.if_else(zero, pa.scalar(None, value.type), value)


def _filled(value: Value) -> Any:
    """Return a number, or numbers, with 1 in the place of NULL."""
    filled = pc.fill_null(value, pa.scalar(1, value.type))
    return filled.as_py() if isinstance(value, pa.Scalar) else filled


def to_whole(value: Value) -> Value:
    """Return doubles that are whole as whole numbers of 64 bits.

    Raises
    ------
    OverflowError
        If one of them does not fit; Arrow takes 2^63 for a number that does.
    """
    fits = pc.and_(pc.greater_equal(value, -(2.0**63)), pc.less(value, 2.0**63))
    known = fits.as_py() if isinstance(value, pa.Scalar) else pc.all(fits, min_count=0).as_py()
    if known is False:
        message = "a double does not fit 64 bits"
        raise OverflowError(message)
    return value.cast(pa.int64())


def _remainder(a: Value, b: Value) -> Value:
    """Return the remainder, which has the sign of the dividend; NULL where the divisor is zero."""
    whole = pa.types.is_integer(a.type) and pa.types.is_integer(b.type)
    x, y = (a, b) if whole else (as_double(a), as_double(b))
    safe = _without_zero(y)
    kind = pa.int64() if whole else pa.float64()
    dividends, divisors = (
        np.atleast_1d(np.asarray(_filled(side.cast(kind)))) for side in (x, safe)
    )
    with np.errstate(invalid="ignore"):
        found = pa.array(np.fmod(dividends, divisors), kind)
    if isinstance(a, pa.Scalar) and isinstance(b, pa.Scalar):
        found = found[0]
    valid = pc.and_(pc.is_valid(x), pc.is_valid(safe))
    return pc.if_else(valid, found, pa.scalar(None, kind))


# ---------------------------------------------------------------------------------------
# LIKE, CAST, moments


def like_expression(pattern: str, escape: str | None) -> str:
    """Return a regular expression that means the same as a pattern of LIKE.

    Examples
    --------
    >>> like_expression("a%_", None)
    '(?s)^a.*.$'
    """
    parts = []
    taken = iter(pattern)
    for character in taken:
        if character == (escape or "\\"):
            parts.append(re.escape(next(taken, character)))
        else:
            parts.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
    return f"(?s)^{''.join(parts)}$"


def unify(a: Value, b: Value) -> tuple[Value, Value]:
    """Return two values with one type."""
    if a.type == b.type:
        return a, b
    if pa.types.is_null(a.type):
        return a.cast(b.type), b
    if pa.types.is_null(b.type):
        return a, b.cast(a.type)
    if is_text(a.type) and is_text(b.type):
        return a.cast(pa.string()), b.cast(pa.string())
    if all(pa.types.is_integer(v.type) for v in (a, b)):
        return a.cast(pa.int64()), b.cast(pa.int64())
    if pa.types.is_temporal(a.type) and pa.types.is_temporal(b.type):
        one, two = agree(a, b)
        return one, two.cast(one.type)
    return as_double(a), as_double(b)


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


def cast(value: Value, node: tree.Cast) -> Value:
    """Return ``CAST(value AS type)``."""
    if node.type_name in ("DECIMAL", "NUMERIC", "DEC"):
        precision, scale = (*node.parameters, 0, 0)[:2] if node.parameters else (10, 0)
        target: Any = pa.decimal128(precision, scale)
        if pa.types.is_integer(value.type):
            # Arrow wants room for every integer of the type, not of the column.
            value = value.cast(pa.decimal256(76, scale))
    elif node.type_name in _TYPES:
        target = _TYPES[node.type_name]
    else:
        message = f"CAST knows no type {node.type_name}"
        raise TypeError(message)
    if pa.types.is_floating(value.type) and pa.types.is_integer(target):
        value = pc.trunc(value) if node.lenient else to_whole(pc.trunc(value))
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


def moment(kind: str, written: str) -> Value:
    """Return a DATE or TIMESTAMP constant."""
    if kind == "DATE":
        return pa.scalar(dt.date.fromisoformat(written.strip()))
    found = dt.datetime.fromisoformat(written.strip())
    return pa.scalar(found, pa.timestamp("us", "UTC" if found.tzinfo else None))
