from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.expressions.test_evaluate import Columns, check, evaluate

import cepheid
from cepheid.errors import BindError, DataError
from cepheid.expressions.evaluate import MEANINGS, evaluate_vector, true_mask
from cepheid.expressions.functions import ALIASES, FUNCTIONS, LANGUAGE_FUNCTIONS
from cepheid.expressions.vectors import Vector, constant, vector_of
from cepheid.language import tree
from cepheid.language.parser import parse
from cepheid.testing.oracle_expressions import round_half_up

COLUMNS: Columns = {
    "i": [0, 1, -7, 2**53 + 1, None, 2**63 - 1, 125],
    "j": [3, 0, 2, -1, 5, None, -3],
    "x": [0.0, -0.0, math.nan, math.inf, None, -2.5, 1.005],
    "y": [2.0**53, 0.5, math.nan, -math.inf, 1e300, None, 2.0],
    "s": ["", "Ada", "50%", "a_b", None, " é ", "straße"],
    "r": ["", "Bob", "a.c", "a\nb", "İ", None, "ΑΣ"],
    "b": [True, False, None, True, False, None, True],
    "c": [None, None, None, True, True, True, False],
    "t": [0, 1, -1, 1_767_225_600_000_000, None, 90_000_000, 10**15],
    "u": [0, 2, None, 1, 5, 10**6, -(10**6)],
    "p": [0, 10**6, -5, None, 60_000_000, 1, 3],
    "nothing": [None] * 7,
}

ALIKE = [
    "S.i = 1.0",
    "S.i > 9007199254740992.0",
    "S.i <= S.y",
    "S.y >= 9007199254740993",
    "S.x = S.y",
    "S.x < S.y",
    "S.x > S.y",
    "S.y <> S.x",
    "S.x > 0",
    "S.x = 0",
    "0 < S.x",
    "S.i / S.j",
    "S.i % S.j",
    "S.x % 2",
    "S.i % S.x",
    "-S.x",
    "-S.p",
    "S.t - 1 minute",
    "S.t - S.u > 1 second",
    "S.t >= '1970-01-01 00:01:30'",
    "'2026-01-01T01:00:00+01:00' = S.t",
    "S.t IN ('1970-01-01', '2026-01-01')",
    "S.t BETWEEN '1970-01-01' AND '2000-01-01'",
    "S.p / 2 > 0.5 * S.p",
    "S.s = 'Ada'",
    "S.s < S.r",
    "S.s IN ('Ada', 'a_b', NULL)",
    "S.s NOT IN ('Ada')",
    "S.s IN ('a', 'b', 'c', 'Ada')",
    "S.i IN (1, 125.0, 0.5)",
    "S.x IN (0, 1.005, 9007199254740993)",
    "S.i IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 125)",
    "S.i IN (S.j, 1)",
    "S.s LIKE 'A%'",
    "S.s LIKE '%a'",
    "S.s LIKE '%d%'",
    "S.s LIKE '50\\%'",
    "S.s LIKE 'a\\_b'",
    "S.r LIKE 'a_b'",
    "S.r LIKE 'a.c'",
    "S.s LIKE S.r",
    "S.s LIKE '\\'",
    "S.s NOT LIKE ''",
    "S.b AND S.c",
    "S.b OR S.c",
    "NOT S.b OR NULL",
    "S.nothing = 1 OR S.b",
    "S.x IS NULL",
    "S.i IS NOT NULL AND S.i > 1",
    "1 / 0 IS NULL",
    "COALESCE(S.x, S.y)",
    "COALESCE(S.nothing, S.s, 'z')",
    "GREATEST(S.x, S.y)",
    "LEAST(S.x, S.y, 1.5)",
    "GREATEST(S.s, S.r, 'B')",
    "LEAST(S.t, S.u)",
    "NULLIF(S.i, 125)",
    "NULLIF('Ada', S.s)",
    "LENGTH(NULLIF('Ada', S.s)) = 3",
    "LOWER(S.r)",
    "UPPER(S.s)",
    "TRIM(S.s)",
    "LENGTH(S.r)",
    "CONCAT(S.s, '-', S.r)",
    "SUBSTRING(S.s, 2)",
    "SUBSTRING(S.s, -2, 1)",
    "SUBSTRING(S.s, S.j, 2)",
    "SUBSTRING(S.s, 0, S.j)",
    "ROUND(S.x)",
    "ROUND(S.x, 2)",
    "ROUND(S.y, S.j)",
    "ROUND(S.i % 1000, -1)",
    "FLOOR(COALESCE(NULLIF(S.x, S.x), 2.5)) > -3",
    "CEIL(2.5) + 1",
    "ABS(S.x)",
    "ABS(S.i)",
    "SQRT(S.y)",
    "POWER(S.x, -1)",
    "POWER(-10, 401)",
    "POWER(-10, S.i)",
    "EXP(S.y)",
    "LN(S.x)",
    "LOG2(S.i)",
    "LOG10(S.y)",
    "SIGN(S.i)",
    "MOD(S.i, S.j)",
    "S.nothing + 1",
    "-S.nothing",
    "ABS(S.nothing)",
    "S.s LIKE S.nothing",
    "GREATEST(S.nothing, NULL)",
]


def expression_of(text: str) -> tree.Expression:
    where = parse(f"PATTERN A S WHERE {text}").where
    assert where is not None
    return where


@pytest.mark.parametrize("layout", [pa.string(), pa.dictionary(pa.int32(), pa.large_string())])
@pytest.mark.parametrize("text", ALIKE)
def test_engine_and_oracle_agree(text: str, layout: pa.DataType) -> None:
    expression = expression_of(text)
    check(expression, COLUMNS, layout)
    check(expression, {name: values[:0] for name, values in COLUMNS.items()}, layout)
    for event_idx in range(7):
        one = {name: [values[event_idx]] for name, values in COLUMNS.items()}
        check(expression, one, layout)


def refusal(text: str, columns: Columns = COLUMNS) -> tuple[str, str]:
    with pytest.raises(DataError) as caught:
        evaluate(expression_of(text), columns)
    return caught.value.diagnostics[0].code, caught.value.diagnostics[0].message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("S.i + 1 > 0", "S.i + 1"),
        ("S.i * S.i > 0", "S.i * S.i"),
        ("0 - 2 - S.i > 0", "0 - 2 - S.i"),
        ("ROUND(S.i, -1) > 0", "ROUND(S.i, -1)"),
        ("ROUND(S.i, -19) > 0", "ROUND(S.i, -19)"),
        ("ABS(-S.i - 1) > 0", "ABS(-S.i - 1)"),
        ("-(-S.i - 1) > 0", "-(-S.i - 1)"),
        ("S.b OR 3 * (S.i - 1) > 0", "3 * (S.i - 1)"),
    ],
)
def test_a_whole_number_that_leaves_64_bits_is_refused(text: str, part: str) -> None:
    assert refusal(text) == ("E504", f"a whole number overflowed 64 bits in `{part}`")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("S.s + 1 > 0", "`S.s` is of kind text, not a number"),
        ("ABS(S.s) > 0", "`S.s` is of kind text, not a number"),
        ("ROUND(1.5, S.x) > 0", "`S.x` is of kind double, not a whole number"),
        ("LOWER(S.i) = 'a'", "`S.i` is of kind integer, not text"),
        ("S.i LIKE 'a'", "`S.i` is of kind integer, not text"),
        ("COALESCE(S.i, 'a') = 'a'", "`S.i` is of kind integer, not text"),
        ("S.i AND S.b", "`S.i` is of kind integer, not a condition"),
    ],
)
def test_kinds_that_only_the_data_shows_are_checked(text: str, message: str) -> None:
    assert refusal(text) == ("E507", message)


def test_a_mask_needs_a_condition() -> None:
    with pytest.raises(DataError, match="not a condition"):
        true_mask(expression_of("S.x"), lambda _: constant(1.5), 2)


def test_a_text_that_is_no_time_is_refused() -> None:
    assert refusal("S.s < S.t") == ("E508", "`` is compared with a time but is not a valid time")
    columns: Columns = {"s": ["1970-01-01", "soon", None], "t": [0, None, 0]}
    assert (
        refusal("S.s = S.t", columns)[1] == "`soon` is compared with a time but is not a valid time"
    )
    columns["s"] = ["1970-01-01T00:00:01", None, None]
    check(expression_of("S.s > S.t"), columns)


def test_a_truth_value_counts_as_a_number() -> None:
    values, _ = evaluate(expression_of("S.b + 1 - -S.b"), {"b": [True, False, None]})
    assert values == [3, 1, None]
    assert evaluate(expression_of("S.b < 0.5"), {"b": [True, False]})[1] == [False, True]


def test_a_choice_between_kinds_takes_the_wider_one() -> None:
    columns: Columns = {"i": [1, None], "x": [0.5, 0.25], "t": [5, None], "u": [7, 8]}
    assert evaluate(expression_of("GREATEST(S.i, S.x)"), columns)[0] == [1.0, 0.25]
    assert evaluate(expression_of("COALESCE(S.t, S.u)"), columns)[0] == [5, 8]


def test_nan_in_a_list_is_found() -> None:
    nan = "1e308 * 10 - 1e308 * 10"
    check(expression_of(f"S.x IN (1, {nan})"), COLUMNS)
    check(expression_of(f"S.i IN (1, {nan})"), COLUMNS)


def test_floor_of_a_double_is_a_whole_number_or_refused() -> None:
    def kind(values: list[float | None]) -> str:
        column = vector_of(pa.array(values, pa.float64()))
        return evaluate_vector(expression_of("FLOOR(S.x)"), lambda _: column, 2).kind.value

    for value in (None, -(2.0**63)):
        assert kind([1.5, value]) == "integer"
    for value in (2.0**63, math.nan, -math.inf):
        with pytest.raises(DataError, match="E504"):
            kind([1.5, value])


def test_what_is_constant_stays_one_value_until_the_end() -> None:
    seen: list[int] = []

    def lookup(_: tree.Attribute) -> Vector:
        seen.append(1)
        return vector_of(pa.array([1.0, 2.0]))

    mask = true_mask(expression_of("1 + 1 = 2 OR 1 / 0 > 3"), lookup, 2)
    assert (mask.tolist(), seen) == ([True, True], [])
    assert evaluate_vector(expression_of("'a'"), lookup, 3).data.tolist() == ["a"] * 3


@given(st.lists(st.floats(), max_size=20), st.integers(-3, 12))
def test_rounding_follows_the_decimal_text(values: list[float], digits: int) -> None:
    # Halves of the last place are where the text and the binary value disagree.
    ties = [round(v, 6) + 5 * 10.0 ** (-digits - 1) for v in values if abs(v) < 1e9]
    column = vector_of(pa.array([*values, *ties], pa.float64()))
    expression = expression_of(f"ROUND(S.x, {digits})")
    rounded = evaluate_vector(expression, lambda _: column, len(column.data))
    wanted = [round_half_up(value, digits) for value in [*values, *ties]]
    np.testing.assert_array_equal(rounded.numbers, np.array(wanted, np.float64))


def test_every_function_of_the_table_has_a_meaning_and_is_documented() -> None:
    assert set(FUNCTIONS) == set(MEANINGS) - {"ARRAY"}
    assert set(ALIASES.values()) <= set(FUNCTIONS)
    docs = Path(__file__).parents[3] / "docs"
    known = set(re.findall(r"[A-Z_0-9]+", (docs / "language.md").read_text("utf-8")))
    assert set(LANGUAGE_FUNCTIONS) <= known
    assert set(FUNCTIONS) <= set(re.findall(r"[A-Z_0-9]+", (docs / "sql.md").read_text("utf-8")))


def test_lists_are_read_by_two_functions() -> None:
    events = pa.table({"ts": [1], "tags": [["a", "b"]], "ids": [[1]], "at": [{"x": 1}]})

    def run(condition: str) -> int:
        return cepheid.query(f"SELECT ts FROM s WHERE {condition}").run(events).num_rows

    assert run("ARRAY_JOIN(tags, ',') = 'a,b' AND CARDINALITY(ids) = 1") == 1
    for condition in ("ARRAY_JOIN(ids, ',') = '1'", "CARDINALITY(at) = 1"):
        with pytest.raises(DataError, match=r"E50[37]"):
            run(condition)
    for condition in ("CARDINALITY(ts) = 1", "ARRAY_JOIN(tags, 1) = 'a'", "LOWER(tags) = 'a'"):
        with pytest.raises(BindError, match="E206"):
            run(condition)
    with pytest.raises(BindError, match="ARRAY_JOIN"):
        run("tags = 'a'")


@pytest.mark.parametrize(
    "item", ["tags = tags", "COALESCE(tags, tags)", "tags IN (tags)", "NULLIF(tags, tags)"]
)
def test_lists_are_neither_compared_nor_chosen(item: str) -> None:
    events = pa.table({"ts": [1], "tags": [["a", "b"]]})
    with pytest.raises(BindError, match="E206"):
        cepheid.query(f"SELECT {item} AS r FROM s").run(events)
