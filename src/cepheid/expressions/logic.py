"""Conditions in, condition out: three-valued logic, lists, and functions that choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.events.decimals import Decimals
from cepheid.events.schema import NUMERIC, TEMPORAL, ValueKind
from cepheid.expressions.arrow import arrow_of
from cepheid.expressions.room import Room
from cepheid.expressions.value_types import family_of
from cepheid.expressions.vectors import (
    INT64_MAX,
    INT64_MIN,
    NULL,
    MisfitError,
    Vector,
    both_valid,
    compare,
    in_one_zone,
    map_texts,
    plain_texts,
    truth_of,
    zone_of,
)

if TYPE_CHECKING:
    from cepheid.expressions.vectors import Mask, Numbers, Texts

LIST_SCANNED_MAX = 8
"""A longer list of numbers after IN is searched instead of compared one by one."""


def is_true(condition: Vector) -> Mask:
    """Find where a condition is true, and neither false nor NULL."""
    data: Mask = condition.numbers
    return data if condition.valid is None else data & condition.valid


def negated(condition: Vector) -> Vector:
    """Return NOT of a condition."""
    return Vector(~condition.numbers, condition.valid, condition.kind)


def combined(operator: str, conditions: Sequence[Vector]) -> Vector:
    """Return AND or OR: the deciding value wins, then NULL, then the other."""
    valid = reduce(both_valid, [c.valid for c in conditions])
    if operator == "OR":
        data = reduce(np.logical_or, [is_true(c) for c in conditions])
        return Vector(data, None if valid is None else valid | data, ValueKind.BOOLEAN)
    # What is not false: true or NULL.
    data = reduce(
        np.logical_and,
        [c.numbers if c.valid is None else c.numbers | ~c.valid for c in conditions],
    )
    return Vector(data, None if valid is None else valid | ~data, ValueKind.BOOLEAN)


def in_list(one: Vector, items: Sequence[Vector]) -> Vector:
    """Find where a value is one of a list."""
    present = [item for item in items if item.kind is not ValueKind.UNKNOWN]
    kinds = {one.kind, *(item.kind for item in present)}
    constants = all(len(item.data) == 1 and item.valid is None for item in present)
    if constants and kinds == {ValueKind.TEXT}:
        data = _in_texts(one.texts, [plain_texts(item.texts)[0].as_py() for item in present])
    elif constants and kinds <= NUMERIC and not any(map(_is_decimal, (one, *present))):
        data = _in_numbers(one.numbers, [item.numbers[0].item() for item in present])
    else:
        return combined("OR", [compare("=", one, item) for item in items])
    some_null = len(present) < len(items)
    return Vector(data, both_valid(one.valid, data) if some_null else one.valid, ValueKind.BOOLEAN)


def _is_decimal(vector: Vector) -> bool:
    return isinstance(vector.data, Decimals)


def _in_texts(texts: Texts, wanted: list[str]) -> Mask:
    def search(values: Texts) -> Mask:
        if len(wanted) == 1:  # Arrow's search costs as much as two comparisons.
            return truth_of(pc.equal(values, pa.scalar(wanted[0])))
        return truth_of(pc.is_in(values, value_set=pa.array(wanted, values.type)))

    return _as_mask(map_texts(texts, search))


def _in_numbers(numbers: Numbers, wanted: list[int | float]) -> Mask:
    # A number that the column's type cannot hold equals none of its values.
    fitting = [value for value in wanted if _fits(value, numbers.dtype)]
    table = np.unique(np.array(fitting, numbers.dtype))
    if len(table) <= LIST_SCANNED_MAX:
        found: Mask = reduce(np.logical_or, [numbers == v for v in table], np.zeros(1, np.bool_))
    else:
        nearest = np.searchsorted(table, numbers).clip(max=len(table) - 1)
        found = table[nearest] == numbers
    if np.isnan(table[-1:]).any():
        found |= np.isnan(numbers)
    return found


def _fits(value: float, dtype: np.dtype[Any]) -> bool:
    if dtype == np.float64:
        return value != value or float(value) == value
    return value == value and INT64_MIN <= value <= INT64_MAX and value == int(value)


def _as_mask(data: Numbers | Texts) -> Mask:
    assert isinstance(data, np.ndarray), "a predicate of text is true or false"
    return data


# ---------------------------------------------------------------------------------------
# Functions that choose


def choose(mask: Mask, a: Vector, b: Vector) -> Vector:
    """Return a where a mask is true, else b."""
    if b.kind is ValueKind.UNKNOWN:
        return a._replace(valid=both_valid(a.valid, mask))
    if a.kind is ValueKind.UNKNOWN:
        return b._replace(valid=both_valid(b.valid, ~mask))
    chosen = _chosen(mask, a, b)
    if a.valid is None and b.valid is None:
        return chosen
    sides = (True if v.valid is None else v.valid for v in (a, b))
    return chosen._replace(valid=np.where(mask, *sides))


def _chosen(mask: Mask, a: Vector, b: Vector) -> Vector:
    """Return a where a mask is true, else b; the caller knows which values are NULL."""
    if family_of(a.kind) != family_of(b.kind):
        message = f"a choice between {a.kind.value} and {b.kind.value}"
        raise MisfitError(message)
    if zone_of(a) != zone_of(b):
        a, b = in_one_zone(a, b)
    zone = zone_of(a) or zone_of(b)
    kept = a.type if a.type == b.type else pa.timestamp("us", zone) if zone else None
    arrow = a.kind is ValueKind.OTHER or (isinstance(a.data, Decimals) and kept is not None)
    if a.kind is not ValueKind.TEXT and not arrow:
        data = np.where(mask, a.numbers, b.numbers)
        kind: ValueKind = a.kind
        if a.kind is not b.kind:
            times = {a.kind, b.kind} <= TEMPORAL
            whole = ValueKind.TIMESTAMP if times else ValueKind.INTEGER
            kind = ValueKind.DOUBLE if data.dtype == np.float64 else whole
        return Vector(data, None, kind, kept)
    length = np.broadcast_shapes(mask.shape, *((len(v.data),) for v in (a, b)))[0]
    texts = [plain_texts(v.texts) if v.kind is ValueKind.TEXT else arrow_of(v) for v in (a, b)]
    for text in texts:
        if len(text) < length:  # A constant is written into every row.
            Room().take(length * text.nbytes)
    parts: list[Any] = [t if len(t) == length else t[0] for t in texts]
    found: Any = pc.if_else(pa.array(np.broadcast_to(mask, length)), *parts)
    if isinstance(a.data, Decimals):
        return Vector(Decimals(found.fill_null(0), ""), None, a.kind, kept)
    return Vector(found, None, a.kind, kept)


def _either_valid(a: Vector, b: Vector) -> Mask | None:
    return None if a.valid is None or b.valid is None else a.valid | b.valid


def _coalesce(a: Vector, b: Vector) -> Vector:
    if a.valid is None:
        return a
    return _chosen(a.valid, a, b)._replace(valid=_either_valid(a, b))


def _extreme(operator: str) -> Callable[[Vector, Vector], Vector]:
    """Return GREATEST or LEAST of two; NULL counts only if both are."""

    def extreme(a: Vector, b: Vector) -> Vector:
        second: Mask = compare(operator, b, a).numbers
        second = second if a.valid is None else second | ~a.valid
        second = second if b.valid is None else second & b.valid
        return _chosen(second, b, a)._replace(valid=_either_valid(a, b))

    return extreme


def _of_all(function: Callable[[Vector, Vector], Vector]) -> Callable[..., Vector]:
    """Return a function of all values that are not the constant NULL."""

    def of_all(*values: Vector) -> Vector:
        present = [value for value in values if value.kind is not ValueKind.UNKNOWN]
        return reduce(function, present) if present else NULL

    return of_all


def _null_if(a: Vector, b: Vector) -> Vector:
    same = is_true(compare("=", a, b))
    return a._replace(valid=both_valid(a.valid, ~same)) if same.any() else a


def _if(condition: Vector, then: Vector, otherwise: Vector = NULL) -> Vector:
    return choose(is_true(condition), then, otherwise)


CHOICES: dict[str, Callable[..., Vector]] = {
    "COALESCE": _of_all(_coalesce),
    "GREATEST": _of_all(_extreme(">")),
    "LEAST": _of_all(_extreme("<")),
    "NULLIF": _null_if,
    "IF": _if,
}
"""Functions that may have a value where an argument is NULL."""
