"""Rows as JSON: column by column the same texts as row by row."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepheid.kinds.workload.json_rows import json_rows

FAR = pa.scalar(30_000 * 365 * 86_400_000_000, pa.timestamp("us"))
COLUMNS: dict[str, pa.Array[Any]] = {
    "doubles": pa.array([1.5, None, -0.0, 1e300]),
    "odd": pa.array([float("nan"), float("inf"), 0.0, 5e-324]),
    "singles": pa.array([0.1, None, 2.0, 3.0], pa.float32()),
    "whole": pa.array([1, -(2**63), None, 2**63 - 1]),
    "large": pa.array([0, 2**64 - 1, 2, None], pa.uint64()),
    "truth": pa.array([True, False, None, True]),
    "texts": pa.array(['a "quoted", text', "ä\u2028\n", None, ""]),
    "quotes": pa.array(['a",', '","', "\\", '"']),
    "same": pa.array(["x", "x", None, "x"]).dictionary_encode(),
    "bytes": pa.array([b"a", None, b"\x00\xff", b""]),
    "times": pa.array(
        [datetime(2020, 1, 2, tzinfo=UTC), None, None, datetime(1, 1, 1, tzinfo=UTC)]
    ),
    "local": pa.array([datetime(2020, 1, 2, 3, 4, 5, 6), None, None, datetime(9999, 12, 31)]),
    "days": pa.array([date(2020, 1, 2), None, date(1, 1, 1), date(2020, 1, 2)]),
    "clock": pa.array([time(1, 2, 3), None, time(0), time(23, 59, 59, 999_999)]),
    "spans": pa.array([timedelta(seconds=1.5), None, timedelta(0), timedelta(days=-1)]),
    "exact": pa.array([Decimal("1.50"), None, Decimal("0.00"), Decimal("-1.00")]),
    "lists": pa.array([[1, 2], None, [], [3]]),
    "structures": pa.array([{"a": 1, "b": "x,y"}, None, {"a": None, "b": ""}, {"a": 2, "b": "z"}]),
    "nothing": pa.nulls(4),
    'name, "quoted"': pa.array([1, 2, 3, 4]),
}


def row_by_row(rows: pa.Table) -> list[str]:
    encode = msgspec.json.Encoder(enc_hook=str).encode
    return [encode(row).decode() for row in rows.to_pylist()]


@pytest.mark.parametrize("name", COLUMNS)
def test_values_of_every_type(name: str) -> None:
    table = pa.table({name: COLUMNS[name], "n": pa.array([1, 2, 3, 4])})
    for rows in (table, table.slice(1, 2), table.slice(0, 0), pa.concat_tables([table, table])):
        assert json_rows(rows).to_pylist() == row_by_row(rows)


@given(
    st.lists(
        st.tuples(
            st.none() | st.text() | st.text('",\\a'),
            st.none() | st.floats(),
            st.none() | st.integers(-9, 9),
        )
    )
)
def test_any_rows(rows: list[tuple[Any, ...]]) -> None:
    kinds: list[tuple[str, pa.DataType]] = [
        ("a", pa.string()),
        ("b", pa.float64()),
        ("c", pa.int64()),
    ]
    found = [dict(zip("abc", row, strict=True)) for row in rows]
    try:
        table = pa.Table.from_pylist(found, pa.schema(kinds))
    except UnicodeEncodeError:
        return
    assert json_rows(table).to_pylist() == row_by_row(table)


def test_rows_without_columns() -> None:
    assert json_rows(pa.table({"a": [1, 2]}).select([])).to_pylist() == ["{}", "{}"]


def test_times_beyond_the_years_of_python_are_texts() -> None:
    rows = pa.table({"a": pa.array([FAR, FAR]), "b": pa.array([0, 1], pa.timestamp("us"))})
    texts = json_rows(rows).to_pylist()
    assert texts[0] == f'{{"a":"{FAR.cast(pa.string())}","b":"1970-01-01 00:00:00.000000"}}'
