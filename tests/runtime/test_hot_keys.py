"""Hot keys of live queries: split by panes while the query runs, with the rows of the oracle."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.engine.comparison import same_rows, supported, table_of
from tests.engine.test_linear import SCHEMA, bound_variables
from tests.runtime.cases import same
from tests.runtime.test_stream import drain, read_stream, sentinel, write_files
from tests.runtime.test_stream_state import FOREVER, check_live, disorder, parts, shuffled

from cepheid.api import CompiledQuery, query
from cepheid.arrays.columns import Columns, KeyTable, read_times
from cepheid.errors import BindError, DataError
from cepheid.events.temporal import FOREVER as TIME_FOREVER
from cepheid.jobs import hot_keys
from cepheid.jobs.hot_keys import HotKey, Split
from cepheid.jobs.kind import needs_of
from cepheid.jobs.microbatch import live_job, turn
from cepheid.jobs.split_turn import SplitArrived, read_split, rows_of_split, split_turn
from cepheid.jobs.tables import table_to_bytes
from cepheid.jobs.work import Work
from cepheid.kinds.trend.windows import panes as live_panes
from cepheid.options import OptionError
from cepheid.runtimes.spark.decisions import decided
from cepheid.spark.schema import result_schema_of
from cepheid.testing.harness import stream
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import choice, patterns, streams

pytestmark = pytest.mark.timeout(600)  # kernels compile on first use

FEW = settings(max_examples=min(settings().max_examples, 30))  # each is a dozen turns
PAIRS = "RETURN key, COUNT(*), SUM(A.x) PATTERN SEQ(A, B) WHERE [key] GROUP-BY key "


class LiveSplit:
    """A live query whose hot keys are split; its tasks run one after the other."""

    def __init__(self, compiled: CompiledQuery, table: pa.Table, delay: int, folder: str, n: int):
        self.plan = compiled.with_schema(table.schema).plan
        check_live(self.plan)
        needs = needs_of(self.plan)
        assert not needs.not_split
        results = result_schema_of(self.plan, table.schema)
        self.work = Work.of(self.plan, table.schema, results, n, delay=delay)
        self.split = Split(folder, needs.buckets, needs.pane, needs.within, n)
        self.keys = KeyTable(needs.buckets)
        self.data: list[bytes | None] = [None] * n
        self.tables: list[pa.Table] = []
        self.late = self.events = 0
        self.sizes = np.zeros(n, np.int64)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return what came out so far."""
        return [row for table in self.tables for row in table.to_pylist()]

    def feed(self, batch: pa.Table, chunks: int = 2) -> None:
        """Process a micro-batch, of which each task sends a part."""
        count = self.work.buckets
        came = [SplitArrived([], [], []) for _ in range(count)]
        hot, latest = self.split.read(), None
        each = -(-len(batch) // chunks)
        for part in parts(batch, each):
            number = self.keys.number(Columns(part))
            part, number = part.filter(pa.array(number >= 0)), number[number >= 0]
            # Two keys that are counted one after the other have the same hash.
            hashes = number // 2 * 7 - 3
            times = read_times(Columns(part), self.plan.time)
            placed = self.split.place(hot, part, hashes, times)
            counted = part.append_column("__counted", pa.array(placed.counted))
            heat = self.split.heat(hot, part, hashes) if len(part) else None
            for bucket in range(count):
                came[bucket].home.append(counted.filter(pa.array(placed.home == bucket)))
                came[bucket].panes.append(part.filter(pa.array(placed.pane == bucket)))
                if heat is not None:
                    own = heat.filter(pa.array(heat["__hash"].to_numpy() % count == bucket))
                    came[bucket].heat.append(own)
        if len(batch):
            latest = int(read_times(Columns(batch), self.plan.time).max())
        self._turns(came, latest)

    def finish(self) -> None:
        """Let the watermark pass all events."""
        self._turns([SplitArrived([], [], []) for _ in self.data], FOREVER)

    def _turns(self, came: list[SplitArrived], latest: int | None) -> None:
        sent = []
        for bucket, own in enumerate(came):
            self.sizes[bucket] = sum(map(len, [*own.home, *own.panes]))
            if bucket % 2:
                # A task may run twice; its first attempt may have noted a key.
                split_turn(self.work, self.split, self.data[bucket], own, latest)
            turned = split_turn(self.work, self.split, self.data[bucket], own, latest)
            self.data[bucket], outcome = turned
            self.tables.append(outcome.results)
            self.late, self.events = self.late + outcome.late, self.events + outcome.events
            if outcome.panes is not None and len(outcome.panes):
                sent.append(outcome.panes)
        if sent:
            self.tables.append(rows_of_split(self.work, self.split, sent[::-1]))


@contextmanager
def eager() -> Iterator[str]:
    """Split every key that has an event, as soon as possible; yield a folder."""
    changed = {"HOT_EVENTS_MIN": 0, "HOT_BATCHES_MIN": 1, "SAMPLED": 1, "HOT_SHARE": 0.0}
    with ExitStack() as stack:
        for name, value in changed.items():
            stack.enter_context(mock.patch.object(hot_keys, name, value))
        yield stack.enter_context(tempfile.TemporaryDirectory(prefix="hot-"))


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["window_end"], row["key"]


WINDOWS = ["WITHIN 2 s SLIDE 2 s", "WITHIN 4 s SLIDE 1 s", "WITHIN 3 s SLIDE 2 s"]


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Draw a query by keys whose panes can be summarised."""
    pattern = draw(patterns(leaves_max=3))
    items = ["key", "COUNT(*)"]
    names = bound_variables(pattern)
    asked = draw(st.sets(st.sampled_from(["SUM", "AVG", "MIN", "MAX"]), max_size=2))
    items += [f"{function}({draw(choice(names))}.price)" for function in sorted(asked)]
    text = " ".join(
        [
            f"RETURN {', '.join(items)} PATTERN {pattern}",
            draw(choice(["WHERE [key] GROUP-BY key", "WHERE [key, zone] GROUP-BY key"])),
            f"SEMANTICS {draw(choice(['any', 'next', 'contiguous']))}",
            draw(choice(WINDOWS)),
            draw(choice(["", "", "TIES arrival"])),
            draw(choice(["", "", "HAVING COUNT(*) > 1"])),
            draw(choice(["", "", "NUMBERS exact"])),
        ]
    )
    try:
        compiled = query(text, schema=SCHEMA)
    except BindError:
        assume(False)
    assume(supported(compiled) and not needs_of(compiled.plan).not_split)
    return text


@FEW
@given(queries(), streams(SCHEMA, events_max=10), st.integers(0, 1000))
def test_random_queries_equal_the_oracle(
    text: str, events: list[Mapping[str, object]], seed: int
) -> None:
    assume(len(events) > 0)
    compiled, table = query(text, schema=SCHEMA), table_of(events)
    delay = (0, 1_000_000, 4_000_000)[seed % 3]
    few = mock.patch.object(live_panes, "EVENT_BYTES", (32, 1 << 30, 200)[seed // 3 % 3])
    with eager() as folder, few:
        live = LiveSplit(compiled, table, delay, folder, 2 + seed % 3)
        for part in parts(shuffled(table, disorder(live.plan, delay), seed), 1 + seed % 5):
            live.feed(part)
        live.finish()
    assert live.late == 0
    rows = sorted(live.rows, key=_place)
    assert same_rows(rows, sorted(evaluate(compiled.tree, events), key=_place))


def skewed(count: int, span_s: int, share: float, seed: int = 1) -> pa.Table:
    """Make events of which one key has a share."""
    rng = np.random.default_rng(seed)
    keys = np.where(rng.random(count) < share, 0, rng.integers(1, 2000, count))
    return pa.table(
        {
            "ts": pa.array(np.sort(rng.integers(0, span_s * 10**6, count))),
            "type": pa.array(rng.choice(["A", "B"], count)),
            "key": pa.array(keys),
            "x": pa.array(rng.integers(0, 9, count)),
        }
    )


@pytest.mark.parametrize("window", ["WITHIN 5 s SLIDE 5 s", "WITHIN 6 s SLIDE 2 s"])
def test_a_key_with_half_of_all_events_is_spread_over_all_buckets(
    tmp_path: Path, window: str
) -> None:
    table = skewed(180_000, 60, 0.5)
    compiled = query(PAIRS + window)
    live = LiveSplit(compiled, table, 1_000_000, str(tmp_path / "hot"), 8)
    uneven = []
    for part in parts(shuffled(table, 1_000_000, 1), 15_000):
        live.feed(part)
        uneven.append(live.sizes.max() / live.sizes.mean())
    live.finish()
    assert [key.hash for key in live.split.read().found] == [-3], "the one hot key"
    assert uneven[0] > 4
    assert max(uneven[6:]) < 1.3, "from the second window on, no bucket has it alone"
    assert live.events == len(table)
    assert same(pa.Table.from_pylist(live.rows), compiled.run(table).to_pylist())


def test_late_events_count_once_and_change_nothing() -> None:
    on_time = table_of(stream("a1(key='p') b2(key='q') a3(key='p') b9(key='p') b12(key='q')"))
    late = table_of(stream("a2(key='p') a3(key='q')"))
    results = []
    text = "RETURN key, COUNT(*) PATTERN A+ GROUP-BY key WITHIN 4 s SLIDE 2 s"
    for with_late in (False, True):
        fed = 0
        with eager() as folder:
            live = LiveSplit(query(text), on_time, 0, folder, 2)
            for number, part in enumerate(parts(on_time, 1)):
                live.feed(part)
                if with_late and number > 2:
                    live.feed(late)
                    fed += len(late)
            live.finish()
            assert len(live.split.read()) == 1
        assert (live.late, live.events) == (fed, len(on_time) + fed)
        results.append(live.rows)
    assert results[0] == results[1] != []


def test_a_query_that_did_not_split_keys_goes_on(tmp_path: Path) -> None:
    table = skewed(60_000, 30, 0.5)
    compiled = query(PAIRS + "WITHIN 5 s SLIDE 5 s")
    live = LiveSplit(compiled, table, 0, str(tmp_path / "hot"), 1)
    plain, outcome = turn(live_job(live.work), live.work, None, [table.slice(0, 100)], 0)
    live.data[0] = plain
    live.tables.append(outcome.results)
    for part in parts(table.slice(100), 15_000):
        live.feed(part)
    live.finish()
    assert len(live.split.read()) == 1
    assert same(pa.Table.from_pylist(live.rows), compiled.run(table).to_pylist())
    assert read_split(plain).home == plain
    with pytest.raises(DataError, match=r"E524.*kind `split`"):
        turn(live_job(live.work), live.work, live.data[0], [], None)


def test_notes_that_are_gone_or_of_another_query_stop_a_query() -> None:
    table = table_of(stream("a1(key='p') b2(key='p') a3(key='p') b4(key='p')"))
    compiled = query("RETURN key, COUNT(*) PATTERN A+ GROUP-BY key WITHIN 4 s SLIDE 2 s")
    with eager() as folder:
        live = LiveSplit(compiled, table, 0, folder, 2)
        for part in parts(table, 2):
            live.feed(part)
        (note,) = Path(folder).glob("*.hot")
        note.unlink()
        with pytest.raises(DataError, match=r"E524.*does not have the notes"):
            live.finish()
        other = HotKey(7, 0, table_to_bytes(pa.table({"zone": [1]})))
        live.split.note([other])
        with pytest.raises(DataError, match=r"E524.*notes of another query"):
            live.split.read()


def test_few_events_and_even_keys_are_not_split(tmp_path: Path) -> None:
    compiled = query(PAIRS + "WITHIN 5 s SLIDE 5 s")
    for name, table, rows in (
        ("few", skewed(8_000, 30, 0.5), 2_000),
        ("even", skewed(60_000, 30, 0.0), 15_000),
    ):
        live = LiveSplit(compiled, table, 0, str(tmp_path / name), 4)
        for part in parts(table, rows):
            live.feed(part)
        assert len(live.split.read()) == 0


def test_every_key_has_a_time_of_its_own(tmp_path: Path) -> None:
    split = Split(str(tmp_path / "hot"), ("key",), 10, 100, 4)
    for code, (key, begin) in enumerate([(7, 50), (3, 20), (5, 90)]):
        names = table_to_bytes(pa.table({"key": [key]}))
        split.note([HotKey(code, begin, names)])
    since = split.read().since(pa.table({"key": [5, 4, 3, 7, None, 3]}))
    assert since.tolist() == [90, TIME_FOREVER, 20, 50, TIME_FOREVER, 20]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("RETURN COUNT(*) PATTERN A+ WITHIN 5 s SLIDE 5 s", "no GROUP-BY"),
        ("RETURN MATCHES PATTERN A+ WHERE [key] WITHIN 5 s SLIDE 5 s", "matches are listed"),
        (f"{PAIRS} WITHIN 5 s", "moves with every event"),
        (f"{PAIRS} WITHIN 5 s SLIDE 5 s EMIT EARLY", "EMIT EARLY"),
        (
            "RETURN key, COUNT(*) PATTERN A+ WHERE [key] AND A.x < NEXT(A).x GROUP-BY key "
            "WITHIN 5 s SLIDE 5 s",
            "keeps events",
        ),
    ],
)
def test_other_queries_say_why_their_keys_are_not_split(text: str, why: str) -> None:
    assert why in needs_of(query(text).plan).not_split


@pytest.mark.spark
def test_hot_keys_of_a_stream_on_spark(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Half of all events have one key, in a stream that stops in the middle and goes on."""
    table = skewed(50_000, 20, 0.5)
    times = table["ts"].cast(pa.timestamp("us", "UTC"))
    events = shuffled(table.set_column(0, "ts", times), 1_000_000, 2)
    files = [*parts(events, 12_500), sentinel(events, 60)]
    q = query(PAIRS + "WITHIN 4 s SLIDE 2 s")

    def go_on(found: list[pa.Table], late: str) -> tuple[pa.Table, list[Any]]:
        source = read_stream(spark, write_files(tmp_path / "events", found), 1)
        hot = str(tmp_path / "hot")
        rows = q.stream(source, watermark="2 seconds", late=late, hot_keys=hot)
        return drain(rows[0] if late == "side" else rows, tmp_path, "rows")

    # Where late events are kept, Spark reads files and hashes keys; else Cepheid does.
    _, first = go_on(files[:2], "side")
    with caplog.at_level(logging.INFO, "cepheid.live"):
        written, second = go_on(files[2:], "drop")
    told = [one.getMessage() for one in caplog.records if one.name == "cepheid.live"]
    assert len(told) == 1, "once, whatever the number of tasks and micro-batches"
    assert told[0].startswith("key 0 has many events: split over buckets from ")
    assert [one.text for one in decided(str(second[0]["id"]))] == told
    counts = [p["observedMetrics"]["cepheid"]["events"] for p in [*first, *second]]
    assert list(hot_keys.noted_keys(str(tmp_path / "hot"))) == ["key 0"]
    assert sum(count or 0 for count in counts) == len(table)
    assert same(written, q.run(table.set_column(0, "ts", times)).to_pylist())
    source = read_stream(spark, tmp_path / "events", 1)
    listed = query("RETURN MATCHES PATTERN A WHERE [key] WITHIN 1 s")
    with pytest.raises(OptionError, match=r"E591.*matches are listed"):
        listed.stream(source, watermark="1 second", hot_keys="folder")
