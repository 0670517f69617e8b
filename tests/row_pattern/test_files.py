"""A clause over Parquet files reads the columns that it names, and finds the same rows."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cepheid
from cepheid.errors import BindError
from cepheid.runtimes import sql as runtime

EVENTS = pa.table(
    {
        "ts": range(12),
        "key": [n % 3 for n in range(12)],
        "price": [5, 4, 3, 9, 2, 8, 7, 7, 1, 4, 6, 9],
        "name": pa.array([f"n{n % 5}" for n in range(12)]),
        "odd": pa.array([n % 2 == 1 for n in range(12)]),
    }
)
FALLS = "PATTERN (S D+) DEFINE D AS price < PREV(price)"
CLAUSES = {
    f"SELECT key, a, z FROM e MATCH_RECOGNIZE (PARTITION BY key ORDER BY ts MEASURES S.ts AS a,"
    f" LAST(D.Price) AS z {FALLS})": {"ts", "key", "price"},
    f"SELECT * FROM E MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n {FALLS})": {
        "ts", "price",
    },
    f"SELECT * FROM e MATCH_RECOGNIZE (ORDER BY ts ALL ROWS PER MATCH {FALLS})": set(
        EVENTS.column_names
    ),
    "SELECT * FROM e MATCH_RECOGNIZE (MEASURES COUNT(*) AS n PATTERN (A B))": {"ts"},
    "SELECT * FROM (SELECT ts, price FROM e WHERE odd) MATCH_RECOGNIZE (ORDER BY ts MEASURES"
    f" S.ts AS a {FALLS})": None,
    "SELECT e.name, m.a FROM e MATCH_RECOGNIZE (ORDER BY ts MEASURES S.ts AS a"
    f" {FALLS}) AS m JOIN e ON e.ts = m.a": None,
}  # fmt: skip
"""Texts, and the columns that are read; None where all of them are, for the query around."""


@pytest.fixture
def folder(tmp_path: Path) -> str:
    # The second file has its columns in another order, and one of them later.
    pq.write_table(EVENTS.slice(0, 5).drop_columns(["name"]), tmp_path / "1.parquet")
    later = EVENTS.slice(5).select(["price", "ts", "name", "key", "odd"])
    pq.write_table(later, tmp_path / "2.parquet", row_group_size=3)
    return str(tmp_path)


@pytest.mark.parametrize("text", CLAUSES)
def test_files_give_the_rows_of_their_table(folder: str, text: str) -> None:
    name = pa.array([None] * 5 + EVENTS["name"].to_pylist()[5:], pa.string())
    table = EVENTS.drop_columns(["name"]).append_column("name", name)
    expected = cepheid.sql(text, tables={"e": table})
    read: list[set[str]] = []
    before = runtime._read

    def noted(files: list[Path], columns: tuple[str, ...] | None = None) -> pa.Table:
        found = before(files, columns)
        read.append(set(found.column_names))
        return found

    with mock.patch.object(runtime, "_read", noted):
        found = cepheid.sql(text, tables={"e": folder})
    assert len(expected)
    assert found.select(expected.column_names).to_pylist() == expected.to_pylist()
    assert read[0] == (CLAUSES[text] or set(EVENTS.column_names))


def test_a_column_that_no_file_has_is_refused(folder: str) -> None:
    text = "SELECT * FROM e MATCH_RECOGNIZE (ORDER BY tss MEASURES COUNT(*) AS n PATTERN (A))"
    with pytest.raises(BindError, match="tss"):
        cepheid.sql(text, tables={"e": folder})


def test_csv_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("ts,price\n1,3\n2,2\n3,1\n")
    text = f"SELECT * FROM e MATCH_RECOGNIZE (ORDER BY ts MEASURES S.ts AS a {FALLS})"
    assert cepheid.sql(text, tables={"e": str(tmp_path / "e.csv")}).to_pylist() == [{"a": 1}]
