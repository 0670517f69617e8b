"""Whatever is done to a SQL text, the answer is a table or a diagnostic, and no other exception."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.row_pattern.test_programs import CONDITIONS, table
from tests.row_pattern.test_reference import AGGREGATES, MEASURES, conditions

import cepheid
from cepheid.expressions.functions import FUNCTIONS
from cepheid.kinds.row_pattern.bind_expressions import AGGREGATES as KNOWN_AGGREGATES
from cepheid.kinds.row_pattern.lexer import tokenize
from cepheid.kinds.row_pattern.plan import SearchBounds
from cepheid.runtimes import sql as local_sql

# A mutation may order by any column, and what comes elsewhere in other systems is no failure.
pytestmark = pytest.mark.filterwarnings("ignore:NULLs of")

BASES = [
    "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES MATCH_NUMBER() AS m ALL ROWS PER MATCH "
    "PATTERN (A (A | B)* B+?) SUBSET U = (A, B) DEFINE B AS {condition})",
    "SELECT s, SUM(n) AS k, COUNT(*) FILTER (WHERE n > 1) FROM t MATCH_RECOGNIZE (PARTITION BY s "
    "ORDER BY ts DESC NULLS LAST MEASURES {measure} AS n AFTER MATCH SKIP TO LAST B "
    "PATTERN (A B{{1,3}}) DEFINE B AS x < PREV(x)) AS m WHERE n > 0 GROUP BY s ORDER BY k LIMIT 3",
    "WITH q AS (SELECT * FROM t WHERE x > 0) SELECT n + 1 AS k, CASE WHEN n > 2 THEN 'a' ELSE 'b' "
    "END FROM (SELECT * FROM q) MATCH_RECOGNIZE (ORDER BY ts MEASURES ARRAY_AGG(B.x)[1] AS n, "
    "CAST(LAST(B.x, 1) AS INT) AS i PATTERN (^A B*? {{- C -}} $ | PERMUTE(A, B)) WITHIN "
    "INTERVAL '5' SECOND DEFINE B AS x BETWEEN 1 AND 9 AND s LIKE 'a%' ESCAPE '!')",
]
FUNCTION_NAMES = [*KNOWN_AGGREGATES, *FUNCTIONS, "FIRST", "LAST", "PREV", "NEXT", "CLASSIFIER"]
COLUMNS = ["ts", "day", "gap", "s", "x", "d", "p", "big", "A.s", "B.ts", "n"]
VALUES = [
    *COLUMNS,
    *MEASURES[:20],
    *("0", "-1", "NULL", "TRUE", "''", "9223372036854775807", "7" * 5000, "1e999", "1e308", "*"),
    *("DATE 'x'", "INTERVAL '99999999999' DAY", "ARRAY[]", "CAST(x AS DECIMAL(99, 3))", "A.*"),
    *("TRY_CAST(s AS DATE)", "CAST(s AS INT)", "x IN (1, NULL)", "NOT p", "HISTOGRAM(x)"),
]
OPERATORS = ["+", "-", "*", "/", "%", "||", "=", "<>", "<", ">=", "AND", "OR", "LIKE", "DIV"]
CHARACTERS = "\x00\u00e9\u00b2\u0663\"'`{}[]|&;:?#@!~\\\n\u00bd"
"""Marks, quotes, a letter, digits that are no ASCII, and a character that no text has."""


def mutated(text: str, rng: random.Random) -> str:
    """Return a text with one token changed, or some of them."""
    try:
        tokens = [text[t.span.start : t.span.end] for t in tokenize(text)][:-1]
    except cepheid.CepheidError:
        tokens = text.split(" ")
    if not tokens:
        return text
    i, j = sorted((rng.randrange(len(tokens)), rng.randrange(len(tokens))))
    token = tokens[i]
    # Half of the time the token's place stays what it is, so that more than the parser is tried.
    if rng.random() < 0.5:
        if token.upper() in FUNCTION_NAMES:
            tokens[i] = rng.choice(FUNCTION_NAMES)
        elif token in OPERATORS:
            tokens[i] = rng.choice(OPERATORS)
        elif token == ")":
            tokens[i] = rng.choice([") FILTER (WHERE x > 1)", f", {rng.choice(VALUES)})", ", 2)"])
        elif token in COLUMNS or token[0] in "0123456789'":
            tokens[i] = rng.choice(VALUES)
        return " ".join(tokens)
    kind = rng.randrange(7)
    if kind == 0:
        del tokens[i]
    elif kind == 1:
        tokens.insert(i, rng.choice([token, tokens[j], *VALUES]))
    elif kind == 2:
        tokens[i], tokens[j] = tokens[j], tokens[i]
    elif kind == 3:
        depth = rng.choice([1, 2, 60, 3000])
        tokens[i:j] = ["(" * depth, *tokens[i:j], ")" * depth]
    elif kind == 4:
        tokens[i] = token + rng.choice(CHARACTERS)
    elif kind == 5:
        tokens[i:j] = tokens[i:j][:8] * rng.choice([2, 3])
    else:
        tokens[i] = rng.choice([*VALUES, *OPERATORS, *FUNCTION_NAMES])
    return " ".join(tokens)


class _LeftToSpark(Exception):  # noqa: N818  # It is no error.
    """The text is more than a SELECT over tables."""


def _left(*_: Any) -> Any:
    raise _LeftToSpark


NO_SPARK = ModuleType("cepheid.runtimes.spark.row_pattern")
"""What answers in the place of Spark, which a test of thousands of texts has no time for."""
NO_SPARK.run_tables = _left  # type: ignore[attr-defined]


@contextmanager
def without_spark() -> Iterator[None]:
    """Put the other module in the place of Spark's; modules that load meanwhile stay loaded."""
    before = sys.modules.get(NO_SPARK.__name__)
    sys.modules[NO_SPARK.__name__] = NO_SPARK
    try:
        yield
    finally:
        del sys.modules[NO_SPARK.__name__]
        if before is not None:
            sys.modules[NO_SPARK.__name__] = before


drawn = st.builds(
    lambda base, condition, measure: base.format(condition=condition, measure=measure),
    st.sampled_from(BASES),
    st.sampled_from(CONDITIONS) | conditions(seeing=True).map(lambda c: c.replace("{v}", "B")),
    st.sampled_from([*MEASURES, *(text.replace("{p}", "A.") for text in AGGREGATES)]),
)
TABLE = table().slice(0, 12)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT() FROM t {clause}",
        "SELECT SUM(*) FROM t {clause}",
        "SELECT SUM(s) FROM t {clause}",
        "SELECT SUM(COUNT(*)) FROM t {clause}",
        "SELECT COUNT(*) FILTER (WHERE SUM(x) > 1) FROM t {clause}",
        "SELECT n FROM t {clause} WHERE COUNT(*) > 0",
        "SELECT n FROM t {clause} WHERE CLASSIFIER() = 'A'",
        "SELECT n FROM t {clause} WHERE n",
        "SELECT n FROM t {clause}\u0663",
        'SELECT n FROM"t"{clause}',
        "SELECT * FROM t MATCH_RECOGNIZE (MEASURES CONCAT_WS(d, 5) AS n PATTERN (A))",
        "SELECT * FROM t MATCH_RECOGNIZE (MEASURES 1 AS n PATTERN (A B) DEFINE B AS A.ts > B.s)",
        "SELECT * FROM t MATCH_RECOGNIZE (MEASURES 1 AS n PATTERN (A B) "
        "DEFINE B AS LAST(A.x, 9223372036854775807) > PREV(x, 9223372036854775807))",
    ],
)
def test_texts_that_once_ended_in_another_exception(text: str) -> None:
    check(text.replace("{clause}", "MATCH_RECOGNIZE (MEASURES x AS n, s AS s PATTERN (A))"))


@given(drawn, st.integers(0, 2**32), st.integers(1, 3))
def test_mutations_give_a_table_or_a_diagnostic(text: str, seed: int, count: int) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        changed = text.replace("y", "big")
        for _ in range(count):
            changed = mutated(changed, rng)
        check(changed)


def check(text: str) -> None:
    said = ""
    try:
        with without_spark():
            found = local_sql.run_local_sql(text, {"t": TABLE}, None, SearchBounds(20_000, 5_000))
        found.validate(full=True)
    except cepheid.CepheidError as error:
        said = str(error)
    except _LeftToSpark:
        pass
    except Exception as error:
        pytest.fail(f"{type(error).__name__}: {error}\n{text[:2000]}")
    assert "cepheid_match" not in said, text
