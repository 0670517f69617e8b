"""SQL's functions over Arrow values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import reduce
from typing import Any

from cepheid.kinds.row_pattern.arrow import Value, pa, pc
from cepheid.kinds.row_pattern.operators import as_double, as_truth, binary, to_whole, unify
from cepheid.kinds.row_pattern.texts import (
    Room,
    as_text,
    byte_size,
    check_repeated,
    choose,
    concat,
    is_text,
)

PLACES_MAX = 400
"""No double has a digit so far from its point."""


def _elementwise(
    function: Callable[..., object], kind: Any, *values: Value, null_in_null_out: bool = True
) -> Value:
    """Return a function of Python values for every row, for what Arrow has no function for."""
    arrays = [v for v in values if not isinstance(v, pa.Scalar)]
    length = len(arrays[0]) if arrays else 1
    columns = [[v.as_py()] * length if isinstance(v, pa.Scalar) else v.to_pylist() for v in values]
    try:
        found = [
            None if null_in_null_out and None in row else function(*row)
            for row in zip(*columns, strict=True)
        ]
    except (AttributeError, LookupError) as error:
        # A value is of a type that lacks what the function asks of it.
        message = f"the function does not take {', '.join(str(v.type) for v in values)}"
        raise TypeError(message) from error
    result = pa.array(found, kind)
    return result if arrays else result[0]


def _concat_ws(separator: Value, *values: Value) -> Value:
    """Join texts and arrays of texts; NULLs are left out, as in Spark SQL."""
    room = Room()

    def join(mark: str | None, *cells: object) -> str | None:
        if mark is None:
            return None
        texts: list[str] = []
        for cell in cells:
            texts += [str(c) for c in (cell if isinstance(cell, list) else [cell]) if c is not None]
        return room.join(mark, texts)

    return _elementwise(join, pa.string(), separator, *values, null_in_null_out=False)


def _array_join(array: Value, separator: Value, replacement: Value | None = None) -> Value:
    room = Room()

    def join(cells: list[object] | None, mark: str | None, missing: str | None) -> str | None:
        if cells is None or mark is None:
            return None
        texts = [missing if cell is None else str(cell) for cell in cells]
        return room.join(mark, [text for text in texts if text is not None])

    spare = pa.scalar(None, pa.string()) if replacement is None else replacement
    return _elementwise(join, pa.string(), array, separator, spare, null_in_null_out=False)


def _array(*items: Value) -> Value:
    if not items:
        return pa.scalar([], pa.list_(pa.null()))
    kinds = [item.type for item in items if not pa.types.is_null(item.type)]
    kind = kinds[0] if kinds else pa.null()
    return _elementwise(lambda *cells: list(cells), pa.list_(kind), *items, null_in_null_out=False)


def _cardinality(array: Value) -> Value:
    if pa.types.is_map(array.type):
        return _elementwise(len, pa.int64(), array)
    return pc.list_value_length(array).cast(pa.int64())


def _items(array: Value) -> Value:
    """Return the type of what an array holds."""
    if not pa.types.is_list(array.type):
        message = f"a value of type {array.type} is no array"
        raise TypeError(message)
    return array.type.value_type


def _of_items(function: Callable[[list[Any]], object]) -> Callable[[Value], Value]:
    """Return a function of the values of an array that are not NULL."""

    def of_items(array: Value) -> Value:
        kind = _items(array)

        def compute(cells: list[Any]) -> object:
            present = [cell for cell in cells if cell is not None]
            return function(present) if present else None

        return _elementwise(compute, kind, array)

    return of_items


def _array_sort(array: Value) -> Value:
    """Return an array with its values in order, NULLs last."""

    def sort(cells: list[Any]) -> list[Any]:
        present = sorted(cell for cell in cells if cell is not None)
        return present + [None] * (len(cells) - len(present))

    return _elementwise(sort, pa.list_(_items(array)), array)


def _contains(array: Value, item: Value) -> Value:
    _items(array)
    return _elementwise(lambda cells, one: one in cells, pa.bool_(), array, item)


def _element_at(array: Value, key: Value) -> Value:
    """Return the value of a key of a map, or of a place in an array, counted from 1."""
    if pa.types.is_map(array.type):
        pick: Callable[..., object] = lambda pairs, one: dict(pairs).get(one)  # noqa: E731  # one use
        return _elementwise(pick, array.type.item_type, array, key)

    def at(cells: list[Any], place: int) -> object:
        if place == 0 or abs(place) > len(cells):
            return None
        return cells[place - 1] if place > 0 else cells[place]

    return _elementwise(at, _items(array), array, key)


def _coalesce(*values: Value) -> Value:
    present = [value for value in values if not pa.types.is_null(value.type)]
    if not present:
        return values[0]
    check_repeated(present)
    kind = reduce(lambda a, b: unify(a, b)[0], present).type
    return pc.coalesce(*(value.cast(kind, safe=False) for value in present))


def _null_if(a: Value, b: Value) -> Value:
    equal = pc.fill_null(as_truth(binary("=", a, b)), fill_value=False)
    return choose(equal, pa.scalar(None, a.type), a)


def _if(condition: Value, then: Value, other: Value | None = None) -> Value:
    otherwise = pa.scalar(None, then.type) if other is None else other
    a, b = unify(then, otherwise)
    return choose(pc.fill_null(as_truth(condition), fill_value=False), a, b)


def _choose(operator: str) -> Callable[..., Value]:
    """Return GREATEST or LEAST; NULLs are left out, as in Spark SQL."""

    def best(*values: Value) -> Value:
        def better(a: Value, b: Value) -> Value:
            a, b = unify(a, b)
            first = pc.fill_null(binary(operator, a, b), pc.is_valid(a))
            return choose(first, a, b)

        return reduce(better, values)

    return best


def _number(value: Value) -> Value:
    if is_text(value.type) or pa.types.is_boolean(value.type) or pa.types.is_list(value.type):
        message = f"a value of type {value.type} is no number"
        raise TypeError(message)
    return value


def _absolute(value: Value) -> Value:
    return pc.abs_checked(_number(value))


def _round(value: Value, digits: Value | None = None) -> Value:
    places = 0 if digits is None else _constant(digits)
    _number(value)
    if pa.types.is_integer(value.type) and places >= 0:
        return value
    if pa.types.is_decimal(value.type):
        return pc.round(value, ndigits=places, round_mode="half_towards_infinity")
    if isinstance(value, pa.Scalar):
        return _round(pa.array([value.as_py()], value.type), digits)[0]
    encoded = value.dictionary_encode()
    rounded = [None if x is None else _rounded(x, places) for x in encoded.dictionary.to_pylist()]
    return pa.array(rounded, value.type).take(encoded.indices)


def _rounded(number: float, places: int) -> float:
    """Return a number rounded by way of its decimal text; ties go away from zero."""
    if not math.isfinite(number):
        return number
    places = max(-PLACES_MAX, min(places, PLACES_MAX))
    with localcontext(prec=2 * PLACES_MAX):
        scaled = Decimal(repr(number)).scaleb(places).to_integral_value(ROUND_HALF_UP)
        found = scaled.scaleb(-places)
    return int(found) if isinstance(number, int) else math.copysign(float(found), number)


def _constant(value: Value) -> int:
    if not isinstance(value, pa.Scalar) or not isinstance(value.as_py(), int):
        message = "a whole constant is needed here"
        raise TypeError(message)
    return int(value.as_py())


def _to_whole(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    def rounded(value: Value) -> Value:
        _number(value)
        if pa.types.is_integer(value.type):
            return value
        found = function(value)
        return to_whole(found) if pa.types.is_floating(value.type) else found.cast(pa.int64())

    return rounded


def _analytic(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    return lambda value: function(as_double(_number(value)))


def _logarithm(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """Return a logarithm that is NULL for what has none."""

    def logarithm(value: Value) -> Value:
        number = as_double(_number(value))
        none = pc.less_equal(number, 0.0)  # Which NaN is not.
        return function(pc.if_else(none, pa.scalar(None, pa.float64()), number))

    return logarithm


def _sign(value: Value) -> Value:
    return pc.sign(as_double(_number(value)))


def _power(base: Value, exponent: Value) -> Value:
    """Return a power as Spark has it: neither one nor the sign of zero is an exception."""
    x, y = as_double(_number(base)), as_double(_number(exponent))
    one = pc.equal(pc.abs(x), 1.0)
    none = pc.or_(pc.and_(one, pc.is_inf(y)), pc.and_(pc.equal(x, 1.0), pc.is_nan(y)))
    pole = pc.and_(pc.equal(x, 0.0), pc.less(y, 0.0))
    found = pc.if_else(pole, pa.scalar(math.inf), pc.power(x, y))
    return pc.if_else(none, pa.scalar(math.nan), found)


def _cased(function: Callable[[str], str]) -> Callable[[Value], Value]:
    """Return UPPER or LOWER; Arrow's own change every letter for one letter only."""

    def change(text: Value) -> Value:
        if isinstance(text, pa.Scalar):
            return change(pa.array([text.as_py()], pa.string()))[0]
        encoded = text.dictionary_encode()
        changed = [None if one is None else function(one) for one in encoded.dictionary.to_pylist()]
        return pa.array(changed, text.type).take(encoded.indices)

    return _textual(change)


def _textual(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    return lambda value: function(as_text(value))


def _substring(value: Value, start: Value, length: Value | None = None) -> Value:
    """Return part of a text; the first character is 1, and negative places count from the end."""

    def cut(text: str, place: int, count: int | None = None) -> str:
        begin = place - 1 if place > 0 else len(text) + place if place < 0 else 0
        end = len(text) if count is None else begin + count
        return text[max(begin, 0) : max(end, 0)]

    parts: Sequence[Value] = (start,) if length is None else (start, length)
    return _elementwise(cut, pa.string(), as_text(value), *parts)


def _replace(value: Value, old: Value, new: Value | None = None) -> Value:
    spare = pa.scalar("") if new is None else new
    room = Room()

    def replace(text: str, a: str, b: str) -> str:
        size = byte_size if text.isascii() and b.isascii() else lambda part: 4 * len(part)
        room.take(size(text) + text.count(a) * (size(b) - size(a)) if a else 0)
        return text.replace(a, b) if a else text

    return _elementwise(replace, pa.string(), as_text(value), as_text(old), as_text(spare))


def _starts_with(value: Value, start: Value) -> Value:
    return _elementwise(str.startswith, pa.bool_(), as_text(value), as_text(start))


def _part(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """Return a part of a time, as Spark SQL names them."""

    def part(value: Value) -> Value:
        moment = value.cast(pa.timestamp("us")) if is_text(value.type) else value
        return function(moment).cast(pa.int32())

    return part


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "ARRAY": _array,
    "ABS": _absolute,
    "ROUND": _round,
    "FLOOR": _to_whole(pc.floor),
    "CEIL": _to_whole(pc.ceil),
    "CEILING": _to_whole(pc.ceil),
    "SIGN": _sign,
    "SQRT": _analytic(pc.sqrt),
    "EXP": _analytic(pc.exp),
    "LN": _logarithm(pc.ln),
    "LOG2": _logarithm(pc.log2),
    "LOG10": _logarithm(pc.log10),
    "POWER": _power,
    "POW": _power,
    "MOD": lambda a, b: binary("%", a, b),
    "GREATEST": _choose(">="),
    "LEAST": _choose("<="),
    "COALESCE": _coalesce,
    "NULLIF": _null_if,
    "IF": _if,
    "UPPER": _cased(str.upper),
    "LOWER": _cased(str.lower),
    "TRIM": _textual(lambda text: pc.utf8_trim(text, " ")),
    "LTRIM": _textual(lambda text: pc.utf8_ltrim(text, " ")),
    "RTRIM": _textual(lambda text: pc.utf8_rtrim(text, " ")),
    "LENGTH": _textual(lambda text: pc.utf8_length(text).cast(pa.int32())),
    "CHAR_LENGTH": _textual(lambda text: pc.utf8_length(text).cast(pa.int32())),
    "SUBSTRING": _substring,
    "SUBSTR": _substring,
    "REPLACE": _replace,
    "STARTS_WITH": _starts_with,
    "CONCAT": concat,
    "CONCAT_WS": _concat_ws,
    "ARRAY_JOIN": _array_join,
    "ARRAY_SORT": _array_sort,
    "ARRAY_MIN": _of_items(min),
    "ARRAY_MAX": _of_items(max),
    "CONTAINS": _contains,
    "ELEMENT_AT": _element_at,
    "CARDINALITY": _cardinality,
    "SIZE": _cardinality,
    "YEAR": _part(pc.year),
    "MONTH": _part(pc.month),
    "DAY": _part(pc.day),
    "HOUR": _part(pc.hour),
    "MINUTE": _part(pc.minute),
    "SECOND": _part(pc.second),
}
"""What a function gives for values of its arguments."""
