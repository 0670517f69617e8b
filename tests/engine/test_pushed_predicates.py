"""Conditions between distant events, asked while matches are built, give the oracle's matches."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.comparison import numbered, readable, same_rows, table_of

from cepheid.api import query
from cepheid.kinds.trend.listing.pushed_predicates import split_by_role
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.local import run_table
from cepheid.testing.harness import stream
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import choice

pytestmark = pytest.mark.timeout(900)  # kernels compile on first use

PATTERNS = ["SEQ(A, B+, C)", "SEQ(A+, B+)", "(SEQ(A, B?))+", "(A OR B)+", "SEQ(A+, B*, C?)"]
PATTERNS += ["SEQ(A+, NOT C, B)", "SEQ(NOT C, A+, B+)", "SEQ(B?, A{1,3}, NOT C)"]
WINDOWS = ["", "WITHIN 4 s", "WITHIN 4 s SLIDE 2 s", "WITHIN 5 EVENTS SLIDE 5 EVENTS"]


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """Draw a comparison of events of A and B, near or far."""
    event = st.sampled_from(["FIRST({v})", "LAST({v})", "{v}"])
    one, other = (draw(event).format(v=draw(choice("AB"))) for _ in range(2))
    if "(" not in one + other:
        one = f"LAST({one})"
    operator = draw(choice(["<", "<=", ">", ">=", "=", "<>"]))
    right = draw(choice([f"{other}.x", f"{other}.y", f"{other}.x + 1", "2"]))
    if right == "2" and "(" not in one:
        one = f"FIRST({one})"
    return f"{one}.x {operator} {right}"


@st.composite
def streams(draw: st.DrawFn) -> str:
    """Draw some events of three types, some of them at the same time, some without a value."""
    value = st.sampled_from(["0", "1", "2", "3", "NULL"])
    words, now = [], 1
    for _ in range(draw(st.integers(1, 8))):
        now += draw(choice([0, 1, 1, 1]))
        letter, key = draw(choice("aaabbbc")), draw(choice("ppq"))
        words.append(f"{letter}{now}(x={draw(value)}, y={draw(value)}, key='{key}')")
    return " ".join(words)


@given(
    streams(),
    st.sampled_from(PATTERNS),
    st.lists(conditions(), min_size=1, max_size=3),
    st.sampled_from(["any", "next", "contiguous"]),
    st.sampled_from(WINDOWS),
    st.sampled_from(["", "[key] AND ", "[A.key] AND ", "A.y <= NEXT(A).x AND "]),
)
def test_random_conditions(
    words: str, pattern: str, asked: list[str], semantics: str, window: str, more: str
) -> None:
    if more.startswith("[A") and ("EVENTS" in window or semantics != "any"):
        more = ""
    if more.startswith("A.y") and pattern not in ("SEQ(A+, B+)", "(A OR B)+", "SEQ(A+, B*, C?)"):
        more = ""
    events = stream(words)
    rest = f"PATTERN {pattern} SEMANTICS {semantics} WHERE {more}{' AND '.join(asked)} {window}"
    listed, counted = query(f"RETURN MATCHES {rest}"), query(f"RETURN COUNT(*), SUM(A.x) {rest}")
    table = numbered(events)
    rows = run_table(listed.plan, table).to_pylist()
    assert readable(rows) == readable(evaluate(listed.tree, events)), rest
    totals = run_table(counted.plan, table_of(events), batch_rows=3).to_pylist()
    assert same_rows(totals, evaluate(counted.tree, events)), rest


@pytest.mark.filterwarnings("ignore:no event has the type")
def test_dead_ends_take_no_exponential_time() -> None:
    # 2^200 choices of b, and no c that fits the first of any of them.
    count = 202
    types = ["A", *["B"] * (count - 2), "C"]
    values = [0, *np.random.default_rng(3).permutation(count - 2).tolist(), count]
    table = pa.table({"ts": range(count), "type": types, "x": values})
    for condition in ("C.x < FIRST(B).x", "C.x <= LAST(B).x", "A.x > LAST(B).x", "B.x < A.x + 0"):
        text = f"RETURN COUNT(*) PATTERN SEQ(A, B+, C) WHERE {condition} AND FIRST(B).x >= 0"
        compiled = query(text)
        compiled.run(table.slice(0, 3))
        begin = time.process_time()
        assert compiled.run(table).num_rows == 0
        assert time.process_time() - begin < 2


def test_large_templates_are_left_as_they_are() -> None:
    compiled = query("PATTERN SEQ(A, B{100}) WHERE FIRST(B).x < LAST(B).x")
    template, pushed = split_by_role(
        TrendPlan.of(compiled.plan).patterns[0], TrendPlan.of(compiled.plan).globals
    )
    assert template is not TrendPlan.of(compiled.plan).patterns[0]
    names = [f"A v{n}" for n in range(9)]
    loop = f"({' OR '.join(names)})+"
    asked = " AND ".join(f"FIRST(v{n}).x < LAST(v{n}).x" for n in range(9))
    plan = query(f"PATTERN {loop} WHERE {asked}").plan
    template, pushed = split_by_role(TrendPlan.of(plan).patterns[0], TrendPlan.of(plan).globals)
    assert template is TrendPlan.of(plan).patterns[0]
    assert not pushed


def test_values_that_leave_64_bits_are_looked_at_in_matches_only() -> None:
    # The event without a partner would leave 64 bits if its value were asked for.
    events = stream(f"a1(x=1) b2(x=5) a3(x={2**62}) c4(x=0)")
    compiled = query("PATTERN SEQ(A, B) WHERE LAST(A).x * 4 < B.x")
    rows = run_table(compiled.plan, numbered(events)).to_pylist()
    assert readable(rows) == readable(evaluate(compiled.tree, events))
    assert len(rows) == 1
