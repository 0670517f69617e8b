"""GREEDY and RELUCTANT loops (§2.15): the oracle's rows, and laws."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.comparison import numbered, readable, same_rows, supported, table_of
from tests.engine.test_deadlines import orders

from cepheid.api import query
from cepheid.jobs.local_jobs import slices_of
from cepheid.runtimes.local import run_batches, run_table
from cepheid.testing.oracle import evaluate
from cepheid.testing.query_strategies import queries
from cepheid.testing.strategies import all_streams, patterns, streams

SCHEMA = {"price": "double", "key": "string"}
SHAPES = [
    "SEQ({p}, B b{n} {g}, {q})",
    "SEQ(B b{n} {g}, {q})",
    "SEQ({p}, A a{n} {g}, {q}, NOT C)",
    "(SEQ({p}, B b{n} {g}, {q}))+",
    "SEQ({p}, B b{n} {g}, ({q})?, C c)",
    "SEQ({p}, NOT C, A a{n} {g}, B b{m} {h}, {q})",
    "SEQ({p}, ANY z{n} {g}, NOT C, B b)",
    "SEQ({p}, SEQ(A a, B b{n} {g}), {q})",
]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw a query with a loop that has greed."""
    small = patterns(types=("A", "C"), negation=False, leaves_max=2)
    words, loops = st.sampled_from(["GREEDY", "RELUCTANT"]), st.sampled_from(["+", "*", "{{2,}}"])
    shape = draw(st.sampled_from(SHAPES))
    parts = {"p": draw(small), "q": draw(small).replace("ANY z", "A x")}
    parts["p"] = parts["p"].replace("ANY z", "ANY y")
    marks = {"n": draw(loops), "m": draw(loops), "g": draw(words), "h": draw(words)}
    marks = {name: mark.replace("{{", "{").replace("}}", "}") for name, mark in marks.items()}
    return draw(queries(SCHEMA, pattern=st.just(shape.format(**parts, **marks))))


@given(texts(), streams(SCHEMA, events_max=7), st.integers(1, 8))
def test_random_queries_equal_the_oracle(
    text: str, drawn: list[dict[str, object]], batch_rows: int
) -> None:
    assume(drawn)
    table = numbered(drawn)
    compiled = query(text).with_schema(table.schema)
    assume(supported(compiled))
    expected = evaluate(compiled.tree, drawn)
    whole = run_table(compiled.plan, table, batch_rows=batch_rows)
    parts = run_batches(compiled.plan, slices_of(table, batch_rows), table.schema)
    for actual in (whole.to_pylist(), parts.to_pylist()):
        if compiled.plan.lists_matches:
            assert readable(actual) == readable(expected)
        else:
            assert same_rows(actual, expected)


@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A x, B+ GREEDY, A)",
        "SEQ(A x, B* GREEDY, A)",
        "SEQ(A x, B{2,} RELUCTANT, A)",
        "SEQ(A x, B* RELUCTANT, ANY z)",
        "SEQ(ANY y, A+ GREEDY, ANY z)",
    ],
)
@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
def test_all_small_streams_equal_the_oracle(pattern: str, semantics: str) -> None:
    events: list[Mapping[str, object]] = [
        dict(event) | {"key": f"{number:05}"}
        for number, events in enumerate(all_streams(("A", "B"), 4))
        for event in events
    ]
    events.sort(key=lambda event: int(str(event["ts"])))
    for ties in ("strict", "arrival"):
        text = f"RETURN COUNT(*) PATTERN {pattern} SEMANTICS {semantics} GROUP-BY key TIES {ties}"
        compiled = query(text)
        actual = compiled.run(table_of(events)).to_pylist()
        assert same_rows(actual, evaluate(compiled.tree, events)), ties


def test_greedy_is_a_not_where_types_differ() -> None:
    events = orders(list(range(20)), "AABABBAAABCBABBCAABC")
    greedy = query("RETURN COUNT(*) PATTERN SEQ(A, B+ GREEDY, C)").run(events)
    written = query("RETURN COUNT(*) PATTERN SEQ(A, B+, NOT B, C)").run(events)
    assert greedy.to_pylist() == written.to_pylist()
    plain = query("RETURN COUNT(*) PATTERN SEQ(A, B+, C)").run(events)
    assert greedy["count"][0].as_py() < plain["count"][0].as_py()


def test_reluctant_is_a_not_between_rounds_where_types_differ() -> None:
    events = orders(list(range(20)), "AABABBAAABCBABBCAABC")
    reluctant = query("RETURN COUNT(*) PATTERN SEQ(A, B+ RELUCTANT, C)").run(events)
    written = query("RETURN COUNT(*) PATTERN SEQ(A, B+ WITHOUT C x, NOT C x, C)").run(events)
    assert reluctant.to_pylist() == written.to_pylist()
