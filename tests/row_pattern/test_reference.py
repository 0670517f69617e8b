"""The engine gives what the definition gives, for random clauses over random small tables."""

from __future__ import annotations

import functools
import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.row_pattern import reference

import cepheid
from cepheid.kernels import row_pattern_search as search_kernel
from cepheid.kinds.row_pattern import find
from cepheid.kinds.row_pattern.bind import bind_clause
from cepheid.kinds.row_pattern.parser import parse_clause_text
from cepheid.kinds.row_pattern.programs import NoProgramError
from cepheid.kinds.row_pattern.recognize import recognize
from cepheid.testing.strategies import choice

LOCAL = [
    "TRUE",
    "x > 1",
    "x < PREV(x)",
    "{v}.x >= PREV({v}.x, 2)",
    "NEXT(x) > x OR x = 0",
    "x IS NULL",
    "NOT x = 1",
    "CLASSIFIER() = 'A'",
    "PREV(x + y) < 4",
]
SEEING = [
    "x > A.x",
    "B.x < A.x OR B.x IS NULL",
    "x > FIRST(x)",
    "x <= LAST(x, 1) OR LAST(x, 1) IS NULL",
    "x > LAST({v}.x, 1) OR LAST({v}.x, 1) IS NULL",
    "FIRST(A.x, 1) = x",
    "PREV(LAST(A.x), 1) < y",
    "NEXT(FIRST(B.x), 2) > 0",
    "SUM(x) < 5",
    "COUNT(A.*) <= COUNT(B.*)",
    "COUNT(*) < 4 AND x > 0",
    "MAX(A.x) > MIN(x)",
    "AVG(U.x) > 1",
    "PREV(CLASSIFIER()) = 'A'",
    "FIRST(CLASSIFIER(), 1) = 'B'",
    "CLASSIFIER(U) = 'B'",
    "MATCH_NUMBER() % 2 = 1",
    "U.x > 0 AND x <> 1",
]
MEASURES = [
    "x",
    "A.x",
    "FIRST(B.x, 1)",
    "LAST(x, 2)",
    "FINAL LAST(A.x)",
    "FINAL FIRST(U.y)",
    "PREV(A.x)",
    "NEXT(x, 2)",
    "PREV(FIRST(B.y), 1)",
    "NEXT(FINAL LAST(U.x, 1))",
    "CLASSIFIER()",
    "CLASSIFIER(U)",
    "FINAL LAST(CLASSIFIER())",
    "NEXT(CLASSIFIER())",
    "MATCH_NUMBER()",
    "COUNT(*)",
    "FINAL COUNT(A.*)",
    "COUNT(U.x)",
    "SUM(x + y)",
    "FINAL SUM(B.x)",
    "MIN(U.x)",
    "MAX(y)",
    "AVG(A.x)",
    "ARRAY_AGG(x)",
    "FINAL ARRAY_AGG(CLASSIFIER())",
    "SUM(A.x) - COUNT(*)",
]
CONSTANTS = [
    "TRUE",
    "FALSE",
    "NULL",
    "1 = 1",
    "2 < 1",
    "NOT FALSE",
    "NULL = 1",
    "1 + 1 = 2",
    "TRUE OR x > 1",
    "NULL IS NULL",
    "CLASSIFIER() = '{v}'",
]
"""Conditions that no row decides, or that are known before any row is."""
AGGREGATES = [
    "COUNT(*)",
    "COUNT({p}*)",
    "COUNT({p}x)",
    "COUNT(DISTINCT {p}x)",
    "COUNT(1)",
    "SUM({p}x)",
    "SUM(DISTINCT {p}x)",
    "AVG({p}x)",
    "MIN({p}x)",
    "MAX({p}x)",
    "MIN({p}x, 2)",
    "MAX({p}x, 2)",
    "COUNT_IF({p}x > 1)",
    "BOOL_OR({p}x > 1)",
    "BOOL_AND({p}x > 1)",
    "EVERY({p}x > 1)",
    "ARRAY_AGG({p}x)",
    "ARRAY_AGG(DISTINCT {p}x)",
    "COLLECT_LIST({p}x)",
    "ANY_VALUE({p}x)",
    "ARBITRARY({p}x)",
    "MIN_BY({p}x, {p}y)",
    "MAX_BY({p}x, {p}y)",
    "MAX_BY({p}x, {p}y, 2)",
    "HISTOGRAM({p}x)",
    "MAP_AGG({p}x, {p}y)",
    "STRING_AGG({p}x, '-')",
    "LISTAGG({p}x, ', ')",
    "LISTAGG({p}x)",
    "LISTAGG(DISTINCT {p}x, ', ')",
    "LISTAGG({p}x, '-') WITHIN GROUP (ORDER BY {p}y NULLS LAST)",
    "STRING_AGG(DISTINCT {p}x, '-' ORDER BY {p}y DESC)",
    "ARRAY_AGG({p}x ORDER BY {p}y DESC, {p}x)",
    "ARRAY_AGG({p}x ORDER BY {p}y + {p}x DESC NULLS FIRST)",
    "STDDEV({p}x)",
    "STDDEV_SAMP({p}x)",
    "STDDEV_POP({p}x)",
    "VARIANCE({p}x)",
    "VAR_SAMP({p}x)",
    "VAR_POP({p}x)",
]
FILTERS = [
    "{p}x > 1",
    "NOT {p}x = 1",
    "{p}x IS NOT NULL AND TRUE",
    "{p}y < {p}x OR {p}y IS NULL",
    "TRUE",
    "FALSE",
    "NULL",
    "1 = 1 AND {p}x > 0",
    "CLASSIFIER() = 'A'",
    "NOT CLASSIFIER() = 'B'",
]
NUMBERS = frozenset({"COUNT", "SUM", "AVG", "STDDEV", "VAR"})
BOUNDED = ("", "?", "??", "{2}", "{,2}", "{1,3}?")
QUANTIFIERS = (*BOUNDED, "*", "+", "*?", "+?", "{2,}")


@functools.cache
def patterns(
    anchors: tuple[str, ...] = ("^", "$"), quantifiers: tuple[str, ...] = QUANTIFIERS
) -> st.SearchStrategy[str]:
    leaf = st.sampled_from(["A", "B", "C", "A", "B", "()", *anchors])
    quantifier = st.sampled_from(quantifiers)

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        several = st.lists(inner, min_size=2, max_size=3)
        return st.one_of(
            several.map(" ".join),
            several.map(lambda parts: f"({' | '.join(parts)})"),
            st.builds(lambda part, q: f"({part}){q}", inner, quantifier),
            st.builds(lambda part, q: f"{{- {part} -}}{q}", inner, quantifier),
            several.map(lambda parts: f"PERMUTE({', '.join(parts)})"),
        )

    return st.recursive(st.builds(lambda v, q: v + q, leaf, quantifier), extend, max_leaves=4)


@st.composite
def filtered(draw: st.DrawFn) -> str:
    """Draw an aggregate over the rows of a variable or of all, most often with FILTER."""
    prefix = draw(choice(["", "A.", "B.", "U."]))
    aggregate = draw(choice(AGGREGATES))
    if aggregate in ("COUNT(*)", "COUNT(1)") or (aggregate == "COUNT({p}*)" and not prefix):
        prefix, aggregate = "", aggregate.replace("{p}", "")
    condition = draw(choice(["", *FILTERS]))
    # Without a variable, the row is the one that counts.
    condition = condition.replace("{p}", draw(choice(["", prefix])))
    text = f"{aggregate} FILTER (WHERE {condition})" if condition else aggregate
    return text.replace("{p}", prefix)


@st.composite
def compared(draw: st.DrawFn) -> str:
    """Draw a condition on an aggregate."""
    aggregate = draw(filtered())
    if aggregate.startswith(("BOOL", "EVERY")):
        return aggregate
    if aggregate.split("(")[0].split("_")[0] in NUMBERS:
        return aggregate + draw(choice([" < 3", " >= 1", " <> 2", " IS NULL"]))
    texts = [" = '1'", " <> '2'"] if aggregate.startswith("LISTAGG") else []
    return aggregate + draw(choice([" IS NULL", " IS NOT NULL", *texts]))


@functools.cache
def conditions(*pool: str, seeing: bool) -> st.SearchStrategy[str]:
    """Draw conditions in every order, with constants and those of a further pool among them."""
    leaf = st.sampled_from([*pool, *LOCAL, *(SEEING if seeing else [])])
    leaf |= st.sampled_from(CONSTANTS)
    if seeing:
        leaf |= compared()

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        several = st.lists(inner.map(lambda part: f"({part})"), min_size=2, max_size=3)
        return st.one_of(
            several.map(" AND ".join),
            several.map(" OR ".join),
            inner.map(lambda part: f"NOT ({part})"),
        )

    return st.one_of(leaf, st.recursive(leaf, extend, max_leaves=4))


def _measures(simple: list[str]) -> st.SearchStrategy[list[str]]:
    measured = st.sampled_from(simple) | filtered() | filtered().map(lambda m: f"FINAL {m}")
    return st.lists(measured, min_size=1, max_size=4)


ALL_MEASURES = _measures(MEASURES)
LIVE_MEASURES = _measures([m for m in MEASURES if "MATCH_NUMBER" not in m])


@st.composite
def clauses(draw: st.DrawFn, drawn: st.SearchStrategy[str], *, live: bool = False) -> str:
    """Draw a clause; a live one is one that may read a stream."""
    within = draw(choice(["", "", "", "3", "2.5 seconds", "INTERVAL '3' SECOND"]))
    within = within and f" WITHIN {within}"
    pattern = draw(patterns((), QUANTIFIERS if within else BOUNDED) if live else patterns())
    used = [v for v in "ABC" if v in pattern.replace("PERMUTE", "")]
    rows = draw(
        choice(
            ["ONE ROW PER MATCH", "ALL ROWS PER MATCH", "ALL ROWS PER MATCH OMIT EMPTY MATCHES"]
            + ([] if "{-" in pattern or live else ["ALL ROWS PER MATCH WITH UNMATCHED ROWS"])
        )
    )
    skips = ["PAST LAST ROW", "TO NEXT ROW"] + [
        f"TO {k} {v}" for v in used for k in ("FIRST", "LAST")
    ]
    skip = draw(choice(skips))
    # Every variable must be one of the pattern, so that the others take its place.
    spare = used[0] if used else None
    define = {v: draw(drawn).replace("{v}", v) for v in used if draw(choice([True, True, False]))}
    measures = draw(LIVE_MEASURES if live else ALL_MEASURES)
    partition = draw(choice(["", "PARTITION BY g "]))
    text = (
        f"MATCH_RECOGNIZE ({partition}ORDER BY t MEASURES "
        + ", ".join(f"{m} AS m{i}" for i, m in enumerate(measures))
        + f" {rows} AFTER MATCH SKIP {skip} PATTERN ({pattern}){within}"
        + (f" SUBSET U = ({', '.join(used[:2])})" if used else "")
        + (" DEFINE " + ", ".join(f"{v} AS {c}" for v, c in define.items()) if define else "")
        + ")"
    )
    head, tail = text.split(" PATTERN ", 1)
    for name in "ABC":
        if name not in used:
            head = _renamed(head, name, spare)
            if " DEFINE " in tail:
                body, conditions_text = tail.split(" DEFINE ", 1)
                tail = f"{body} DEFINE {_renamed(conditions_text, name, spare)}"
    if not used:
        head = head.replace("U.", "").replace("CLASSIFIER(U)", "CLASSIFIER()")
    return f"{head} PATTERN {tail}"


def _renamed(text: str, name: str, spare: str | None) -> str:
    if spare is None:
        return text.replace(f"COUNT({name}.*)", "COUNT(*)").replace(f"{name}.", "")
    return text.replace(f"{name}.", f"{spare}.")


values = st.one_of(st.none(), st.integers(0, 3))
tables = st.lists(
    st.fixed_dictionaries(
        {"g": st.integers(1, 2), "t": st.integers(0, 5), "x": values, "y": values}
    ),
    max_size=7,
)
SCHEMA = pa.schema([("g", pa.int64()), ("t", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])


WAYS: dict[str, AbstractContextManager[object]] = {
    "as it comes": nullcontext(),
    "with a memory from the first step": patch.object(find, "STEPS_BEFORE_MEMORY", -1),
    "in threads": patch("cepheid.kinds.row_pattern.recognize.ROWS_OF_A_THREAD", 1),
    "without dead ends": patch("cepheid.kinds.row_pattern.ahead.ROWS_MIN", 0),
    "with little patience": patch.object(search_kernel, "PATIENCE", 8),
    "by tables": patch.object(find, "TABLES_ROWS_MIN", 0),
    "by tables, in small parts": patch.multiple(find, TABLES_ROWS_MIN=0, ROOM_ROWS=0),
    "without programs": patch.object(find, "build_programs", side_effect=NoProgramError),
}
"""All ways to search give the same."""


def check(text: str, rows: list[dict[str, Any]]) -> None:
    clause = parse_clause_text(text)
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    plan = bind_clause(clause, table.column_names, text)
    try:
        expected: Any = reference.recognize(clause, rows)
    except reference.SkipError as error:
        expected = str(error)
    for way, patched in WAYS.items():
        try:
            with patched:
                found: Any = recognize(plan, table, threads=3).to_pylist()
        except cepheid.DataError as error:
            found = error.diagnostics[0].code
        message = f"{way}\n{text}\n{rows}\nfound    {found}\nexpected {expected}"
        assert same(found, expected), message


def same(found: Any, expected: Any) -> bool:
    if isinstance(found, str) or isinstance(expected, str):
        return bool(found == expected)
    return len(found) == len(expected) and all(
        row.keys() == other.keys() and all(same_cell(row[name], other[name]) for name in row)
        for row, other in zip(found, expected, strict=True)
    )


def same_cell(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float | int):
        return math.isclose(a, b, rel_tol=1e-12)
    return bool(a == b)


@given(clauses(conditions(seeing=False)), tables)
def test_conditions_on_rows_alone(text: str, rows: list[dict[str, Any]]) -> None:
    check(text, rows)


@given(clauses(conditions(seeing=True)), tables)
def test_conditions_that_see_the_match(text: str, rows: list[dict[str, Any]]) -> None:
    check(text, rows)
