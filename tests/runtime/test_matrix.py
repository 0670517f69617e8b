"""Every golden file gives the same rows on every strategy as in one process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from tests.amount import some
from tests.runtime.cases import Case, golden_cases, listed_cases, listing_cases

from cepheid.jobs.kind import needs_of
from cepheid.plans.needs import Strategy
from cepheid.runtimes import scan

# The first run of a kernel compiles it.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

RunCase = Callable[[Case], Any]


def check_all(cases: Sequence[Case], run: RunCase) -> None:
    """Run a share of the cases side by side, as Spark spends most of a small query waiting."""
    cases = some(cases, 8)
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(run, cases))
    wrong = [
        f"{case.name}: {result.to_pylist()} instead of {case.rows}\n{case.query.text}"
        for case, result in zip(cases, results, strict=True)
        if not case.is_answered_by(result)
    ]
    assert not wrong, "\n".join(wrong)


def in_two_partitions(spark: SparkSession, events: pa.Table) -> DataFrame:
    """Return events as a DataFrame whose partitions stay what they are."""
    schema = spark.createDataFrame(events).schema
    rows = [tuple(row.values()) for row in events.to_pylist()]
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, 2), schema)


def composed_cases() -> list[Case]:
    return [case for case in golden_cases() if not needs_of(case.plan).not_composed]


def test_there_are_cases_for_everything() -> None:
    assert len(golden_cases()) >= 70
    assert len(composed_cases()) >= 40
    assert len(listing_cases()) >= 9


def test_key_shuffle(spark: SparkSession) -> None:
    def run(case: Case) -> Any:
        frame = spark.createDataFrame(case.events)
        return case.query.run(frame, strategy="key shuffle").toArrow()

    check_all([*golden_cases(), *listed_cases()[::3]], run)


def test_combine(spark: SparkSession) -> None:
    def run(case: Case) -> Any:
        frame = in_two_partitions(spark, case.events)
        return case.query.run(frame, strategy="combine").toArrow()

    check_all(composed_cases(), run)


def test_combine_of_partitions_that_overlap(spark: SparkSession) -> None:
    def run(case: Case) -> Any:
        # Spark may cut a local relation otherwise the next time, so events are shuffled by time.
        frame = spark.createDataFrame(case.events)
        return case.query.run(frame, strategy="combine").toArrow()

    check_all(composed_cases()[::3], run)


def test_time_shuffle(spark: SparkSession) -> None:
    def run(case: Case) -> Any:
        frame = in_two_partitions(spark, case.events)
        return case.query.run(frame, strategy="time shuffle").toArrow()

    cases = [*golden_cases(), *listed_cases()[::3]]
    fitting = [case for case in cases if not needs_of(case.plan).not_by_time]
    assert len(fitting) >= 30
    check_all(fitting, run)


def test_scan_slices(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SLICE_ROWS_MIN", 1)

    def run(case: Case) -> Any:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        half = len(case.events) // 2
        for number, part in enumerate((case.events.slice(0, half), case.events.slice(half))):
            parquet.write_table(part, folder / f"{number}.parquet", row_group_size=2)
        return case.query.run(str(folder), spark=spark, strategy="scan slices").toArrow()

    fitting = [
        case
        for case in [*golden_cases(), *listed_cases()[::3]]
        if needs_of(case.plan).files.strategy is Strategy.SCAN_SLICES and len(case.events) > 1
    ]
    assert len(fitting) >= 60
    check_all(fitting, run)
