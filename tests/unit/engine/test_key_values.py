"""Keys get numbers as they appear, the same as in a dictionary of Python."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepheid.arrays import key_values
from cepheid.arrays.columns import Columns, KeyTable
from cepheid.arrays.key_values import KeyValues
from cepheid.errors import DataError
from cepheid.jobs.tables import table_from_bytes, table_to_bytes

BIG = 2**40
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "small": (pa.int8(), [1, -2, 3]),
    "wide": (pa.int64(), [1, -BIG, BIG, 2**62]),
    "unsigned": (pa.uint64(), [1, 2**64 - 1]),
    "double": (pa.float64(), [0.0, -0.0, math.nan, 1.5, math.inf]),
    "text": (pa.string(), ["a", "", "b", "ä"]),
    "large": (pa.large_string(), ["a", "b"]),
    "coded": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", "c"]),
    "flag": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]),
    "money": (pa.decimal128(10, 2), [decimal.Decimal("1.50"), decimal.Decimal("2.00")]),
}


def plain(value: Any) -> Any:
    """Return what equal values have in common."""
    return "nan" if isinstance(value, float) and math.isnan(value) else value


@st.composite
def tables(draw: Any) -> list[pa.Table]:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3, unique=True))
    found = []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.integers(0, 6))
        columns = {
            name: pa.array(
                draw(st.lists(st.sampled_from([None, *values]), min_size=rows, max_size=rows)), kind
            )
            for name, (kind, values) in KINDS.items()
            if name in names
        }
        found.append(pa.table(columns))
    return found


@pytest.mark.parametrize("index_from", [key_values.INDEX_FROM, 1])
@given(batches=tables())
def test_equal_keys_have_equal_numbers(index_from: int, batches: list[pa.Table]) -> None:
    with mock.patch.object(key_values, "INDEX_FROM", index_from):
        check_numbers(batches)


def check_numbers(batches: list[pa.Table]) -> None:
    keys = KeyTable(batches[0].column_names)
    numbers: dict[tuple[Any, ...], int] = {}
    for batch in batches:
        got = keys.number(Columns(batch)).tolist()
        for row, number in zip(batch.to_pylist(), got, strict=True):
            key = tuple(plain(value) for value in row.values())
            if None in key:
                assert number == -1
            else:
                assert numbers.setdefault(key, number) == number
    assert sorted(numbers.values()) == list(range(len(keys)))
    values = [tuple(map(plain, key)) for key in keys.values]
    assert values == sorted(numbers, key=numbers.__getitem__)
    # What a snapshot holds gives the same numbers again, and so does a part of it.
    if len(keys):
        saved = pa.table({f"{n}": array for n, array in enumerate(keys.arrays())})
        again = KeyTable(keys.names)
        again.restore(c.combine_chunks() for c in table_from_bytes(table_to_bytes(saved)).columns)
        assert [tuple(map(plain, key)) for key in again.values] == values
        part = keys.take(np.arange(len(keys))[::-2])
        assert [tuple(map(plain, key)) for key in part.values] == values[::-2]


def test_copies_grow_on_their_own() -> None:
    keys = KeyTable(["k"])
    keys.number(Columns(pa.table({"k": [1, 2]})))
    other = keys.copy()
    other.number(Columns(pa.table({"k": [3]})))
    assert (len(keys), len(other)) == (2, 3)


def test_whole_numbers_and_doubles_are_compared_by_value() -> None:
    keys = KeyTable(["k"])
    assert keys.number(Columns(pa.table({"k": [1, 2]}))).tolist() == [0, 1]
    assert keys.number(Columns(pa.table({"k": [2.0, 2.5]}))).tolist() == [1, 2]
    with pytest.raises(DataError, match="changed its type from double to string"):
        keys.number(Columns(pa.table({"k": ["2"]})))


@pytest.mark.parametrize(
    ("first", "then", "numbers"),
    [
        (pa.array([1, 2**53 + 1]), pa.array([2**53, 2**53 + 1], pa.uint64()), [2, 1]),
        (pa.array([2**63], pa.uint64()), pa.array([5]), [1]),
        (pa.array([1, 2]), pa.array([2.0, 2.5]), [1, 2]),
        (pa.array([-1]), pa.array([2**63], pa.uint64()), None),
        (pa.array([2**53 + 1]), pa.array([1.0]), None),
    ],
)
def test_keys_of_another_type_are_the_same_or_refused(
    first: Any, then: Any, numbers: list[int] | None
) -> None:
    keys = KeyValues("g")
    keys.add(first)
    if numbers is None:
        with pytest.raises(DataError, match=r"E506.*`g` changed its type"):
            keys.add(then)
    else:
        assert keys.add(then).tolist() == numbers
