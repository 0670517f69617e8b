"""Topics of Kafka as streams: offsets, transactions, keys, headers, new partitions, bad values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from tests.servers import Broker

import cepheid
from cepheid import kafka
from cepheid.errors import DataError
from cepheid.options import OptionError
from cepheid.runtimes.kafka import topics
from cepheid.runtimes.kafka.messages import Task, read_messages
from cepheid.runtimes.kafka.offsets import Span, limited, shared, spans
from cepheid.runtimes.kafka.topics import EARLIEST, LATEST, Topics
from cepheid.runtimes.spark.decisions import decided
from cepheid.runtimes.spark.kafka.source import LimitedReader, WholeReader

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def run(frame: DataFrame, checkpoint: Path) -> list[list[Any]]:
    """Run a stream until its source is empty; return the rows of each micro-batch."""
    found: list[list[Any]] = []
    writer = frame.writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(checkpoint))
    live = writer.foreachBatch(lambda batch, _: found.append(batch.collect())).start()
    live.awaitTermination()
    return found


def test_messages_of_several_topics_go_on_from_a_checkpoint(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    one, two = broker.create("source-1", 2), broker.create("source-2")
    broker.produce(one, [b"a", b"b"], partition=0, key=b"k", headers={"h": b"1"})
    broker.produce(two, ["committed"], transaction="s")
    broker.produce(two, ["aborted"] * 5, transaction="s", commit=False)
    kept = ("key", "headers")
    raw = kafka.read(spark, broker.servers, [one, two], format="raw", keep=kept, rows=4)
    first = run(raw, tmp_path)
    values = [(row["topic"], row["value"]) for batch in first for row in batch]
    # Eight offsets of the second topic, of which one is a message: two micro-batches at least.
    assert len(first) > 1
    assert sorted(values) == [(one, b"a"), (one, b"b"), (two, b"committed")]
    (row,) = (row for batch in first for row in batch if row["value"] == b"a")
    assert (row["key"], row["headers"], row["partition"]) == (b"k", [("h", b"1")], 0)
    # A new partition is read from its beginning, and nothing is read twice.
    from confluent_kafka.admin import NewPartitions

    client = broker.client()
    client.create_partitions([NewPartitions(two, 2)])[two].result(30)
    broker.produce(two, ["new"], partition=1)
    broker.produce(two, ["next"], partition=0)
    again = run(raw, tmp_path)
    assert sorted(row["value"] for batch in again for row in batch) == [b"new", b"next"]


def test_a_latency_goal_changes_what_is_read_at_once(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Micro-batches that are full and have time left take more messages."""
    topic = broker.create("goal", 2)
    for place in (0, 1):
        lines = [json.dumps({"ts": n, "type": "A", "x": n}).encode() for n in range(1_000)]
        broker.produce(topic, lines, partition=place)
    columns = "ts long, type string, x long"
    events = kafka.read(spark, broker.servers, topic, columns=columns, start="earliest", rows=20)
    q = cepheid.query("RETURN COUNT(*) PATTERN A WITHIN 10 s SLIDE 10 s", time_unit="s")
    rows = q.stream(events, watermark="0 seconds", latency="1 minute")
    writer = rows.writeStream.option("checkpointLocation", str(tmp_path))
    writer = writer.foreachBatch(lambda batch, _: batch.collect())
    live = writer.trigger(processingTime="0 seconds").start()
    try:
        live.processAllAvailable()
        taken = [int(one["numInputRows"]) for one in live.recentProgress]
        told = [one.limit for one in decided(str(live.id))]
    finally:
        live.stop()
    assert (taken[0], sum(taken)) == (20, 2_000)
    assert told[0] is not None
    assert told[0] >= 25
    assert set(taken[:-1]) <= {0, 20, *told}
    assert max(taken) > 20


def test_bad_values_are_rows_with_a_reason(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.create("source-bad")
    good = {"ts": "2026-01-01T00:00:00Z", "type": "A"}
    values: Sequence[Any] = [
        json.dumps(good),
        "{",
        b"\xff\xfe",
        None,
        json.dumps(good | {"ts": 1.5}),
    ]
    broker.produce(topic, [*values])
    columns = "ts timestamp, type string"
    events = kafka.read(spark, broker.servers, topic, columns=columns, keep=("offset",))
    (rows,) = run(events, tmp_path)
    found = {row["_offset"]: row for row in rows}
    assert found[0]["type"] == "A"
    assert found[0]["ts"].timestamp() == datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    assert found[1]["_raw"] == "{"
    assert found[1]["_origin"] == f"{topic}/0/1"
    assert [found[at]["_reason"] is None for at in range(4)] == [True, False, False, False]


def test_where_a_query_starts(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = broker.create("source-start")
    broker.produce(topic, ["old"], timestamp=1_000)
    broker.produce(topic, ["new"], timestamp=5_000)
    broker.produce(topic, ["open"], transaction="w", commit=False)
    found = Topics(broker.servers, [topic], {})
    assert found.offsets(EARLIEST) == {topic: {"0": 0}}
    assert found.offsets(LATEST) == {topic: {"0": 4}}, "the end of a transaction is a message too"
    assert found.offsets("time:2000") == {topic: {"0": 1}}
    assert found.offsets("time:4102444800000") == {topic: {"0": 4}}
    with pytest.raises(DataError) as caught:
        Topics(broker.servers, ["none"], {}).offsets(EARLIEST)
    assert "E562" in str(caught.value)
    monkeypatch.setattr(topics, "ANSWER_S", 0.5)
    with pytest.raises(DataError) as caught:
        Topics("127.0.0.1:1", ["none"], {}).offsets(EARLIEST)
    assert "E562" in str(caught.value)
    assert "check that the broker runs" in str(caught.value)


def test_messages_that_are_gone(broker: Broker) -> None:
    from confluent_kafka import TopicPartition

    topic = broker.create("source-gone")
    broker.produce(topic, ["gone", "gone", "kept"])
    client = broker.client()
    place = TopicPartition(topic, 0, 2)
    next(iter(client.delete_records([place]).values())).result(30)

    def read(*, skip: bool) -> list[Any]:
        task = Task(broker.servers, (), ((topic, 0, 0, 3),), headers=False, skip_lost=skip)
        return [value for batch in read_messages(task) for value in batch["value"].to_pylist()]

    with pytest.raises(DataError) as caught:
        read(skip=False)
    assert "error[E563]" in str(caught.value)
    assert "from 0 to 2" in str(caught.value)
    assert read(skip=True) == [b"kept"]


def test_a_topic_that_was_created_anew(broker: Broker) -> None:
    topic = broker.create("source-anew")
    broker.produce(topic, ["1", "2"])
    options = {"servers": broker.servers, "topics": topic, "settings": "{}", "rows": "0"}
    reader = LimitedReader(options | {"start": json.dumps({topic: {"0": 1}})})
    assert reader.initialOffset() == {topic: {"0": 1}}
    assert reader.latestOffset({topic: {"0": 1}}, ReadAllAvailable()) == {topic: {"0": 2}}
    assert reader.latestOffset({topic: {"0": 0}}, ReadMaxRows(1)) == {topic: {"0": 1}}
    with pytest.raises(DataError) as caught:
        reader.latestOffset({topic: {"0": 700}}, ReadAllAvailable())
    assert "error[E563]" in str(caught.value)
    with pytest.raises(DataError) as caught:
        LimitedReader(options | {"start": json.dumps({topic: {"7": 1}})}).initialOffset()
    assert "no partition 7" in str(caught.value)
    # Before Spark 4.2 a micro-batch has everything.
    old: Any = WholeReader(options)
    assert old.latestOffset() == {topic: {"0": 2}}


def test_shares_of_a_micro_batch() -> None:
    begin, end = {"t": {"0": 10}}, {"t": {"0": 1010, "1": 1}, "u": {"0": 500}}
    cut = limited(begin, end, 100)
    assert sum(span.end - span.begin for span in spans(begin, cut)) == 100
    assert limited(begin, end, 5_000) == end
    assert spans(end, end) == []
    piles = shared([Span("t", n, 0, 10 * n + 1) for n in range(5)], 2)
    assert sorted(len(pile) for pile in piles) == [2, 3]
    assert sum(len(pile) for pile in piles) == 5


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ({"topics": []}, "E590"),
        ({"format": "xml"}, "E590"),
        ({}, "E591"),
        ({"columns": "a int", "format": "avro"}, "E591"),
        ({"columns": "a int", "schema": "a.avsc"}, "E591"),
        ({"format": "avro"}, "E590"),
        ({"format": "avro", "schema": "missing.avsc"}, "E565"),
        ({"columns": "a int", "rows": 0}, "E590"),
        ({"columns": "a int", "start": "noon"}, "E590"),
        ({"columns": "a int", "start": datetime(2026, 1, 1)}, "E590"),
        ({"columns": "a int", "start": 5}, "E592"),
        ({"columns": "a int", "keep": ["value"]}, "E590"),
        ({"columns": "a int", "connector": "spark"}, "E525"),
    ],
)
def test_arguments_that_cannot_be_used(
    spark: SparkSession, words: dict[str, Any], code: str
) -> None:
    with pytest.raises((OptionError, DataError)) as caught:
        kafka.read(spark, "127.0.0.1:1", words.pop("topics", "t"), **words)
    assert caught.value.diagnostics[0].code == code
