"""A latency goal of a live query: the limit of micro-batches follows what they take."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.runtime.cases import same
from tests.runtime.test_stream import cut, events_of, read_stream, sentinel, write_files

from cepheid import metrics
from cepheid.api import query
from cepheid.interfaces import stream_command
from cepheid.interfaces.stream_command import beginning, goal_of, limited, stream_in
from cepheid.interfaces.stream_options import Options
from cepheid.jobs.latency_goal import (
    FULL,
    LOOKED_AT,
    Change,
    LatencyGoal,
    MicroBatch,
    files_of,
    judge,
    log_in,
    micro_batch,
)
from cepheid.options import OptionError
from cepheid.runtimes.spark.decisions import decided
from cepheid.runtimes.spark.latency import NO_LIMIT, hold_latency
from cepheid.statements import sql


class Source:
    """A source with a rate, and a query that takes a time for each micro-batch and event."""

    def __init__(self, rate: float, fixed_s: float, event_s: float) -> None:
        self.rate, self.fixed_s, self.event_s = rate, fixed_s, event_s
        self.waiting = 0.0

    def run(self, goal: LatencyGoal, batches: int) -> Iterator[tuple[MicroBatch, Change | None]]:
        """Run micro-batches one after the other."""
        took = 0.1
        for _ in range(batches):
            self.waiting += self.rate * took
            taken = int(min(self.waiting, goal.limit or self.waiting))
            self.waiting -= taken
            took = self.fixed_s + taken * self.event_s
            batch = MicroBatch(taken, took)
            yield batch, goal.observe(batch)


def changes(found: list[tuple[MicroBatch, Change | None]]) -> list[Any]:
    return [change.limit for _, change in found if change is not None]


def test_a_backlog_is_taken_in_parts_that_hold_the_goal() -> None:
    goal, source = LatencyGoal(2.0, 20_000, "messages"), Source(1_000, 0.2, 2e-4)
    source.waiting = 100_000
    found = list(source.run(goal, 60))
    assert found[0][0].seconds > 4
    assert changes(found)[0] < 5_000, "no more than the goal allows"
    assert all(batch.seconds <= 1.0 for batch, _ in found[-20:])
    assert source.waiting < 1_000


def test_a_backlog_without_a_limit_is_worked_off() -> None:
    goal, source = LatencyGoal(2.0, None, "messages"), Source(1_000, 0.2, 2e-4)
    source.waiting = 100_000
    found = list(source.run(goal, 20))
    assert changes(found) == []
    assert found[-1][0].seconds < 0.3


def test_full_micro_batches_with_time_left_grow() -> None:
    goal, source = LatencyGoal(4.0, 100, "messages"), Source(3_000, 0.2, 1e-4)
    found = list(source.run(goal, 60))
    assert changes(found)[0] > 100
    assert source.waiting < 3_000 * 2
    assert all(batch.seconds <= 2.0 for batch, _ in found[-10:])


def test_if_the_source_is_ahead_micro_batches_grow_and_stay_so() -> None:
    """Half a second allows 1,000 events, of which 3,000 come: the goal cannot be held."""
    goal, source = LatencyGoal(1.0, 1_000, "messages"), Source(3_000, 0.4, 1e-4)
    found = list(source.run(goal, 90))
    reasons = [change.reason for _, change in found if change is not None]
    assert "but the source is ahead" in reasons[0]
    assert len(reasons) <= 2, "a limit that was too small is not tried again at once"
    assert source.waiting < 3_000, "it has caught up"


def test_buckets_move_before_micro_batches_get_less() -> None:
    free = [4, None]
    goal = LatencyGoal(2.0, None, "files", lambda: free.pop(0))
    found = [goal.observe(MicroBatch(10, 2.0)) for _ in range(8)]
    told = [change for change in found if change is not None]
    assert [(change.limit, change.tasks) for change in told] == [(None, 4), (5, None)]
    assert told[0].reason.endswith("the goal allows 1 s: buckets move to 4 tasks")


def test_steady_micro_batches_change_nothing() -> None:
    goal = LatencyGoal(2.0, 5, "files")
    assert [goal.observe(MicroBatch(4, 0.9)) for _ in range(50)] == [None] * 50
    assert [goal.observe(MicroBatch(0, 9.0)) for _ in range(50)] == [None] * 50


def test_the_first_micro_batch_after_a_start_does_not_count() -> None:
    goal = LatencyGoal(2.0, None, "files")
    assert goal.observe(MicroBatch(10, 60.0)) is None
    assert [goal.observe(MicroBatch(10, 0.5)) for _ in range(FULL + LOOKED_AT)] == [None] * 9
    slow = [goal.observe(MicroBatch(10, 2.0)) for _ in range(2)]
    assert slow[-1] == Change(
        5, "micro-batches of 10 files take 2.00 s, and the goal allows 1 s: at most 5 from now on"
    )
    assert goal.observe(MicroBatch(5, 60.0)) is None


def told(number: int, begin: int | None, end: int | None, took_ms: int = 1500) -> dict[str, Any]:
    """What Spark tells of a micro-batch over a folder, by the entries of its log."""
    offsets = [None if one is None else json.dumps({"logOffset": one}) for one in (begin, end)]
    return {
        "batchId": number,
        "numInputRows": 70,
        "durationMs": {"triggerExecution": took_ms},
        "sources": [{"startOffset": offsets[0], "endOffset": offsets[1]}],
    }


def test_files_of_a_micro_batch_are_counted_in_the_checkpoint(tmp_path: Path) -> None:
    """Micro-batches without files, as of `idle`, have no entry in the log."""
    log = tmp_path / "sources" / "0"
    log.mkdir(parents=True)
    lines = [json.dumps({"path": f"{n}", "timestamp": n, "batchId": n // 2}) for n in range(5)]
    (log / "1").write_text("\n".join(["v1", *lines[2:4]]))
    (log / "2.compact").write_text("\n".join(["v1", *lines]))
    read = log_in(tmp_path)
    assert [files_of(read(number), number) for number in (1, 2, 3)] == [2, 1, 0]
    assert micro_batch(told(8, 0, 1), read) == MicroBatch(2, 1.5)
    assert micro_batch(told(9, 1, 1), read) == MicroBatch(0, 1.5)
    assert micro_batch(told(10, 1, 2), read) == MicroBatch(1, 1.5)
    assert micro_batch(told(0, None, None), read) == MicroBatch(0, 1.5)
    assert micro_batch(told(1, 0, 1), None) == MicroBatch(70, 1.5)


@pytest.mark.parametrize("source", ["kafka://host:9092/topic", "events"])
def test_a_query_goes_on_with_another_limit(source: str, tmp_path: Path) -> None:
    """Each micro-batch is judged once, until one changes the limit."""
    options = Options(source, "rows", tmp_path, "1 second", restart_from="earliest")
    log = tmp_path / "sources" / "0"
    log.mkdir(parents=True)
    told_so_far = []
    for number in range(6):
        row = json.dumps({"path": f"{number}", "timestamp": 1, "batchId": number})
        (log / str(number)).write_text("\n".join(["v1", *[row] * 10]))
        told_so_far.append({**told(number, number - 1, number, 2000), "numInputRows": 10})
    goal = LatencyGoal(2.0, None, "messages")
    read = log_in(tmp_path) if source == "events" else None
    assert judge(goal, told_so_far[:2], -1, read) == (None, 1)
    assert judge(goal, told_so_far[:3], 1, read) == (None, 2)
    change, last = judge(goal, told_so_far, 2, read)
    assert change is not None
    assert (change.limit, last) == (5, 3)
    going_on = limited(options, change.limit)
    folder = source == "events"
    assert (going_on.files, going_on.rows) == ((5, None) if folder else (None, 5))
    assert going_on.restart_from is None


@pytest.mark.spark
def test_a_program_of_ones_own_holds_a_goal(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A goal that no micro-batch holds: the limit changes, and each row is there once."""
    events = events_of()
    folder = write_files(tmp_path / "events", [*cut(events, 12), sentinel(events, 60)])
    q = query(
        "RETURN key, COUNT(*) PATTERN SEQ(A, B) WHERE [key] GROUP-BY key WITHIN 9 s SLIDE 9 s"
    )
    limits: list[int | None] = []

    def start(limit: int | None) -> Any:
        limits.append(limit)
        rows = q.stream(read_stream(spark, folder, limit or 100), watermark="0 seconds")
        writer = rows.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        live = writer.trigger(processingTime="0 seconds").start()
        if len(limits) > 1:
            live.processAllAvailable()
            live.stop()
        return live

    with caplog.at_level("INFO", "cepheid"):
        changes = hold_latency(start, "2 ms", limit=1, checkpoint=tmp_path / "checkpoint")
    assert limits == [1, *(change.limit for change in changes)]
    assert [change.limit for change in changes] == [4], "the source is ahead of such a goal"
    assert changes[0].reason in caplog.messages
    assert same(spark.read.parquet(str(tmp_path / "rows")).toArrow(), q.run(events).to_pylist())


@pytest.mark.spark
def test_a_query_that_runs_is_held_to_its_goal(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A goal that no micro-batch holds: the limit changes while the query runs, without a start."""
    events = events_of()
    folder = write_files(tmp_path / "events", [*cut(events, 14), sentinel(events, 60)])
    q = query(
        "RETURN key, COUNT(*) PATTERN SEQ(A, B) WHERE [key] GROUP-BY key WITHIN 9 s SLIDE 9 s"
    )
    rows = q.stream(read_stream(spark, folder, 1), watermark="0 seconds", latency="2 ms")
    writer = rows.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with (
        caplog.at_level("INFO", "cepheid.live"),
        metrics.serve(spark, 0) as numbers,
    ):
        live = writer.trigger(processingTime="0 seconds").start()
        try:
            live.processAllAvailable()
            progress = live.recentProgress
            (goal,) = {p["observedMetrics"]["cepheid_latency"]["goal_ms"] for p in progress}
            explained = q.explain(events=live, analyze=True)
            page = numbers.text()
        finally:
            live.stop()
    took = [entry for entry in (files_in(tmp_path / "checkpoint", n) for n in range(15)) if entry]
    assert (took[0], max(took), sum(took)) == (1, 4, 15), "the source is ahead of such a goal"
    (reason,) = [text for text in caplog.messages if "from now on" in text]
    assert reason.startswith("micro-batches of 1 file take ")
    assert reason.endswith("s, and the goal allows 0.001 s, but the source is ahead: 4 from now on")
    assert f" {reason}" in explained.splitlines()[-1]
    assert goal == 2
    assert "cepheid_source_limit" in page
    assert re.search(r"cepheid_source_limit\{.*\} 4\n", page)
    assert re.search(r"cepheid_latency_goal_seconds\{.*\} 0.002\n", page)
    assert re.search(r"cepheid_decisions\{.*\} 1\n", page)
    assert same(spark.read.parquet(str(tmp_path / "rows")).toArrow(), q.run(events).to_pylist())


@pytest.mark.spark
def test_the_command_changes_a_limit_without_a_new_start(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = events_of()
    folder = write_files(tmp_path / "events", [*cut(events, 14), sentinel(events, 60)])
    q = query(
        "RETURN key, COUNT(*) PATTERN SEQ(A, B) WHERE [key] GROUP-BY key WITHIN 9 s SLIDE 9 s"
    )
    started: list[Any] = []
    start = stream_command.start

    def starting(*given: Any, **more: Any) -> Any:
        started.append(start(*given, **more))
        return started[-1]

    def stop_at_the_end() -> None:
        while not started or sum(map(taken, range(15))) < 15:
            time.sleep(0.2)
        started[-1].processAllAvailable()
        time.sleep(2)  # The last look, at a micro-batch that changes nothing.
        started[-1].stop()

    def taken(number: int) -> int:
        return files_in(tmp_path / "state", number)

    monkeypatch.setattr(stream_command, "start", starting)
    monkeypatch.setattr(stream_command, "FIRST_FILES", 1)
    asked = (str(folder), str(tmp_path / "rows"), tmp_path / "state", "0 seconds")
    ended = threading.Thread(target=stop_at_the_end, daemon=True)
    ended.start()
    stream_in(spark, q, Options(*asked, latency="2 ms", buckets=2))
    ended.join()
    assert len(started) == 1
    found = [taken(number) for number in range(15) if taken(number)]
    assert (found[0], max(found), sum(found)) == (1, 4, 15)
    assert [one.limit for one in decided(str(started[0].id))] == [4]
    assert same(spark.read.parquet(str(tmp_path / "rows")).toArrow(), q.run(events).to_pylist())


@pytest.mark.parametrize(
    ("given", "files", "rows"),
    [
        ({}, 4, None),
        ({"source": "kafka://host:9092/topic"}, None, 50_000),
        ({"files": 7}, 7, None),
        ({"source": "kafka://host:9092/topic", "rows": 7}, None, 7),
        ({"latency": None}, None, None),
    ],
)
def test_a_command_with_a_goal_begins_with_a_limit(
    given: dict[str, Any], files: int | None, rows: int | None
) -> None:
    usual: dict[str, Any] = {
        "source": "events",
        "sink": "rows",
        "checkpoint": Path("state"),
        "watermark": "1 s",
    }
    found = beginning(Options(**(usual | {"latency": "1 s"} | given)))
    assert (found.files, found.rows) == (files, rows)


def files_in(checkpoint: Path, number: int) -> int:
    return files_of(log_in(checkpoint)(number), number)


@pytest.mark.spark
def test_a_source_without_a_limit_is_told_once(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events = spark.readStream.format("rate").option("rowsPerSecond", "100").load()
    events = events.selectExpr("timestamp AS ts", "'A' AS type", "value AS x")
    q = query("SELECT ts, x FROM events WHERE x > 3", type=None)
    rows = q.stream(events, watermark="0 seconds", latency="2 ms")
    writer = rows.writeStream.format("noop")
    with caplog.at_level("INFO", "cepheid.live"):
        live = writer.option("checkpointLocation", str(tmp_path)).start()
        try:
            while len([one for one in live.recentProgress if one["numInputRows"]]) < 3:
                assert live.isActive
                time.sleep(0.1)
            told = decided(str(live.id))
        finally:
            live.stop()
    assert [one.text for one in told] == [NO_LIMIT]
    assert caplog.messages.count(NO_LIMIT) == 1


@pytest.mark.spark
def test_a_goal_that_cannot_be_held_to_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    events = spark.readStream.schema("ts timestamp, type string, key string").json(str(tmp_path))
    q = query("RETURN COUNT(*) PATTERN A WITHIN 9 s SLIDE 9 s")
    for wrong in ("soon", "0 seconds", "-1 second"):
        with pytest.raises(OptionError, match=r"E590.*latency"):
            q.stream(events, watermark="0 seconds", latency=wrong)
    unnamed: Any = 2
    with pytest.raises(OptionError, match=r"E592.*latency"):
        q.stream(events, watermark="0 seconds", latency=unnamed)
    joined = query("SELECT x.key FROM a x JOIN b y ON x.key = y.key WINDOW 9 s", type=None)
    with pytest.raises(OptionError, match=r"E591.*latency.*several streams"):
        joined.stream({"a": events, "b": events}, watermark="0 seconds", latency="1 second")
    with pytest.raises(OptionError, match=r"E591.*latency.*watermark"):
        sql(spark, "SELECT 1", latency="1 second")


def test_a_goal_is_a_length_of_time() -> None:
    for wrong in ("soon", "0 seconds"):
        with pytest.raises(OptionError, match="E590"):
            hold_latency(lambda _: pytest.fail("it is not started"), wrong)
    with pytest.raises(OptionError, match="E592"):
        hold_latency(lambda _: pytest.fail("it is not started"), "1 second", limit=0)
    nothing: Any = None
    with pytest.raises(OptionError, match="E590"):
        goal_of(nothing, Options("events", "rows", Path("state"), "1 s", latency="0 seconds"))
