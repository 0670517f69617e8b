"""Times that are whole numbers of any unit give the same windows, in that unit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from tests.runtime.cases import same
from tests.runtime.test_stream import cut, drain, read_stream, write_files
from tests.runtime.test_stream_state import Live, expected_of, parts, shuffled

from cepheid.api import query
from cepheid.errors import BindError
from cepheid.jobs.ticks import TICKS_NS

SECONDS = [0, 1, 4, 9, 10, 11, 19, 30, 31, 61]
WINDOWS = ["WITHIN 10 s SLIDE 10 s", "WITHIN 10 s SLIDE 5 s", "WITHIN 10 s"]


def events_in(unit: str) -> pa.Table:
    ticks = 10**9 // TICKS_NS[unit]
    kinds = ["A", "B"] * (len(SECONDS) // 2)
    return pa.table({"ts": [s * ticks for s in SECONDS], "type": kinds, "x": SECONDS})


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("where", ["", "WHERE A.x < NEXT(A).x"])
def test_units_agree(window: str, where: str) -> None:
    text = f"RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) {where} {window}"
    expected = query(text, time_unit="us").run(events_in("us")).to_pylist()
    assert expected
    for unit in ("ns", "ms", "s"):
        found = query(text, time_unit=unit).run(events_in(unit)).to_pylist()
        scale = 1000 / TICKS_NS[unit]
        for row in found:
            for name in row.keys() & {"window_start", "window_end"}:
                row[name] /= scale
        assert found == expected


@pytest.mark.parametrize("time_unit", ["ns", "s"])
def test_timestamps_know_their_own_unit(time_unit: str) -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A+, B) WITHIN 10 s SLIDE 5 s"
    events = events_in("us")
    events = events.set_column(0, "ts", events["ts"].cast(pa.timestamp("us")))
    assert query(text, time_unit=time_unit).run(events).equals(query(text).run(events))


def test_a_window_between_two_ticks_is_an_error() -> None:
    compiled = query("RETURN COUNT(*) PATTERN A WITHIN 500 ms SLIDE 500 ms", time_unit="s")
    with pytest.raises(BindError, match="E329"):
        compiled.run(events_in("s"))
    with pytest.raises(ValueError, match="time_unit is one of ns, us, ms, s"):
        query("RETURN COUNT(*) PATTERN A", time_unit="minutes")


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_frames_and_files(spark: SparkSession, tmp_path: Path) -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A+, B) WITHIN 10 s SLIDE 10 s"
    events = events_in("ms")
    compiled = query(text, time_unit="ms")
    expected = compiled.run(events).to_pylist()
    parquet.write_table(events, tmp_path / "events.parquet")
    for rows in (
        compiled.run(spark.createDataFrame(events)).toArrow(),
        compiled.run(str(tmp_path), spark=spark).toArrow(),
    ):
        assert sorted(rows.to_pylist(), key=lambda row: row["window_start"]) == expected


@pytest.mark.parametrize("unit", TICKS_NS)
@pytest.mark.parametrize("window", [*WINDOWS, "WITHIN 3 EVENTS SLIDE 3 EVENTS"])
def test_live_queries_know_the_unit(unit: str, window: str) -> None:
    text = f"RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) {window}"
    events, late = events_in(unit), events_in(unit).slice(3, 2)
    second = 10**9 // TICKS_NS[unit]
    compiled = query(text, time_unit=unit)
    mixed = events if "EVENTS" in window else shuffled(events, 5 * second, 1)
    live = Live(compiled, events.schema, delay=5_000_000)
    for part in parts(mixed, 2):
        live.feed(part)
    live.feed(late)
    live.finish()
    assert live.late == len(late)
    expected = expected_of(live.plan, events)
    assert expected
    assert same(pa.Table.from_pylist(live.rows), expected)


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.slow
def test_live_queries_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    events = events_in("ms")
    folder = write_files(tmp_path / "events", [*cut(events, 2), events.slice(3, 2)])
    compiled = query("RETURN COUNT(*) PATTERN SEQ(A+, B) WITHIN 10 s SLIDE 10 s", time_unit="ms")
    source = read_stream(spark, folder, 1)
    result, side = compiled.stream(source, watermark="5 seconds", late="side")
    rows, progress = drain(result, tmp_path, "rows")
    closed = [row for row in compiled.run(events).to_pylist() if row["window_end"] <= 56_000]
    assert closed
    assert same(rows, closed)
    counts = [p["observedMetrics"]["cepheid"] for p in progress if p["observedMetrics"]]
    assert (counts[-1]["late"], counts[-1]["lag_ms"]) == (2, 0)
    returned, _ = drain(side, tmp_path, "late")
    assert same(returned, events.slice(3, 2).to_pylist())
