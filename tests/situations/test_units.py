"""Situations over times that are whole numbers of any unit: the same rows, in that unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.situations.cases import Case, cases
from tests.situations.test_situations import table_of

import cepheid
from cepheid.jobs.microbatch import live_job, turn
from cepheid.jobs.ticks import TICKS_NS
from cepheid.jobs.work import Work

LISTED = "DEFINE X AS a AT LEAST 5 s SITUATIONS X"


def in_unit(table: pa.Table, unit: str) -> pa.Table:
    """Return events whose times, in microseconds, are in another unit."""
    times = np.asarray(table["ts"]).astype(np.int64) * 1000 // TICKS_NS[unit]
    return table.set_column(table.column_names.index("ts"), "ts", pa.array(times, pa.int64()))


def in_us(rows: pa.Table, unit: str) -> list[dict[str, Any]]:
    """Return rows whose times are in microseconds again."""

    def turned(name: str, value: Any) -> Any:
        known = name in {"ts", "te"} or name.endswith(("_ts", "_te"))
        return value * TICKS_NS[unit] // 1000 if known and value is not None else value

    return [{n: turned(n, value) for n, value in row.items()} for row in rows.to_pylist()]


def whole(case: Case) -> pa.Table:
    """Return the events with times that are whole numbers."""
    assume("ts)" not in case.query)  # A column of the result that is not called a time.
    table = table_of(case.events)
    times = table["ts"].cast(pa.int64())
    return table.set_column(table.column_names.index("ts"), "ts", times)


@given(cases(), st.sampled_from(["ns", "ms", "s"]))
def test_units_agree(case: Case, unit: str) -> None:
    table = whole(case)
    expected = cepheid.query(case.query).run(table).to_pylist()
    found = cepheid.query(case.query, time_unit=unit).run(in_unit(table, unit))
    assert in_us(found, unit) == expected


@given(cases(), st.sampled_from(["ns", "ms", "s"]))
def test_units_agree_on_a_live_stream(case: Case, unit: str) -> None:
    table = in_unit(whole(case), unit)
    compiled = cepheid.query(case.query, time_unit=unit).with_schema(table.schema)
    results = compiled.run(table)
    work = Work.of(compiled.plan, table.schema, results.schema, 1, delay=1_000_000)
    assert work.tick_ns == TICKS_NS[unit]
    data: bytes | None = None
    found = [results.schema.empty_table()]
    for offset in range(0, len(table), 2):
        part = table.slice(offset, 2)
        data, outcome = turn(live_job(work), work, data, [part], int(np.asarray(part["ts"]).max()))
        found.append(outcome.results)
    _, outcome = turn(live_job(work), work, data, [], 2**53)
    found.append(outcome.results)
    if len(set(table["ts"].to_pylist())) == len(table):
        assert pa.concat_tables(found).to_pylist() == results.to_pylist()


def rides() -> pa.Table:
    seconds = range(20)
    held = [3 <= n < 9 or 12 <= n < 15 for n in seconds]
    return pa.table({"ts": [10**6 * n for n in seconds], "a": held})


@pytest.mark.parametrize("unit", TICKS_NS)
def test_lengths_have_the_unit_in_process_and_in_a_store(unit: str, tmp_path: Path) -> None:
    query, table = cepheid.query(LISTED, time_unit=unit), in_unit(rides(), unit)
    second = 10**9 // TICKS_NS[unit]
    expected = [{"situation": "X", "ts": 3 * second, "te": 9 * second}]
    assert query.run(table).to_pylist() == expected
    store = cepheid.EventStore(tmp_path)
    store.append(table)
    assert query.run(store).to_pylist() == expected
    assert "at least 5 s" in query.with_schema(table.schema).explain()


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("unit", ["ns", "s"])
def test_lengths_have_the_unit_on_spark(unit: str, spark: SparkSession) -> None:
    query, table = cepheid.query(LISTED, time_unit=unit), in_unit(rides(), unit)
    found = query.run(spark.createDataFrame(table)).toArrow()
    assert found.to_pylist() == query.run(table).to_pylist() != []


def test_timestamps_know_their_own_unit() -> None:
    table = rides()
    table = table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us")))
    assert cepheid.query(LISTED, time_unit="ns").run(table) == cepheid.query(LISTED).run(table)


@pytest.mark.parametrize(
    "text",
    [
        "DEFINE A AS a AT LEAST 500 ms SITUATIONS A",
        "DEFINE A AS a BETWEEN 1 s AND 1500 ms SITUATIONS A",
        "DEFINE A AS a, B AS a PATTERN A before B WITHIN 1500 ms",
        "DEFINE A AS a, B AS a PATTERN A before B DETECTED WITHIN 1500 ms",
    ],
)
def test_a_length_between_two_times_is_an_error(text: str) -> None:
    with pytest.raises(cepheid.CepheidError, match="E329"):
        cepheid.query(text, time_unit="s").run(in_unit(rides(), "s"))
