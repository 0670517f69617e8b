"""When Spark fails, the cause is one sentence; times far away from now are no failure."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from tests.amount import share
from tests.runtime.test_stream import drain, read_stream, write_files
from tests.runtime.test_zones import unordered

import cepheid
from cepheid.errors import DataError
from cepheid.spark.failures import FAILURES, FULL_RETRY, clear_error, clear_failures

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

EVENTS = pa.table(
    {"ts": pa.array([1, 2], pa.timestamp("us", "UTC")), "type": ["A", "B"], "x": [1, 2]}
)
COUNT = "RETURN COUNT(*), SUM(A.x) PATTERN A WITHIN 1 s SLIDE 1 s"


def damaged(path: Path) -> None:
    path.write_bytes(b"garbage" * 100)


def overwritten(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4] + b"\xff" * 60 + data[64:])


def retyped(path: Path) -> None:
    parquet.write_table(EVENTS.set_column(2, "x", pa.array(["u", "v"])), path)


@share(2)
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (damaged, "is not a Parquet file"),
        (overwritten, ""),
        (retyped, "actual Parquet type BINARY"),
    ],
)
@pytest.mark.parametrize("strategy", ["combine", "key shuffle"])
def test_a_file_that_cannot_be_read_is_named(
    spark: SparkSession,
    tmp_path: Path,
    spoil: Callable[[Path], None],
    told: str,
    strategy: str,
) -> None:
    folder = write_files(tmp_path / "events", [EVENTS, EVENTS])
    frame = spark.read.schema(spark.read.parquet(str(folder)).schema).parquet(str(folder))
    spoil(folder / "001.parquet")
    with pytest.raises(DataError) as caught, clear_failures():
        cepheid.query(COUNT).run(frame, strategy=strategy).toArrow()
    (found,) = caught.value.diagnostics
    assert (found.code, "events/001.parquet" in found.message) == ("E501", True), found
    assert told in found.message
    assert "\n" not in found.message
    assert "more" not in found.message.split()


@pytest.mark.parametrize("spoil", [damaged, retyped])
def test_a_live_query_names_it_too(
    spark: SparkSession, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    folder = write_files(tmp_path / "events", [EVENTS, EVENTS])
    stream = read_stream(spark, folder, 1)
    spoil(folder / "001.parquet")
    os.utime(folder / "001.parquet", (1001, 1001))
    with pytest.raises(FAILURES) as caught:
        drain(cepheid.query(COUNT).stream(stream, watermark="1 second"), tmp_path, "rows")
    (found,) = clear_error(caught.value).diagnostics
    assert (found.code, "events/001.parquet" in found.message) == ("E501", True), found


@pytest.mark.parametrize("scheme", ["kafka", "s3a"])
def test_a_scheme_without_a_connector(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    writer = spark.readStream.format("rate").load().writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(tmp_path)).option("path", f"{scheme}://a/b")
    with pytest.raises(DataError) as caught, clear_failures():
        writer.start()
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("E525", f"Spark lacks the connector of `{scheme}://`")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a\nValueError: x\n\tat y", "ValueError: x"),
        ("[PATH_NOT_FOUND] Path does not exist: a. SQLSTATE: 42K03", "Path does not exist: a"),
        ("no such mode;\nproject [ts#1]\n+- Relation [x#2]", "no such mode;"),
        ("out\n: a.b.IOException: disk full\n\tat c\nCaused by: d.E: \n\t... 4 more", "disk full"),
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_EXCEPTION] An "
            'exception was thrown: Traceback (most recent call last):\n  File "a"\n'
            "lib.ArrowInvalid: far\n SQLSTATE: 1\n=== Streaming Query ===\nCurrent: {}\n+- Plan",
            "ArrowInvalid: far",
        ),
        (
            "An error occurred while calling o1.getResult.\n: a.b.SparkException: Exception thrown "
            "in awaitResult: Job aborted due to stage failure: Task 0 in stage 1 failed 4 times.\n"
            "Caused by: a.b.SparkException: Job aborted due to stage failure: Task 0 in stage 1 "
            "failed 4 times.\n\tat c",
            "Task 0 in stage 1 failed 4 times",
        ),
        ("", "RuntimeError"),
    ],
)
def test_the_cause_is_what_was_raised_first(text: str, told: str) -> None:
    (found,) = clear_error(RuntimeError(text)).diagnostics
    assert found.code == "E523"
    assert found.message.endswith(told)
    assert found.message.startswith("Spark failed: ")


def test_a_worker_that_joins_without_the_package_is_told_of() -> None:
    text = "Traceback:\n  File a\nModuleNotFoundError: No module named 'cepheid'"
    (found,) = clear_error(RuntimeError(text)).diagnostics
    assert (found.code, "lacks cepheid" in found.message) == ("E598", True)
    assert "--py-files cepheid.zip" in found.helps[0]
    others = clear_error(RuntimeError(text.replace("cepheid", "cepheids")))
    assert others.diagnostics[0].code == "E523"


def test_lost_executors_after_a_shuffle_come_with_the_setting_that_helps() -> None:
    text = "Job aborted due to stage failure: A shuffle map stage with indeterminate output was "
    text += "failed and retried. However, Spark cannot rollback the ResultStage 1234."
    (found,) = clear_error(RuntimeError(text)).diagnostics
    assert found.code == "E523"
    assert "in another order" in found.message
    assert found.helps == (f"cache the DataFrame, or set {FULL_RETRY} to false",)


FAR: dict[str, Any] = {
    "trends": COUNT,
    "matches": "RETURN MATCHES PATTERN A WITHIN 1 s",
    "situations": "DEFINE X AS x > 0 AND x < 3 SITUATIONS X",
    "rows": "SELECT COUNT(*) FROM s WINDOW 2 EVENTS",
    "join": "SELECT a.x FROM s a JOIN s b ON a.x = b.x WINDOW 2 EVENTS",
}


@share(4)
@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("year", [2300, 9000, 1600])
def test_years_that_pandas_does_not_know(
    spark: SparkSession, tmp_path: Path, name: str, year: int
) -> None:
    times = [dt.datetime(year, 1, 1, 0, 0, n, tzinfo=dt.UTC) for n in range(6)]
    times.append(dt.datetime(year, 1, 2, tzinfo=dt.UTC))
    events = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "type": ["A"] * 7,
            "x": [1, 2, 3, 1, 2, 3, 3],
        }
    )
    q = cepheid.query(FAR[name])
    folder = write_files(tmp_path / "events", [events])
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    # Such times are ahead of the clock, which is no reason to drop them here.
    stream = q.stream(read_stream(spark, folder, 1), watermark="1 second", max_ahead="4000000 days")
    found, _ = drain(stream, tmp_path, "rows")
    expected = unordered(q.run(events))
    assert set(unordered(found)) <= set(expected)
    assert len(found) >= min(2, len(expected) - 1)
