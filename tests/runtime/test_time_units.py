"""Times that are whole numbers of any unit give the same windows, in that unit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from cepheid.api import query
from cepheid.errors import BindError
from cepheid.planner.windows import TICKS_NS

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
