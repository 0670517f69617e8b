"""What users of other systems write inside of a MATCH_RECOGNIZE clause."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import cepheid

TICKS = pa.table(
    {
        "ts": [1, 2, 3, 4, 5],
        "k": ["a", "a", "a", "b", "b"],
        "x": [4, 3, 2, 5, 1],
        "n": [1, None, 3, None, 5],
        "p": [
            {"u": 1, "v": {"w": 7}},
            {"u": 1, "v": {"w": 9}},
            {"u": 2, "v": None},
            {"u": 2, "v": {"w": 4}},
            None,
        ],
    }
)
LOWS = [{"k": "a", "low": 2}, {"k": "b", "low": 1}]


def run(clause: str, table: str = "ticks") -> list[dict[str, Any]]:
    text = f"SELECT * FROM {table} MATCH_RECOGNIZE ({clause}) AS m"
    found: pa.Table = cepheid.sql(text, tables={"ticks": TICKS})
    return found.to_pylist()


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("ticks", "ticks"),
        ("ticks", "TICKS"),
        ("ticks t", "t"),
        ("ticks AS t", "t"),
        ("(SELECT * FROM ticks) AS t", "t"),
        ('ticks AS "t"', '"t"'),
    ],
)
def test_the_name_of_the_table_may_stand_before_columns(table: str, name: str) -> None:
    clause = f"PARTITION BY {name}.k ORDER BY {name}.ts MEASURES LAST({name}.x) AS low "
    clause += f"PATTERN (A B+) DEFINE B AS {name}.x < PREV(B.x) AND {name}.x < PREV({name}.x)"
    assert run(clause, table) == LOWS


def test_a_variable_hides_the_table_of_its_name() -> None:
    clause = "PARTITION BY k ORDER BY ts MEASURES A.x AS top, LAST(x) AS low PATTERN (A B+) "
    clause += "DEFINE B AS B.x < A.x"
    assert [row["top"] for row in run(clause, "ticks AS a")] == [4, 5]


def test_an_alias_hides_the_name_of_the_table() -> None:
    with pytest.raises(cepheid.BindError, match="no variable `TICKS`"):
        run("ORDER BY ts MEASURES LAST(ticks.x) AS low PATTERN (A)", "ticks AS t")


@pytest.mark.parametrize(
    "parts",
    [
        ["DEFINE B AS x < PREV(x)", "PATTERN (A B+)", "MEASURES LAST(x) AS low", "ORDER BY ts"],
        ["PATTERN (A B+)", "ONE ROW PER MATCH", "MEASURES LAST(x) AS low", "ORDER BY ts"],
        ["AFTER MATCH SKIP TO LAST B", "PATTERN (A B+)", "MEASURES LAST(x) AS low", "ORDER BY ts"],
    ],
)
def test_parts_come_in_any_order(parts: list[str]) -> None:
    define = [] if parts[0].startswith("DEFINE") else ["DEFINE B AS x < PREV(x)"]
    assert run(" ".join([*parts, "PARTITION BY k", *define])) == LOWS


def test_a_part_comes_once() -> None:
    with pytest.raises(cepheid.QuerySyntaxError, match="ORDER BY twice"):
        run("ORDER BY ts PATTERN (A) ORDER BY x")


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("ARRAY_AGG(x ORDER BY x DESC)", [5, 4, 3, 2, 1]),
        ("ARRAY_AGG(x ORDER BY k DESC, x)", [1, 5, 2, 3, 4]),
        ("ARRAY_AGG(n ORDER BY n)", [None, None, 1, 3, 5]),
        ("ARRAY_AGG(n ORDER BY n NULLS LAST)", [1, 3, 5, None, None]),
        ("COLLECT_LIST(n ORDER BY ts * -1)", [5, 3, 1]),
        ("LISTAGG(x, '-') WITHIN GROUP (ORDER BY x)", "1-2-3-4-5"),
        ("STRING_AGG(k, '' ORDER BY ts DESC)", "bbaaa"),
        ("LISTAGG(DISTINCT k, ',')", "a,b"),
        ("LISTAGG(DISTINCT k, ',') WITHIN GROUP (ORDER BY k DESC)", "b,a"),
        ("COUNT(DISTINCT k) + SUM(DISTINCT x)", 17),
    ],
)
def test_aggregates_sort_and_drop_what_is_equal(measure: str, expected: Any) -> None:
    assert run(f"ORDER BY ts MEASURES {measure} AS m PATTERN (A+)") == [{"m": expected}]


def test_aggregates_around_the_clause_sort_too() -> None:
    text = "SELECT LISTAGG(n, ',') WITHIN GROUP (ORDER BY n DESC) AS l FROM ticks "
    text += "MATCH_RECOGNIZE (ORDER BY ts MEASURES x AS n PATTERN (A))"
    assert cepheid.sql(text, tables={"ticks": TICKS}).to_pylist() == [{"l": "5,4,3,2,1"}]


def test_what_does_not_depend_on_order_has_none() -> None:
    with pytest.raises(cepheid.BindError, match="does not depend on the order"):
        run("ORDER BY ts MEASURES SUM(x ORDER BY ts) AS s PATTERN (A)")


def test_a_measure_names_earlier_ones() -> None:
    clause = "PARTITION BY k ORDER BY ts MEASURES LAST(x) AS low, FIRST(x) - low AS fall, "
    clause += "fall * 2 AS twice, x AS x_last PATTERN (A B+) DEFINE B AS x < PREV(x)"
    assert [(row["fall"], row["twice"]) for row in run(clause)] == [(2, 4), (4, 8)]


def test_a_column_hides_a_measure_of_its_name() -> None:
    found = run("ORDER BY ts MEASURES 7 AS x, x + 1 AS y PATTERN (A+)")
    assert found == [{"x": 7, "y": 2}]


def test_later_measures_are_not_known_yet() -> None:
    with pytest.raises(cepheid.BindError, match="no column `low`"):
        run("ORDER BY ts MEASURES low + 1 AS m, LAST(x) AS low PATTERN (A)")


FALL = "PATTERN (A B*) DEFINE B AS x < PREV(x)"


@pytest.mark.parametrize(
    ("clause", "columns", "same"),
    [
        (
            f"ORDER BY ts MEASURES LAST(p.u) AS m, A.p.v.w AS w, COUNT(p.v.w) AS c {FALL}",
            "p_u AS u, p_v_w AS w",
            f"ORDER BY ts MEASURES LAST(u) AS m, A.w AS w, COUNT(w) AS c {FALL}",
        ),
        (
            f"PARTITION BY p.u ORDER BY p.V.w DESC, ts MEASURES ARRAY_AGG(ts) AS m {FALL}",
            "p_u AS u, p_v_w AS w",
            f"PARTITION BY u ORDER BY w DESC, ts MEASURES ARRAY_AGG(ts) AS m {FALL}",
        ),
        (
            f"PARTITION BY ts % 2, UPPER(k) ORDER BY -ts MEASURES ARRAY_AGG(ts) AS m {FALL}",
            "ts % 2 AS a, UPPER(k) AS b, -ts AS c",
            f"PARTITION BY a, b ORDER BY c MEASURES ARRAY_AGG(ts) AS m {FALL}",
        ),
        (
            "ORDER BY CASE WHEN n IS NULL THEN 9 ELSE n END NULLS LAST, t.p.u + 1 "
            f"MEASURES ARRAY_AGG(ts) AS m ALL ROWS PER MATCH {FALL}",
            "CASE WHEN n IS NULL THEN 9 ELSE n END AS a, p_u + 1 AS b",
            f"ORDER BY a, b MEASURES ARRAY_AGG(ts) AS m ALL ROWS PER MATCH {FALL}",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:NULLs of")  # Of both, or of the subquery's columns alone.
def test_fields_and_computed_keys_are_those_of_a_subquery(
    clause: str, columns: str, same: str
) -> None:
    flat = TICKS.drop_columns(["p"])
    flat = flat.append_column("p_u", pa.array([1, 1, 2, 2, None]))
    flat = flat.append_column("p_v_w", pa.array([7, 9, None, 4, None]))
    text = f"SELECT * FROM (SELECT *, {columns} FROM flat) MATCH_RECOGNIZE ({same})"
    expected = cepheid.sql(text, tables={"flat": flat}).to_pylist()
    shown = [{n: row[n] for n in ("ts", "m", "w", "c") if n in row} for row in expected]
    found = run(clause, "ticks AS t")
    kept = [{n: row[n] for n in ("ts", "m", "w", "c") if n in row} for row in found]
    if "PARTITION" not in clause and "ALL ROWS" not in clause:
        assert kept == shown
    else:
        shown = [{n: v for n, v in row.items() if n not in ("w", "c")} for row in shown]
        assert kept == shown
    assert len(kept) > 1


def test_a_computed_key_is_no_column_of_the_result() -> None:
    found = run("PARTITION BY UPPER(k) ORDER BY -ts MEASURES LAST(x) AS m PATTERN (A+)")
    assert found == [{"m": 4}, {"m": 5}]
    every = run("PARTITION BY UPPER(k) ORDER BY -ts ALL ROWS PER MATCH PATTERN (A)")
    assert list(every[0]) == TICKS.column_names
    with pytest.raises(cepheid.BindError, match="no column"):
        run("PARTITION BY UPPER(k) PATTERN (A)")


@pytest.mark.parametrize(
    ("clause", "code"),
    [
        ("ORDER BY ts MEASURES p.uu AS m PATTERN (A)", "E603"),
        ("ORDER BY ts MEASURES p.u.w AS m PATTERN (A)", "E609"),
        ("ORDER BY ts MEASURES q.x AS m PATTERN (A)", "E604"),
        ("ORDER BY ts + FIRST(x) MEASURES x AS m PATTERN (A)", "E605"),
        ("ORDER BY CLASSIFIER() || 'x' MEASURES x AS m PATTERN (A)", "E605"),
        ("ORDER BY UPPER(kk) MEASURES x AS m PATTERN (A)", "E603"),
    ],
)
def test_keys_and_fields_that_are_none(clause: str, code: str) -> None:
    with pytest.raises(cepheid.QueryError) as caught:
        run(clause)
    assert [found.code for found in caught.value.diagnostics] == [code]


def test_a_query_takes_columns_as_they_are() -> None:
    text = "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY UPPER(k) ORDER BY ts MEASURES x AS m "
    with pytest.raises(cepheid.UnsupportedError, match="columns as they are"):
        cepheid.query(text + "PATTERN (A))", time="ts")


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ("n", "come first here, as in Spark, and last in Oracle and Trino"),
        ("ts, n DESC", "come last here, as in Spark, and first in Oracle;"),
    ],
)
def test_nulls_that_come_elsewhere_in_other_systems(order: str, told: str) -> None:
    text = f"SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY {order} MEASURES x AS m PATTERN (A))"
    with pytest.warns(UserWarning, match=f"NULLs of `n` {told}.*W209") as caught:
        cepheid.sql(text, tables={"ticks": TICKS})
    assert caught[0].filename == __file__


def test_nulls_whose_place_is_stated() -> None:
    for order in ("n NULLS FIRST", "n NULLS LAST", "n DESC NULLS LAST, ts"):
        assert len(run(f"ORDER BY {order} MEASURES x AS m PATTERN (A)")) == 5


@pytest.mark.filterwarnings("ignore:NULLs of")  # W209 is about these defaults.
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("k", [2, 4, 1, 3, 0]),
        ("k ASC NULLS LAST", [1, 3, 0, 2, 4]),
        ("k DESC", [0, 1, 3, 2, 4]),
        ("k DESC NULLS FIRST", [2, 4, 0, 1, 3]),
        ("k DESC, t DESC", [0, 3, 1, 4, 2]),
    ],
)
@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.float64(), pa.date32()])
def test_nulls_have_their_place(key: str, expected: list[int], kind: Any) -> None:
    days = [dt.date(2026, 1, 1) + dt.timedelta(days=d) for d in range(9)]
    plain = [7, 5, None, 5, None]
    cells = [None if k is None else days[k] if kind == pa.date32() else k for k in plain]
    column = pa.array([str(c) if kind == pa.string() and c is not None else c for c in cells], kind)
    table = pa.table({"t": range(5), "k": column})
    text = f"SELECT t FROM t MATCH_RECOGNIZE (ORDER BY {key} ALL ROWS PER MATCH PATTERN (A+))"
    assert [row["t"] for row in cepheid.sql(text, tables={"t": table}).to_pylist()] == expected
