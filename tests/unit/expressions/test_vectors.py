from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepheid.errors import DataError
from cepheid.events.schema import ValueKind
from cepheid.expressions.vectors import Vector, constant, full_length, map_texts, vector_of

DAY_US = 86_400_000_000
WHOLE = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()]
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
TEXTS += [pa.dictionary(pa.int32(), pa.large_string())]


def values_of(vector: Vector) -> list[Any]:
    """Return the values of a vector as Python has them."""
    data = vector.data.tolist()
    return [
        value if vector.valid is None or vector.valid[idx] else None
        for idx, value in enumerate(data)
    ]


def code_of(column: pa.Array[Any], name: str = "") -> tuple[str, str]:
    with pytest.raises(DataError) as caught:
        vector_of(column, name=name)
    return caught.value.diagnostics[0].code, caught.value.diagnostics[0].message


@pytest.mark.parametrize("kind", [*WHOLE, pa.uint64()], ids=str)
def test_whole_numbers_become_int64(kind: pa.DataType) -> None:
    vector = vector_of(pa.array([1, None, 100], kind))
    assert vector.kind is ValueKind.INTEGER
    assert vector.numbers.dtype == np.int64
    assert values_of(vector) == [1, None, 100]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_doubles_keep_nan_apart_from_null(kind: pa.DataType) -> None:
    numbers = np.array([0.5, np.nan, 1.0], kind.to_pandas_dtype())
    vector = vector_of(pa.array(numbers, mask=numbers == 1))
    assert vector.kind is ValueKind.DOUBLE
    assert vector.numbers.dtype == np.float64
    half, nan, null = values_of(vector)
    assert (half, math.isnan(nan), null) == (0.5, True, None)


@pytest.mark.parametrize(
    "kind",
    [pa.decimal32(9, 2), pa.decimal64(18, 4), pa.decimal128(38, 10), pa.decimal256(70, 20)],
    ids=str,
)
def test_decimals_become_the_doubles_with_their_digits(kind: pa.DataType) -> None:
    texts = ["0.1", "-1234567.89", None, "0.07"]
    vector = vector_of(pa.array([t and Decimal(t) for t in texts], kind))
    assert vector.kind is ValueKind.DECIMAL
    assert values_of(vector) == [t and float(t) for t in texts]


def test_truth_values() -> None:
    vector = vector_of(pa.array([True, None, False]))
    assert (vector.kind, values_of(vector)) == (ValueKind.BOOLEAN, [True, None, False])


@pytest.mark.parametrize("zone", [None, "UTC", "+05:30", "Europe/Berlin"])
@pytest.mark.parametrize(
    ("unit", "steps", "microseconds"),
    [
        ("s", [-1, None, 7], [-1_000_000, None, 7_000_000]),
        ("ms", [-1, None, 7], [-1_000, None, 7_000]),
        ("us", [-1, None, 7], [-1, None, 7]),
        ("ns", [-1_000, None, 7_000, -2_000], [-1, None, 7, -2]),
    ],
)
def test_times_of_every_unit_and_zone_become_microseconds(
    unit: Any, zone: str | None, steps: list[int | None], microseconds: list[int | None]
) -> None:
    for kind, value_kind in (
        (pa.timestamp(unit, zone), ValueKind.TIMESTAMP),
        (pa.duration(unit), ValueKind.DURATION),
    ):
        vector = vector_of(pa.array(steps, pa.int64()).cast(kind))
        assert (vector.kind, values_of(vector)) == (value_kind, microseconds)


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
def test_dates_become_their_midnight(kind: pa.DataType) -> None:
    vector = vector_of(pa.array([dt.date(1970, 1, 2), None, dt.date(1969, 12, 31)], kind))
    assert (vector.kind, values_of(vector)) == (ValueKind.DATE, [DAY_US, None, -DAY_US])


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_text_of_every_layout(kind: pa.DataType) -> None:
    column = pa.array(["x", "b", None, "", "b"]).cast(kind).slice(1)
    vector = vector_of(column)
    assert (vector.kind, values_of(vector)) == (ValueKind.TEXT, ["b", None, "", "b"])
    assert vector.texts.null_count == 0
    assert pa.types.is_dictionary(kind) == isinstance(vector.texts, pa.DictionaryArray)


def test_a_dictionary_of_nothing_but_null() -> None:
    vector = vector_of(pa.array([None, None], pa.string()).dictionary_encode())
    assert values_of(vector) == [None, None]
    held = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["a", None]))
    assert values_of(vector_of(held)) == ["a", None, None]


def test_a_dictionary_of_numbers_is_looked_up() -> None:
    vector = vector_of(pa.array([5, None, 5]).dictionary_encode())
    assert (vector.kind, values_of(vector)) == (ValueKind.INTEGER, [5, None, 5])


def test_nothing_but_null() -> None:
    vector = vector_of(pa.nulls(2))
    assert (vector.kind, values_of(vector)) == (ValueKind.UNKNOWN, [None, None])
    assert values_of(vector_of(pa.nulls(2, pa.string()))) == [None, None]


@pytest.mark.parametrize("chunk_count", [0, 1, 2])
@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), *TEXTS], ids=str)
def test_chunks_become_one(kind: Any, chunk_count: int) -> None:
    chunk = pa.array(["1", None, "2", "1"]).cast(kind)
    vector = vector_of(pa.chunked_array([chunk] * chunk_count, kind))
    assert values_of(vector) == values_of(vector_of(chunk)) * chunk_count


@pytest.mark.parametrize("valid", [True, False])
def test_numbers_are_not_copied(*, valid: bool) -> None:
    numbers = np.arange(5)
    column = pa.array(numbers, mask=None if valid else numbers == 1)
    buffer = column.buffers()[1]
    assert buffer is not None
    assert vector_of(column).numbers.ctypes.data == buffer.address


@pytest.mark.parametrize(
    ("column", "type_name"),
    [
        (pa.array([{"a": 1}]), "struct<a: int64>"),
        (pa.array([b"x"]), "binary"),
        (pa.array([dt.time(1)]), "time64[us]"),
    ],
)
def test_other_types_are_refused(column: pa.Array[Any], type_name: str) -> None:
    message = f"column `x` of type {type_name} cannot be used in an expression"
    assert code_of(column, "x") == ("E503", message)
    assert code_of(column) == ("E503", message.replace("column `x`", "a column"))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**63], pa.uint64()),
        pa.array([2**53], pa.int64()).cast(pa.timestamp("s")),
        pa.array([-(2**63)], pa.int64()).cast(pa.timestamp("ms")),
        pa.array([2**60], pa.int64()).cast(pa.duration("ms")),
        pa.array([2**30], pa.int32()).cast(pa.date32()),
    ],
    ids=lambda column: str(column.type),
)
def test_what_does_not_fit_64_bits_is_refused(column: pa.Array[Any]) -> None:
    message = f"a whole number overflowed 64 bits in column `x` of type {column.type}"
    assert code_of(column, "x") == ("E504", message)
    # The same under a NULL means nothing.
    buffers = [pa.py_buffer(b"\0"), *column.buffers()[1:]]
    hidden = pa.Array.from_buffers(column.type, 1, buffers)
    assert values_of(vector_of(hidden)) == [None]


@pytest.mark.parametrize("length", [0, 1, 3])
@pytest.mark.parametrize("value", [None, True, 5, 0.5, "a"])
def test_constants_spread_to_any_length(value: bool | float | str | None, length: int) -> None:  # noqa: FBT001  # it is the value
    vector = full_length(constant(value), length)
    assert values_of(vector) == [value] * length
    assert vector.valid is None or len(vector.valid) == length


@given(st.lists(st.sampled_from(["", "a", "b", "é"]), max_size=8))
def test_a_dictionary_gives_what_plain_text_gives(values: list[str]) -> None:
    plain = vector_of(pa.array(values, pa.string()))
    encoded = vector_of(pa.array(values, pa.string()).dictionary_encode())
    for texts, same in ((plain.texts, encoded.texts), (plain.texts[:0], encoded.texts[:0])):
        for wanted in (["a"], ["a", "é"], ["z"], ["", "a", "b", "é"]):

            def found(values: pa.Array[Any], wanted: list[str] = wanted) -> Any:
                return np.array([text in wanted for text in values.to_pylist()], np.bool_)

            assert map_texts(same, found).tolist() == map_texts(texts, found).tolist()
