"""What SQL spells in its own way: DuckDB gives the same rows for the same text."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import cepheid

TICKS = pa.table(
    {
        "ts": [1, 2, 3, 4, 5, 6, 7],
        "k": ["p", "Pq", None, "q", "p", "pQ", None],
        "x": [1, None, 3, 1, None, 2, None],
        "g": [1, None, 2, None, 5, 2, 3],
        "y": [0.5, 1.5, None, 2.5, 0.5, 1.5, 2.5],
    }
)

TEXTS = (
    "SELECT DISTINCT k FROM ticks",
    "SELECT DISTINCT k AS key, x FROM ticks WHERE ts > 1",
    "SELECT DISTINCT t.k FROM ticks AS t ORDER BY 1 LIMIT 2",
    "SELECT k, COUNT(1) AS n FROM ticks GROUP BY 1",
    "SELECT k, x, COUNT(1) AS n FROM ticks GROUP BY 1, x ORDER BY 3 DESC, ticks.k, x",
    "SELECT COUNT(*) FILTER (WHERE x > 1) AS a, SUM(x) FILTER (WHERE y > 1) AS b FROM ticks",
    "SELECT AVG(y) FILTER (WHERE x IS NULL) AS a, COUNT(x) FILTER (WHERE TRUE) AS n FROM ticks",
    "SELECT k, MEDIAN(y) FILTER (WHERE ts < 6) AS m FROM ticks GROUP BY k",
    "SELECT k, MAX(t.y) FILTER (WHERE t.x = 1) AS o FROM ticks AS t GROUP BY k",
    "SELECT ts FROM ticks WHERE x IS DISTINCT FROM g",
    "SELECT ts FROM ticks WHERE x IS NOT DISTINCT FROM g",
    "SELECT ts FROM ticks WHERE x IS DISTINCT FROM 1",
    "SELECT ts FROM ticks WHERE x IS NOT DISTINCT FROM 1",
    "SELECT ts FROM ticks WHERE x IS DISTINCT FROM NULL",
    "SELECT ts FROM ticks WHERE x IS NOT DISTINCT FROM NULL AND NOT x IS DISTINCT FROM g",
    "SELECT ts, x IS DISTINCT FROM g AS differ FROM ticks",
    "SELECT ts FROM ticks WHERE k ILIKE 'pQ'",
    "SELECT ts FROM ticks WHERE k NOT ILIKE k || '%'",
    "SELECT ts, k || '-' || k AS two, 'a' || k AS one FROM ticks",
    "SELECT x::double / 2 AS half, (x + 1)::varchar AS text, -x::bigint AS minus FROM ticks",
    "SELECT IFNULL(x, 0) AS a, UCASE(k) AS b FROM ticks",
)


@pytest.mark.parametrize("text", TEXTS)
def test_other_spellings_mean_what_they_mean_elsewhere(text: str) -> None:
    found = cepheid.query(text).run(TICKS)
    with duckdb.connect() as database:
        database.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        database.register("ticks", TICKS)
        expected = database.sql(text).to_arrow_table()
    assert found.column_names == expected.column_names
    assert _rows(found, ordered="ORDER" in text) == _rows(expected, ordered="ORDER" in text)


def test_regular_expressions_have_the_names_of_other_systems() -> None:
    for operator in ("RLIKE", "REGEXP"):
        found = cepheid.query(f"SELECT ts FROM ticks WHERE k {operator} '^[pP]q?$'").run(TICKS)
        assert found["ts"].to_pylist() == [1, 2, 5]
        found = cepheid.query(f"SELECT ts FROM ticks WHERE k NOT {operator} 'Q'").run(TICKS)
        assert found["ts"].to_pylist() == [1, 2, 4, 5]


def _rows(table: pa.Table, *, ordered: bool) -> list[tuple[object, ...]]:
    rows = [tuple(row.values()) for row in table.to_pylist()]
    return rows if ordered else sorted(rows, key=repr)
