"""Random pipelines on Spark, over stores and on live streams give the rows of the oracle."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import SparkSession
from tests.amount import EVERYTHING
from tests.pipeline.comparison import KINDS, STAMPED, expected_rows, plain, plan_of, planned
from tests.pipeline.drawing import SECOND, Drawn, pipelines
from tests.runtime.test_stream import cut, drain, read_stream, write_files

import cepheid
from cepheid.jobs.steps import take_until
from cepheid.kinds.pipeline.steps import PipelineSteps

SETTINGS = settings(
    max_examples=8 if EVERYTHING else 2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
LATER = 10_000 * SECOND

pytestmark = pytest.mark.filterwarnings("ignore:no event has the type")  # random events lack some


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
    assert plain(found) == expected_rows(drawn)


@pytest.mark.spark
@pytest.mark.timeout(600)
@SETTINGS
@given(pipelines())
def test_live(spark: SparkSession, drawn: Drawn) -> None:
    """A last event moves the watermark beyond all others; what it begins is not certain."""
    if not drawn.events:
        return
    last = Drawn("", [{"ts": LATER, "type": "D", "k": "p", "x": 0, "z": 0}])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = write_files(folder / "live", [*cut(stamped(drawn), 3), stamped(last)])
        frame = read_stream(spark, files, 1)
        rows = query_of(drawn).stream(frame, watermark="1 second")
        found = plain(drain(rows, folder, "rows")[0])
    assert found == certain_rows(drawn, LATER - SECOND)


def certain_rows(drawn: Drawn, until: int) -> list[str]:
    """Compute the rows that are certain at a watermark after all events."""
    job = PipelineSteps.of(plan_of(drawn), KINDS)
    events = pa.Table.from_pylist(drawn.events, KINDS)
    return plain(pa.concat_tables(take_until(job, job.start(), events, until)[1]))
