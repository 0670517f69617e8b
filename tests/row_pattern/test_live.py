"""However a stream is cut, a live clause gives what the clause gives over all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.row_pattern import reference
from tests.row_pattern.test_reference import SCHEMA, WAYS, clauses, conditions, same

import cepheid
from cepheid.kinds.row_pattern.bind import bind_clause
from cepheid.kinds.row_pattern.live_rules import describe_live, why_not_live
from cepheid.kinds.row_pattern.parser import parse_clause_text
from cepheid.kinds.row_pattern.plan import MatchPlan
from cepheid.kinds.row_pattern.reach import reach_of
from cepheid.kinds.row_pattern.recognize_open import Kept, recognize_open

END = 1000
"""A time behind all rows, and behind the length of WITHIN after them."""


def bind(text: str) -> tuple[Any, MatchPlan]:
    clause = parse_clause_text(text)
    return clause, bind_clause(clause, SCHEMA.names, text)


def live(plan: MatchPlan, rows: list[dict[str, Any]], times: list[int]) -> tuple[Any, Kept]:
    """Return the rows of a result after watermarks at some times, or the code of an error."""
    reach = reach_of(plan)
    kept = Kept(SCHEMA.empty_table(), np.zeros(0, np.bool_))
    ordered = pa.Table.from_pylist(sorted(rows, key=lambda row: row["t"]), schema=SCHEMA)
    stamps = np.asarray(ordered["t"])
    found: list[Any] = []
    begin = 0
    for until in times:
        stop = int(np.searchsorted(stamps, until))
        new = ordered.slice(begin, stop - begin)
        try:
            settled = recognize_open(plan, reach, kept.followed_by(new), until)
        except cepheid.DataError as error:
            return error.diagnostics[0].code, kept
        found += [row for part in settled.found for row in part.to_pylist()]
        kept, begin = settled.kept, stop
    return found, kept


def check(text: str, rows: list[dict[str, Any]], times: list[int]) -> None:
    clause, plan = bind(text)
    assert why_not_live(clause, plan, SCHEMA) is None, text
    try:
        expected: Any = reference.recognize(clause, rows)
    except reference.SkipError:
        return  # The batch search stops at the first fault, a live one at the first of a batch.
    keyed = "PARTITION" in text
    for way, patched in WAYS.items():
        with patched:
            found, kept = live(plan, rows, [*times, END])
        message = f"{way}\n{text}\n{rows}\n{times}\nfound    {found}\nexpected {expected}"
        for key in {1, 2} if keyed else {None}:
            mine = [row for row in found if key is None or row["g"] == key]
            theirs = [row for row in expected if key is None or row["g"] == key]
            # What is not decided at the end is a tail.
            assert len(mine) <= len(theirs), message
            assert same(mine, theirs[: len(mine)]), message
            left = sum(key in (None, row["g"]) for row in kept.rows.to_pylist())
            if len(mine) < len(theirs):
                assert left, message
            check_kept(plan, len(theirs) - len(mine), left, message)


def check_kept(plan: MatchPlan, undecided: int, left: int, message: str) -> None:
    """Check that a key keeps no more at the end than the clause needs."""
    back, ahead, beyond, longest = reach_of(plan)
    if plan.within is not None and not (ahead or beyond):
        assert not undecided, message
        assert left <= back, message
    elif plan.within is None:
        assert longest is not None
        assert left <= back + longest + max(ahead, beyond), message


cell = st.sampled_from([0, 1, 2, 3, None])
tables = st.lists(
    st.fixed_dictionaries({"g": st.integers(1, 2), "t": st.integers(0, 8), "x": cell, "y": cell}),
    min_size=4,
    max_size=9,
)
cuts = st.sets(st.integers(1, 9), min_size=2, max_size=9).map(sorted)
local = conditions(seeing=False)
seeing = conditions(seeing=True).map(lambda text: text.replace("MATCH_NUMBER() % 2 = 1", "x = 1"))


@given(clauses(local, live=True), tables, cuts)
def test_conditions_on_rows_alone(text: str, rows: list[dict[str, Any]], times: list[int]) -> None:
    check(text, rows, times)


@given(clauses(seeing, live=True), tables, cuts)
def test_conditions_that_see_the_match(
    text: str, rows: list[dict[str, Any]], times: list[int]
) -> None:
    check(text, rows, times)


def made(*values: int, gap: int = 1) -> list[dict[str, Any]]:
    return [{"g": 1, "t": gap * i, "x": value, "y": i} for i, value in enumerate(values)]


def told(clause: str, rows: list[dict[str, Any]], times: list[int]) -> list[list[Any]]:
    """Return the first measure of the matches that leave at each watermark."""
    text = f"MATCH_RECOGNIZE (ORDER BY t MEASURES {clause})"
    parsed, plan = bind(text)
    assert why_not_live(parsed, plan, SCHEMA) is None
    sizes = [[row["m"] for row in live(plan, rows, times[: n + 1])[0]] for n in range(len(times))]
    return [now[len(before) :] for before, now in zip([[], *sizes], sizes, strict=False)]


def test_a_match_waits_for_the_row_that_could_be_part_of_it() -> None:
    # x falls until row 2; rows have times 0, 1, 2, 3 and so on.
    rows = made(9, 8, 7, 8, 7)
    falls = "COUNT(*) AS m PATTERN (A B{1,3}) DEFINE B AS x < PREV(x)"
    assert told(falls, rows, [2, 3, 4, 5]) == [[], [], [3], []]
    # A reluctant one needs no more than it has.
    assert told(falls.replace("}", "}?"), rows, [2, 3, 4, 5]) == [[2], [], [], [2]]


def test_next_waits_for_the_row_it_looks_at() -> None:
    peak = "x AS m PATTERN (A) DEFINE A AS NEXT(x) < x"
    assert told(peak, made(1, 5, 2, 3, 1), [1, 2, 3, 4, 5]) == [[], [], [5], [], [3]]
    assert told("NEXT(x) AS m PATTERN (A) DEFINE A AS x > 4", made(1, 5, 2), [2, 3]) == [[], [2]]
    # The measure looks at a row that is in the match anyway.
    assert told("NEXT(A.x) AS m PATTERN (A B) DEFINE A AS x > 4", made(5, 2), [1, 2]) == [[], [2]]


def test_prev_looks_at_rows_that_were_decided_long_ago() -> None:
    rises = "x - PREV(x) AS m PATTERN (A) DEFINE A AS x > PREV(x)"
    assert told(rises, made(1, 5, 2, 3), [1, 2, 3, 4]) == [[], [4], [], [1]]
    assert told("x AS m PATTERN (A) DEFINE A AS PREV(x) IS NULL", made(1, 2), [1, 2]) == [[1], []]


def test_within_ends_a_match_when_the_watermark_has_passed_it() -> None:
    # Rows have times 0, 10, 20 and so on; the match of time 0 may have rows before time 25.
    rows = made(9, 8, 7, 6, gap=10)
    falls = "COUNT(*) AS m PATTERN (A B+) WITHIN 25 DEFINE B AS x < PREV(x)"
    assert told(falls, rows[:3], [1, 21, 24, 25]) == [[], [], [], [3]]
    assert told(falls, rows, [1, 21, 31, 55]) == [[], [], [3], []]
    assert told(falls, rows[:2], [11, 30]) == [[], [2]]


REFUSED = {
    "MEASURES x AS m PATTERN (A)": "needs ORDER BY",
    "ORDER BY t DESC MEASURES x AS m PATTERN (A)": "descends",
    "ORDER BY t MEASURES x AS m ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A)": "UNMATCHED",
    "ORDER BY t MEASURES x AS m PATTERN (A (B | $))": "`$`",
    "ORDER BY t MEASURES x AS m PATTERN (^ A)": "`^`",
    "ORDER BY t MEASURES MATCH_NUMBER() + 1 AS m PATTERN (A)": "MATCH_NUMBER",
    "ORDER BY t MEASURES x AS m PATTERN (A) DEFINE A AS MATCH_NUMBER() < 3": "MATCH_NUMBER",
    "ORDER BY t MEASURES x AS m PATTERN (A B+ C)": "any number of rows",
    "ORDER BY t MEASURES x AS m PATTERN (A (B | C*?)?)": "any number of rows",
    "ORDER BY t MEASURES x AS m PATTERN (PERMUTE(A, {- B{2,} -}))": "any number of rows",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_a_stream_cannot_decide_is_refused(text: str) -> None:
    clause, plan = bind(f"MATCH_RECOGNIZE ({text})")
    found = why_not_live(clause, plan, SCHEMA)
    assert found is not None
    assert found.code == "E405"
    assert REFUSED[text] in found.message
    assert found.helps
    assert describe_live(clause, plan, SCHEMA)[0] == f"no: {found.message}"


REACHES = {
    "MEASURES x AS m PATTERN (A B+) DEFINE B AS x < PREV(x)": (0, 0, 0, None),
    "MEASURES x AS m PATTERN (A) DEFINE A AS x < PREV(x, 2)": (2, 0, 0, 1),
    "MEASURES x AS m PATTERN (A? B) DEFINE B AS x < PREV(x)": (1, 0, 0, 2),
    "MEASURES PREV(x) AS m PATTERN (A B)": (0, 0, 0, 2),
    "MEASURES PREV(x) AS m ALL ROWS PER MATCH PATTERN (A B)": (1, 0, 0, 2),
    "MEASURES PREV(B.x, 3) AS m PATTERN (A B)": (2, 0, 0, 2),
    "MEASURES PREV(FIRST(x, 1), 3) AS m PATTERN (A B)": (2, 0, 0, 2),
    "MEASURES NEXT(x, 2) AS m PATTERN (A B)": (0, 0, 2, 2),
    "MEASURES NEXT(A.x) AS m PATTERN (A B{2})": (0, 0, 0, 3),
    "MEASURES NEXT(FIRST(x), 5) AS m PATTERN (A B{2})": (0, 0, 3, 3),
    "MEASURES x AS m PATTERN (PERMUTE(A, B)) DEFINE B AS NEXT(x) > PREV(x)": (1, 1, 0, 2),
}


@pytest.mark.parametrize("text", REACHES)
def test_how_far_a_clause_looks(text: str) -> None:
    clause, plan = bind(f"MATCH_RECOGNIZE (ORDER BY t {text})")
    assert reach_of(plan) == REACHES[text]
    first, *_ = describe_live(clause, plan, SCHEMA)
    assert first.startswith("no:" if reach_of(plan).longest is None else "yes:")
