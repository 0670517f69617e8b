"""Rules of a log, without Spark: each gives what it gives in batch, whatever comes and goes."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.engine.comparison import table_of
from tests.engine.test_linear import SCHEMA
from tests.engine.test_workload import related_queries
from tests.runtime.test_stream_state import FOREVER, disorder, parts, shuffled

from cepheid.api import query
from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import DataError, UnsupportedError
from cepheid.jobs.bucket import open_bucket
from cepheid.jobs.derived import MATCH_ID
from cepheid.jobs.kind import task_kind
from cepheid.jobs.microbatch import turn
from cepheid.jobs.ordering import ordered
from cepheid.jobs.work import Work
from cepheid.kinds.pipeline.single import as_pipeline
from cepheid.kinds.workload import live_alerts
from cepheid.kinds.workload.alert_limits import SHOWN
from cepheid.kinds.workload.alerts import Limits, alert_schema
from cepheid.kinds.workload.dated_rows import dated
from cepheid.kinds.workload.json_rows import json_rows
from cepheid.kinds.workload.live_alerts import LiveAlerts, RunningAlerts
from cepheid.kinds.workload.rule_places import Freedom, freedom_of, keys_for
from cepheid.kinds.workload.rule_records import Drop, Numbered, Put, Timing, from_line, to_lines
from cepheid.kinds.workload.sharing import share
from cepheid.plans.limits import Limit
from cepheid.plans.plan import Plan, TrendPlan
from cepheid.runtimes.workload import run_workload_batches
from cepheid.testing.harness import stream
from cepheid.testing.strategies import streams

pytestmark = pytest.mark.timeout(900)  # kernels compile on first use

SECOND = 1_000_000
MORE = [
    "RETURN key, COUNT(*), SUM(A.price) PATTERN SEQ(A+, B) WHERE [key] AND A.price < NEXT(A).price "
    "GROUP-BY key WITHIN 4 s SLIDE 2 s",
    "RETURN key, COUNT(*) PATTERN A+ GROUP-BY key WITHIN 2 s",
    "RETURN MATCHES PATTERN SEQ(A, B) SEMANTICS next WHERE [key] WITHIN 3 s SLIDE 3 s",
    "DEFINE HIGH AS price > 2 SITUATIONS HIGH RETURN COUNT(HIGH) AS n",
    "SELECT key, COUNT(*) AS n FROM s GROUP BY key WINDOW 3 seconds",
    "SELECT ts, key, price FROM s WHERE price > 2",
]
BESIDE = [
    "DEFINE HIGH AS price > 2 SITUATIONS HIGH PARTITION BY key RETURN COUNT(HIGH) AS n",
    "DEFINE DEAR AS price > 2 AT LEAST 1 s SITUATIONS DEAR PARTITION BY key RETURN MAX(DEAR.price)",
    "DEFINE B AS type = 'B' SITUATIONS B PARTITION BY key RETURN COUNT(B) AS n",
    "SELECT key, SUM(price) AS sum FROM s WHERE type = 'A' GROUP BY key WINDOW 3 seconds",
    "SELECT key, type FROM s WHERE type <> 'A' AND price > 2",
    "SELECT key, COUNT(*) AS n FROM s WHERE type = 'A' AND price > 2 GROUP BY key WINDOW 2 s",
]
"""Rules that read the same columns and have conditions in common."""
ABOUT: tuple[Any, ...] = ("desk", ("a", "b"), "high")


def put_of(
    name: str, text: str, schema: pa.Schema, *limits: Limit | None, version: int = 1
) -> Put | None:
    """Plan a rule; None if it cannot run on a stream."""
    found = dated(query(text).with_schema(schema).plan)
    plan = found.plan if found.plan.shares_passes else as_pipeline(found.plan)
    try:
        task_kind(plan).check_live(plan)
    except UnsupportedError:
        return None
    timing = Timing(found.times, found.hidden, found.delay)
    first, second = limits or (None, None)
    text = plan.to_json().decode()
    return Put(*(name, name, None, version, *ABOUT, first, second, timing, (), text))


class Log:
    """One bucket, with records between micro-batches."""

    def __init__(self, schema: pa.Schema, delay: int) -> None:
        plan = query("SELECT ts FROM s").with_schema(schema).plan
        alerts = alert_schema(schema.field("ts").type, plan.tick_ns)
        self.work = Work.of(plan, schema, alerts, 1, delay=delay)
        self.schema, self.number = schema, 0
        self.data: bytes | None = None
        self.rows: list[dict[str, Any]] = []
        self.suppressed: dict[tuple[str, str], int] = {}

    def turn(self, events: pa.Table | None, latest: int | None, *records: Put | Drop) -> None:
        numbered = []
        for one in records:
            self.number += 1
            numbered.append(from_line(to_lines([Numbered(self.number, 0, one)])))
        job = LiveAlerts(self.work, self.schema.names, 0, numbered)
        arrived = [] if events is None else [events]
        before, data = self.data, self.data
        self.data, outcome = turn(job, self.work, data, arrived, latest)
        # A micro-batch that is repeated gives the same, in another process, too.
        live_alerts._REMEMBERED._states.clear()
        again = LiveAlerts(self.work, self.schema.names, 0, numbered)
        saved, repeated = turn(again, self.work, before, arrived, latest)
        assert repeated.results.equals(outcome.results)
        assert again.suppressed == job.suppressed
        if self.number % 2:
            self.data = saved
            live_alerts._REMEMBERED._states.clear()
        self.rows += outcome.results.to_pylist()
        for key, count in job.suppressed.items():
            self.suppressed[key] = self.suppressed.get(key, 0) + count

    def engine(self) -> bytes:
        saved = open_bucket(live_alerts.KIND, self.data)
        assert saved is not None
        return saved.engine

    def of(self, name: str) -> list[str]:
        return sorted(_canonical(row["values"]) for row in self.rows if row["rule"] == name)


def _canonical(text: str) -> str:
    """Write the values of a row without numbers that depend on tasks; counts may be doubles."""
    found = {name: value for name, value in json.loads(text).items() if name != MATCH_ID}
    return json.dumps(found, sort_keys=True)


def batch_rows(plan: Plan, events: pa.Table) -> pa.Table:
    """Run a rule over all events at once."""
    trends = [TrendPlan.of(plan)] if plan.shares_passes else []
    beside = {} if trends else {"one": as_pipeline(plan)}
    shared = share(["one"] if trends else [], trends, beside=beside)
    parts_ = [ordered(events, plan)] if len(events) else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Few events lack types.
        return run_workload_batches(shared, iter(parts_), events.schema)["one"]


def expected(put: Put, events: pa.Table, until: int = FOREVER) -> list[str]:
    """Collect the alerts of a batch run that are certain at a time."""
    rows = batch_rows(put.planned, events)
    times = _times(put, rows, events)
    shown = rows.drop_columns([n for n in put.timing.hidden if n.startswith("__time")])
    fates = Limits(put).fates(shown, times)
    kept = shown.filter(pa.array((fates == SHOWN) & (times < until)))
    return sorted(_canonical(str(row)) for row in json_rows(kept).to_pylist())


def _times(put: Put, rows: pa.Table, events: pa.Table) -> Any:
    timing = put.timing
    found = dated(put.planned)._replace(
        times=timing.times, hidden=timing.hidden, delay=timing.delay
    )
    last = int(read_times(Columns(events), "ts").max()) if len(events) else 0
    times = found.read(rows, last)
    return np.zeros(len(rows), np.int64) if times is None else times


@st.composite
def rules_beside(draw: st.DrawFn) -> list[str]:
    """Draw rules that are no trends, some of them twice, among related trends."""
    beside = draw(st.lists(st.sampled_from([*MORE, *BESIDE]), min_size=2, max_size=6))
    return [*draw(related_queries())[:1], *beside]


@settings(max_examples=max(settings().max_examples // 6, 10))  # each is a dozen turns
@given(
    st.one_of(related_queries(), rules_beside()),
    st.one_of(related_queries(), rules_beside()),
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
    assume({"key", "price"} <= set(table.column_names))
    first = {f"first{n}": text for n, text in enumerate([*texts, MORE[seed % 6]])}
    second = {f"second{n}": text for n, text in enumerate([*more, MORE[(seed + 3) % 6]])}
    puts = {}
    for name, text in (first | second).items():
        put = put_of(name, text, table.schema)
        if put is not None:
            puts[name] = put
    early = [put for name, put in puts.items() if name in first]
    late = [put for name, put in puts.items() if name in second]
    assume(early and late)
    plans = [put.planned for put in puts.values() if isinstance(put.planned, TrendPlan)]
    delay = (0, SECOND, 4 * SECOND)[seed % 3]
    delay = min([delay, *(disorder(plan, delay) for plan in plans)])
    mixed = shuffled(table, delay, seed)
    turns = [part for part in parts(mixed, size) if len(part)]
    comes = seed % len(turns)
    gone, latest, since = early[0], None, None
    bucket = Log(table.schema, delay)
    for number, part in enumerate(turns):
        records: list[Put | Drop] = list(early) if number == 0 else []
        if number == comes:
            since = None if latest is None else latest - delay
            records += [*late, Drop(gone.name)]
        newest = int(read_times(Columns(part), "ts").max())
        latest = newest if latest is None else max(latest, newest)
        bucket.turn(part, latest, *records)
    bucket.turn(None, FOREVER)
    times = read_times(Columns(mixed), "ts")
    for put in early[1:]:
        assert bucket.of(put.name) == expected(put, mixed), put.planned.text
    visible = times >= (-FOREVER if since is None else since // 1000 * 1000)
    for put in late:
        assert bucket.of(put.name) == expected(put, mixed.filter(pa.array(visible)))


def test_twins_share_a_state_only_if_they_came_together() -> None:
    times = [3 * SECOND, 3 * SECOND + 1, 4 * SECOND, 4 * SECOND + 1]
    events = pa.table({"ts": times, "type": ["A"] * 4, "key": ["x"] * 4, "price": [3.0] * 4})
    puts = {name: put_of(name, BESIDE[3], events.schema) for name in ("one", "two", "three")}
    bucket = Log(events.schema, 0)
    one, two, three = (put for put in puts.values() if put is not None)
    bucket.turn(events.slice(0, 2), 4 * SECOND, one, two)
    bucket.turn(events.slice(2), 5 * SECOND, three, Drop("one"))
    state = RunningAlerts.from_bytes(bucket.engine(), events.schema)
    rules = state.rules.beside.rules
    assert list(rules) == ["two", "three"]
    assert rules["two"] is not rules["three"]
    bucket.turn(None, FOREVER)
    sums = {name: [json.loads(row)["sum"] for row in bucket.of(name)] for name in puts}
    assert sums == {"one": [], "two": [12.0], "three": [6.0]}


TEXT = "RETURN key, COUNT(*) PATTERN A GROUP-BY key WITHIN 2 s SLIDE 1 s"
ROWS = (
    "SELECT {} FROM s MATCH_RECOGNIZE (PARTITION BY key ORDER BY ts MEASURES COUNT(*) AS n, "
    "LAST(ts) AS at {} PATTERN (A B*) WITHIN 3000000 DEFINE A AS type = 'A', B AS type <> 'C')"
)
DATED = [
    TEXT,
    ROWS.format("*", ""),
    ROWS.format("key, n", "ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW"),
    f"CREATE STREAM R AS {ROWS.format('key, n', '')}; SELECT key, n FROM R WHERE n > 1",
    f"CREATE STREAM E AS SELECT key, type AS kind FROM s; "
    f"{ROWS.format('key, n', '').replace('FROM s', 'FROM E').replace('type', 'kind')}",
]
"""Rules whose rows have a time; those of row patterns leave later, and in another order."""


@settings(max_examples=max(settings().max_examples // 3, 10))
@given(
    streams(SCHEMA, events_max=12),
    st.integers(1, 3),
    st.integers(1, 6),
    st.sampled_from([(), ("key",)]),
    st.integers(1, 4),
    st.sampled_from(DATED),
)
def test_limits_give_what_they_give_in_batch(
    events: list[Mapping[str, object]],
    most: int,
    length: int,
    by: tuple[str, ...],
    size: int,
    text: str,
) -> None:
    assume(events)
    table = ordered(table_of(events), query(TEXT).plan)
    assume("key" in table.column_names)
    limits = Limit(1, length * SECOND, by), Limit(most, 2 * length * SECOND)
    put = put_of("limited", text, table.schema, *limits)
    free = put_of("free", text, table.schema)
    assert put is not None
    assert free is not None
    bucket = Log(table.schema, 0)
    records = [put, free]
    for part in parts(table, size):
        if len(part):
            bucket.turn(part, int(read_times(Columns(part), "ts").max()), *records)
            records = []
    bucket.turn(None, FOREVER)
    assert bucket.of("free") == expected(free, table)
    assert bucket.of("limited") == expected(put, table)
    count = sum(bucket.suppressed.values())
    assert count == len(bucket.of("free")) - len(bucket.of("limited"))


def test_a_version_that_changes_no_query_keeps_its_counts() -> None:
    events = table_of(stream("a1(key='k', price=1) a2(key='k', price=2) a9(key='k', price=3)"))
    text = "RETURN COUNT(*) PATTERN A+ WITHIN 4 s SLIDE 4 s"
    first = put_of("one", text, events.schema)
    second = put_of("one", text, events.schema, Limit(1, SECOND), None, version=2)
    assert first is not None
    assert second is not None
    bucket = Log(events.schema, 0)
    bucket.turn(events.slice(0, 1), SECOND, first)
    bucket.turn(events.slice(1), 9 * SECOND, second)
    assert [(row["version"], json.loads(row["values"])["count"]) for row in bucket.rows] == [(2, 3)]
    row = bucket.rows[0]
    assert (row["owner"], row["tags"], row["severity"]) == ("desk", "a,b", "high")
    # A rule that goes and comes again in one micro-batch begins anew.
    bucket.turn(None, 9 * SECOND, Drop("one"), first)
    bucket.turn(None, FOREVER)
    assert [json.loads(row["values"])["count"] for row in bucket.rows] == [3, 1]


def test_a_record_of_a_rule_comes_before_the_events_of_its_micro_batch() -> None:
    events = table_of(stream("a1(key='k', price=1) a2(key='k', price=2)"))
    put = put_of("one", "SELECT ts, price FROM s WHERE price > 0", events.schema)
    assert put is not None
    bucket = Log(events.schema, 0)
    bucket.turn(None, None, put)
    bucket.turn(events, 3 * SECOND)
    bucket.turn(None, 4 * SECOND, Drop("one"))
    assert len(bucket.of("one")) == 2
    assert RunningAlerts(events.schema).puts == {}


def test_a_damaged_record_or_state_is_refused() -> None:
    line = to_lines([Numbered(1, 0, Drop("one"))]).strip()
    for wrong in (line[:-2], line.replace(b"one", b"two"), b"", b"zz zz"):
        with pytest.raises(DataError, match="E546"):
            from_line(wrong)
    events = table_of(stream("a1(key='k', price=1)"))
    put = put_of("one", TEXT, events.schema)
    assert put is not None
    state = RunningAlerts(events.schema)
    state.apply([Numbered(1, 0, put)])
    data = state.to_bytes()
    with pytest.raises(DataError, match=r"E5(24|46)"):
        RunningAlerts.from_bytes(data[:-3] + b"abc", events.schema)


def test_rules_run_where_their_groups_and_limits_are_whole() -> None:
    schema = table_of(stream("a1(key='k', zone='z', price=1)")).schema
    by_key = Limit(1, SECOND, ("key",))
    everywhere = Limit(1, SECOND)
    text = "RETURN key, COUNT(*) PATTERN A WHERE [zone] GROUP-BY key, zone WITHIN 2 s SLIDE 2 s"
    plan = query(text).with_schema(schema).plan
    keys = (("key",), ("key", "zone"), ("zone",), ())
    assert keys[freedom_of(plan, ()).place(keys)] == ("key", "zone")
    assert keys[freedom_of(plan, (by_key, None)).place(keys)] == ("key",)
    assert keys[freedom_of(plan, (by_key, everywhere)).place(keys)] == ()
    listed = as_pipeline(query("SELECT key, price FROM s").with_schema(schema).plan)
    assert freedom_of(listed, ()) == Freedom(None, ())
    assert keys[freedom_of(listed, (by_key,)).place(keys)] == ("key",)
    one = freedom_of(query(TEXT).with_schema(schema).plan, ())
    assert keys_for([one, freedom_of(plan, ()), Freedom(None, ())]) == (("key",), ())


def test_limits_of_row_patterns_apply_in_the_order_of_time() -> None:
    """The match of q is certain first, because a C ends it; that of p has the earlier time.

    time   1    2    3    9
    p      A
    q           A    C    C
    """
    times = [SECOND, 2 * SECOND, 3 * SECOND, 9 * SECOND]
    keys, types = ["p", "q", "q", "q"], ["A", "A", "C", "C"]
    events = pa.table({"ts": times, "type": types, "key": keys, "price": [1.0] * 4})
    put = put_of("one", ROWS.format("key, n", ""), events.schema, Limit(1, 60 * SECOND), None)
    free = put_of("free", ROWS.format("key, n", ""), events.schema)
    assert put is not None
    assert free is not None
    bucket = Log(events.schema, 0)
    bucket.turn(events.slice(0, 3), 3 * SECOND + 1000, put, free)
    # Without limits, an alert leaves as soon as it is certain.
    assert [json.loads(row)["key"] for row in bucket.of("free")] == ["q"]
    assert bucket.of("one") == []
    bucket.turn(events.slice(3), 9 * SECOND)
    assert [json.loads(row)["key"] for row in bucket.of("one")] == ["p"]
    assert [row["at"] for row in bucket.rows if row["rule"] == "one"] == [SECOND]
    assert bucket.suppressed == {("one", "duplicate"): 1}
    # Without its limit, the rule gives at once what it holds.
    last = pa.table(
        {"ts": [99 * SECOND] * 2, "type": ["A", "C"], "key": ["q"] * 2, "price": [1.0] * 2}
    )
    bucket.turn(last, 99 * SECOND + 1000)
    bucket.turn(None, 99 * SECOND + 1000, replace(put, deduplicate=None, version=2))
    assert [row["at"] for row in bucket.rows if row["rule"] == "one"] == [SECOND, 99 * SECOND]
