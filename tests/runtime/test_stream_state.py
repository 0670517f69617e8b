"""Batch equals stream, without Spark: buckets take turns as micro-batches and watermarks come."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.amount import EVERYTHING
from tests.engine.comparison import supported, table_of
from tests.engine.test_linear import SCHEMA, linear_queries
from tests.runtime.cases import Case, golden_cases, listed_cases, same

from cepheid.api import CompiledQuery, query
from cepheid.arrays.columns import Columns, KeyTable, read_times
from cepheid.errors import BindError, DataError, QuerySyntaxError, UnsupportedError
from cepheid.jobs import spill
from cepheid.jobs.kind import needs_of, task_kind
from cepheid.jobs.microbatch import live_job, turn
from cepheid.jobs.ordering import ordered
from cepheid.jobs.panes import place_panes
from cepheid.jobs.tables import table_from_bytes
from cepheid.jobs.work import Work
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows import panes as live_panes
from cepheid.kinds.trend.windows.list_step import advance_matches, step_matches
from cepheid.kinds.trend.windows.step import PartitionState, advance, step
from cepheid.plans.plan import Plan, TrendPlan, WindowKind
from cepheid.runtimes.local import run_table
from cepheid.runtimes.spark import stream_tasks
from cepheid.spark.schema import result_schema_of
from cepheid.testing.harness import stream
from cepheid.testing.query_strategies import cases
from cepheid.testing.strategies import streams

pytestmark = pytest.mark.timeout(600)  # kernels compile on first use

FOREVER = 2**60


def check_live(plan: Plan) -> None:
    task_kind(plan).check_live(plan)


class Live:
    """A query on a stream, with the watermark of Spark: the latest time so far, less a delay."""

    def __init__(self, compiled: CompiledQuery, schema: pa.Schema, *, delay: int, buckets: int = 1):
        self.plan = compiled.with_schema(schema).plan
        check_live(self.plan)
        results = result_schema_of(self.plan, schema)
        self.work = Work.of(self.plan, schema, results, buckets, delay=delay)
        self.groups = KeyTable(self.plan.partition.group_by)
        self.buckets = range(buckets)
        self.by_panes = buckets > 1 and not needs_of(self.plan).no_panes
        self.data: dict[int, bytes] = {}
        self.tables: list[pa.Table] = []
        self.late = 0

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return what came out so far."""
        return [row for table in self.tables for row in table.to_pylist()]

    def feed(self, batch: pa.Table) -> None:
        """Process a micro-batch."""
        place = np.zeros(len(batch), np.int64)
        times = read_times(Columns(batch), self.plan.time)
        if self.plan.partition.group_by:
            place = self.groups.number(Columns(batch)) % self.work.buckets
        elif self.by_panes:
            place = place_panes(times, needs_of(self.plan).pane, self.work.buckets)
        latest = int(times.max()) if len(batch) else None
        self._turns([batch.take(np.flatnonzero(place == n)) for n in self.buckets], latest)

    def finish(self) -> None:
        """Let the watermark pass all events, as one more event would that is much later."""
        self._turns([self.work.schema.empty_table() for _ in self.buckets], FOREVER)

    def _turns(self, arrived: list[pa.Table], latest: int | None) -> None:
        kind = task_kind(self.plan)
        job = kind.pane_job(self.work) if self.by_panes else live_job(self.work)
        tables = []
        for bucket, part in enumerate(arrived):
            came = [part] if len(part) else []
            data, outcome = turn(job, self.work, self.data.get(bucket), came, latest)
            self.data[bucket] = data
            self.late += outcome.late
            if len(outcome.results):
                tables.append(outcome.results)
        if self.by_panes and tables:
            # Spark hands them over in any order.
            tables = [kind.rows_of_panes(self.work, tables[::-1])]
        self.tables += tables


def shuffled(table: pa.Table, delay: int, seed: int) -> pa.Table:
    """Return events out of order, none more than a delay behind the latest before it."""
    times = read_times(Columns(table), "ts")
    noise = np.random.default_rng(seed).integers(0, delay + 1, len(table))
    return table.take(np.argsort(times + noise, kind="stable"))


def parts(table: pa.Table, rows: int) -> Iterable[pa.Table]:
    return (table.slice(offset, rows) for offset in range(0, len(table), rows))


def streamed(
    compiled: CompiledQuery, table: pa.Table, rows: int, *, delay: int, buckets: int = 1
) -> list[dict[str, Any]]:
    live = Live(compiled, table.schema, delay=delay, buckets=buckets)
    for part in parts(table, rows):
        live.feed(part)
    live.finish()
    assert live.late == 0
    return live.rows


def expected_of(plan: Plan, table: pa.Table) -> list[dict[str, Any]]:
    """Return what a query over all events gives, less windows that are not full at the end."""
    if not isinstance(plan, TrendPlan) or plan.window.kind is not WindowKind.COUNT:
        return run_table(plan, table).to_pylist()
    job = lower(TrendPlan.of(plan))
    if plan.lists_matches:
        state, tables = step_matches(job, PartitionState(job), table)
        listed = [row for part in tables for row in part.to_pylist()]
        state, tables = advance_matches(job, state, FOREVER)
        return listed + [row for part in tables for row in part.to_pylist()]
    state, first = step(job, PartitionState(job), table)
    state, second = advance(job, state, FOREVER)
    rows = [[*a, *b] for a, b in zip(first, second, strict=True)]
    return build_table(job, rows, state.keys, table.schema).to_pylist()


def disorder(plan: Plan, delay: int) -> int:
    """Return how far events may be moved: not at all where arrival decides among equal times."""
    counted = isinstance(plan, TrendPlan) and plan.window.kind is WindowKind.COUNT
    return 0 if plan.orders_ties or counted else delay


def windowed(case: Case) -> CompiledQuery | None:
    """Return a golden query with a window if it has none, since none would never close."""
    compiled = case.query
    if not isinstance(case.plan, TrendPlan) or case.plan.window.kind is WindowKind.NONE:
        try:
            text = f"{compiled.text.rstrip()} WITHIN 1 day SLIDE 1 day"
            compiled = query(text, type=compiled.source.type or None)
        except (QuerySyntaxError, BindError):
            return None
    try:
        check_live(compiled.with_schema(case.events.schema).plan)
    except UnsupportedError:
        return None
    return compiled


def test_golden_files_out_of_order_in_any_micro_batches() -> None:
    delay = 3_000_000
    tried = by_panes = 0
    for case in [*golden_cases(), *listed_cases()[::4]]:
        compiled = windowed(case)
        if compiled is None:
            continue
        plan = compiled.with_schema(case.events.schema).plan
        expected = expected_of(plan, case.events)
        mixed = shuffled(case.events, disorder(plan, delay), tried)
        for rows in (1, 2, 100) if EVERYTHING else (1 + tried % 2,):
            # Panes of few events keep these, or become matrices all the same.
            with mock.patch.object(live_panes, "EVENT_BYTES", (32, 1 << 30)[rows % 2]):
                got = streamed(compiled, mixed, rows, delay=delay, buckets=2)
            assert same(pa.Table.from_pylist(got), expected), f"{case.name} {rows}: {got}"
        tried += 1
        by_panes += not needs_of(plan).no_panes
    assert tried >= 80
    assert by_panes >= 20


def check(compiled: CompiledQuery, events: Sequence[Mapping[str, object]], seed: int) -> None:
    try:
        check_live(compiled.plan)
    except UnsupportedError:
        assume(False)
    assume(len(events))
    table = table_of(events)
    plan = compiled.with_schema(table.schema).plan
    expected = expected_of(plan, ordered(table, plan))
    delay = (0, 1_000_000, 4_000_000)[seed % 3]
    mixed = shuffled(table, disorder(plan, delay), seed)
    got = streamed(compiled, mixed, 1 + seed % 4, delay=delay, buckets=1 + seed % 2)
    assert same(pa.Table.from_pylist(got), expected), (got, expected)


FEW = settings(max_examples=min(settings().max_examples, 40))  # each is a dozen turns


@FEW
@given(linear_queries(), streams(SCHEMA, events_max=7), st.integers(0, 1000))
def test_random_linear_queries(text: str, events: list[Mapping[str, object]], seed: int) -> None:
    check(query(text, schema=SCHEMA), events, seed)


@FEW
@given(cases(), st.integers(0, 1000))
def test_random_queries(case: Any, seed: int) -> None:
    compiled = query(case.query, schema=case.schema)
    assume(supported(compiled))
    check(compiled, case.events, seed)


COUNT_A = "RETURN key, COUNT(*) PATTERN A+ GROUP-BY key WITHIN 4 s SLIDE 4 s"


def test_late_events_are_counted_and_change_nothing() -> None:
    on_time = table_of(stream("a1(key='p') a2(key='q') a3(key='p') a9(key='p') a12(key='q')"))
    late = table_of(stream("a2(key='p') a3(key='q')"))
    results = []
    for with_late in (False, True):
        live = Live(query(COUNT_A), on_time.schema, delay=2_000_000, buckets=2)
        for part in parts(on_time, 4):
            live.feed(part)
            if with_late:
                live.feed(late)
        live.finish()
        results.append(live.rows)
        assert live.late == (4 if with_late else 0)
    assert results[0] == results[1] != []


def test_windows_close_as_soon_as_the_watermark_passes_their_end() -> None:
    events = table_of(stream("a1(key='p') a5(key='p') a6(key='p')"))
    live = Live(query(COUNT_A), events.schema, delay=1_000_000)
    ends = []
    for part in parts(events, 1):
        live.feed(part)
        ends.append([row["window_end"] for row in live.rows])
    assert ends == [[], [4_000_000], [4_000_000]], "5 - 1 = 4, in the micro-batch of that event"


def test_matches_leave_as_soon_as_the_watermark_passes_their_last_events() -> None:
    text = "RETURN a.ts, b.ts PATTERN SEQ(A a, B b) WHERE [key] WITHIN 10 s SLIDE 5 s"
    events = table_of(stream("a1(key='p') b3(key='p') b4(key='q') a6(key='p') b7(key='p')"))
    live = Live(query(text), events.schema, delay=1_000_000)
    counts = []
    for part in parts(events, 1):
        live.feed(part)
        counts.append(len(live.rows))
    live.finish()
    assert counts == [0, 0, 0, 1, 1], "6 - 1 = 5 passes b3, in the micro-batch of that event"
    pairs = [(row["a_ts"] // 1_000_000, row["b_ts"] // 1_000_000) for row in live.rows]
    assert sorted(pairs) == [(1, 3), (1, 7), (6, 7)]


def test_a_micro_batch_has_as_many_matches_as_the_disk_has_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spill, "SPILL_ROWS", 100)
    monkeypatch.setattr(spill, "LEFT_FREE", 1 << 60)
    events = table_of(stream(" ".join(f"a{n}" for n in range(1, 12))))
    live = Live(query("RETURN MATCHES PATTERN A+ WITHIN 60 s"), events.schema, delay=0)
    with pytest.raises(DataError, match=r"error\[E513\]: the rows of one micro-batch"):
        live.feed(events)


def test_many_matches_of_a_micro_batch_wait_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    events = table_of(stream(" ".join(f"a{n}" for n in range(1, 12))))
    compiled = query("RETURN MATCHES PATTERN A+ WITHIN 60 s")
    rows: list[Any] = []
    written: list[int] = []
    on_disk = spill._on_disk

    def noting(tables: list[pa.Table]) -> pa.Table:
        written.append(sum(map(len, tables)))
        return on_disk(tables)

    monkeypatch.setattr(spill, "_on_disk", noting)
    for most in (spill.SPILL_ROWS, 100):
        monkeypatch.setattr(spill, "SPILL_ROWS", most)
        live = Live(compiled, events.schema, delay=0)
        live.feed(events)
        live.finish()
        rows.append(live.rows)
    assert (len(rows[0]), rows[0] == rows[1]) == (2**11 - 1, True)
    assert sum(written) > 1000


def test_rows_leave_a_bucket_as_values_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_tasks, "PAYLOAD_ROWS", 4)
    rows = pa.table({"x": list(range(10))})
    sent = [table_from_bytes(data) for data in stream_tasks.payloads_of(rows) if data is not None]
    assert ([len(part) for part in sent], pa.concat_tables(sent)) == ([4, 4, 2], rows)
    assert list(stream_tasks.payloads_of(rows.slice(0, 0))) == [None]


def test_a_limit_cannot_stop_a_live_query() -> None:
    compiled = query("RETURN MATCHES PATTERN A WITHIN 1 s LIMIT 3")
    with pytest.raises(UnsupportedError, match=r"error\[E405\]: `LIMIT` cannot stop a live query"):
        check_live(compiled.plan)


def test_the_state_stays_small_when_keys_come_and_go() -> None:
    sizes = []
    live = Live(query(COUNT_A), table_of(stream("a1(key='p')")).schema, delay=1_000_000)
    for number in itertools.islice(itertools.count(1), 60):
        live.feed(table_of(stream(f"a{number}(key='k{number}')")))
        sizes.append(len(live.data[0]))
    assert max(sizes[30:]) <= max(sizes[:30]) * 1.1


def test_a_checkpoint_of_something_else_is_refused() -> None:
    events = table_of(stream("a1(key='p')"))
    live = Live(query(COUNT_A), events.schema, delay=0)
    live.feed(events)
    for other, schema, buckets, why in (
        (COUNT_A.replace("A+", "B+"), events.schema, 1, "another query"),
        (COUNT_A, events.schema, 2, "1 bucket, "),
        (COUNT_A, events.schema.set(2, pa.field("key", pa.int64())), 1, "another type"),
    ):
        changed = Live(query(other), schema, delay=0, buckets=buckets)
        with pytest.raises(DataError, match=why) as caught:
            turn(live_job(changed.work), changed.work, live.data[0], [], None)
        assert caught.value.diagnostics[0].code == "E524"
    with pytest.raises(DataError, match="no state"):
        turn(live_job(live.work), live.work, b"nonsense", [], None)


def test_windows_before_1970_close() -> None:
    compiled = query("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s")
    begin = -300_000_000_000_000
    times = [begin + n * 5_000_000 for n in range(8)]
    table = pa.table({"ts": times, "type": ["A", "B"] * 4})
    live = Live(compiled, table.schema, delay=1_000_000)
    for part in parts(table, 2):
        live.feed(part)
    assert [row["count"] for row in live.rows] == [1.0, 1.0, 1.0]
    late = table.slice(0, 1)
    live.feed(late)
    assert live.late == 1


def test_early_rows_are_those_of_all_events_so_far() -> None:
    text = "RETURN key, COUNT(*) PATTERN A+ {} GROUP-BY key WITHIN 4 s SLIDE 2 s EMIT EARLY"
    events = table_of(stream("a1(key='p') a2(key='q') a3(key='p') a5(key='p') a9(key='q')"))
    # A query in numbers, and one that keeps its events.
    for where in ("", "WHERE A.ts < NEXT(A).ts"):
        compiled = query(text.format(where))
        live = Live(compiled, events.schema, delay=2_000_000)
        known: dict[tuple[Any, ...], Any] = {}
        for count in range(1, len(events) + 1):
            live.feed(events.slice(count - 1, 1))
            known |= {(row["key"], row["window_start"]): row["count"] for row in live.rows}
            so_far = run_table(compiled.plan, events.slice(0, count)).to_pylist()
            assert known == {(r["key"], r["window_start"]): r["count"] for r in so_far}
            # Only groups of which events came are told again.
            live.rows.clear()


def test_explain_tells_how_the_state_of_a_live_query_is_cut() -> None:
    for text, said in (
        ("RETURN key, COUNT(*) PATTERN A GROUP-BY key WITHIN 1 s", "buckets by key\n"),
        ("RETURN MATCHES PATTERN A WHERE [key] WITHIN 1 s", "buckets by key\n"),
        ("RETURN COUNT(*) PATTERN A WHERE [key] WITHIN 1 s", "one bucket\n"),
        ("RETURN COUNT(*) PATTERN A", "not as it is\n"),
    ):
        assert f"live streams: {said}" in query(text).explain(engine="spark")
