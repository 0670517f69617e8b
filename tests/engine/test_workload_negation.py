"""Queries with negation in workloads: single events and sequences, shared and compared."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.test_linear import SCHEMA, runnable
from tests.engine.test_workload import GROUPS, WINDOWS, check

from cepheid.api import query
from cepheid.kinds.workload.sharing import share, why_alone
from cepheid.plans.plan import TrendPlan
from cepheid.testing.strategies import choice, streams


@st.composite
def negated_queries(draw: st.DrawFn) -> list[str]:
    """Draw contiguous queries with negation of single events, at every place of a sequence."""
    where, group = draw(choice(GROUPS))
    window = draw(choice([one for one in WINDOWS if one != "WITHIN 2 s"]))
    ties = draw(choice(["", "TIES arrival"]))
    more = draw(choice(["", ", SUM(A.price), MIN(A.price)"]))
    found = []
    for _ in range(draw(st.integers(2, 4))):
        places = [draw(choice(["", "", "NOT C c", "NOT (C c OR B n)"])) for _ in range(3)]
        first, last = draw(choice(["A", "A+", "A x"])), draw(choice(["B", "B+", "(B OR D)"]))
        own = first.replace("A x", "A A")
        items = [places[0], own, places[1].replace("c", "d").replace("n)", "m)"), last]
        items.append(places[2].replace("c", "e").replace("n)", "o)"))
        pattern = ", ".join(filter(None, items))
        clauses = [
            f"RETURN COUNT(*){more} PATTERN SEQ({pattern}) SEMANTICS contiguous",
            f"WHERE {where}" if where else "",
            *(group, window, ties),
        ]
        found.append(runnable(clauses))
    return found


@given(negated_queries(), streams(SCHEMA, events_max=8), st.integers(1, 8))
def test_contiguous_queries_with_negation_equal_the_oracle(
    texts: list[str], events: list[Mapping[str, object]], batch_rows: int
) -> None:
    plans = [TrendPlan.of(query(text, schema=SCHEMA).plan) for text in texts]
    assert len(share([str(n) for n in range(len(texts))], plans).groups) == 1
    check(texts, events, batch_rows)


LONG = [
    "NOT SEQ(C {0}, D {1})",
    "NOT SEQ(C {0}+, D {1})",
    "NOT SEQ(B {0}, C {1}, D {2})",
    "NOT SEQ(C {0}, C {1})",
    "NOT SEQ(A {0}, B {1})",
    "NOT SEQ(C {0}, (D {1} OR B {2}))",
]
"""Negated patterns of several events; the variables are to be named."""
NESTED = ["NOT SEQ(C {0}, NOT B {1}, D {2})", "NOT SEQ(C {0}, NOT (A {1} OR B {2}), D {3})"]
"""Events of one time can end and begin what these look for: shared with TIES arrival only."""


@st.composite
def long_negations(draw: st.DrawFn) -> list[str]:
    """Draw queries in which sequences are negated, at every place of a sequence."""
    where, group = draw(choice(GROUPS))
    ties = draw(choice(["", "TIES arrival"]))
    whole = (where, group) in (("", ""), ("[key]", "GROUP-BY key"))
    free = bool(ties) and whole
    window = draw(choice([one for one in WINDOWS if free or "SLIDE" in one or not one]))
    more = draw(choice(["", ", SUM(A.price), MIN(A.price), COUNT(A)"]))
    pool = ["", "", "NOT C {0}", *LONG, *(NESTED if ties else [])]
    found = []
    for _ in range(draw(st.integers(2, 4))):
        names = iter("abcdefghijklmnopqrstuvw")
        nots = [draw(choice(pool)).format(*(next(names) for _ in range(4))) for _ in range(3)]
        first, last = (
            draw(choice(["A", "A+", "(A OR D)+"])),
            draw(choice(["B", "B+", "SEQ(B, D y)"])),
        )
        pattern = ", ".join(filter(None, [nots[0], first, nots[1], last, nots[2]]))
        clauses = [
            f"RETURN COUNT(*){more} PATTERN SEQ({pattern})",
            f"WHERE {where}" if where else "",
            *(group, window, ties),
        ]
        found.append(runnable(clauses))
    return found


@given(long_negations(), streams(SCHEMA, events_max=9), st.integers(1, 9))
def test_negated_sequences_equal_the_oracle(
    texts: list[str], events: list[Mapping[str, object]], batch_rows: int
) -> None:
    plans = [TrendPlan.of(query(text, schema=SCHEMA).plan) for text in texts]
    shared = share([str(n) for n in range(len(texts))], plans)
    assert len(shared.groups) == 1, shared.alone
    assert not shared.alone
    check(texts, events, batch_rows)


@pytest.mark.parametrize(
    ("clauses", "why"),
    [
        (
            "NOT SEQ(C, NOT E, D), B) WITHIN 4 s SLIDE 4 s",
            "that events of one time advance together",
        ),
        ("NOT SEQ(NOT E, C, D), B) WITHIN 4 s SLIDE 4 s", "looks back to the window's start"),
        ("NOT SEQ(C, D, NOT E), B) WITHIN 4 s SLIDE 4 s", "that ends with NOT"),
        ("NOT SEQ(C, D), NOT SEQ(E, F), B) WITHIN 4 s SLIDE 4 s", "beside another one"),
        ("NOT SEQ(C c, C d), B) WHERE c.x > 1 WITHIN 4 s SLIDE 4 s", "conditions on one type"),
        ("NOT SEQ(C, D), B) SEMANTICS next WITHIN 4 s SLIDE 4 s", "can end what others wait for"),
        ("NOT SEQ(C, D), B) WITHIN 4 s", "without SLIDE and without order"),
    ],
)
def test_negated_sequences_that_run_alone_say_why(clauses: str, why: str) -> None:
    plan = TrendPlan.of(query(f"RETURN COUNT(*) PATTERN SEQ(A, {clauses}").plan)
    assert why in why_alone(plan)
