"""Workloads on a stream of Spark give what their queries give alone; rules come and go."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
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

from cepheid.errors import UnsupportedError
from cepheid.workloads import workload

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

STREAMED = {
    "pairs": "RETURN key, COUNT(*) PATTERN SEQ(A, B) GROUP-BY key WITHIN 6 s SLIDE 6 s",
    "trends": "RETURN key, COUNT(*), AVG(A.x) PATTERN SEQ(A+, B) GROUP-BY key WITHIN 6 s SLIDE 6 s",
    "all": "RETURN COUNT(*) PATTERN SEQ(A, NOT C, B) WITHIN 4 s SLIDE 2 s",
    "sectors": "RETURN sector, COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x GROUP-BY sector "
    "WITHIN 4 s SLIDE 4 s",
    "rises": "RETURN key, COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x GROUP-BY key "
    "WITHIN 6 s SLIDE 2 s",
    "later": "RETURN key, COUNT(*) PATTERN SEQ(B, A+) WHERE A.x < NEXT(A).x GROUP-BY key "
    "WITHIN 6 s SLIDE 2 s",
    "list": "RETURN MATCHES PATTERN SEQ(A, B) SEMANTICS next WHERE [key] WITHIN 4 s SLIDE 4 s",
}


def own_rows(rows: pa.Table, name: str, expected: pa.Table) -> pa.Table:
    """Return the rows of one rule, with its own columns."""
    mine = rows.filter(pc.equal(rows["query"], pa.scalar(name)))
    return mine.select(expected.column_names)


@pytest.mark.slow
def test_a_workload_on_a_stream_gives_what_its_queries_give_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = events_of()
    mixed = out_of_order(events, 5_000_000)
    folder = write_files(tmp_path / "events", [*cut(mixed, 3), sentinel(events, 60)])
    rules = workload(STREAMED)
    result = rules.stream(read_stream(spark, folder, 2), watermark="5 seconds")
    rows, progress = drain(result, tmp_path, "a")
    for name, one in zip(rules.names, rules.queries, strict=True):
        expected = one.run(events)
        assert len(expected)
        assert same(own_rows(rows, name, expected), expected.to_pylist()), name
    counts = [p["observedMetrics"]["cepheid"] for p in progress if p["observedMetrics"]]
    # The last event waits, once for every class of rules.
    assert counts[-1]["buffered"] == 3


def test_rules_come_and_go_with_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    events = events_of(600)
    half = cut(events, 2)
    folder = write_files(tmp_path / "events", [half[0]])
    before = {name: STREAMED[name] for name in ("rises", "later", "list", "pairs", "all")}
    first = workload(before).stream(read_stream(spark, folder, 1), watermark="0 seconds")
    drain(first, tmp_path, "a")
    write_files(folder, [half[1], sentinel(events, 60)])
    after = {name: STREAMED[name] for name in ("sectors", "pairs", "trends", "list", "later")}
    second = workload(after).stream(read_stream(spark, folder, 1), watermark="0 seconds")
    drain(second, tmp_path, "a")
    rows = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "a-rows")).toArrow()
    # Rules that keep events go on too, though the columns of all rules come in another order.
    for name in ("pairs", "list", "later"):
        expected = workload(before)[name].run(events)
        assert same(own_rows(rows, name, expected), expected.to_pylist())
    for name in ("trends", "sectors"):
        late = workload(after)[name].run(half[1])
        assert same(own_rows(rows, name, late), late.to_pylist())


def test_what_cannot_be_live_names_the_rule(spark: SparkSession, tmp_path: Path) -> None:
    source = read_stream(spark, write_files(tmp_path / "events", [events_of(10)]), 1)
    for text in (
        "RETURN COUNT(*) PATTERN A",
        "RETURN COUNT(*) PATTERN A WITHIN 4 s SLIDE 4 s EMIT EARLY",
    ):
        with pytest.raises(UnsupportedError) as caught:
            workload({"good": STREAMED["all"], "bad": text}).stream(source, watermark="1 second")
        assert caught.value.diagnostics[0].code == "E405"
        assert caught.value.file == "bad"
