"""Queries that list matches give the oracle's matches, whatever their windows and batches."""

from __future__ import annotations

import itertools
import os
import time
import tracemalloc
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.comparison import NUMBER, numbered, readable, same_rows, supported, table_of

from cepheid.api import CompiledQuery, query
from cepheid.errors import DataError
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.windows.list_step import finish_matches, step_matches
from cepheid.kinds.trend.windows.snapshot import state_from_bytes, state_to_bytes
from cepheid.kinds.trend.windows.step import PartitionState
from cepheid.memory_limits import limits
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.local import run_table
from cepheid.testing.harness import stream
from cepheid.testing.oracle import evaluate
from cepheid.testing.query_strategies import Case, cases

pytestmark = pytest.mark.timeout(900)  # kernels compile on first use


def listing(case: Case) -> CompiledQuery:
    """Return the query of a case if it lists matches and can run."""
    assume("RETURN MATCHES" in case.query and case.events)
    compiled = query(case.query, schema={**case.schema, NUMBER: "bigint"})
    assume(supported(compiled))
    return compiled


@given(cases(), st.integers(1, 8))
def test_random_queries_equal_the_oracle(case: Case, rows: int) -> None:
    compiled = listing(case)
    table = numbered(case.events)
    plan = compiled.plan
    whole = run_table(plan, table)
    assert readable(whole.to_pylist()) == readable(evaluate(compiled.tree, case.events))
    # As text, in which NaN equals itself: same rows, same order.
    assert repr(run_table(plan, table, batch_rows=rows).to_pylist()) == repr(whole.to_pylist())


@given(cases(), st.integers(1, 4))
def test_restarting_after_every_batch_changes_nothing(case: Case, rows: int) -> None:
    compiled = listing(case)
    table, data, found = numbered(case.events), b"", []
    plan = compiled.plan
    for offset in range(0, len(table), rows):
        job = Job(TrendPlan.of(plan))
        state = state_from_bytes(job, data) if data else PartitionState(job)
        state, tables = step_matches(job, state, table.slice(offset, rows))
        found += [row for part in tables for row in part.to_pylist()]
        data = state_to_bytes(job, state)
    if data:
        job = Job(TrendPlan.of(plan))
        state, tables = finish_matches(job, state_from_bytes(job, data))
        found += [row for part in tables for row in part.to_pylist()]
    assert repr(found) == repr(run_table(plan, table).to_pylist())


GLOBALS = [
    "B.x < FIRST(A).x",
    "AVG(A.x) >= 2",
    "COUNT(A) = 2",
    "SUM(A.x) < LAST(A).x * 2",
    "MAX(A.x) > MIN(B.x) AND A.x <> B.x + FIRST(B).x",
]
WINDOWS = ["", "WITHIN 4 s SLIDE 2 s", "WITHIN 4 s", "WITHIN 4 s EMIT ON EXPIRY"]
WINDOWS += ["WITHIN 4 EVENTS SLIDE 2 EVENTS", "WITHIN 4 s SLIDE 4 s"]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("condition", GLOBALS)
def test_aggregates_with_conditions_on_whole_matches(window: str, condition: str) -> None:
    values = [3, 1, 2, 2, 1, 3, 2, 1, 4, 2, 1]
    words = [
        f"{'aab'[i % 3]}{i // 2 + i}(x={x}, key='{'pq'[i % 2]}')" for i, x in enumerate(values)
    ]
    events = stream(" ".join(words))
    for pattern in ("SEQ(A+, B)", "SEQ(A+, NOT C, B+)", "SEQ(NOT B, A+, B+)"):
        for keys in ("[key]", "[A.key]") if "EVENTS" not in window else ("[key]",):
            text = (
                "RETURN COUNT(*), COUNT(A), SUM(A.x), AVG(B.x), MIN(A.x), MAX(B.x), LOG2(COUNT(*)) "
                f"PATTERN {pattern} WHERE {keys} AND {condition} {window}"
            )
            compiled = query(text)
            assert compiled.plan.choice.evaluator.value == "enumerate"
            expected = evaluate(compiled.tree, events)
            for rows in (3, 1 << 20):
                actual = run_table(compiled.plan, table_of(events), batch_rows=rows).to_pylist()
                assert same_rows(actual, expected), f"{text}\n{actual}\ninstead of\n{expected}"


@given(cases())
def test_as_many_rows_as_matches_are_counted(case: Case) -> None:
    kept = ("PATTERN", "SEMANTICS", "WHERE", "GROUP-BY", "TIES", "MIN")
    text = "\n".join(line for line in case.query.splitlines() if line.startswith(kept))
    assume(case.events and " AND " not in text.partition("WHERE")[0])
    counted = query(f"RETURN COUNT(*) {text}", schema=case.schema)
    listed = query(f"RETURN MATCHES {text}", schema=case.schema)
    assume(supported(counted))
    table = table_of(case.events)
    counts = run_table(counted.plan, table).to_pylist()
    assert len(run_table(listed.plan, table)) == sum(row["count"] for row in counts)


PATTERNS = [
    "A+",
    "SEQ(A+, B)",
    "(SEQ(A, B?))+",
    "SEQ(A, NOT B, A+)",
    "SEQ(NOT B, A)",
    "SEQ(A, NOT B)",
]
PATTERNS += ["SEQ(A+, NOT SEQ(B, NOT A), B)", "A{2,3}", "SEQ(A x, B, A y) OR SEQ(A x, A y)"]


@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_all_small_streams(pattern: str, semantics: str) -> None:
    # Every stream of up to five events is the stream of a key of its own, in one run.
    streams = [s for n in range(1, 6) for s in itertools.product("AB", repeat=n)]
    rows = [
        {"ts": time, "type": letter, "key": number}
        for time in range(5)
        for number, letters in enumerate(streams)
        for letter in letters[time : time + 1]
    ]
    table = pa.Table.from_pylist(rows)
    text = f"PATTERN {pattern} SEMANTICS {semantics} GROUP-BY key"
    counts = {
        row["key"]: row["count"] for row in query(f"RETURN COUNT(*) {text}").run(table).to_pylist()
    }
    listed = query(f"RETURN MATCHES {text}").run(table)
    assert Counter(listed["key"].to_pylist()) == counts
    distinct = {repr(row["events"]) + str(row["key"]) for row in listed.to_pylist()}
    assert len(distinct) == len(listed)


def test_limit_stops_early() -> None:
    table = pa.table({"ts": range(60), "type": ["A"] * 60})
    for rows in (7, 100):
        plan = query("RETURN MATCHES PATTERN A+ LIMIT 200000", schema=table.schema).plan
        listed = run_table(plan, table, batch_rows=rows)
        assert listed["match_id"].to_pylist() == list(range(1, 200001))
    assert len(query("PATTERN A+ WHERE COUNT(A) > 3 LIMIT 5").run(table)) == 5


@pytest.mark.skipif(
    os.environ.get("CEPHEID_KERNELS") == "interpret", reason="this is about compiled kernels"
)
def test_the_first_of_very_many_matches_comes_at_once_and_memory_stays_flat() -> None:
    count = 4000
    table = pa.table({"ts": range(count), "type": ["A", "B"] * (count // 2), "x": range(count)})
    # 2000 choose 4, about 10^12, for the first query; 2^2000 for the second.
    for pattern in ("SEQ(A a, A b, A c, A d)", "SEQ(A+, B)"):
        compiled = query(f"RETURN MATCHES PATTERN {pattern}")
        compiled.matches(table.slice(0, 10)).read_next_batch()  # compiles the kernels
        begin = time.perf_counter()
        reader = compiled.matches(table)
        first = reader.read_next_batch()
        assert time.perf_counter() - begin < 1
        assert len(first) > 0
        tracemalloc.start()
        for _ in range(30):
            reader.read_next_batch()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 64 << 20


def test_readers_frames_and_wrong_inputs() -> None:
    table = pa.table({"ts": [1, 2, 3], "type": ["A", "A", "B"]})
    listed = query("PATTERN SEQ(A, B)")
    expected = listed.run(table).to_pylist()
    assert [len(row["events"]) for row in expected] == [2, 2]
    assert listed.matches(table).read_all().to_pylist() == expected
    assert listed.matches(table.to_reader(1)).read_all().to_pylist() == expected
    assert listed.matches(table.to_pandas()).read_all().to_pylist() == expected
    assert listed.run(table.slice(0, 0)).num_rows == 0
    with pytest.raises(ValueError, match="lists no matches"):
        query("RETURN COUNT(*) PATTERN A").matches(table)
    with pytest.raises(TypeError, match="E592"):
        listed.matches([1])


def test_columns_of_matches() -> None:
    table = pa.table({"ts": [1, 2], "variable": ["x", None], "id": [7, 7], "type": ["A", "B"]})
    (row,) = (
        query("PATTERN SEQ(A, B?) WHERE COUNT(B) = 1 GROUP-BY id WITHIN 5 us")
        .run(table)
        .to_pylist()
    )
    assert row == {
        "match_id": 1,
        "id": 7,
        "window_start": -3,
        "window_end": 2,
        "events": [
            {"variable": "A", "ts": 1, "event_variable": "x", "id": 7, "type": "A"},
            {"variable": "B", "ts": 2, "event_variable": None, "id": 7, "type": "B"},
        ],
    }


def test_aggregates_of_too_many_matches_say_so() -> None:
    table = pa.table({"ts": range(20), "type": ["A"] * 20})
    text = "RETURN COUNT(*) PATTERN A+ WHERE COUNT(A) > 3"
    assert query(text).run(table.slice(0, 9)).to_pylist() == [{"count": 382.0}]
    none = query("RETURN MATCHES PATTERN A+ WHERE COUNT(A) > 99")
    for asked in (query(text), none):
        with limits(rows=1000), pytest.raises(DataError, match=r"error\[E512\]"):
            asked.run(table)


def test_exact_numbers_groups_and_having_over_built_matches() -> None:
    words = [f"a{i}(x={i * 7 % 5}, key='{'pq'[i % 2]}')" for i in range(1, 12)]
    events = stream(" ".join(words))
    for rest in ("GROUP-BY key", "GROUP-BY key HAVING COUNT(*) > 12", "NUMBERS exact"):
        text = f"RETURN COUNT(*), SUM(A.x) PATTERN A+ WHERE FIRST(A).x < LAST(A).x {rest}"
        compiled = query(text)
        actual = run_table(compiled.plan, table_of(events), batch_rows=4).to_pylist()
        assert same_rows(actual, evaluate(compiled.tree, events))


@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
def test_predicates_that_do_not_separate_in_little_room(
    semantics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Blocks of few rows that give way to each other all the time.
    monkeypatch.setattr("cepheid.kinds.trend.listing.mask_blocks.MASK_CELLS", 2100)
    monkeypatch.setattr("cepheid.kinds.trend.listing.mask_blocks.ROOM_CELLS", 30)
    words = [f"a{i}(x={i * 7 % 5})" for i in range(1, 13)]
    events = stream(" ".join(words))
    for window in ("", "WITHIN 6 s", "WITHIN 6 s SLIDE 2 s"):
        text = f"PATTERN A+ SEMANTICS {semantics} WHERE A.x * NEXT(A).x < 8 {window}"
        compiled = query(text)
        actual = run_table(compiled.plan, numbered(events)).to_pylist()
        assert readable(actual) == readable(evaluate(compiled.tree, events))
