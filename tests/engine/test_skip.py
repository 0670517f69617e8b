"""AFTER MATCH SKIP chooses what the oracle chooses, whatever the windows and batches (§14)."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.amount import share
from tests.engine.comparison import NUMBER, numbered, readable, same_rows, supported

from cepheid.api import CompiledQuery, query
from cepheid.errors import BindError, DataError
from cepheid.jobs.steps import Steps
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.stepping import steps_of
from cepheid.language.parser import parse
from cepheid.language.tree import Query
from cepheid.plans.plan import Evaluator, TrendPlan
from cepheid.runtimes.local import run_table
from cepheid.testing.harness import stream
from cepheid.testing.oracle import evaluate
from cepheid.testing.oracle_skip import SkipError
from cepheid.testing.query_strategies import (
    LINKED_PATTERNS,
    SKIPS,
    TIME_WINDOWS,
    TRAILING_WINDOWS,
    Case,
    can_skip,
    cases,
    link_rules,
    names_of,
)
from cepheid.testing.strategies import all_streams, choice, streams

pytestmark = pytest.mark.timeout(900)  # kernels compile on first use


@st.composite
def skipping(draw: st.DrawFn) -> Case:
    """Draw a query that chooses matches, with every kind of skip."""
    case = draw(cases(events_max=8))
    lines = [line for line in case.query.splitlines() if not line.startswith("AFTER")]
    pattern = next(line for line in lines if line.startswith("PATTERN"))[8:]
    assume(" AND " not in pattern and can_skip(pattern) and case.events)
    bound = names_of(pattern, case.schema).bound
    targets = [f"AFTER MATCH SKIP TO {end} {v}" for end in ("FIRST", "LAST") for v in bound]
    skip = draw(choice([*SKIPS, *SKIPS, *targets]))
    return case._replace(query="\n".join([*lines, skip]))


def expected_of(parsed: Query, case: Case) -> list[Any] | str:
    """Return the rows of the oracle, or the code of its error."""
    try:
        return evaluate(parsed, case.events)
    except SkipError as refused:
        return str(refused)


def compiled_of(case: Case) -> CompiledQuery:
    """Compile the query of a case; a skip that can never work is refused by the oracle, too."""
    schema = {**case.schema, NUMBER: "bigint"}
    codes, compiled = set(), None
    try:
        compiled = query(case.query, schema=schema)
    except BindError as error:
        codes = {diagnostic.code for diagnostic in error.diagnostics}
    if compiled is None:
        assert codes == {"E345"}
        assert expected_of(parse(case.query), case) in ([], "E345")
    assume(compiled is not None)
    assert compiled is not None
    assume(supported(compiled))
    return compiled


def same(actual: list[Any], expected: list[Any]) -> bool:
    if (actual and "events" in actual[0]) or (expected and "events" in expected[0]):
        return readable(actual) == readable(expected)
    return same_rows(actual, expected)


@given(skipping(), st.integers(1, 8))
def test_random_queries_equal_the_oracle(case: Case, rows: int) -> None:
    compiled = compiled_of(case)
    table = numbered(case.events)
    expected = expected_of(compiled.tree, case)
    if isinstance(expected, str):
        # Partitions go on side by side, so either of two errors may come first.
        apart = "WHERE" in case.query or "GROUP-BY" in case.query
        codes = {"E345", "E346"} if apart else {expected}
        for batch_rows in (rows, 1 << 20):
            with pytest.raises(DataError) as caught:
                run_table(compiled.plan, table, batch_rows=batch_rows)
            assert caught.value.diagnostics[0].code in codes
        return
    for batch_rows in (rows, 1 << 20):
        actual = run_table(compiled.plan, table, batch_rows=batch_rows).to_pylist()
        assert same(actual, expected), f"{actual}\ninstead of\n{expected}"


@given(skipping(), st.integers(1, 4))
def test_restarts_and_forgotten_keys_change_nothing(case: Case, rows: int) -> None:
    compiled = compiled_of(case)
    table, data, found = numbered(case.events), b"", []
    try:
        expected = run_table(compiled.plan, table).to_pylist()
    except DataError:
        return
    times = table["ts"].to_numpy().tolist()
    for offset in range(0, len(table), rows):
        steps: Steps[Any] = steps_of(Job(TrendPlan.of(compiled.plan)), table.schema)
        state = steps.read(data) if data else steps.start()
        state, part = steps.step(state, table.slice(offset, rows))
        found += part.to_pylist()
        following = times[offset + rows : offset + rows + 1]
        if following and following[0] > times[offset + rows - 1]:
            state, part = steps.advance(state, following[0])
            found += part.to_pylist()
            state = steps.forget(state, following[0])
        data = steps.write(state)
    steps = steps_of(Job(TrendPlan.of(compiled.plan)), table.schema)
    state, part = steps.finish(steps.read(data))
    found += part.to_pylist()
    plan = TrendPlan.of(compiled.plan)
    ordered = plan.lists_matches or not plan.window.within
    key = (lambda row: 0) if ordered else _place
    assert same(sorted(found, key=key), sorted(expected, key=key)), f"{found}\n{expected}"


def _place(row: dict[str, Any]) -> str:
    return repr([v for k, v in row.items() if not k.startswith(("count", "log", "sum", "avg"))])


@given(skipping())
def test_lists_and_counts_agree(case: Case) -> None:
    lines = [line for line in case.query.splitlines() if not line.startswith(("RETURN", "HAVING"))]
    lines = [line for line in lines if not line.startswith(("WITHIN", "EMIT", "GROUP"))]
    rest = case._replace(query="\n".join(["RETURN MATCHES", *lines]))
    listed = compiled_of(rest)
    counted = compiled_of(rest._replace(query="\n".join(["RETURN COUNT(*)", *lines])))
    table = numbered(case.events)
    try:
        matches = len(run_table(listed.plan, table))
    except DataError:
        return
    rows = run_table(counted.plan, table).to_pylist()
    assert rows == ([{"count": matches}] if matches else [])


def test_exponentially_many_matches_cost_no_more() -> None:
    """2^50,000 trends, of which 1,000 are chosen."""
    count = 50_000
    kinds = ["b" if n % 50 == 49 else "a" for n in range(count)]
    table = pa.table({"ts": range(count), "type": [kind.upper() for kind in kinds]})
    for text, expected in {
        "RETURN COUNT(*), COUNT(A) PATTERN SEQ(A+, B) AFTER MATCH SKIP PAST LAST": (1000, 49_000),
        "RETURN COUNT(*), COUNT(A) PATTERN SEQ(A+, B) AFTER MATCH SKIP PAST LAST WITHIN 100 us": (
            2,
            98,
        ),
    }.items():
        started = time.process_time()
        rows = query(text).run(table).to_pylist()
        assert (rows[-1]["count"], rows[-1]["count_A"]) == expected
        assert time.process_time() - started < 60


def test_a_skip_to_the_first_event_is_refused_when_it_happens() -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A a?, B b) AFTER MATCH SKIP TO FIRST b"
    with pytest.raises(DataError) as caught:
        query(text).run(pa.table({"ts": [1], "type": ["B"]}))
    assert caught.value.diagnostics[0].code == "E345"


def test_a_skip_to_no_event_is_refused_when_it_happens() -> None:
    text = "RETURN MATCHES PATTERN SEQ(A a, B b?, C c) AFTER MATCH SKIP TO LAST b"
    with pytest.raises(DataError) as caught:
        query(text).run(pa.table({"ts": [1, 2], "type": ["A", "C"]}))
    assert caught.value.diagnostics[0].code == "E346"


def test_the_preferred_match_takes_the_earliest_events() -> None:
    events = stream("a1 a2 b3 a4 b5")
    rows = query("RETURN MATCHES PATTERN SEQ(A+, B) AFTER MATCH SKIP PAST LAST").run(
        numbered(events)
    )
    found = [[event[NUMBER] for event in row["events"]] for row in rows.to_pylist()]
    assert found == [[0, 1, 2], [3, 4]]


@st.composite
def linked(draw: st.DrawFn) -> Case:
    """Draw a query that chooses matches whose links have rules of their own (§3.6)."""
    schema = {"ts": "timestamp", "type": "string", "volume": "int"}
    pattern = draw(LINKED_PATTERNS.filter(can_skip))
    rules = draw(link_rules(pattern))
    window = draw(choice(["", *TIME_WINDOWS, *TRAILING_WINDOWS]))
    what = draw(choice(["RETURN MATCHES", "RETURN COUNT(*)"]))
    ties = draw(choice(["strict", "arrival"]))
    lines = [what, f"PATTERN {pattern}", f"SEMANTICS {rules}", window, f"TIES {ties}"]
    lines.append(draw(choice(SKIPS)))
    events = draw(streams(schema, events_max=8))
    assume(events)
    return Case("\n".join(line for line in lines if line), schema, events)


@given(linked(), st.integers(1, 8))
def test_rules_of_links_come_before_the_choice(case: Case, rows: int) -> None:
    compiled = compiled_of(case)
    table = numbered(case.events)
    expected = expected_of(compiled.tree, case)
    for batch_rows in (rows, 1 << 20):
        actual = run_table(compiled.plan, table, batch_rows=batch_rows).to_pylist()
        assert same(actual, list(expected)), f"{actual}\ninstead of\n{expected}"


# ---------------------------------------------------------------------------------------
# Counts for which no match is built


COUNTED = [
    "A",
    "A+",
    "SEQ(A, B)",
    "SEQ(A+, B)",
    "SEQ(A, B+)",
    "SEQ(A, A x)",
    "SEQ(A, A x, B)",
    "SEQ(A, NOT C, B)",
    "SEQ(A, B?, C)",
    "(SEQ(A, B))+",
    "(A OR SEQ(B, C))",
    "SEQ(ANY z, B)",
    "SEQ(A+ UNTIL (A.ts = 2000000), B)",
    "SEQ(A, B+ WITHOUT C, A x)",
    "SEQ(A, NOT C WITHIN 1 s)",
]


SMALL = [*all_streams("ABC", 3), *list(all_streams("AB", 5))[43::5]]


@share(5)
@pytest.mark.parametrize("rules", ["any", "next", "contiguous"])
@pytest.mark.parametrize("skip", SKIPS)
@pytest.mark.parametrize("pattern", COUNTED)
def test_small_streams_are_counted_as_the_oracle_does(pattern: str, skip: str, rules: str) -> None:
    """All streams are partitions of one, so that the engine runs once."""
    streams_ = [[{**e, "key": n} for e in events] for n, events in enumerate(SMALL)]
    whole = sorted((e for events in streams_ for e in events), key=lambda e: int(str(e["ts"])))
    for window in ("", "WITHIN 2 s SLIDE 2 s", "WITHIN 3 s SLIDE 1 s"):
        for ties in ("strict", "arrival"):
            text = f"RETURN key, COUNT(*) PATTERN {pattern} SEMANTICS {rules} {window} TIES {ties}"
            compiled = query(f"{text} GROUP-BY key {skip}")
            expected = [row for events in streams_ for row in evaluate(compiled.tree, events)]
            actual = run_table(compiled.plan, numbered(whole), batch_rows=99).to_pylist()
            assert sorted(map(repr, actual)) == sorted(map(repr, expected)), text


@given(skipping(), st.sampled_from(["", *TIME_WINDOWS]), st.sampled_from(SKIPS), st.integers(1, 8))
def test_counts_without_matches_equal_counts_of_matches(
    case: Case, window: str, skip: str, rows: int
) -> None:
    kept = ("PATTERN", "SEMANTICS", "TIES", "MIN", "GROUP")
    lines = [line for line in case.query.splitlines() if line.startswith(kept)]
    text = "\n".join(["RETURN COUNT(*)", *lines, window, skip])
    compiled = compiled_of(case._replace(query=text))
    # TO NEXT counts without matches in fewer cases.
    assume(TrendPlan.of(compiled.plan).choice.evaluator is Evaluator.LINEAR)
    table = numbered(case.events)
    built = run_table(compiled.with_evaluator("enumerate").plan, table).to_pylist()
    assert same_rows(run_table(compiled.plan, table, batch_rows=rows).to_pylist(), built)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SUM(b.x) PATTERN SEQ(A a, B b)", "aggregates of their events are asked for"),
        ("COUNT(*) PATTERN SEQ(A a, B b) WITHIN 5 s", "a window without SLIDE"),
        ("COUNT(*) PATTERN SEQ(A a, B b) WHERE a.x < b.x", "a condition compares their events"),
        ("COUNT(*) PATTERN SEQ(A a, B b) WITHIN 9 EVENTS SLIDE 1 EVENT", "windows of events"),
        ("COUNT(*) PATTERN SEQ(A a, B b) WITHIN 1 h SLIDE 1 s", "more than 62 windows"),
    ],
)
def test_explain_says_why_matches_are_built(text: str, reason: str) -> None:
    assert reason in query(f"RETURN {text} AFTER MATCH SKIP PAST LAST").explain()


def test_a_million_open_starts_are_a_few_numbers() -> None:
    """TO NEXT counts events that begin matches by what they wait for, not one by one."""
    count = 1_000_000
    kinds = pa.array(["A", "B", "C"])
    codes = pa.array(([0] * (count - 2)) + [1, 2], pa.int8())
    events: dict[str, Any] = {
        "ts": range(count),
        "type": pa.DictionaryArray.from_arrays(codes, kinds),
    }
    text = "RETURN COUNT(*) PATTERN SEQ(A, B, C) AFTER MATCH SKIP TO NEXT"
    started = time.process_time()
    assert query(text).run(pa.table(events)).to_pylist() == [{"count": count - 2}]
    assert time.process_time() - started < 60
