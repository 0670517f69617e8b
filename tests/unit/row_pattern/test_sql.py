"""``cepheid.sql`` in process: clauses, the SQL around them, orders, types and mistakes."""

from __future__ import annotations

import datetime as dt
import tracemalloc
from decimal import Decimal, localcontext
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from tests.row_pattern.ticks import run_on_ticks, ticks

import cepheid
from cepheid.kinds.row_pattern import find
from cepheid.kinds.row_pattern.statement import View, read_statement

FALL = "PATTERN (A B+) DEFINE B AS price < PREV(price)"


def rows(text: str, **tables: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cepheid.sql(text, tables=tables).to_pylist()
    return found


def measured(measures: str, rest: str = "PATTERN (A+)", **columns: Any) -> list[Any]:
    """Return the values of one measure over a table of columns, ordered by ``t``."""
    if "t" not in columns:
        columns["t"] = range(len(next(iter(columns.values()))))
    table = pa.table(columns)
    text = f"SELECT v FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES {measures} AS v {rest})"
    return [row["v"] for row in rows(text, t=table)]


def test_arguments_come_in_several_forms() -> None:
    text = f"SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY company ORDER BY seq {FALL})"
    one = cepheid.sql(text, tables={"ticks": ticks()})
    assert one == cepheid.sql(text=text, tables={"ticks": ticks()})
    assert one == cepheid.sql(None, text, tables={"ticks": ticks().to_batches()[0]})
    assert one == cepheid.sql(text, tables={"ticks": ticks().to_reader()})
    assert isinstance(cepheid.sql(text, tables={"ticks": ticks().to_pandas()}), pd.DataFrame)


@pytest.mark.parametrize(
    "call",
    [
        lambda: cepheid.sql(),
        lambda: cepheid.sql("SELECT 1", "SELECT 2"),
        lambda: cepheid.sql("SELECT 1", tables=[1]),  # type: ignore[arg-type]  # on purpose
        lambda: cepheid.sql("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A))", tables={"t": 5}),
    ],
)
def test_arguments_of_another_type(call: Any) -> None:
    with pytest.raises(TypeError):
        call()


def test_select_around_a_clause() -> None:
    measures = "MEASURES COUNT(*) AS n, A.price AS top"
    clause = f"MATCH_RECOGNIZE (PARTITION BY company ORDER BY seq {measures} {FALL})"
    text = f"""
        WITH some AS (SELECT company, seq, price FROM ticks WHERE price > 0)
        SELECT UPPER(m.company) AS name, n * 10 ten, top FROM some AS s {clause} AS m
        WHERE n >= 2 ORDER BY top DESC, company LIMIT 2"""
    assert run_on_ticks(text).to_pylist() == [
        {"name": "ACME", "ten": 20, "top": 11.0},
        {"name": "ACME", "ten": 30, "top": 10.0},
    ]
    text = f"SELECT company, COUNT(*) AS c, AVG(n) + 1 AS a FROM ticks {clause} GROUP BY company"
    assert run_on_ticks(text).to_pylist() == [
        {"company": "acme", "c": 2, "a": 3.5},
        {"company": "zeta", "c": 2, "a": 3.5},
    ]
    text = f"SELECT COUNT(*) AS c, SUM(n), MAX(top) FILTER (WHERE n > 9) AS m FROM ticks {clause}"
    assert run_on_ticks(text).to_pylist() == [{"c": 4, "SUM(n)": 10, "m": None}]


def test_clause_inside_a_clause() -> None:
    inner = f"""(SELECT * FROM ticks MATCH_RECOGNIZE (
        PARTITION BY company ORDER BY seq MEASURES A.price AS top {FALL}))"""
    text = f"""SELECT * FROM {inner} MATCH_RECOGNIZE (
        ORDER BY top DESC MEASURES COUNT(*) AS n PATTERN (X+))"""
    assert run_on_ticks(text).to_pylist() == [{"n": 4}]
    assert len(read_statement(text).sites) == 2


def test_order_of_columns() -> None:
    text = """SELECT * FROM ticks MATCH_RECOGNIZE (
        PARTITION BY company ORDER BY ts, seq MEASURES 1 AS x ALL ROWS PER MATCH PATTERN (A))"""
    assert run_on_ticks(text).column_names == ["company", "ts", "seq", "x", "price"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["b", "a", None, "b", None]),
        pa.array(["b", "a", None, "b", None]).dictionary_encode(),
        pa.array([2, 1, None, 2, None]),
        pa.array([2.5, 1.5, None, 2.5, None]),
        pa.array([True, False, None, True, None]),
        pa.array([2**40, 1, 5, 2**40, 5]),
    ],
)
def test_partitions_of_any_type_and_null(column: Any) -> None:
    table = pa.table({"k": column, "x": pa.array(range(5)), "y": [1, 1, 1, 1, 1]})
    text = """SELECT k, l FROM t MATCH_RECOGNIZE (
        PARTITION BY k, y ORDER BY x MEASURES ARRAY_AGG(x) AS l PATTERN (A+))"""
    found = rows(text, t=table)
    assert sorted(row["l"] for row in found) == [[0, 3], [1], [2, 4]]
    assert [row["k"] for row in found if row["l"] == [0, 3]] == column[:1].to_pylist()


def test_types_of_measures() -> None:
    table = pa.table(
        {
            "t": pa.array([1, 2], pa.int16()),
            "m": pa.array([Decimal("1.50"), Decimal("2.25")]),
            "when": pa.array([dt.datetime(2026, 1, 1), None], pa.timestamp("ms")),
            "day": pa.array([dt.date(2026, 1, 1), dt.date(2025, 1, 1)]),
            "s": pa.array(["b", "a"]).dictionary_encode(),
            "gap": pa.array([1, 3], pa.duration("s")),
        }
    )
    text = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES
        t AS t1, SUM(t) AS t2, MAX(t) AS t3, SUM(m) AS m1, AVG(m) AS m2, MIN(m) AS m3,
        MAX(when) AS w,
        MIN(day) AS d, MIN(s) AS s1, s AS s2, SUM(gap) AS g1, AVG(gap) AS g2, COUNT(when) AS c,
        MAX(t > 1) AS p, STDDEV(t) AS sd, COUNT(DISTINCT s) AS cs
        PATTERN (A+))"""
    result = cepheid.sql(text, tables={"t": table})
    assert [str(kind) for kind in result.schema.types] == [
        "int16", "int64", "int16", "decimal128(38, 2)", "double", "decimal128(3, 2)",
        "timestamp[ms]", "date32[day]", "string", "string", "duration[us]", "duration[us]", "int64",
        "bool", "double", "int64",
    ]  # fmt: skip
    row = result.to_pylist()[0]
    assert row["t2"] == 3
    assert row["m1"] == Decimal("3.75")
    assert row["m2"] == 1.875
    assert row["w"] == dt.datetime(2026, 1, 1)
    assert row["d"] == dt.date(2025, 1, 1)
    assert (row["s1"], row["s2"], row["p"], row["cs"]) == ("a", "a", True, 2)
    assert (row["g1"], row["g2"]) == (dt.timedelta(seconds=4), dt.timedelta(seconds=2))
    empty = cepheid.sql(text, tables={"t": table.slice(0, 0)})
    assert empty.schema == result.schema


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("COUNT_IF(x > 1)", 2),
        ("BOOL_AND(x > 0)", True),
        ("EVERY(x > 1)", False),
        ("BOOL_OR(x > 2)", True),
        ("ARRAY_AGG(DISTINCT y)", ["a", None]),
        ("COLLECT_LIST(y)", ["a", "a"]),
        ("STRING_AGG(x, '+')", "1+3+2"),
        ("LISTAGG(y)", "aa"),
        ("MIN_BY(x, 0 - x)", 3),
        ("MAX_BY(y, x)", None),
        ("MAX_BY(x, x, 2)", [3, 2]),
        ("ANY_VALUE(x)", 1),
        ("MAX(x, 2)", [3, 2]),
        ("MIN(x, 5)", [1, 2, 3]),
        ("HISTOGRAM(y)['a'] + CARDINALITY(HISTOGRAM(x))", 5),
        ("MAP_AGG(x, y)[2]", "a"),
        ("VAR_POP(x) * 3", 2.0),
        ("VARIANCE(x)", 1.0),
        ("STDDEV_POP(NULLIF(x, x))", None),
        ("SUM(x) FILTER (WHERE y IS NOT NULL)", 3),
        ("SUM(DISTINCT x % 2)", 1),
        ("MIN(y) || MAX(y)", "aa"),
        ("COUNT(*) + COUNT(A.*) + COUNT(y)", 8),
        ("SUM(NULL)", None),
    ],
)
def test_aggregates(measure: str, expected: Any) -> None:
    assert measured(measure, x=[1, 3, 2], y=["a", None, "a"]) == [expected]


@pytest.mark.parametrize(
    "condition",
    [
        "v = 1 AND TRUE",
        "TRUE AND v = 1",
        "v = 1 AND 1 = 1",
        "v = 1 AND NOT FALSE",
        "v = 1 AND CLASSIFIER() = 'A'",
        "CLASSIFIER() = 'A' AND v = 1 AND TRUE",
        "v = 1 AND (NULL OR TRUE)",
        "v = 1 OR FALSE",
        "NULL OR v = 1",
        "NOT (v <> 1 OR FALSE)",
        "v = 1 AND TRUE AND COUNT(*) >= 1",
    ],
)
def test_constants_leave_the_other_conditions_alone(condition: str) -> None:
    rest = f"PATTERN (A+) DEFINE A AS {condition}"
    columns = {"t": [1, 2, 3, 4, 5, 6], "v": [1, 0, 0, 1, 0, 1]}
    assert measured("ARRAY_AGG(t)", rest, **columns) == [[1], [4], [6]]


@pytest.mark.parametrize("condition", ["v = 1 AND FALSE", "NULL AND v = 1", "v = 1 AND NULL"])
def test_constants_that_no_row_fits(condition: str) -> None:
    assert measured("COUNT(*)", f"PATTERN (A+) DEFINE A AS {condition}", v=[1, 0]) == []


@pytest.mark.parametrize(
    ("count", "expected", "lengths"),
    [
        ("COUNT(*) FILTER (WHERE x > 15)", 3, [2, 1, 1]),
        ("COUNT(A.*) FILTER (WHERE A.x > 15)", 3, [2, 1, 1]),
        ("COUNT(A.*) FILTER (WHERE x > 15)", 3, [2, 1, 1]),
        ("COUNT(A.x) FILTER (WHERE x > 15 AND CLASSIFIER() = 'A')", 3, [2, 1, 1]),
        ("COUNT(x) FILTER (WHERE x > 15)", 3, [2, 1, 1]),
        ("COUNT(*) FILTER (WHERE CLASSIFIER() = 'B')", 0, [4]),
        ("COUNT(A.*) FILTER (WHERE NULL)", 0, [4]),
        ("COUNT(*) FILTER (WHERE TRUE)", 4, [1, 1, 1, 1]),
    ],
)
def test_filter_says_which_rows_count(count: str, expected: int, lengths: list[int]) -> None:
    values = [10, 20, 30, 40]
    assert measured(count, x=values) == [expected]
    seen = f"PATTERN (A+ B?) DEFINE B AS FALSE, A AS {count} <= 1"
    assert measured("COUNT(*)", seen, x=values) == lengths


def test_whole_numbers_do_not_wrap() -> None:
    with pytest.raises(cepheid.DataError, match="E614"):
        measured("SUM(x)", x=[2**62, 2**62])
    assert measured("SUM(1.0 * x)", x=[2**62, 2**62]) == [2.0**63]


@pytest.mark.parametrize(
    ("kind", "within", "expected"),
    [
        (pa.int64(), "INTERVAL '10' SECOND", [2, 2]),
        (pa.int64(), "10", [2, 2]),
        (pa.int64(), "11", [3, 1]),
        (pa.float64(), "10.5", [3, 1]),
        (pa.timestamp("ms"), "INTERVAL '10' SECOND", [2, 2]),
        (pa.timestamp("ns", "UTC"), "INTERVAL '10' SECOND", [2, 2]),
        (pa.timestamp("s"), "INTERVAL '11' SECOND", [3, 1]),
        (pa.timestamp("s"), "0.2 minutes", [3, 1]),
        (pa.date32(), "INTERVAL '10' DAY", [2, 2]),
    ],
)
def test_within(kind: Any, within: str, expected: list[int]) -> None:
    times = pa.array([0, 5, 10, 19])
    unit = {"ms": 1_000, "ns": 10**9}.get(getattr(kind, "unit", ""), 1)
    if pa.types.is_timestamp(kind):
        times = pa.array([t * unit for t in [0, 5, 10, 19]])
    column = times.cast(pa.int32()).cast(kind) if kind == pa.date32() else times.cast(kind)
    assert measured("COUNT(*)", f"PATTERN (A+) WITHIN {within}", t=column) == expected


def test_within_needs_numbers() -> None:
    with pytest.raises(cepheid.BindError, match="E609"):
        measured("1", "PATTERN (A) WITHIN 5", t=["a"])
    # A mistake comes first: that NULLs come elsewhere (W209) is told of an answer.
    with pytest.raises(cepheid.DataError, match="E614"):
        measured("1", "PATTERN (A) WITHIN 5", t=[None, 1])


def test_skip_has_no_place_to_go() -> None:
    for define, code in (("B AS FALSE", "E611"), ("A AS x < 0", "E610")):
        for seen in ("", " AND COUNT(*) > 0", " AND CONCAT(COUNT(*)) <> ''"):
            rest = f"AFTER MATCH SKIP TO B PATTERN (A? B?) DEFINE {define}{seen}"
            with pytest.raises(cepheid.DataError, match=code):
                measured("1", rest, x=[1, 1])


EXPONENTIAL = ["SUM(A.x) = -1", "CONCAT(SUM(A.x)) = 'x'", "ARRAY_AGG(A.x)[1] = -1"]
"""Conditions for which nearly all partial matches of `(A | B)+` differ."""


@pytest.mark.parametrize("condition", EXPONENTIAL)
@pytest.mark.parametrize(("bound", "code"), [("search_steps", "E612"), ("search_states", "E616")])
def test_searches_that_explode_end(condition: str, bound: str, code: str) -> None:
    text = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES 1 AS v PATTERN ((A | B)+ C) "
    text += f"DEFINE C AS {condition})"
    table = pa.table({"t": range(18), "x": [2**i for i in range(18)]})
    given: Any = {bound: 1000}
    with pytest.raises(cepheid.DataError, match=bound) as caught:
        cepheid.sql(text, tables={"t": table}, **given)
    assert caught.value.diagnostics[0].code == code
    assert "more than 1,000 " in str(caught.value)


@pytest.mark.parametrize("bound", [0, -1, 2**60, True, "1000"])
def test_bounds_of_searches_are_positive_numbers(bound: Any) -> None:
    text = "SELECT * FROM t MATCH_RECOGNIZE (MEASURES 1 AS v PATTERN (A))"
    with pytest.raises((TypeError, ValueError), match="search_states"):
        cepheid.sql(text, tables={"t": pa.table({"x": [1]})}, search_states=bound)


@pytest.mark.parametrize(
    "rest",
    [
        "PATTERN ((A | B)* C) DEFINE B AS FIRST(A.x) < B.x, C AS x < 0",
        "PATTERN ((A | B)* C) DEFINE A AS MAX(A.x) < 1000, C AS x < 0",
        "PATTERN ((A | B)* C) DEFINE A AS MIN(DISTINCT A.x) * 1.0 < 1000, C AS x < 0",
        "PATTERN ((A | B)* C) DEFINE A AS COUNT(A.x) < 1000, C AS x < 0",
        "PATTERN ((A | B)* C) DEFINE A AS COUNT_IF(A.x > 5) < 1000, C AS x < 0",
        "PATTERN ((A | B)* C) DEFINE A AS COUNT(A.x) FILTER (WHERE x > 5) < 1000, C AS x < 0",
    ],
)
def test_searches_take_polynomial_time(rest: str) -> None:
    """What conditions cannot see is not kept, so that few partial matches differ."""
    values = [(i * 7919) % 1009 for i in range(30)]
    text = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES 1 AS v {rest})"
    table = pa.table({"t": range(30), "x": values})
    found = cepheid.sql(text, tables={"t": table}, search_steps=60_000, search_states=3_000)
    assert found.num_rows == 0


def test_aggregates_of_many_values_in_define_take_little_memory() -> None:
    """All values of a match of n rows are kept once, and not once for each row."""
    rest = "PATTERN (A+) DEFINE A AS CARDINALITY(ARRAY_AGG(A.x)) < 5000"
    tracemalloc.start()
    assert measured("COUNT(*)", rest, x=range(2000)) == [2000]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000


def test_long_repetitive_input_takes_linear_time() -> None:
    rest = "PATTERN (A+ B+ C) DEFINE A AS x = 1, B AS x = 1, C AS x = 2"
    assert measured("COUNT(*)", rest, x=[1] * 50_000) == []


def test_many_matches_that_overlap_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "ROOM_ROWS", 10)
    for seen in ("x = 1", "COUNT(*) > 0", "CONCAT(COUNT(*)) <> ''"):
        rest = f"AFTER MATCH SKIP TO NEXT ROW PATTERN (A+) DEFINE A AS {seen}"
        assert measured("COUNT(*)", rest, x=[1] * 30) == [*range(30, 0, -1)]


@pytest.mark.parametrize(
    ("clause", "code"),
    [
        ("PATTERN (A)", "E606"),
        ("MEASURES 1 AS x, 2 AS X PATTERN (A)", "E606"),
        ("PARTITION BY company MEASURES 1 AS company PATTERN (A)", "E606"),
        ("MEASURES 1 AS x PATTERN (A) DEFINE A AS TRUE, A AS FALSE", "E606"),
        ("MEASURES 1 AS x PATTERN (A) SUBSET A = (A)", "E606"),
        ("MEASURES 1 AS x PATTERN (A) WITHIN 5", "E606"),
        ("MEASURES 1 AS x PATTERN (A) SUBSET U = (A, Z)", "E604"),
        ("MEASURES 1 AS x PATTERN (A) DEFINE Z AS TRUE", "E604"),
        ("MEASURES 1 AS x AFTER MATCH SKIP TO Z PATTERN (A)", "E604"),
        ("MEASURES CLASSIFIER(Z) AS x PATTERN (A)", "E604"),
        ("MEASURES FIRST(FIRST(price)) AS x PATTERN (A)", "E605"),
        ("MEASURES PREV(PREV(price)) AS x PATTERN (A)", "E605"),
        ("MEASURES FIRST(SUM(price)) AS x PATTERN (A)", "E605"),
        ("MEASURES SUM(LAST(price)) AS x PATTERN (A)", "E605"),
        ("MEASURES FINAL PREV(price) AS x PATTERN (A)", "E605"),
        ("MEASURES RUNNING ABS(price) AS x PATTERN (A)", "E605"),
        ("MEASURES ABS(DISTINCT price) AS x PATTERN (A)", "E605"),
        ("MEASURES SUM(*) AS x PATTERN (A)", "E605"),
        ("MEASURES COUNT(DISTINCT *) AS x PATTERN (A)", "E605"),
        ("MEASURES COUNT(*) FILTER (WHERE prise > 1) AS x PATTERN (A)", "E603"),
        ("MEASURES COUNT(A.*) FILTER (WHERE Z.price > 1) AS x PATTERN (A)", "E604"),
        ("MEASURES SUM(price) FILTER (WHERE A.price > 1) AS x PATTERN (A)", "E605"),
        ("MEASURES COUNT(*) FILTER (WHERE A.price > 1) AS x PATTERN (A)", "E605"),
        ("MEASURES COUNT(*) FILTER (WHERE FIRST(price) > 1) AS x PATTERN (A)", "E605"),
        ("MEASURES COUNT(*) FILTER (WHERE price) AS x PATTERN (A)", "E609"),
        ("MEASURES 1 AS x PATTERN (A) DEFINE A AS COUNT(*) FILTER (WHERE prise) > 1", "E603"),
        ("MEASURES 1 AS x PATTERN (A) DEFINE A AS SUM(price) FILTER (WHERE price) > 1", "E609"),
        ("MEASURES FIRST(1) AS x PATTERN (A)", "E605"),
        ("MEASURES 1 AS x PATTERN (A) DEFINE A AS FINAL LAST(price) > 1", "E605"),
        ("MEASURES ABS(1, 2) AS x PATTERN (A)", "E608"),
        ("MEASURES SUM(1, 2) AS x PATTERN (A)", "E608"),
        ("MEASURES 1 AS x PATTERN (A) DEFINE A AS price", "E609"),
        ("MEASURES 1 AS x PATTERN (A) DEFINE A AS FIRST(price)", "E609"),
        ("MEASURES 1 AS x PATTERN (A B) DEFINE B AS A.company < price", "E609"),
        ("MEASURES SUM(company) AS x PATTERN (A)", "E609"),
        ("MEASURES BOOL_OR(price) AS x PATTERN (A)", "E609"),
        ("MEASURES 1 AS x PATTERN (PERMUTE(A,B,C,D,E,F,G,H,I))", "E607"),
        ("MEASURES 1 AS x PATTERN (A{0})", "E615"),
        ("MEASURES 1 AS x PATTERN (A", "E601"),
        (f"MEASURES {'7' * 5000} AS x PATTERN (A)", "E601"),
        (f"MEASURES {'7' * 5000}.5 AS x PATTERN (A)", "E601"),
        (f"MEASURES PREV(price, {'7' * 5000}) AS x PATTERN (A)", "E601"),
        (f"MEASURES INTERVAL '{'7' * 5000}' SECOND AS x PATTERN (A)", "E601"),
        (f"MEASURES 1 AS x PATTERN (A{{{'7' * 5000}}})", "E601"),
        (f"ORDER BY seq MEASURES 1 AS x PATTERN (A) WITHIN {'7' * 5000}", "E601"),
        ("MEASURES 1e999 AS x PATTERN (A)", "E601"),
        ("MEASURES 1 AS x PATTERN (A | )", "E601"),
        ("MEASURES 1 PATTERN (A)", "E601"),
        ("MEASURES 1 AS x SEEK PATTERN (A)", "E601"),
        ("MEASURES 1 AS x PATTERN (A{})", "E601"),
        ("ORDER BY seq NULLS MEASURES 1 AS x PATTERN (A)", "E601"),
        ("MEASURES 1 AS x PATTERN (A) WITHIN long", "E601"),
        ("ORDER BY seq MEASURES 1 AS x PATTERN (A) WITHIN 0.5 us", "E601"),
        ("MEASURES 1 AS x PATTERN (A) DEFINE A AS nothing > 1", "E603"),
    ],
)
def test_mistakes(clause: str, code: str) -> None:
    with pytest.raises(cepheid.CepheidError) as caught:
        run_on_ticks(f"SELECT * FROM ticks MATCH_RECOGNIZE ({clause})")
    assert caught.value.diagnostics[0].code == code


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT * FROM MATCH_RECOGNIZE (PATTERN (A))",
        "MATCH_RECOGNIZE (MEASURES 1 AS x PATTERN (A))",
    ],
)
def test_text_without_a_clause_or_its_table(text: str) -> None:
    with pytest.raises(cepheid.CepheidError, match="E613"):
        run_on_ticks(text)


@pytest.mark.parametrize(
    "text",
    [
        "{o}SELECT * FROM ticks {clause}{c}",
        "SELECT * FROM {o}ticks{c} {clause}",
        "SELECT {o}x{c} FROM ticks {clause}",
        "SELECT * FROM ticks {clause} WHERE x < {o}1{c}",
    ],
)
def test_deep_nesting_is_refused(text: str) -> None:
    clause = "MATCH_RECOGNIZE (ORDER BY seq MEASURES 1 AS x PATTERN (A))"
    written = text.format(clause=clause, o="(" * 3000, c=")" * 3000)
    with pytest.raises(cepheid.QuerySyntaxError, match=r"E601.*200 parentheses"):
        run_on_ticks(written)


@pytest.mark.parametrize("item", ["prise", "SUM(prise)", "price + 1, prise"])
def test_columns_of_the_outer_select(item: str) -> None:
    clause = "MATCH_RECOGNIZE (ORDER BY seq ALL ROWS PER MATCH PATTERN (A))"
    with pytest.raises(cepheid.BindError, match="E603"):
        run_on_ticks(f"SELECT {item} FROM ticks {clause}")
    with pytest.raises(cepheid.BindError, match="E603"):
        run_on_ticks(f"SELECT price FROM ticks {clause} ORDER BY prise")


def test_quoted_names() -> None:
    table = pa.table({"order id": [1, 2], "Value": [5, 6]})
    text = """SELECT "order id", l FROM t MATCH_RECOGNIZE (ORDER BY `order id`
        MEASURES CLASSIFIER() AS l, "low".VALUE AS "v w" ALL ROWS PER MATCH PATTERN ("low" High)
        DEFINE "low" AS "low"."Value" = 5, HIGH AS high.value > "low".value)"""
    assert rows(text.replace('SELECT "order id"', "SELECT `order id`"), t=table) == [
        {"order id": 1, "l": "low"},
        {"order id": 2, "l": "HIGH"},
    ]


def test_variables_may_have_names_of_functions() -> None:
    rest = "AFTER MATCH SKIP TO LAST PATTERN (FIRST LAST) DEFINE LAST AS LAST.x > FIRST.x"
    assert measured("FIRST.x || LAST(LAST.x)", rest, x=[1, 2, 3]) == ["12", "23"]


@pytest.mark.parametrize(
    "table",
    ["(VALUES (1, 2)) AS v (a, b)", "(VALUES (1, 2)) v(a, b)", "t AS `v` (a, b)", "s.t v (a, b)"],
)
def test_an_alias_before_the_clause_may_name_columns(table: str) -> None:
    statement = read_statement(f"SELECT * FROM {table} MATCH_RECOGNIZE (PATTERN (A)) AS m")
    assert statement.source_query(statement.sites[0], []).text == f"SELECT * FROM {table}"
    assert statement.outer_query([View("x")]).text == "SELECT * FROM x AS m"
    for other in ("range(5)", "s.f(x, y)", "TABLE(f(x))"):
        statement = read_statement(f"SELECT * FROM {other} MATCH_RECOGNIZE (PATTERN (A)) AS m")
        assert statement.source_query(statement.sites[0], []).text == f"SELECT * FROM {other}"


def test_decimals_of_any_length_compare_and_add_up() -> None:
    values = [Decimal(f"{10**29 + n}.25") for n in range(3)]
    table = pa.table({"i": [1, 2, 3], "x": pa.array(values, pa.decimal128(38, 2))})
    text = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i
        MEASURES SUM(x) AS s, MIN(x) AS a, MAX(x) AS b, COUNT(*) AS n PATTERN (A B+)
        DEFINE B AS x > PREV(x) AND x > A.x AND SUM(x) > MAX(x))"""
    (row,) = cepheid.sql(text, tables={"t": table}).to_pylist()
    with localcontext(prec=60):
        assert row == {"s": sum(values), "a": values[0], "b": values[2], "n": 3}
