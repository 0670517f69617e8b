"""Times that are text on Spark: the same times as in process, whatever the session's zone is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from pyspark.sql import functions as sf
from tests.unit.events.test_text_times import COUNT, FORMAT, FORMATS, ROWS, START, TEXTS

import cepheid
from cepheid.errors import DataError
from cepheid.events.text_times import read_text_times
from cepheid.events.time_formats import TextTimes, time_format
from cepheid.interfaces.stream_options import Options
from cepheid.interfaces.stream_sources import source_of
from cepheid.spark.failures import clear_failures
from cepheid.spark.text_times import is_unreadable, text_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def elsewhere(spark: SparkSession) -> Iterator[SparkSession]:
    """Put the session in a zone that is not UTC."""
    before = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.slow
def test_every_text_is_the_same_time_as_in_process(elsewhere: SparkSession) -> None:
    texts: list[str | None] = [*TEXTS, *(text for _, text, _ in FORMATS), None]
    forms = {"", *(form for form, _, _ in FORMATS)}
    frame = elsewhere.createDataFrame([(text,) for text in texts], "x string").coalesce(1)
    columns = [
        column
        for form in sorted(forms)
        for column in (
            sf.unix_micros(text_time(sf.col("x"), time_format(form))),
            is_unreadable(sf.col("x"), time_format(form)),
        )
    ]
    found = list(zip(*frame.select(*columns).collect(), strict=True))
    for place, form in enumerate(sorted(forms)):
        times, wrong = read_text_times(pa.array(texts, pa.string()), time_format(form))
        assert list(found[2 * place]) == times.cast(pa.int64()).to_pylist(), form
        assert list(found[2 * place + 1]) == wrong.tolist(), form


@pytest.mark.slow
def test_frames_files_selects_and_workloads_read_text_times(
    elsewhere: SparkSession, tmp_path: Path
) -> None:
    table = pa.Table.from_pylist(ROWS)
    query = cepheid.query(COUNT, time_format=FORMAT)
    frame = elsewhere.createDataFrame(table)
    parquet.write_table(table, tmp_path / "e.parquet")
    csv.write_csv(table, tmp_path / "e.csv")
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert query.run(frame).toArrow()["window_start"].to_pylist() == [START]
    for name in ("e.parquet", "e.csv", "e.jsonl"):
        with pytest.warns(UserWarning, match="not read in slices of time"):
            rows = query.run(tmp_path / name, spark=elsewhere)
        assert rows.toArrow()["window_start"].to_pylist() == [START], name
    select = cepheid.query("SELECT COUNT(*) FROM s WINDOW 10 minutes", time_format=FORMAT)
    assert START in select.run(frame).toArrow()["window_start"].to_pylist()
    rules = cepheid.workload({"ab": COUNT}, time_format=FORMAT)
    assert rules.run(frame).toArrow()["window_start"].to_pylist() == [START]
    store = cepheid.EventStore(tmp_path / "store")
    assert store.append(frame, time_format=FORMAT) == 3
    assert query.run(store)["window_start"].to_pylist() == [START]


def test_spark_leaves_texts_of_csv_in_utc(elsewhere: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("ts,type\n2026-01-31 10:00:01,A\n2026-01-31 10:03:00,B\n")
    with pytest.warns(UserWarning, match="not read in slices of time"):
        rows = cepheid.query(COUNT).run(tmp_path / "e.csv", spark=elsewhere)
    assert rows.toArrow()["window_start"].to_pylist() == [START]


def test_an_unreadable_time_names_its_value(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [("2026-01-31", "A"), ("yesterday", "B")], "ts string, type string"
    )
    with pytest.raises(DataError) as raised, clear_failures():
        cepheid.query(COUNT).run(frame).collect()
    (told,) = raised.value.diagnostics
    assert told.code == "E580"
    assert told.message == "the time `yesterday` of `ts` is not ISO 8601"
    assert told.helps[0].startswith("name the format of its times")


def test_live_json_and_csv_read_text_times(spark: SparkSession, tmp_path: Path) -> None:
    for form in ("json", "csv"):
        folder = tmp_path / form
        folder.mkdir()
        if form == "json":
            lines = "".join(json.dumps(row) + "\n" for row in ROWS)
            (folder / "e.json").write_text(lines)
        else:
            csv.write_csv(pa.Table.from_pylist(ROWS), folder / "e.csv")
        options = Options(
            str(folder), "-", tmp_path, "1 minute", format=form, times=TextTimes("ts", FORMAT)
        )
        events = source_of(spark, str(folder), options)
        rows = cepheid.query(COUNT, time_format=FORMAT).stream(events, watermark="1 minute")
        live = rows.writeStream.format("memory").queryName(f"text_times_{form}")
        live.option("checkpointLocation", str(tmp_path / f"{form}.checkpoint"))
        live.trigger(availableNow=True).start().awaitTermination()
        found = spark.table(f"text_times_{form}").toArrow()["window_start"].to_pylist()
        assert found == [START]
