"""Queries of a workload give what each gives alone, and what the oracle gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.engine.comparison import same_rows, table_of, with_double_counts
from tests.engine.test_linear import SCHEMA, linear_queries, runnable

from cepheid.api import query
from cepheid.errors import DataError
from cepheid.kinds.workload.explain import explain_shared
from cepheid.kinds.workload.live_rules import RunningRules
from cepheid.kinds.workload.live_snapshot import rules_from_bytes, rules_to_bytes
from cepheid.kinds.workload.sharing import share
from cepheid.kinds.workload.snapshot import workload_from_bytes, workload_to_bytes
from cepheid.kinds.workload.step import (
    Found,
    WorkloadJob,
    WorkloadState,
    build_tables,
    finish_workload,
    step_workload,
)
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.live_rules import LiveRules
from cepheid.testing.harness import stream
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import choice, patterns, streams
from cepheid.workloads import workload

pytestmark = pytest.mark.timeout(1800)  # kernels compile on first use

WINDOWS = ["", "WITHIN 2 s SLIDE 2 s", "WITHIN 4 s SLIDE 1 s", "WITHIN 3 s SLIDE 2 s", "WITHIN 2 s"]
TRAILING = ["WITHIN 1 s", "WITHIN 2 s", "WITHIN 3 s", "WITHIN 5 s"]
EXPIRING = [f"{window} EMIT ON EXPIRY" for window in TRAILING]
GROUPS = [("", ""), ("[key]", ""), ("[key]", "GROUP-BY key"), ("[zone, key]", "GROUP-BY zone")]


def run_in_batches(
    texts: list[str], events: list[Mapping[str, object]], batch_rows: int, restarts: int = 0
) -> list[list[dict[str, object]]]:
    """Run queries as a workload over a stream that is cut into batches."""
    plans = [TrendPlan.of(query(text, schema=SCHEMA).plan) for text in texts]
    job = WorkloadJob(share([f"q{n}" for n in range(len(texts))], plans))
    state = WorkloadState(job)
    found = Found.nothing(job)
    table = table_of(events)
    for offset in range(0, len(table), batch_rows):
        state, rows = step_workload(job, state, table.slice(offset, batch_rows))
        found.add(rows)
        number = offset // batch_rows
        if number == 2 or (restarts and number % restarts == 0):
            # A restart in another process: the job knows nothing, the state comes from bytes.
            data = workload_to_bytes(job, state)
            job = WorkloadJob(job.shared)
            state = workload_from_bytes(job, data)
    found.add(finish_workload(job, state))
    tables = build_tables(job, state, found, table.schema)
    return [tables[n].to_pylist() for n in range(len(texts))]


def check(
    texts: list[str], events: list[Mapping[str, object]], batch_rows: int, restarts: int = 0
) -> None:
    """Compare a workload and the oracle; with ``restarts``, after so many batches each."""
    found = run_in_batches(texts, events, batch_rows, restarts)
    for text, actual in zip(texts, found, strict=True):
        expected = evaluate(query(text, schema=SCHEMA).tree, events)
        assert same_rows(actual, expected), f"{text}: {actual} instead of {expected}"


@pytest.mark.parametrize("options", [{"time_unit": "ns"}, {"tiebreak": ["price"]}, {"time": "at"}])
def test_a_state_under_another_unit_tie_breaker_or_time_is_refused(options: Any) -> None:
    text = "RETURN COUNT(*) PATTERN A+ WITHIN 4 s SLIDE 2 s"
    schema = table_of(stream("a1(key='k', price=1)")).schema
    schema = schema.set(schema.get_field_index("ts"), pa.field("ts", pa.int64()))
    schema = schema.append(pa.field("at", pa.int64()))
    known: list[dict[str, Any]] = [{}, options]
    plans = [query(text, **more).with_schema(schema).plan for more in known]
    jobs = [WorkloadJob(share(["q"], [TrendPlan.of(plan)])) for plan in plans]
    data = workload_to_bytes(jobs[0], WorkloadState(jobs[0]))
    with pytest.raises(DataError, match=r"E524.*another workload"):
        workload_from_bytes(jobs[1], data)


@st.composite
def related_queries(
    draw: st.DrawFn, windows: Sequence[str] = WINDOWS, *, exact: bool = True
) -> list[str]:
    """Draw queries that have much in common: parts of patterns, clauses, aggregates."""
    # Few parts, so that prefixes and other parts of patterns are the same.
    pool = draw(st.lists(patterns(leaves_max=2), min_size=2, max_size=3))
    pool += ["A", "B", "NOT C", "NOT SEQ(C, B)", "A x+"]
    parts = st.lists(st.sampled_from(pool), max_size=2)
    semantics = draw(choice(["any", "any", "next", "contiguous"]))
    where, group = draw(choice(GROUPS))
    window = draw(choice(windows))
    ties = draw(choice(["", "TIES arrival"]))
    more = draw(choice(["", "", ", {}(A.price), COUNT(A)"]))
    numbers = draw(choice(["", "", "", "NUMBERS exact" if exact else ""]))
    if numbers:
        more = more.replace("price", "volume")  # Sums of doubles are not exact (E321).
    found = []
    for _ in range(draw(st.integers(2, 4))):
        local = draw(choice(["", "", "A.price > 1", "A.volume <> 2"]))
        conditions = " AND ".join(part for part in (where, local) if part)
        function = draw(choice(["SUM", "AVG", "MIN", "MAX"]))
        clauses = [
            f"RETURN COUNT(*){more.format(function)}",
            f"PATTERN SEQ({', '.join([*draw(parts), 'A', *draw(parts)])})",
            f"SEMANTICS {semantics}",
            f"WHERE {conditions}" if conditions else "",
            *(group, window, ties, numbers),
        ]
        found.append(runnable(clauses))
    return found


@given(related_queries(), streams(SCHEMA, events_max=7), st.integers(1, 8))
def test_related_queries_equal_the_oracle(
    texts: list[str], events: list[Mapping[str, object]], batch_rows: int
) -> None:
    check(texts, events, batch_rows)


@given(
    related_queries(["WITHIN 4 s SLIDE 1 s", "WITHIN 3 s SLIDE 2 s", "WITHIN 6 s SLIDE 2 s"]),
    streams(SCHEMA, events_max=9),
    st.integers(1, 3),
    st.integers(1, 2),
)
def test_panes_go_on_after_every_restart(
    texts: list[str], events: list[Mapping[str, object]], batch_rows: int, restarts: int
) -> None:
    check(texts, events, batch_rows, restarts)


@given(related_queries([*TRAILING, *EXPIRING]), streams(SCHEMA, events_max=9), st.integers(1, 10))
def test_related_queries_over_trailing_windows_equal_the_oracle(
    texts: list[str], events: list[Mapping[str, object]], batch_rows: int
) -> None:
    check(texts, events, batch_rows)


@given(
    st.lists(linear_queries(), min_size=2, max_size=3),
    streams(SCHEMA, events_max=6),
    st.integers(1, 7),
)
def test_random_queries_equal_the_oracle(
    texts: list[str], events: list[Mapping[str, object]], batch_rows: int
) -> None:
    check(texts, events, batch_rows)


@pytest.mark.parametrize("window", ["", "WITHIN 50 s SLIDE 50 s"])
def test_exact_numbers_are_shared_beyond_the_range_of_doubles(window: str) -> None:
    """Counts of 2^60 and sums of them, and whole numbers that doubles would round."""
    big = 2**53 + 1
    events: list[Mapping[str, object]] = [
        {"ts": n * 1_000_000, "type": "AAB"[n % 3], "key": "k", "zone": "z", "price": 1.0,
         "volume": big if n < 6 else n}
        for n in range(90)
    ]  # fmt: skip
    kinds: dict[str, pa.DataType] = {"ts": pa.int64(), "type": pa.string(), "key": pa.string()}
    kinds |= {"zone": pa.string(), "price": pa.float64(), "volume": pa.int64()}
    table = pa.Table.from_pylist([dict(event) for event in events], pa.schema(kinds))
    texts = {
        name: f"RETURN COUNT(*), SUM(A.volume), MAX(A.volume) PATTERN {pattern} "
        f"WHERE [key] GROUP-BY key {window} NUMBERS exact"
        for name, pattern in (("p", "SEQ(A+, B)"), ("q", "SEQ(A+, B, A x)"), ("r", "SEQ(B, A+)"))
    }
    rules = workload(texts)
    assert len(rules.shared(table.schema).groups) == 1
    assert "exact numbers" in rules.explain(schema=table.schema)
    found = rules.run(table, separate=True)
    for name, text in texts.items():
        expected = query(text).run(table)
        assert found[name].schema.field("count").type == pa.decimal128(38, 0)
        assert found[name].to_pylist() == expected.to_pylist()
        assert len(expected)


TWINS = [
    f"RETURN COUNT(*), SUM(A.price) AS {name} PATTERN A+ WHERE [key] AND A.price > NEXT(A).price "
    f"GROUP-BY key {{window}} HAVING COUNT(*) > {least}"
    for name, least in (("s", 0), ("t", 1), ("u", 3))
]


@pytest.mark.parametrize("window", WINDOWS)
def test_queries_that_differ_in_return_and_having_run_once(window: str) -> None:
    texts = [text.format(window=window) for text in TWINS]
    prices = [5, 4, 6, 3, 3, 2, 5, 1]
    keys = "kkkjkkjk"
    text_of_events = " ".join(
        f"a{n}(key='{k}', price={p}.0, volume=1, zone='z')"
        for n, (k, p) in enumerate(zip(keys, prices, strict=True))
    )
    events: list[Mapping[str, object]] = [*stream(text_of_events)]
    plans = [TrendPlan.of(query(text, schema=SCHEMA).plan) for text in texts]
    shared = share(["p", "q", "r"], plans)
    assert shared.twins == {1: 0, 2: 0}
    assert len(WorkloadState(WorkloadJob(shared)).alone) == 1
    for batch_rows in (1, 3, 8):
        check(texts, events, batch_rows)
    # The first one goes; the state is that of the others then.
    live = workload(dict(zip("pqr", texts, strict=True))).live(table_of(events).schema)
    found: dict[str, list[dict[str, object]]] = {}
    rows_of(live, table_of(events).slice(0, 4), found)
    live.remove("p")
    rows_of(live, table_of(events).slice(4), found)
    for row in live.close().to_pylist():
        found.setdefault(row.pop("query"), []).append(row)
    for name, text in zip("qr", texts[1:], strict=True):
        expected = evaluate(query(text, schema=SCHEMA).tree, events)
        assert [row["count"] for row in found.get(name, [])] == [row["count"] for row in expected]


ALONE = {
    "exact numbers": "PATTERN A+ WHERE [key] GROUP-BY key WITHIN 4 s SLIDE 2 s NUMBERS exact",
    "exact numbers, trailing": "PATTERN A+ WHERE [key] GROUP-BY key WITHIN 4 s NUMBERS exact",
    "contiguous, trailing": "PATTERN A+ WHERE [key] SEMANTICS contiguous GROUP-BY key WITHIN 4 s",
    "on expiry": "PATTERN SEQ(NOT C, A+, B) WHERE [key] TIES arrival GROUP-BY key WITHIN 3 s "
    "EMIT ON EXPIRY",
    "several partitions": "PATTERN SEQ(NOT C, A+, B) WHERE [key] TIES arrival WITHIN 4 s",
    "counted": "PATTERN SEQ(A+, B) WHERE [key] GROUP-BY key WITHIN 4 EVENTS SLIDE 2 EVENTS",
    "a sequence negated": "PATTERN SEQ(A+, NOT SEQ(B, C), B b) WHERE [key] SEMANTICS next "
    "GROUP-BY key WITHIN 6 s SLIDE 3 s",
    "a sequence negated, trailing": "PATTERN SEQ(A+, NOT SEQ(B, C), B b) WHERE [key] GROUP-BY key "
    "WITHIN 6 s",
    "contiguous, a sequence negated": "PATTERN SEQ(A+, B b, NOT SEQ(C, B)) SEMANTICS contiguous "
    "WITHIN 6 s SLIDE 3 s",
    "and": "PATTERN A+ AND B WHERE [key] GROUP-BY key WITHIN 6 s SLIDE 3 s",
    "chosen": "PATTERN SEQ(A, B) WHERE [key] AFTER MATCH SKIP PAST LAST GROUP-BY key "
    "WITHIN 6 s SLIDE 6 s",
}
"""Queries that are not merged with others."""


@pytest.mark.parametrize("kind", ALONE)
def test_queries_that_run_alone_and_differ_in_having_run_once(kind: str) -> None:
    """So do rules whose limit is a parameter of HAVING; one may go, and the rest go on."""
    text = f"RETURN COUNT(*) AS {{name}} {ALONE[kind]} HAVING COUNT(*) > {{least}}"
    numbers = text.rpartition("NUMBERS exact")
    if numbers[1]:
        text = f"{numbers[0]}{numbers[2]} NUMBERS exact"
    texts = [text.format(name=name, least=n) for n, name in ((1, "n"), (2, "m"), (0, "n"))]
    types, keys = "aabacbabbcab" * 2, "kjkkjkjkkjkk" * 2
    events: list[Mapping[str, object]] = [
        *stream(
            " ".join(
                f"{t}{n}(key='{k}', price={n}.0, volume=1, zone='z')"
                for n, (t, k) in enumerate(zip(types, keys, strict=True))
            )
        )
    ]
    plans = [TrendPlan.of(query(one, schema=SCHEMA).plan) for one in texts]
    shared = share(["p", "q", "r"], plans)
    assert shared.twins == {1: 0, 2: 0}
    assert len(WorkloadState(WorkloadJob(shared)).alone) == 1
    assert "once for all, they differ in RETURN and HAVING: p, q, r" in explain_shared(shared)
    for batch_rows in (1, 5, 30):
        check(texts, events, batch_rows)
    assert evaluate(query(texts[2], schema=SCHEMA).tree, events)
    if kind == "counted":
        return  # The last windows leave at the end, whatever is removed.
    table = table_of(events)
    rules = RunningRules(table.schema)
    rules.add(shared)
    found = rules.feed(table.slice(0, 9))["r"].to_pylist()
    for gone, begin in (("p", 9), ("q", 15)):
        rules.remove(gone)
        found += rules.feed(table.slice(begin, 3))["r"].to_pylist()
        rules = rules_from_bytes(rules_to_bytes(rules), table.schema)
        found += rules.feed(table.slice(begin + 3, 3))["r"].to_pylist()
    found += rules.feed(table.slice(21))["r"].to_pylist() + rules.finish()["r"].to_pylist()
    expected = evaluate(query(texts[2], schema=SCHEMA).tree, events)
    assert [row["n"] for row in found] == [row["n"] for row in expected]


def rows_of(live: LiveRules, batch: pa.Table, found: dict[str, list[dict[str, object]]]) -> None:
    """Add the rows that a batch completes."""
    for row in live.feed(batch).to_pylist():
        found.setdefault(row.pop("query"), []).append(row)


@settings(max_examples=max(settings().max_examples // 4, 10))  # each plans a dozen workloads
@given(
    related_queries(exact=False),  # Counts of two kinds do not fit into one column (E531).
    related_queries(exact=False),
    streams(SCHEMA, events_max=7),
    st.integers(0, 7),
    st.integers(0, 7),
)
def test_rules_that_come_and_go_leave_the_others_alone(
    texts: list[str],
    more: list[str],
    events: list[Mapping[str, object]],
    comes: int,
    goes: int,
) -> None:
    # A rule sees the events from its coming on; one that goes changes nothing for the others.
    assume(events)
    table = table_of(events)
    first = {f"first{n}": text for n, text in enumerate(texts)}
    second = {f"second{n}": text for n, text in enumerate(more)}
    live = workload(first).live(table.schema)
    found: dict[str, list[dict[str, object]]] = {}
    for at in range(len(table)):
        if at == comes:
            live.add(workload(second))
        if at == goes:
            live.remove("first0")
        rows_of(live, table.slice(at, 1), found)
    for row in live.close().to_pylist():
        found.setdefault(row.pop("query"), []).append(row)
    for name, text in (first | second).items():
        seen = events if name in first else events[comes:]
        if name == "first0" and goes < len(events):
            continue
        expected = evaluate(query(text, schema=SCHEMA).tree, seen) if seen else []
        actual = [
            {column: row[column] for column in wanted}
            for row, wanted in zip(found.get(name, []), expected, strict=False)
        ]
        assert len(found.get(name, [])) == len(expected), text
        # Rules that come and go may have counts of another kind.
        actual, expected = with_double_counts(actual), with_double_counts(expected)
        assert same_rows(actual, expected), f"{text}: {actual} instead of {expected}"


def test_rules_whose_rows_do_not_fit_are_refused_alone() -> None:
    events = pa.table({"ts": [1, 2, 11], "type": ["A", "A", "A"]})
    counts = "RETURN COUNT(*) PATTERN A WITHIN 10 us SLIDE 10 us"
    live = workload({"a": counts}).live(events.schema)
    live.feed(events.slice(0, 1))
    exact = workload({"b": f"{counts} NUMBERS exact", "c": counts})
    with pytest.raises(DataError, match="E531"):
        live.add(exact)
    assert live.names == ["a"]
    assert [row["count"] for row in live.feed(events.slice(1)).to_pylist()] == [2.0]
    with pytest.raises(DataError, match="E531"):
        workload({"a": counts, "b": f"{counts} NUMBERS exact"}).live(events.schema)
