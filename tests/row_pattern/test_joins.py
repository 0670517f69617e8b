"""Joins around and under clauses, in process: against DuckDB and Spark, and what is refused."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cepheid
from cepheid.errors import BindError, CepheidError, DataError
from cepheid.kinds.row_pattern.select_tree import parse_select
from cepheid.kinds.row_pattern.simple_select import run_select

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = st.sampled_from(["a", "b", "c", None])
NUMBERS = st.sampled_from([1, 2, 3, None])
ROWS = st.lists(st.tuples(KEYS, NUMBERS), max_size=6)
KINDS = ("JOIN", "INNER JOIN", "LEFT JOIN", "LEFT OUTER JOIN", "RIGHT JOIN", "FULL OUTER JOIN")
CONDITIONS = (
    "ON a.k = b.k",
    "ON b.k = a.k AND a.x < b.y",
    "ON a.x = b.y",
    "ON a.x + 1 = b.y AND a.k = b.k",
    "ON a.x <= b.y",
    "ON a.k = b.k AND a.x > 1",
    "ON a.k = b.k AND b.y > 1",
    "ON a.k = b.k OR a.x = b.y",
    "ON 1 = 1",
    "ON a.x = b.z",
    "USING (k)",
)
LISTS = ("*", "a.*, b.y", "b.*", "a.x, b.y, b.k AS other", "a.k, COUNT(*) AS n, SUM(b.y) AS s")
WHERES = ("", "WHERE a.x > 1", "WHERE b.y IS NULL", "WHERE a.x < b.y OR b.k = 'a'")


def table_a(rows: list[tuple[Any, Any]]) -> pa.Table:
    keys = pa.array([k for k, _ in rows], pa.string())
    return pa.table({"k": keys, "x": pa.array([x for _, x in rows], pa.int64())})


def table_b(rows: list[tuple[Any, Any]]) -> pa.Table:
    numbers = [y for _, y in rows]
    doubles = pa.array([None if y is None else float(y) for y in numbers], pa.float64())
    keys = pa.array([k for k, _ in rows], pa.string()).dictionary_encode()
    return pa.table({"k": keys, "y": pa.array(numbers, pa.int32()), "z": doubles})


def counted(table: pa.Table) -> Counter[str]:
    """Return rows in one form and in no order; names may be there twice."""
    columns = [column.to_pylist() for column in table.columns]
    rows = zip(*columns, strict=True) if columns else iter(())
    # A sum of DuckDB is a decimal.
    return Counter(
        repr([v if v is None or isinstance(v, str) else float(v) for v in row]) for row in rows
    )


@cache
def duck() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def agrees(text: str, tables: dict[str, pa.Table]) -> None:
    """Compare a SELECT in process with DuckDB."""
    found = run_select(parse_select(text), tables, text)
    connection = duck()
    for name, table in tables.items():
        connection.register(name, table)
    expected = connection.sql(text).to_arrow_table()
    assert counted(found) == counted(expected), text
    assert found.num_columns == expected.num_columns


@given(
    ROWS,
    ROWS,
    st.sampled_from(KINDS),
    st.sampled_from(CONDITIONS),
    st.sampled_from(LISTS),
    st.sampled_from(WHERES),
)
def test_joins_of_two_tables_are_those_of_duckdb(
    a: list[Any], b: list[Any], kind: str, condition: str, items: str, where: str
) -> None:
    grouped = "GROUP BY a.k" if "COUNT" in items else ""
    text = f"SELECT {items} FROM a {kind} b {condition} {where} {grouped}"
    agrees(text, {"a": table_a(a), "b": table_b(b)})


@pytest.mark.parametrize(
    "source",
    [
        "a, b WHERE a.k = b.k",
        "a CROSS JOIN b",
        "a, b, c WHERE a.k = b.k AND b.y = c.x AND a.x < 3",
        "a JOIN b ON a.k = b.k LEFT JOIN c ON c.x = b.y AND c.k = a.k",
        "a LEFT JOIN b USING (k) JOIN c USING (k)",
        "a FULL JOIN b USING (k) LEFT JOIN c USING (k)",
        "a RIGHT JOIN b USING (k)",
        "(a JOIN b ON a.k = b.k) LEFT JOIN c ON a.x = c.x WHERE c.k IS NULL OR b.y > 1",
        "a AS one JOIN a AS two ON one.k = two.k AND one.x < two.x",
        "(SELECT k, MAX(x) AS x FROM a GROUP BY k) AS m JOIN b ON m.k = b.k",
        "a LEFT JOIN (SELECT k, y FROM b WHERE y > 1) AS b ON a.k = b.k WHERE a.x > 0",
    ],
)
@settings(max_examples=max(settings().max_examples // 3, 5))
@given(ROWS, ROWS, ROWS)
def test_sources_are_those_of_duckdb(source: str, a: list[Any], b: list[Any], c: list[Any]) -> None:
    agrees(f"SELECT * FROM {source}", {"a": table_a(a), "b": table_b(b), "c": table_a(c)})


def test_rows_come_in_the_order_of_the_first_table() -> None:
    text = "SELECT a.k, a.x, b.y FROM a LEFT JOIN b ON a.k = b.k"
    a, b = table_a([("b", 1), ("a", 2), ("c", 3)]), table_b([("a", 3), ("b", 2), ("b", 1)])
    found = run_select(parse_select(text), {"a": a, "b": b}, text)
    assert found.to_pydict() == {"k": ["b", "b", "a", "c"], "x": [1, 1, 2, 3], "y": [2, 1, 3, None]}


def test_keys_of_doubles_compare_as_everywhere() -> None:
    """NaN equals itself, and zeros of both signs are one (§4.6)."""
    numbers = [float("nan"), 0.0, -0.0, 1.5]
    a, b = pa.table({"x": numbers, "n": range(4)}), pa.table({"y": numbers, "m": range(4)})
    text = "SELECT n, m FROM a JOIN b ON a.x = b.y"
    found = run_select(parse_select(text), {"a": a, "b": b}, text)
    pairs = list(zip(*found.to_pydict().values(), strict=True))
    assert pairs == [(0, 0), (1, 1), (1, 2), (2, 1), (2, 2), (3, 3)]


def test_large_whole_numbers_and_doubles_compare_by_value() -> None:
    a, b = pa.table({"x": [2**53 + 1, 2**53]}), pa.table({"y": [2.0**53]})
    text = "SELECT x FROM a JOIN b ON x = y"
    assert run_select(parse_select(text), {"a": a, "b": b}, text).to_pydict() == {"x": [2**53]}


def test_columns_of_lists_and_structures_go_along() -> None:
    a = pa.table({"k": [1, 2], "list": [[1], None], "place": [{"city": "Ulm"}, {"city": "Bonn"}]})
    text = "SELECT a.list, a.place.city, b.k FROM b LEFT JOIN a ON a.k = b.k"
    found = run_select(parse_select(text), {"a": a, "b": pa.table({"k": [2, 1, 3]})}, text)
    assert list(found.to_pydict().values()) == [[None, [1], None], ["Bonn", "Ulm", None], [2, 1, 3]]


# ---------------------------------------------------------------------------------------
# Clauses

TICKS = pa.table(
    {
        "ts": [1, 2, 3, 4, 5, 6],
        "id": ["a", "b", "a", None, "a", "b"],
        "price": [9, 5, 7, 6, 8, 4],
    }
)
NAMES = pa.table({"id": ["a", "b", "b", None, "z"], "name": ["Acme", "Beta", "Bob", "None", "Zed"]})
LIMITS = pa.table({"name": ["Acme", "Beta"], "low": [8, 4]})
TABLES = {"ticks": TICKS, "names": NAMES, "limits": LIMITS}
CLAUSE = """MATCH_RECOGNIZE (PARTITION BY name ORDER BY ts NULLS FIRST MEASURES FIRST(price) AS top,
    LAST(price) AS low, COUNT(*) AS n PATTERN (A B*) DEFINE B AS price < PREV(price))"""
WINDOW = """WINDOW w AS (PARTITION BY name ORDER BY ts MEASURES LAST(price) AS low
    ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
    PATTERN (A B+) DEFINE B AS price < PREV(price))"""
ON, USING = "ON t.id = n.id", "ticks JOIN names USING (id)"
INPUTS = {
    "inner": f"SELECT t.ts, t.price, n.name FROM ticks t JOIN names n {ON}",
    "left": "SELECT ts, price, name FROM ticks LEFT JOIN names USING (id)",
    "right": f"SELECT ts, price, name FROM ticks t RIGHT JOIN names n {ON}",
    "full": "SELECT ts, price, name FROM ticks FULL OUTER JOIN names USING (id)",
    "using": f"SELECT * FROM {USING} WHERE price > 4",
    "comma": "SELECT ts, price, name FROM ticks t, names n WHERE t.id = n.id",
    "parentheses": USING,
    "three": f"""SELECT ts, price, n.name FROM ticks t JOIN names n {ON}
        JOIN limits l ON l.name = n.name AND t.price >= l.low""",
}
TEXTS = {
    **{name: f"SELECT * FROM ({source}) {CLAUSE}" for name, source in INPUTS.items()},
    "with": f"""WITH j AS (SELECT t.ts, t.price, n.name FROM ticks t LEFT JOIN names n {ON})
        SELECT name, top FROM j {CLAUSE} WHERE n > 1 ORDER BY name NULLS LAST, top""",
    "around": f"""SELECT m.name, m.n, l.low FROM (SELECT * FROM {USING}) {CLAUSE} AS m
        LEFT JOIN limits AS l ON m.name = l.name AND m.top > l.low ORDER BY m.name, m.n, l.low""",
    "two clauses": f"""SELECT one.name, one.top, two.low FROM ({USING}) {CLAUSE} AS one
        JOIN (SELECT * FROM {USING}) {CLAUSE} AS two ON one.name = two.name AND one.n < two.n""",
    "window": f"""SELECT name, ts, low OVER w AS low
        FROM (SELECT * FROM ticks LEFT JOIN names USING (id)) AS j {WINDOW}""",
    "window and ON": f"""SELECT name, ts, low OVER w FROM (SELECT t.*, n.name
        FROM ticks t JOIN names n {ON} AND n.name <> 'Bob') AS j WHERE ts < 6 {WINDOW}""",
}


def rows_of(table: pa.Table) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in table.to_pylist())


@pytest.mark.parametrize("name", TEXTS)
def test_joins_under_and_around_clauses_run_in_process(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cepheid.runtimes.sql.Known.table", None)  # Spark would ask for tables.
    assert len(cepheid.sql(TEXTS[name], tables=TABLES))


def test_a_clause_over_a_left_join() -> None:
    found = cepheid.sql(TEXTS["left"], tables=TABLES).to_pylist()
    expected = [
        (None, 6, 6, 1),
        ("Acme", 9, 7, 2),
        ("Acme", 8, 8, 1),
        ("Beta", 5, 4, 2),
        ("Bob", 5, 4, 2),
    ]
    assert [tuple(row.values()) for row in found] == expected


@pytest.mark.spark
def test_joins_have_the_rows_of_spark(spark: SparkSession) -> None:
    for name, text in TEXTS.items():
        found = cepheid.sql(text, tables=TABLES)
        assert rows_of(found) == rows_of(cepheid.sql(spark, text, tables=TABLES).toArrow()), name


def error_of(text: str) -> CepheidError:
    with pytest.raises(CepheidError) as caught:
        cepheid.sql(text, tables=TABLES)
    return caught.value


@pytest.mark.parametrize(
    ("source", "code", "message", "place"),
    [
        (
            "(SELECT id FROM ticks JOIN names ON ticks.id = names.id)",
            "E603",
            "the query has 2 columns `id`",
            "id",
        ),
        (
            "(SELECT * FROM ticks t JOIN names n ON t.id = nn.id)",
            "E603",
            "no table or column of the query is called `nn`",
            "nn.id",
        ),
        (
            "(SELECT * FROM ticks t JOIN names n ON t.id = n.idd)",
            "E603",
            "there is no column `idd`",
            "n.idd",
        ),
        ("(SELECT * FROM ticks JOIN nmes USING (id))", "E613", "there is no table `nmes`", "nmes"),
        (
            "(SELECT * FROM ticks JOIN names USING (name))",
            "E603",
            "there is no column `name`",
            "(name)",
        ),
    ],
)
def test_mistakes_in_joins_point_at_the_text(
    source: str, code: str, message: str, place: str
) -> None:
    text = f"SELECT * FROM {source} {CLAUSE}"
    (found,) = error_of(text).diagnostics
    assert (found.code, found.message) == (code, message)
    assert found.span is not None
    assert text[found.span.start : found.span.end] == place
    assert found.helps


def test_a_clause_names_the_columns_that_a_join_has_twice() -> None:
    joined = "SELECT * FROM (SELECT * FROM ticks t JOIN names n ON t.id = n.id) MATCH_RECOGNIZE"
    error = error_of(f"{joined} (PARTITION BY id ORDER BY ts MEASURES 1 AS x PATTERN (A))")
    assert isinstance(error, BindError)
    assert error.diagnostics[0].message == "the input has 2 columns `id`"
    error = error_of(f"{joined} (ORDER BY ts ALL ROWS PER MATCH PATTERN (A))")
    message = "the result would have 2 columns `id` of the input"
    assert error.diagnostics[0].message == message
    text = f"{joined} (ORDER BY ts MEASURES SUM(price) AS s PATTERN (A+))"
    assert cepheid.sql(text, tables=TABLES).to_pydict() == {"s": [42]}


def test_too_many_pairs_are_refused() -> None:
    text = f"SELECT * FROM (SELECT a.ts, a.price, 'x' AS name FROM ticks a, ticks b) {CLAUSE}"
    with cepheid.limits(state=16), pytest.raises(DataError, match="E519"):
        cepheid.sql(text, tables=TABLES)
