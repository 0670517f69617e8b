"""``cepheid stream``: a live query over a folder of files."""

from __future__ import annotations

import io
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from tests.interfaces.program import run

import cepheid
from cepheid.api import CompiledQuery, query
from cepheid.errors import DataError
from cepheid.interfaces import stream_command
from cepheid.interfaces.stream_command import (
    progress_table,
    stream_in,
    tasks_read,
    wrong_use,
)
from cepheid.interfaces.stream_options import Options
from cepheid.runtimes.checkpoints import clear_unplanned
from cepheid.runtimes.spark.sinks.calls import sink

QUERY = "RETURN user, COUNT(*) PATTERN A+ GROUP-BY user WITHIN 4 s SLIDE 4 s"


def write(folder: Path, number: int, times: list[int]) -> None:
    stamps = pa.array([time * 1_000_000 for time in times], pa.timestamp("us", "UTC"))
    events = pa.table({"ts": stamps, "type": ["A"] * len(times), "user": ["ann"] * len(times)})
    parquet.write_table(events, folder / f"{number}.parquet")
    os.utime(folder / f"{number}.parquet", (number, number))


def two_files(folder: Path) -> Path:
    folder.mkdir()
    write(folder, 1, [3, 1, 5])
    write(folder, 2, [6])
    return folder


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_rows_are_printed(tmp_path: Path) -> None:
    folder = two_files(tmp_path / "events")
    places = ("--source", folder, "--sink", "-", "--checkpoint", tmp_path / "state")
    options = (*places, "--once", "--watermark", "1 second", "--master", "local[1]")
    near = QUERY.replace("A+", "A+ OR a")
    done = run("stream", "-", *options, stdin=near, timeout=200)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["count"] for line in done.stdout.splitlines()] == [3.0]
    told = [line for line in done.stderr.splitlines() if line.startswith("notice:")]
    assert told == ["notice: no event has the type `a`: did you mean `A`? types are: A (W206)"]
    # Hadoop would start a process for each of them.
    assert not list((tmp_path / "state").rglob("*.crc"))


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_a_changed_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    folder = two_files(tmp_path / "events")
    sink = tmp_path / "rows"
    options = Options(str(folder), str(sink), tmp_path / "state", "1 second", once=True)
    stream_in(spark, query(QUERY), options)
    assert [row["count"] for row in spark.read.parquet(str(sink)).collect()] == [3.0]
    write(folder, 3, [20])
    with pytest.raises(DataError) as caught:
        stream_in(spark, query(QUERY.replace("A+", "A")), options)
    assert caught.value.diagnostics[0].code == "E524"
    assert "PATTERN differs" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 3
    # HAVING is no part of the state: the query goes on with it.
    stream_in(spark, query(QUERY + " HAVING COUNT(*) > 1"), options)
    assert counts_of(spark, sink) == [3.0, 3.0]


@pytest.mark.spark
def test_a_sink_may_be_a_relative_path_and_units_are_ours(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = two_files(tmp_path / "events")
    stream_in(
        spark, query(QUERY), Options(str(folder), "rows", tmp_path / "state", "1 s", once=True)
    )
    assert counts_of(spark, tmp_path / "rows") == [3.0]


def counts_of(spark: SparkSession, folder: Path) -> list[float]:
    # The types of columns of two queries may differ.
    del spark
    tables = [parquet.read_table(path) for path in folder.glob("*.parquet")]
    return sorted(float(row["count"]) for table in tables for row in table.to_pylist())


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_a_query_starts_anew_beside_its_checkpoint(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, sink, state = two_files(tmp_path / "events"), tmp_path / "rows", tmp_path / "state"
    options = Options(str(folder), str(sink), state, "1 second", once=True)
    stream_in(spark, query(QUERY), options)
    assert counts_of(spark, sink) == [3.0]
    changed = query(QUERY.replace("A+", "A"))
    again = msgspec.structs.replace(options, restart_from="earliest")
    stream_in(spark, changed, again)
    assert "its old checkpoint is" in capsys.readouterr().err
    # The numbers of its micro-batches follow, so the sink takes its rows.
    assert counts_of(spark, sink) == [2.0, 3.0]
    assert (tmp_path / "state-1" / "offsets").is_dir()
    write(folder, 3, [20])
    stream_in(spark, changed, options)
    assert counts_of(spark, sink) == [2.0, 2.0, 3.0]
    later = msgspec.structs.replace(options, restart_from="1970-01-01 00:00:04")
    stream_in(spark, changed, later)
    # Only the events from 4 s on, which are at 5 s and 6 s.
    assert counts_of(spark, sink) == [2.0, 2.0, 2.0, 3.0]
    now = msgspec.structs.replace(options, restart_from="now")
    stream_in(spark, changed, now)
    assert len(counts_of(spark, sink)) == 4
    assert (tmp_path / "state-3").is_dir()


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_a_query_begins_with_the_events_of_a_store(spark: SparkSession, tmp_path: Path) -> None:
    folder, sink, state = tmp_path / "events", tmp_path / "rows", tmp_path / "state"
    folder.mkdir()
    write(folder, 1, [1, 2, 3, 5, 6])  # Those before 5 s are in the store too.
    stored = parquet.read_table(folder / "1.parquet").slice(0, 3)
    store = cepheid.EventStore(tmp_path / "store")
    store.append(stored.slice(2))
    store.append(stored.slice(0, 2))
    options = Options(
        str(folder), str(sink), state, "1 second", once=True,
        restart_from="1970-01-01 00:00:05", backfill=tmp_path / "store",
    )  # fmt: skip
    text = "RETURN user, COUNT(*) PATTERN A GROUP-BY user WITHIN 8 s SLIDE 8 s"
    stream_in(spark, query(text), options)
    store.compact()
    write(folder, 2, [7, 20])
    going_on = msgspec.structs.replace(options, restart_from=None, backfill=None)
    stream_in(spark, query(text), going_on)
    # 1, 2, 3 from the store, 5, 6, 7 live: each once.
    assert counts_of(spark, sink) == [6.0]
    assert wrong_use(query(text), msgspec.structs.replace(options, restart_from=None))


@pytest.mark.spark
def test_a_query_may_stop_while_its_sink_writes(spark: SparkSession, tmp_path: Path) -> None:
    began, failed = threading.Event(), threading.Event()

    @sink
    def wait(batch: DataFrame, _number: int) -> None:
        began.set()
        jvm: Any = batch.sparkSession.sparkContext._jvm
        jvm.java.lang.Thread.sleep(60_000)

    @sink
    def fail(batch: DataFrame, _number: int) -> None:
        failed.set()
        batch.sparkSession.sql("SELECT raise_error('lost')").collect()

    events = spark.readStream.format("rate").load().writeStream
    live = events.foreachBatch(wait).option("checkpointLocation", str(tmp_path / "1")).start()
    assert began.wait(60)
    live.stop()
    assert (live.isActive, live.exception()) == (False, None)
    events = spark.readStream.format("rate").load().writeStream
    live = events.foreachBatch(fail).option("checkpointLocation", str(tmp_path / "2")).start()
    with pytest.raises(StreamingQueryException) as caught:
        live.awaitTermination(60)
    assert failed.is_set()
    assert "error[E523]: Spark failed" in str(caught.value)


LEFT = ".0.6b7c5b0e-3c0f-4d51-9d43-0c1f0a5b2e11.tmp"


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_what_a_driver_left_that_died_while_it_planned(spark: SparkSession, tmp_path: Path) -> None:
    folder = two_files(tmp_path / "events")
    offsets = tmp_path / "state" / "offsets"
    offsets.mkdir(parents=True)
    options = Options(
        str(folder), str(tmp_path / "rows"), tmp_path / "state", "1 second", once=True
    )
    (offsets / LEFT).write_text("v1")
    (offsets / "mine").write_text("not from Spark")
    with pytest.raises(DataError) as caught:
        stream_in(spark, query(QUERY), options)
    (found,) = caught.value.diagnostics
    assert found.code == "E524"
    assert "start again" in found.helps[0]
    (offsets / "mine").unlink()
    (offsets / f".{LEFT}.crc").write_text("crc")
    stream_in(spark, query(QUERY), options)
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert [row["count"] for row in rows] == [3.0]
    assert not clear_unplanned(tmp_path / "state"), "there is a plan now"


def test_the_query_that_began_a_micro_batch_finishes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    class Live:
        lastProgress = None  # noqa: N815  # Spark's name

        def awaitTermination(self, _seconds: float = 0) -> bool:  # noqa: N802  # Spark's name
            return True

    class Output:
        def __init__(self, compiled: CompiledQuery, options: Options) -> None:
            self.said = f"{'A+' if 'A+' in compiled.text else 'A'} {options.watermark}"
            self.said += f" {options.restart_from}" if options.restart_from else ""

        def finish(self) -> None:
            pass

    def started(output: Output, *_: object, single: bool = False) -> Live:
        happened.append(f"{'finish' if single else 'start'} {output.said}")
        return Live()

    monkeypatch.setattr(stream_command, "start", started)
    monkeypatch.setattr(stream_command, "output_in", lambda _, q, options: Output(q, options))
    state = tmp_path / "state"
    (state / "offsets").mkdir(parents=True)
    options = Options("events", "-", state, "1 second", once=True)

    def go(compiled: CompiledQuery, **changed: Any) -> list[str]:
        happened.clear()
        asked = msgspec.structs.replace(options, **changed)
        stream_in(None, compiled, asked)  # type: ignore[arg-type]  # no Spark
        return list(happened)

    changed = query(QUERY.replace("A+", "A"))
    assert go(query(QUERY)) == ["start A+ 1 second"]
    assert go(changed) == ["start A 1 second"]
    # Now a micro-batch is planned and not committed.
    (state / "offsets" / "3").touch()
    assert go(changed) == ["start A 1 second"]
    assert go(query(QUERY)) == ["finish A 1 second", "start A+ 1 second"]
    assert go(query(QUERY), watermark="2 s") == ["finish A+ 1 second", "start A+ 2 s"]
    again = go(changed, restart_from="earliest")
    assert again == ["finish A+ 2 s", "start A 1 second earliest"]


def test_wrong_use_is_seen_before_spark_starts(tmp_path: Path) -> None:
    def said(source: str, **more: Any) -> str:
        return wrong_use(query(QUERY), Options(source, "-", tmp_path, "1 s", **more))

    assert said(str(tmp_path)) == said("rate:10") == ""
    assert said("kafka://host:9092/t", columns="ts timestamp") == ""
    assert "kafka://host:9092/topic" in said("kafka://host:9092")
    assert "--columns" in said("kafka://host:9092/t")
    assert "values of avro need" in said("kafka://host:9092/t", values="avro")
    assert "--values is one of" in said("kafka://host:9092/t", values="xml")
    known = {"columns": "ts timestamp"}
    assert said("kafka://host:9092/t", start="t:0:12,t:1:7", rows=5, **known) == ""
    assert said("kafka://host:9092/t", start="2026-01-31T10:00:00", **known) == ""
    assert "--start is" in said("kafka://host:9092/t", start="noon", **known)
    assert "--kafka is name=value" in said("kafka://host:9092/t", kafka=("ssl",), **known)
    assert "--rows has no effect" in said("rate:10", rows=5)
    assert "--on-loss has no effect" in said(str(tmp_path), on_loss="skip")
    assert "--key has no effect" in said("rate:10", key="user")
    assert "--dead-letters has no effect" in said("rate:10", dead_letters=tmp_path)
    assert "--kafka has no effect" in said("rate:10", kafka=("a=b",))
    assert "a number" in said("rate:many")
    assert "no such folder" in said(str(tmp_path / "no"))
    assert "--format is one of" in said(str(tmp_path), format="avro")
    early = query(QUERY + " EMIT EARLY")
    assert "use --sink -" in wrong_use(early, Options(str(tmp_path), "rows", tmp_path, "1 s"))
    for place, wrong in (
        ("-", ""),
        ("kafka://host/out", ""),
        ("kafka://host", "a sink of Kafka is"),
        ("postgres://host/db/alerts", "cannot be updated"),
        ("postgres://host", "a sink of PostgreSQL is"),
        ("webhook:https://host/", ""),
        ("webhook:host", "a webhook is"),
        ("rate:5", "rows go to"),
    ):
        found = wrong_use(early, Options(str(tmp_path), place, tmp_path, "1 s"))
        assert (wrong in found) if wrong else not found, place


def test_wrong_use_is_said_without_starting_spark(tmp_path: Path) -> None:
    places = ("--sink", "-", "--checkpoint", tmp_path / "state")
    missing = run("stream", "-", "--source", tmp_path / "no", *places, stdin=QUERY)
    assert missing.returncode == 2
    assert "no such folder" in missing.stderr
    bad = run("stream", "-", "--source", tmp_path, *places, stdin="PATTERN")
    assert bad.returncode == 1
    assert "error[E101]" in bad.stderr


def test_progress_is_shown_as_a_table() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    counts = {
        "seen": 1300,
        "events": 1200,
        "late": None,
        "buffered": 7,
        "partitions": 3,
        "state_bytes": 4096,
        "shed": 5432,
    }
    counts |= {"open_windows": 2, "lag_ms": 10_500}
    progress = {
        "batchId": 4,
        "processedRowsPerSecond": 123456.7,
        "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
        "observedMetrics": {"cepheid": counts},
        "stateOperators": [
            SimpleNamespace(operatorName="symmetricHashJoin", numRowsDroppedByWatermark=2026)
        ],
    }
    console.print(progress_table(None))
    console.print(progress_table(progress))
    console.print(progress_table(progress | {"eventTime": {}, "observedMetrics": {}}))
    text = console.export_text()
    assert "waiting" in text
    for part in ("123,457", "1,200", "2,026", "4,096", "5,432", "10,500", "2026-01-01"):
        assert part in text


@pytest.mark.parametrize(
    ("text", "changed", "light"),
    [
        (QUERY, {}, True),
        (QUERY, {"format": "parquet"}, True),
        (QUERY, {"late": "correct"}, True),
        # In all of these, rows go through the JVM, which pays for its second compiler.
        (QUERY, {"late": "side"}, False),
        (QUERY, {"bad": "fail"}, False),
        (QUERY, {"format": "json"}, False),
        (QUERY, {"changes": {"key": "user"}}, False),
        (QUERY, {"source": "kafka://host/topic"}, False),
        (QUERY, {"source": {"a": "events", "b": "events"}}, False),
        ("SELECT user, COUNT(*) FROM s WINDOW 10 s GROUP BY user", {}, False),
        ("SELECT * FROM s WHERE user = 'ann'", {}, False),
    ],
)
def test_java_compiles_less_where_tasks_read_the_events(
    text: str, changed: dict[str, Any], *, light: bool
) -> None:
    options = msgspec.structs.replace(Options("events", "-", Path("state"), "1 s"), **changed)
    assert tasks_read(query(text), options) is light
