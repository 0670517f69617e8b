"""Rules on a stream, without Spark: each gives what it gives alone, whatever comes and goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.engine.comparison import table_of, with_double_counts
from tests.engine.test_linear import SCHEMA
from tests.engine.test_workload import related_queries
from tests.runtime.cases import same
from tests.runtime.test_stream_state import FOREVER, disorder, expected_of, parts, shuffled

from cepheid.api import query
from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import DataError, UnsupportedError
from cepheid.jobs.bucket import COUNTED, read_bucket
from cepheid.jobs.microbatch import turn
from cepheid.jobs.ordering import ordered
from cepheid.jobs.work import Work
from cepheid.kinds.trend.live import check_windows
from cepheid.kinds.workload import live_snapshot as live_workload_snapshot
from cepheid.kinds.workload.combine_results import united_schema
from cepheid.kinds.workload.live import LiveWorkload, RulesWork
from cepheid.kinds.workload.live_snapshot import rules_from_bytes
from cepheid.plans import plan as plan_module
from cepheid.plans.plan import Plan, TrendPlan
from cepheid.spark.schema import result_schema_of
from cepheid.testing.harness import stream
from cepheid.testing.strategies import streams

pytestmark = pytest.mark.timeout(900)  # kernels compile on first use

SECOND = 1_000_000
MORE = [
    "RETURN key, COUNT(*), SUM(A.price) PATTERN SEQ(A+, B) WHERE [key] AND A.price < NEXT(A).price "
    "GROUP-BY key WITHIN 4 s SLIDE 2 s",
    "RETURN key, COUNT(*) PATTERN A+ GROUP-BY key WITHIN 2 s",
    "RETURN MATCHES PATTERN SEQ(A, B) SEMANTICS next WHERE [key] WITHIN 3 s SLIDE 3 s",
    "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 3 s SLIDE 1 s",
]


def work_of(rules: Mapping[str, str], schema: pa.Schema, delay: int) -> RulesWork:
    """Return the work of rules over one bucket."""
    plans = {name: query(text).with_schema(schema).plan for name, text in rules.items()}
    columns = united_schema({n: result_schema_of(plan, schema) for n, plan in plans.items()})
    first = next(iter(plans.values()))
    work = Work.of(first, schema, columns, 1, delay=delay)
    named = tuple((n, plan.to_json()) for n, plan in plans.items())
    return RulesWork(named, True, work, tuple(schema.names))


class Stream:
    """One bucket, with rules that change between micro-batches."""

    def __init__(self, schema: pa.Schema, delay: int) -> None:
        self.schema, self.delay = schema, delay
        self.data: bytes | None = None
        self.latest: int | None = None
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def turn(
        self,
        rules: Mapping[str, str],
        events: pa.Table | None,
        latest: int,
        passed: int | None = None,
    ) -> None:
        work = work_of(rules, self.schema, self.delay)
        arrived = [] if events is None else [events]
        self.data, outcome = turn(LiveWorkload(work, passed), work.work, self.data, arrived, latest)
        assert outcome.late == 0
        for row in outcome.results.to_pylist():
            self.rows.setdefault(row.pop("query"), []).append(row)


def live(rules: Mapping[str, str], schema: pa.Schema) -> dict[str, Plan]:
    """Return the plans of rules that can run on a stream."""
    plans = {}
    for name, text in rules.items():
        plan = query(text).with_schema(schema).plan
        try:
            check_windows(TrendPlan.of(plan))
        except UnsupportedError:
            continue
        plans[name] = plan
    return plans


def agree(rows: list[dict[str, Any]], plan: Plan, events: pa.Table, schema: pa.Schema) -> None:
    names = result_schema_of(plan, schema).names
    own = with_double_counts([{name: row[name] for name in names} for row in rows])
    expected = expected_of(plan, ordered(events, plan)) if len(events) else []
    expected = with_double_counts(expected)
    assert same(pa.Table.from_pylist(own), expected), (plan.text, own, expected)


@settings(max_examples=max(settings().max_examples // 6, 10))  # each is a dozen turns
@given(
    related_queries(exact=False),
    related_queries(exact=False),
    streams(SCHEMA, events_max=9),
    st.integers(0, 1000),
    st.integers(1, 4),
)
def test_rules_that_come_and_go_leave_the_others_alone(
    texts: list[str],
    more: list[str],
    events: list[Mapping[str, object]],
    seed: int,
    size: int,
) -> None:
    assume(events)
    table = table_of(events)
    first = {f"first{n}": text for n, text in enumerate([*texts, MORE[seed % 4]])}
    second = {f"second{n}": text for n, text in enumerate(more)}
    plans = live(first | second, table.schema)
    first = {name: text for name, text in first.items() if name in plans}
    second = {name: text for name, text in second.items() if name in plans}
    assume(first and second)
    delay = (0, SECOND, 4 * SECOND)[seed % 3]
    delay = min(disorder(plan, delay) for plan in plans.values())
    mixed = shuffled(table, delay, seed)
    gone = min(first)
    stays = {name: text for name, text in (first | second).items() if name != gone}
    bucket = Stream(table.schema, delay)
    turns = [part for part in parts(mixed, size) if len(part)]
    comes, seen = seed % (len(turns) + 1), 0
    latest = None
    since = None
    for number, part in enumerate(turns):
        if number == comes:
            # What waits for the watermark is seen by rules that come.
            since = None if latest is None else latest - delay
        newest = int(read_times(Columns(part), "ts").max())
        latest = newest if latest is None else max(latest, newest)
        bucket.turn(first if number < comes else stays, part, latest)
        seen += len(part)
    bucket.turn(first if comes == len(turns) else stays, None, FOREVER)
    times = read_times(Columns(mixed), "ts")
    for name, plan in plans.items():
        if name == gone and comes < len(turns):
            continue
        if name in second:
            if comes == len(turns):
                continue
            visible = times >= (-FOREVER if since is None else since // 1000 * 1000)
            agree(bucket.rows.get(name, []), plan, mixed.filter(pa.array(visible)), table.schema)
        else:
            agree(bucket.rows.get(name, []), plan, mixed, table.schema)


def test_keys_that_come_no_more_are_forgotten() -> None:
    rules = {
        "pairs": "RETURN key, COUNT(*) PATTERN SEQ(A, A x) GROUP-BY key WITHIN 4 s SLIDE 4 s",
        "trends": "RETURN key, COUNT(*) PATTERN A+ GROUP-BY key WITHIN 4 s SLIDE 4 s",
        "slides": "RETURN key, COUNT(*) PATTERN A+ GROUP-BY key WITHIN 4 s SLIDE 2 s",
        "slides2": "RETURN key, COUNT(*) PATTERN SEQ(A, A+) GROUP-BY key WITHIN 4 s SLIDE 2 s",
        "rises": "RETURN key, COUNT(*) PATTERN A+ WHERE A.price < NEXT(A).price GROUP-BY key "
        "WITHIN 4 s SLIDE 2 s",
        "recent": "RETURN key, COUNT(*) PATTERN A+ GROUP-BY key WITHIN 4 s",
    }
    bucket: Stream | None = None
    everything = []
    for number in range(0, 60, 2):
        text = f"a{number}(key='{number}', price=1) a{number + 1}(key='{number}', price=2)"
        part = table_of(stream(text))
        everything.append(part)
        bucket = bucket or Stream(part.schema, 0)
        bucket.turn(rules, part, (number + 1) * SECOND)
        assert bucket.data is not None
        work = work_of(rules, part.schema, 0).work
        engine = read_bucket(work, bucket.data, "rules", same_columns=False).engine
        assert engine is not None
        saved = rules_from_bytes(engine, work.schema)
        for generation in saved.generations:
            for keys in generation.state.keys.values():
                assert len(keys) <= 5
    assert bucket is not None
    bucket.turn(rules, None, FOREVER)
    whole = pa.concat_tables(everything)
    for name, plan in live(rules, whole.schema).items():
        agree(bucket.rows[name], plan, whole, whole.schema)


def test_a_rule_may_be_the_first_to_read_a_column() -> None:
    events = table_of(stream("a1(key='k', price=1) a2(key='k', price=5) a9(key='k', price=7)"))
    narrow = events.select(["ts", "type", "key"])
    ab = "RETURN COUNT(*) PATTERN A WITHIN 4 s SLIDE 4 s"
    priced = "RETURN SUM(A.price) PATTERN A WITHIN 4 s SLIDE 4 s"
    bucket = Stream(narrow.schema, 4 * SECOND)
    bucket.turn({"count": ab}, narrow.slice(0, 1), 1 * SECOND)
    bucket.schema = events.schema
    bucket.turn({"count": ab, "sum": priced}, events.slice(1), 9 * SECOND)
    bucket.turn({"count": ab, "sum": priced}, None, FOREVER)
    assert [row["count"] for row in bucket.rows["count"]] == [2.0, 1.0]
    # The first event came without its price, before there was a rule that wants it.
    assert [row["sum_A_price"] for row in bucket.rows["sum"]] == [5.0, 7.0]


def test_a_column_of_another_type_is_refused() -> None:
    events = table_of(stream("a1(key='k', price=1) a2(key='k', price=5)"))
    rules = {"count": "RETURN COUNT(*) PATTERN A WITHIN 4 s SLIDE 4 s"}
    bucket = Stream(events.schema, 0)
    bucket.turn(rules, events.slice(0, 1), SECOND)
    changed = events.set_column(
        events.column_names.index("key"), "key", pa.array(np.zeros(2, np.int64))
    )
    bucket.schema = changed.schema
    with pytest.raises(DataError, match="E524"):
        bucket.turn(rules, changed.slice(1), 2 * SECOND)


def test_a_rule_stays_the_same_when_its_plan_is_written_otherwise() -> None:
    # The JSON of a plan that was read from JSON may be another one.
    text = "RETURN COUNT(*) PATTERN A WHERE [zone, key] GROUP-BY zone WITHIN 2 s SLIDE 2 s"
    events = table_of(stream("a0(key='p', zone='p') a1(key='p', zone='p')"))
    bucket = Stream(events.schema, 0)
    bucket.turn({"one": text}, events.slice(0, 1), 0)
    bucket.turn({"one": text}, events.slice(1), SECOND)
    bucket.turn({"one": text}, None, FOREVER)
    assert [row["count"] for row in bucket.rows["one"]] == [2.0]


def test_a_rule_that_was_away_begins_anew() -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A, NOT C, B) WITHIN 100 s SLIDE 100 s"
    events = table_of(stream("a101 a105 b140 a200"))
    bucket = Stream(events.schema, 0)
    bucket.turn({"k": text}, events.slice(0, 2), 105 * SECOND)
    # No rule of the class was there when a C came, at 120 s; the stream has gone on without it.
    bucket.turn({"k": text}, events.slice(2), 200 * SECOND, passed=120 * SECOND)
    bucket.turn({"k": text}, None, FOREVER, passed=200 * SECOND)
    assert not bucket.rows


def test_a_rule_that_was_always_there_goes_on() -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 100 s SLIDE 100 s"
    events = table_of(stream("a101 a105 b140 a200"))
    bucket = Stream(events.schema, 0)
    bucket.turn({"k": text}, events.slice(0, 2), 105 * SECOND)
    bucket.turn({"k": text}, events.slice(2), 200 * SECOND, passed=105 * SECOND)
    assert [row["count"] for row in bucket.rows["k"]] == [2.0]


def test_hundreds_of_rules_go_at_once() -> None:
    # Each is of its own, so that nothing is shared and plans are small.
    window = "WITHIN 4 s SLIDE 4 s"
    rules = {f"r{n}": f"RETURN COUNT(*) PATTERN A WHERE A.price > {n} {window}" for n in range(600)}
    events = table_of(stream("a1(price=700) a2(price=700) a9(price=1)"))
    bucket = Stream(events.schema, 0)
    bucket.turn(rules, events.slice(0, 1), SECOND)
    left = {name: rules[name] for name in ("r0", "r599")}
    bucket.turn(left, events.slice(1, 1), 2 * SECOND)
    bucket.turn(left, events.slice(2), 9 * SECOND)
    assert {name: rows[0]["count"] for name, rows in bucket.rows.items()} == {"r0": 2, "r599": 2}


def test_rules_that_another_version_planned_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 100 s SLIDE 100 s"
    events = table_of(stream("a101 a105 b140 a200"))
    bucket = Stream(events.schema, 0)
    bucket.turn({"k": text}, events.slice(0, 2), 105 * SECOND)
    live_workload_snapshot.plan_of.cache_clear()
    monkeypatch.setattr(plan_module, "PLAN_VERSION", 99)
    assert bucket.data is not None
    engine = read_bucket(
        work_of({"k": text}, events.schema, 0).work, bucket.data, "rules", same_columns=False
    ).engine
    assert engine is not None
    with pytest.raises(DataError, match=r"E524.*planned by another version"):
        live_workload_snapshot.rules_from_bytes(engine, events.schema)


def test_an_event_of_several_classes_is_counted_and_late_once() -> None:
    """The class of rules that an event comes to first counts it; the others only use it."""
    texts = {"all": "RETURN COUNT(*) PATTERN A+ WITHIN 4 s SLIDE 4 s"}
    events = table_of(stream("a1(x=1) a9(x=2)"))
    for counted in (True, False):
        work = work_of(texts, events.schema, 0)
        marked = events.append_column(COUNTED, pa.array([counted] * len(events)))
        data, first = turn(LiveWorkload(work), work.work, None, [marked], 9_000_000)
        _, then = turn(LiveWorkload(work), work.work, data, [marked.slice(0, 1)], 9_000_000)
        assert (first.events, then.events, then.late) == ((2, 1, 1) if counted else (0, 0, 0))
        assert len(then.late_events) == counted
        assert len(first.results) == 1, "every class uses it"
