"""SQL's functions over Arrow values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from cepheid.row_pattern.arrow import Value, pa, pc
from cepheid.row_pattern.operators import (
    as_double,
    as_text,
    as_truth,
    binary,
    concat,
    is_text,
    unify,
)


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

    def join(mark: str | None, *cells: object) -> str | None:
        if mark is None:
            return None
        texts: list[str] = []
        for cell in cells:
            texts += [str(c) for c in (cell if isinstance(cell, list) else [cell]) if c is not None]
        return mark.join(texts)

    return _elementwise(join, pa.string(), separator, *values, null_in_null_out=False)


def _array_join(array: Value, separator: Value, replacement: Value | None = None) -> Value:
    def join(cells: list[object] | None, mark: str | None, missing: str | None) -> str | None:
        if cells is None or mark is None:
            return None
        texts = [missing if cell is None else str(cell) for cell in cells]
        return mark.join(text for text in texts if text is not None)

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
    kind = reduce(lambda a, b: unify(a, b)[0], present).type
    return pc.coalesce(*(value.cast(kind, safe=False) for value in present))


def _null_if(a: Value, b: Value) -> Value:
    equal = pc.fill_null(as_truth(binary("=", a, b)), fill_value=False)
    return pc.if_else(equal, pa.scalar(None, a.type), a)


def _if(condition: Value, then: Value, other: Value | None = None) -> Value:
    otherwise = pa.scalar(None, then.type) if other is None else other
    a, b = unify(then, otherwise)
    return pc.if_else(pc.fill_null(as_truth(condition), fill_value=False), a, b)


def _choose(operator: str) -> Callable[..., Value]:
    """Return GREATEST or LEAST; NULLs are left out, as in Spark SQL."""

    def choose(*values: Value) -> Value:
        def better(a: Value, b: Value) -> Value:
            a, b = unify(a, b)
            first = pc.fill_null(binary(operator, a, b), pc.is_valid(a))
            return pc.if_else(first, a, b)

        return reduce(better, values)

    return choose


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
    rounded = pc.round(value, ndigits=places, round_mode="half_towards_infinity")
    return rounded.cast(value.type) if pa.types.is_integer(value.type) else rounded


def _constant(value: Value) -> int:
    if not isinstance(value, pa.Scalar) or not isinstance(value.as_py(), int):
        message = "a whole constant is needed here"
        raise TypeError(message)
    return int(value.as_py())


def _to_whole(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    def to_whole(value: Value) -> Value:
        _number(value)
        return value if pa.types.is_integer(value.type) else function(value).cast(pa.int64())

    return to_whole


def _analytic(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    return lambda value: function(as_double(_number(value)))


def _logarithm(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """Return a logarithm that is NULL for what has none."""

    def logarithm(value: Value) -> Value:
        number = as_double(_number(value))
        positive = pc.greater(number, 0.0)
        return function(pc.if_else(positive, number, pa.scalar(None, pa.float64())))

    return logarithm


def _sign(value: Value) -> Value:
    return pc.sign(as_double(_number(value)))


def _power(base: Value, exponent: Value) -> Value:
    with np.errstate(all="ignore"):
        return pc.power(as_double(_number(base)), as_double(_number(exponent)))


def _textual(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    return lambda value: function(as_text(value))


def _substring(value: Value, start: Value, length: Value | None = None) -> Value:
    """Return part of a text; the first character is 1, and negative places count from the end."""

    def cut(text: str, place: int, count: int | None = None) -> str:
        begin = place - 1 if place > 0 else max(len(text) + place, 0) if place < 0 else 0
        return text[begin:] if count is None else text[begin : begin + max(count, 0)]

    parts: Sequence[Value] = (start,) if length is None else (start, length)
    return _elementwise(cut, pa.string(), as_text(value), *parts)


def _replace(value: Value, old: Value, new: Value | None = None) -> Value:
    spare = pa.scalar("") if new is None else new
    replace = lambda text, a, b: text.replace(a, b) if a else text  # noqa: E731  # one use
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
    "UPPER": _textual(pc.utf8_upper),
    "LOWER": _textual(pc.utf8_lower),
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
