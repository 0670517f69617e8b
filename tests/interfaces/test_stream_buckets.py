"""Another number of buckets or tasks on an existing checkpoint: refused, or it goes on."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.interfaces.test_stream_command import QUERY, counts_of, two_files, write
from tests.runtime.cases import same
from tests.runtime.test_stream import (
    QUERIES,
    cut,
    events_of,
    read_stream,
    sentinel,
    write_files,
)

from cepheid.api import query
from cepheid.errors import DataError
from cepheid.interfaces.stream_command import stream_in
from cepheid.interfaces.stream_options import Options
from cepheid.jobs.microbatch import live_job, turn
from cepheid.jobs.work import Work
from cepheid.kinds.trend.live_by_panes import LiveByPanes
from cepheid.spark.schema import result_schema_of

SCHEMA = pa.table({"ts": [1], "type": ["A"], "x": [1]}).schema


def test_another_number_of_buckets_is_refused_with_a_way_out() -> None:
    plan = query("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 4 s SLIDE 2 s").with_schema(SCHEMA).plan

    def work(buckets: int) -> Work:
        return Work.of(plan, SCHEMA, result_schema_of(plan, SCHEMA), buckets)

    events = pa.table({"ts": [1], "type": ["A"], "x": [1]}, schema=SCHEMA)
    data, _ = turn(LiveByPanes.of(work(8)), work(8), None, [events], 1)
    for now in (1, 4):
        # A single bucket has no panes, but that is not what the user changed.
        job = LiveByPanes.of(work(now)) if now > 1 else live_job(work(now))
        with pytest.raises(DataError) as caught:
            turn(job, work(now), data, [], 2)
        (said,) = caught.value.diagnostics
        assert said.code == "E524"
        assert f"its groups lie in 8 buckets, and now there are {now}" in said.message
        assert said.helps[0].startswith("set spark.cepheid.buckets to 8, or start anew")


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.slow
def test_a_query_starts_anew_with_other_buckets(spark: SparkSession, tmp_path: Path) -> None:
    folder, sink, state = two_files(tmp_path / "events"), tmp_path / "rows", tmp_path / "state"
    options = Options(str(folder), str(sink), state, "1 second", once=True, buckets=2)
    stream_in(spark, query(QUERY), options)
    assert json.loads((state / "_cepheid.json").read_text())["buckets"] == 2
    write(folder, 3, [20])
    other = msgspec.structs.replace(options, buckets=5)
    with pytest.raises(DataError) as caught:
        stream_in(spark, query(QUERY), other)
    assert caught.value.diagnostics[0].code == "E524"
    assert "leave --buckets out" in caught.value.diagnostics[0].helps[0]
    stream_in(spark, query(QUERY), msgspec.structs.replace(options, buckets=None))
    before = counts_of(spark, sink)
    stream_in(spark, query(QUERY), msgspec.structs.replace(other, restart_from="earliest"))
    assert json.loads((state / "_cepheid.json").read_text())["buckets"] == 5
    assert counts_of(spark, sink) == sorted(before * 2)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_spark_moves_buckets_to_another_number_of_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's offline repartition of a checkpoint works on our operator."""
    events = events_of(400)
    parts = cut(events, 4)
    folder, state = write_files(tmp_path / "events", parts[:2]), tmp_path / "state"
    q = query(QUERIES[1])
    found: list[pa.Table] = []

    def go_on() -> None:
        rows = q.stream(read_stream(spark, folder, 1), watermark="5 seconds")
        writer = rows.writeStream.foreachBatch(lambda batch, _: found.append(batch.toArrow()))
        writer = writer.option("checkpointLocation", str(state))
        writer.trigger(availableNow=True).start().awaitTermination()

    go_on()
    before = sum(map(len, found))
    spark._streamingCheckpointManager.repartition(str(state), 3)
    write_files(folder, [*parts[2:], sentinel(events, 60)])
    go_on()
    assert before
    assert same(pa.concat_tables(found), q.run(events).to_pylist())
    assert len([path for path in (state / "state" / "0").iterdir() if path.name.isdigit()]) == 3
