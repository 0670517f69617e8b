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
    sentinel,
    write_files,
)

from cepheid.api import query
from cepheid.errors import DataError
from cepheid.interfaces.stream_command import stream_in
from cepheid.interfaces.stream_moves import more_tasks, move_buckets, settle_move
from cepheid.interfaces.stream_options import Options
from cepheid.jobs.microbatch import live_job, turn
from cepheid.jobs.work import Work
from cepheid.kinds.trend.live_by_panes import LiveByPanes
from cepheid.runtimes.checkpoints import Move, last_planned, read_note, tasks_of, write_note
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
def test_buckets_move_to_more_tasks_and_the_sink_misses_no_number(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's offline repartition of a checkpoint works on our operator, also after a crash."""
    events = events_of(400)
    parts = cut(events, 4)
    folder, state = write_files(tmp_path / "events", parts[:2]), tmp_path / "state"
    asked = (str(folder), str(tmp_path / "rows"), state, "5 seconds")
    options = Options(*asked, files=1, once=True, buckets=3)
    q = query(QUERIES[1])
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    stream_in(spark, q, options)
    spark.conf.set("spark.sql.shuffle.partitions", str(before))
    assert more_tasks(spark, state) == 2, "the session has two cores"
    note = read_note(state)
    assert note is not None
    # Noted, and killed before Spark began.
    planned = last_planned(state)
    write_note(state, msgspec.structs.replace(note, move=Move(planned + 1, 2)))
    assert settle_move(spark, state) == note
    move_buckets(spark, state, 2)
    # Killed before it was committed; Spark wants the move to be repeated.
    (state / "commits" / str(planned + 1)).unlink()
    moved = msgspec.structs.replace(note, move=Move(planned + 1, 2))
    write_note(state, moved)
    write_files(folder, [*parts[2:], sentinel(events, 60)])
    stream_in(spark, q, msgspec.structs.replace(options, buckets=None))
    assert more_tasks(spark, state) is None
    assert tasks_of(state, last_planned(state)) == 2
    rows = spark.read.parquet(str(tmp_path / "rows")).toArrow()
    assert same(rows, q.run(events).to_pylist())
    names = {
        path.name.removesuffix(".compact")
        for path in (tmp_path / "rows" / "_spark_metadata").iterdir()
    }
    assert sorted(int(name) for name in names if name.isdigit()) == list(range(last_planned(state)))
