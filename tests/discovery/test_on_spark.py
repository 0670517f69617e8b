"""Discovery over a DataFrame of Spark finds what it finds over the same events in process."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import cepheid
from cepheid.discovery import on_spark


def _events(count: int = 3_000, seed: int = 11) -> pa.Table:
    """Make events with many equal times, an event without a key and one without a type."""
    rng = np.random.default_rng(seed)
    case = rng.integers(0, 120, count)
    kinds = np.array(["a", "b x", "c", "d", "e"])[rng.integers(0, 5, count)]
    types = pa.array([None if n == 5 else str(kind) for n, kind in enumerate(kinds)], pa.string())
    keys = pa.array([None if n == 9 else int(one) for n, one in enumerate(case)], pa.int64())
    times = np.sort(rng.integers(0, 900, count)) * 1_000_000
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "type": types,
            "the.case": keys,
            "bad": pa.array(case % 3 == 0),
        }
    )


@pytest.mark.spark
@pytest.mark.parametrize("label", [None, "bad"])
def test_spark_finds_the_same_rules(spark: SparkSession, label: str | None) -> None:
    events = _events()
    frame = spark.createDataFrame(events)
    options = {"key": "the.case", "label": label, "support": 0.05, "confidence": 0.3}
    here = cepheid.discover(events, **options, max_types=4)  # type: ignore[arg-type]
    with mock.patch.object(on_spark, "PREFIXES", 3):
        there = cepheid.discover(frame, **options, max_types=4)  # type: ignore[arg-type]
    assert len(here) > 10
    assert there.table.equals(here.table)
    assert there.search._replace(seconds=0) == here.search._replace(seconds=0)


@pytest.mark.spark
def test_mistakes_are_told_on_spark(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(1, "a", 1, True, 1), (2, "b", 1, False, 1)],
        "ts long, type string, case long, bad boolean, x int",
    )
    for label, words in (("bad", "true for some events of a case"), ("x", "not true or false")):
        with pytest.raises(cepheid.DataError, match=words) as caught:
            cepheid.discover(frame, key="case", label=label)
        assert caught.value.diagnostics[0].code == "E595"
    with pytest.raises(cepheid.DataError, match="no column `cas`"):
        cepheid.discover(frame, key="cas")
    live = spark.readStream.format("rate").load()
    with pytest.raises(cepheid.UnsupportedError, match="this DataFrame is a stream"):
        cepheid.discover(live, key="value", time="timestamp", type="value")
