"""What is odd about the events of a Spark run is told when its last task has ended."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

import cepheid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLICKS = pa.table(
    {
        "ts": [1_700_000_000, 1_700_000_001, 1_700_000_002, 1_700_000_003],
        "type": ["product", "addcart", "product", "order"],
        "visit": [1, 1, 2, 1],
    }
)
WINDOWED = "RETURN COUNT(*) PATTERN SEQ(product p, Addcart order) WITHIN 1 minute SLIDE 1 minute"
CASED = "RETURN visit, COUNT(*) PATTERN SEQ(product p, Addcart order) WHERE [visit] GROUP-BY visit"
RIGHT = "RETURN visit, COUNT(*) PATTERN SEQ(product, addcart) WHERE [visit] GROUP-BY visit"


def _told(frame: DataFrame) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        frame.toArrow()
    return [str(one.message) for one in found if issubclass(one.category, UserWarning)]


@pytest.mark.parametrize(
    ("text", "strategy"),
    [(CASED, "key shuffle"), (CASED, "combine"), (WINDOWED, "time shuffle")],
)
def test_a_frame_tells_what_is_odd(spark: SparkSession, text: str, strategy: str) -> None:
    frame = spark.createDataFrame(CLICKS)
    rows = cepheid.query(text).run(frame, strategy=strategy)
    told = _told(rows)
    assert [one for one in told if "W206" in one] == ["no event has the type `Addcart` (W206)"]
    assert any("look like seconds" in one and "W208" in one for one in told)
    assert _told(rows) == [], "once"


def test_a_frame_without_oddities_tells_nothing(spark: SparkSession) -> None:
    assert _told(cepheid.query(RIGHT, time_unit="s").run(spark.createDataFrame(CLICKS))) == []


def test_files_tell_what_was_meant(spark: SparkSession, tmp_path: Path) -> None:
    parquet.write_table(CLICKS, tmp_path / "e.parquet")
    told = _told(cepheid.query(CASED).run(tmp_path / "e.parquet", spark=spark))
    assert any("did you mean `addcart`?" in one and "W206" in one for one in told), told
    assert any("`order` is a type of the data" in one and "W207" in one for one in told)
    assert any("W208" in one for one in told)


def test_warnings_as_errors_do_not_end_a_run(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    frame = spark.createDataFrame(CLICKS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cepheid.query(CASED).run(frame).toArrow().num_rows == 0
    assert any("W206" in one for one in caplog.messages)
