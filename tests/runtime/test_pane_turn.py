"""Live queries without partitions: panes in several buckets, and one that multiplies them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.engine.comparison import same_rows, supported, table_of
from tests.engine.test_linear import SCHEMA, bound_variables
from tests.runtime.cases import same
from tests.runtime.test_stream import (
    cut,
    drain,
    events_of,
    out_of_order,
    read_stream,
    sentinel,
    write_files,
)
from tests.runtime.test_stream_state import Live, disorder, parts, shuffled

from cepheid.api import query
from cepheid.errors import BindError, DataError
from cepheid.jobs.kind import needs_of
from cepheid.jobs.microbatch import turn
from cepheid.kinds.trend.live_by_panes import LiveByPanes
from cepheid.kinds.trend.planning import needs as trend_needs
from cepheid.kinds.trend.planning.needs import cut_panes
from cepheid.kinds.trend.windows import panes as live_panes
from cepheid.kinds.trend.windows.panes import closing
from cepheid.plans.plan import TrendPlan, WindowKind, WindowPlan
from cepheid.testing.harness import stream
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import choice, patterns, streams

pytestmark = pytest.mark.timeout(600)  # kernels compile on first use

FEW = settings(max_examples=min(settings().max_examples, 60))  # each is a dozen turns
SUMS = "RETURN COUNT(*), SUM(A.price), MIN(B.price) PATTERN (SEQ(A+, B))+ "
TIMES = "RETURN COUNT(*), MAX(B.ts) PATTERN (SEQ(A+, B))+ "


WINDOWS = ["WITHIN 2 s SLIDE 2 s", "WITHIN 4 s SLIDE 1 s", "WITHIN 3 s SLIDE 2 s"]


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Draw a query over one partition whose panes can be summarised."""
    pattern = draw(patterns(leaves_max=4))
    if draw(st.integers(0, 5)) == 0:
        pattern = f"{pattern} AND {draw(patterns(leaves_max=2))}"
        items = ["COUNT(*)"]
    else:
        names = bound_variables(pattern)
        asked = draw(st.sets(st.sampled_from(["SUM", "AVG", "MIN", "MAX"]), max_size=3))
        items = ["COUNT(*)"]
        for function in asked:
            attribute = draw(choice(["price", "volume"]))
            items.append(f"{function}({draw(choice(names))}.{attribute})")
    text = " ".join(
        [
            f"RETURN {', '.join(sorted(items))} PATTERN {pattern}",
            f"SEMANTICS {draw(choice(['any', 'next', 'contiguous']))}",
            draw(choice(WINDOWS)),
            draw(choice(["", "", "TIES arrival"])),
            draw(choice(["", "", "MIN LENGTH 2"])),
            draw(choice(["", "", "HAVING COUNT(*) > 1"])),
            draw(choice(["", "", "NUMBERS exact"])),
        ]
    )
    try:
        compiled = query(text, schema=SCHEMA)
    except BindError:
        assume(False)
    assume(supported(compiled) and not needs_of(compiled.plan).no_panes)
    return text


@FEW
@given(queries(), streams(SCHEMA, events_max=8), st.integers(0, 1000))
def test_random_queries_equal_the_oracle(
    text: str, events: list[Mapping[str, object]], seed: int
) -> None:
    assume(len(events) > 0)
    compiled, table = query(text, schema=SCHEMA), table_of(events)
    delay = (0, 1_000_000, 4_000_000)[seed % 3]
    live = Live(compiled, table.schema, delay=delay, buckets=2 + seed % 3)
    assert live.by_panes
    # Panes of few events keep these, or none do, or those of one or two.
    with mock.patch.object(live_panes, "EVENT_BYTES", (32, 1 << 30, 200)[seed // 3 % 3]):
        for part in parts(shuffled(table, disorder(live.plan, delay), seed), 1 + seed % 5):
            live.feed(part)
        live.finish()
    assert live.late == 0
    assert same_rows(live.rows, evaluate(compiled.tree, events))


@pytest.mark.parametrize("window", ["WITHIN 40 ms SLIDE 40 ms", "WITHIN 30 ms SLIDE 20 ms"])
@pytest.mark.parametrize("least", [10**5, 10**6, 10**9])
def test_panes_of_any_length_give_the_same_rows(
    monkeypatch: pytest.MonkeyPatch, window: str, least: int
) -> None:
    """Many events in a pane, panes that go on from micro-batch to micro-batch, and empty ones."""
    monkeypatch.setattr(trend_needs, "LIVE_PANE_NS", least)
    rng = np.random.default_rng(least)
    times = np.sort(rng.integers(0, 10**5, 1200))
    times[600:] += 3 * 10**5
    table = pa.table(
        {
            "ts": pa.array(times),
            "type": pa.array(rng.choice(["A", "B", "C"], 1200)),
            "price": pa.array(rng.normal(size=1200)),
        }
    )
    compiled = query(f"{SUMS} SEMANTICS next {window}")
    live = Live(compiled, table.schema, delay=3000, buckets=3)
    for part in parts(shuffled(table, 3000, 1), 70):
        live.feed(part)
    live.finish()
    assert len(live.rows) >= 4
    assert same(pa.Table.from_pylist(live.rows), compiled.run(table).to_pylist())


def test_rows_leave_when_the_watermark_passes_the_end_of_their_window() -> None:
    events = table_of(stream("a1 b2 a3 b4 a5 b6 a7 b8 a9 b10"))
    live = Live(query(f"{TIMES} WITHIN 4 s SLIDE 2 s"), events.schema, delay=1_000_000, buckets=2)
    ends = []
    for part in parts(events, 1):
        live.feed(part)
        ends.append([row["window_end"] // 1_000_000 for row in live.rows])
        live.tables.clear()
    assert ends == [[], [], [], [], [4], [], [6], [], [8], []]


def test_few_events_far_apart_are_kept_as_they_are() -> None:
    """A matrix for each would be a hundred times larger than they are."""
    rng = np.random.default_rng(2)
    times = np.sort(rng.integers(0, 20_000 * 10**6, 20_000))
    types = rng.choice(["A", "B", "C", "D"], 20_000)
    table = pa.table({"ts": pa.array(times), "type": pa.array(types)})
    compiled = query(
        "RETURN LOG2(COUNT(*)), COUNT(A), COUNT(C) PATTERN SEQ(A+, B, C+, D) "
        "WITHIN 1 hour SLIDE 10 minutes"
    )
    live = Live(compiled, table.schema, delay=0, buckets=2)
    live.feed(table)
    assert sum(map(len, live.data.values())) < 100_000
    live.finish()
    assert same(pa.Table.from_pylist(live.rows), compiled.run(table).to_pylist())


def test_the_state_of_a_bucket_does_not_grow() -> None:
    """Neither with micro-batches within a pane, nor with windows that are closed."""
    live = Live(
        query(f"{TIMES} WITHIN 2 s SLIDE 1 s"), table_of(stream("a1 b1")).schema, delay=0, buckets=2
    )
    sizes = []
    for second in range(1, 40):
        for _ in range(3):
            live.feed(table_of(stream(f"a{second} b{second}")))
        sizes.append(sum(map(len, live.data.values())))
    assert max(sizes[20:]) <= max(sizes[:20])


def test_late_events_are_counted_and_change_nothing() -> None:
    on_time, late = table_of(stream("a1 a2 b3 a9 b12")), table_of(stream("a2 b3"))
    results = []
    for with_late in (False, True):
        live = Live(query(f"{TIMES} WITHIN 4 s SLIDE 4 s"), on_time.schema, delay=0, buckets=2)
        for part in parts(on_time, 4):
            live.feed(part)
            if with_late:
                live.feed(late)
        live.finish()
        assert live.late == (4 if with_late else 0)
        results.append(live.rows)
    assert results[0] == results[1] != []


def test_a_checkpoint_of_another_query_is_refused() -> None:
    events = table_of(stream("a1 b2"))
    text = f"{TIMES} WITHIN 4 s SLIDE 4 s"
    live = Live(query(text), events.schema, delay=0, buckets=2)
    live.feed(events)
    changed = Live(query(text.replace("A+", "B+")), events.schema, delay=0, buckets=2)
    one = Live(query(text), events.schema, delay=0)
    one.feed(events)
    unit = Live(query(text, time_unit="ms"), events.schema, delay=0, buckets=2)
    for work, data, why in (
        (changed.work, live.data[0], "another query"),
        (unit.work, live.data[0], "another query"),
        (live.work, one.data[0], "its groups lie in 1 bucket, and now there are 2"),
        (live.work, b"nonsense", "no state"),
    ):
        with pytest.raises(DataError, match=why) as caught:
            turn(LiveByPanes.of(work), work, data, [], None)
        assert caught.value.diagnostics[0].code == "E524"


def test_windows_that_a_watermark_closes() -> None:
    window = WindowPlan(WindowKind.SLIDING, 6, 2, 2)
    assert closing(window, 5, 5) is None
    assert closing(window, 6, 7) is None
    ending = closing(window, 5, 6)
    assert ending is not None
    assert (ending.begin, ending.end, ending.kept) == (0, 6, 2)
    ending = closing(window, 6, 11)
    assert ending is not None
    assert (ending.begin, ending.end, ending.kept) == (2, 10, 6)


@pytest.mark.parametrize(
    ("window", "tick_ns", "length"),
    [
        (WindowPlan(WindowKind.SLIDING, 600_000_000, 60_000_000, 60_000_000), 1000, 300_000),
        (WindowPlan(WindowKind.TUMBLING, 1_000_000), 1000, 5000),
        (WindowPlan(WindowKind.TUMBLING, 86_400_000_000), 1000, 42_187_500),
        (WindowPlan(WindowKind.SLIDING, 3000, 1000, 1000), 1000, 1000),
        (WindowPlan(WindowKind.TUMBLING, 7), 10**9, 1),
        (WindowPlan(WindowKind.TUMBLING, 999_983), 1000, 999_983),
    ],
)
def test_panes_are_cut_into_equal_parts(window: WindowPlan, tick_ns: int, length: int) -> None:
    plan = TrendPlan.of(query("RETURN COUNT(*) PATTERN A WITHIN 1 s").plan)
    plan = msgspec.structs.replace(plan, window=window, tick_ns=tick_ns)
    found = cut_panes(plan, 2048)
    assert found == length


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("RETURN COUNT(*) PATTERN A+ WITHIN 1 s SLIDE 1 s", ""),
        ("RETURN COUNT(*) PATTERN A+ WHERE [key] WITHIN 1 s SLIDE 1 s", "there is one group"),
        ("RETURN MATCHES PATTERN A+ WITHIN 1 s SLIDE 1 s", "matches are listed"),
        ("DEFINE A AS price > 1, B AS price < 0 PATTERN A before B", "without a window"),
        ("RETURN COUNT(*) PATTERN A+ WITHIN 1 s", "moves with every event"),
        ("RETURN COUNT(*) PATTERN A+ WITHIN 1 s SLIDE 1 s EMIT EARLY", "EMIT EARLY tells"),
        ("RETURN COUNT(*) PATTERN A+ WITHIN 1 hour SLIDE 100 ms", "36,000 panes"),
        (
            "RETURN COUNT(*) PATTERN A+ WHERE A.price < NEXT(A).price WITHIN 1 s SLIDE 1 s",
            "evaluator keeps events",
        ),
    ],
)
def test_explain_tells_why_panes_are_kept_apart_or_not(text: str, why: str) -> None:
    compiled = query(text)
    told = needs_of(compiled.plan).no_panes
    assert why in told
    assert bool(why) == bool(told)
    said = compiled.explain(engine="spark")
    assert ("live streams: buckets by panes of 5 ms" in said) == (not why)
    assert ("live streams: one bucket" in said) == bool(why)


@pytest.mark.spark
@pytest.mark.slow
def test_batch_equals_stream_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    assert int(spark.conf.get("spark.sql.shuffle.partitions") or 0) > 1
    events = events_of()
    mixed = out_of_order(events, 5_000_000)
    folder = write_files(tmp_path / "events", [*cut(mixed, 4), sentinel(events, 60)])
    q = query("RETURN COUNT(*), SUM(A.x), MAX(B.x) PATTERN SEQ(A+, B) WITHIN 9 s SLIDE 3 s")
    result = q.stream(read_stream(spark, folder, 1), watermark="5 seconds")
    rows, progress = drain(result, tmp_path, "a")
    expected = q.run(events).to_pylist()
    assert len(expected) > 15
    assert same(rows, expected)
    counts = [p["observedMetrics"]["cepheid"] for p in progress if p["observedMetrics"]]
    assert counts[-1]["buffered"] == 0
    assert {c["partitions"] for c in counts} == {1}
