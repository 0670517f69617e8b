"""SQL's functions of arrays and maps, by way of Arrow's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cepheid.expressions.arrow import Value, pa, pc, read_value, value_of
from cepheid.expressions.room import Room
from cepheid.expressions.vectors import MisfitError, Vector


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
        message = f"a function of {', '.join(str(v.type) for v in values)}, which it does not take"
        raise MisfitError(message) from error
    return pa.array(found, kind)


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
        message = f"a function of arrays, not of {array.type}"
        raise MisfitError(message)
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


def _on_vectors(function: Callable[..., Value]) -> Callable[..., Vector]:
    return lambda *vectors: read_value(function(*map(value_of, vectors)))


ARRAY_FUNCTIONS: dict[str, Callable[..., Vector]] = {
    "ARRAY": _on_vectors(_array),
    "CONCAT_WS": _on_vectors(_concat_ws),
    "ARRAY_JOIN": _on_vectors(_array_join),
    "ARRAY_SORT": _on_vectors(_array_sort),
    "ARRAY_MIN": _on_vectors(_of_items(min)),
    "ARRAY_MAX": _on_vectors(_of_items(max)),
    "CONTAINS": _on_vectors(_contains),
    "ELEMENT_AT": _on_vectors(_element_at),
    "CARDINALITY": _on_vectors(_cardinality),
}
"""Functions with arrays among their arguments, and the array of its arguments."""
