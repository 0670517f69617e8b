"""Random pipelines on Spark, over stores and on live streams give the rows of the oracle."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import SparkSession
from tests.pipeline.comparison import KINDS, expected_rows, plain, planned
from tests.pipeline.drawing import SECOND, Drawn, pipelines
from tests.runtime.test_stream import cut, drain, read_stream, write_files

import cepheid

STAMPED = KINDS.set(0, pa.field("ts", pa.timestamp("us", "UTC")))
SETTINGS = settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
LATER = 10_000 * SECOND


def in_numbers(table: pa.Table) -> pa.Table:
    """Return rows with times as whole numbers, as the oracle has them."""
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            numbers = table[field.name].cast(pa.timestamp("us", field.type.tz)).cast(pa.int64())
            table = table.set_column(place, field.name, numbers)
    return table


def stamped(drawn: Drawn) -> pa.Table:
    return pa.Table.from_pylist(drawn.events, KINDS).cast(STAMPED)


def query_of(drawn: Drawn) -> cepheid.CompiledQuery:
    return cepheid.query(drawn.text, schema=STAMPED)


@given(pipelines())
def test_over_a_store(drawn: Drawn) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = cepheid.EventStore(Path(folder) / "store", time="ts")
        table = pa.Table.from_pylist(drawn.events, KINDS)
        if not len(table):
            return
        store.append(table)
        assert plain(planned(drawn).run(store)) == expected_rows(drawn)


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:one task runs the whole query")
@SETTINGS
@given(pipelines())
def test_batch(spark: SparkSession, drawn: Drawn) -> None:
    frame = spark.createDataFrame(stamped(drawn))
    found = query_of(drawn).run(frame).toArrow()
    assert plain(in_numbers(found)) == expected_rows(drawn)


@pytest.mark.spark
@pytest.mark.timeout(600)
@SETTINGS
@given(pipelines())
def test_live(spark: SparkSession, drawn: Drawn) -> None:
    """A last event moves the watermark beyond all others; what it begins is not certain."""
    if not drawn.events:
        return
    last = {"ts": LATER, "type": "D", "k": "p", "x": 0, "z": 0}
    whole = Drawn(drawn.text, [*drawn.events, last])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = cut(stamped(drawn), 3)
        frame: Any = read_stream(
            spark, write_files(folder / "live", [*parts, stamped(Drawn("", [last]))]), 1
        )
        rows = query_of(drawn).stream(frame, watermark="1 second")
        found = Counter(plain(in_numbers(drain(rows, folder, "rows")[0])))
    expected = Counter(expected_rows(whole))
    assert found <= expected
    # What is certain before the last event is the same without it.
    before = Counter(expected_rows(drawn)) & expected
    missing = before - found
    assert all(_is_open(row) for row in missing), missing


def _is_open(row: str) -> bool:
    """Check whether a row is one that only the end of a stream gives: a window that is not full."""
    return "window_end" in row
