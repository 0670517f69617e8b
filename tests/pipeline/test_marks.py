"""Stages of different keys are live queries of their own: rows carry the watermark (§15.8)."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.amount import share
from tests.runtime.test_stream import drain, read_stream, write_files

import cepheid
from cepheid.errors import CepheidError
from cepheid.jobs.marks import MARK, with_mark, without_marks

SECOND = 1_000_000
LAST = 400
FIRST = {
    "windows": "SELECT k, zone, SUM(x) AS total FROM s GROUP BY k, zone WINDOW 10 seconds",
    "matches": "RETURN k, zone, b.x - a.x AS total PATTERN SEQ(A a, B b) SEMANTICS next "
    "WHERE [k, zone] WITHIN 5 seconds",
    # A row of a clause is certain up to WITHIN after its time, so marks are behind by that.
    "row patterns": "SELECT k, zone, total FROM s MATCH_RECOGNIZE (PARTITION BY k, zone "
    "ORDER BY ts MEASURES LAST(B.x) AS total PATTERN (A B+) WITHIN INTERVAL '7' SECOND "
    "DEFINE B AS x > PREV(x))",
}
THEN = """
RETURN zone, COUNT(*), SUM(d.total) PATTERN Done d+ WHERE [zone] AND d.total < NEXT(d).total
GROUP-BY zone WITHIN 40 seconds SLIDE 20 seconds
"""


def events_of(seed: int) -> pa.Table:
    """Draw events of which none is later than a second; the last is long after all others."""
    draw = random.Random(seed)
    times = [n * SECOND + draw.randrange(SECOND // 2) for n in range(LAST // 4)]
    times += [LAST * SECOND, 2 * LAST * SECOND, 3 * LAST * SECOND]
    count = len(times)
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "type": draw.choices("AB", k=count),
            "k": draw.choices("pq", k=count),
            "zone": draw.choices("xy", k=count),
            "x": [draw.randrange(50) for _ in range(count)],
        }
    )


def rows_of(table: pa.Table) -> list[str]:
    return sorted(str(sorted(row.items())) for row in table.to_pylist())


@share(2)
@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("stage", FIRST)
def test_two_live_queries_give_the_rows_of_one_pipeline(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    events = events_of(3)
    derive = f"CREATE STREAM Done AS {FIRST[stage]};"
    # The last events close all windows of those before, and have windows of their own.
    inner = events.slice(0, len(events) - 3)
    expected = cepheid.query(derive + THEN).run(inner)
    parts = [events.slice(at, 20) for at in range(0, len(inner), 20)]
    parts = [*parts[:-1], inner.slice((len(inner) - 1) // 20 * 20)]
    parts += [events.slice(len(inner) + n, 1) for n in range(3)]
    files = write_files(tmp_path / "events", parts)
    first = cepheid.query(derive + "SELECT * FROM Done")
    rows = first.stream(read_stream(spark, files, 1), watermark="1 second", marks=True)
    told, _ = drain(rows, tmp_path, "first")
    assert told.num_rows > told[MARK].null_count > 0
    # A file at a time: rows of one micro-batch of the first query come in several of the second.
    middle = read_stream(spark, tmp_path / "first-rows", 1)
    second = cepheid.query(THEN).stream(middle, watermark="carried")
    found, progress = drain(second, tmp_path, "second")
    assert sum(one["observedMetrics"]["cepheid"]["late"] or 0 for one in progress) == 0
    assert sum(one["observedMetrics"]["cepheid_records"]["bad"] or 0 for one in progress) == 0
    shown = rows_of(expected)
    assert shown
    # Windows with the last events are open still, or have them alone.
    certain = found.filter(
        pa.compute.less(found["window_end"], pa.scalar(LAST * SECOND, found["window_end"].type))
    )
    assert rows_of(certain) == shown


@pytest.mark.spark
def test_marks_that_cannot_be(spark: SparkSession, tmp_path: Path) -> None:
    events = events_of(3)
    frame = read_stream(spark, write_files(tmp_path / "events", [events]), 1)
    windows = cepheid.query("RETURN COUNT(*) PATTERN A WITHIN 5 s SLIDE 5 s")
    with pytest.raises(CepheidError, match=r"E592.*rows that have a time"):
        windows.stream(frame, watermark="1 second", marks=True)
    with pytest.raises(CepheidError, match=r"E592.*no such column"):
        windows.stream(frame, watermark="carried")
    filters = cepheid.query("SELECT x FROM s")
    with pytest.raises(CepheidError, match="E592"):
        filters.stream(frame, watermark="carried")
    with pytest.raises(CepheidError, match="E592"):
        filters.stream(frame, watermark="1 second", marks=True)
    with pytest.raises(CepheidError, match="E590"):
        windows.stream(frame, watermark="1 second", marks="yes")  # type: ignore[arg-type]


def test_a_mark_is_taken_out_as_it_was_put_in() -> None:
    rows = pa.table({"ts": [1, 2], "x": ["a", None]})
    assert without_marks(with_mark(rows, None), MARK) == (rows, None)
    events, mark = without_marks(with_mark(rows, 7), MARK)
    assert events.equals(rows)
    assert mark == 7
