"""Times in nanoseconds are kept where Arrow has them, and refused where a way cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import cepheid
from cepheid.errors import DataError
from cepheid.events.nanoseconds import Nanoseconds

BASE = 1_700_000_000_000_000_000
PATTERNS = [
    "RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) WITHIN 2 us SLIDE 1 us",
    "RETURN g, COUNT(*) PATTERN SEQ(A, B) WHERE [g] GROUP-BY g WITHIN 3 us",
    "RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x WITHIN 2 us SLIDE 2 us",
    "RETURN A.x, B.x PATTERN SEQ(A, B) WHERE A.ts < B.ts WITHIN 1 us SLIDE 1 us",
    "DEFINE X AS type = 'A', Y AS x > 2 PATTERN X before Y WITHIN 2 us",
]
SELECTS = [
    "SELECT COUNT(*) AS n, SUM(x) AS s FROM s WINDOW 1 us SLIDE 1 us",
    "SELECT ts, x FROM s WHERE x > 2",
]


def events(kind: pa.DataType, count: int = 60) -> pa.Table:
    random = np.random.default_rng(4)
    ticks = BASE + np.sort(random.integers(0, 5_000, count))
    return pa.table(
        {
            "ts": pa.array(ticks).cast(kind),
            "type": [str(t) for t in random.choice(["A", "B"], count)],
            "x": pa.array(random.integers(0, 5, count)),
            "g": pa.array(random.integers(0, 2, count)),
        }
    )


NS = pa.timestamp("ns", "UTC")


def rows(table: pa.Table) -> list[list[Any]]:
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return [c.to_pylist() for c in columns]


@pytest.mark.parametrize("text", PATTERNS + SELECTS)
def test_nanoseconds_are_kept_in_process_in_files_and_in_stores(text: str, tmp_path: Path) -> None:
    table = events(NS)
    whole = events(pa.int64())
    expected = cepheid.query(text, time_unit="ns").run(whole)
    query = cepheid.query(text)
    found = query.run(table)
    assert rows(found) == rows(expected)
    assert all(f.type == NS for f in found.schema if pa.types.is_timestamp(f.type))
    parquet.write_table(table.slice(0, 30), tmp_path / "1.parquet")
    parquet.write_table(table.slice(30), tmp_path / "2.parquet")
    assert query.run(str(tmp_path)).equals(found)
    store = cepheid.EventStore(tmp_path / "store")
    store.append(table)
    assert query.run(store).equals(found)
    assert cepheid.query(text).run(table.to_pandas()).equals(found.to_pandas())


def test_a_store_answers_ranges_of_nanoseconds(tmp_path: Path) -> None:
    table = events(NS)
    store = cepheid.EventStore(tmp_path / "store")
    store.append(table)
    assert store.scan().read_all().column("ts").equals(table.column("ts"))
    text = "SELECT COUNT(*) AS n FROM s WHERE ts >= '2023-11-14 22:13:20.000002'"
    later = int((table.column("ts").cast(pa.int64()).to_numpy() >= BASE + 2_000).sum())
    assert cepheid.query(text).run(store).to_pylist() == [{"n": later}]
    assert cepheid.query(text).run(table).to_pylist() == [{"n": later}]
    part = store.scan(start="2023-11-14 22:13:20.000002").read_all()
    assert len(part) == later
    counts: Any = store.aggregate(["COUNT(*)"], within="1 us").column(2).to_pylist()
    assert sum(counts) == len(table)
    assert store.aggregate(["MAX(x)"], within="1 us").schema.field(0).type == NS


def test_files_of_other_units_take_that_of_the_first(tmp_path: Path) -> None:
    table = events(NS)
    text = "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 2 us SLIDE 1 us"
    rest: dict[str, Any] = {"type": ["A", "B", "B"], "x": [1, 1, 1], "g": [0, 0, 0]}
    micros = pa.array([BASE // 1000 + 6] * 3).cast(pa.timestamp("us", "UTC"))
    parquet.write_table(table, tmp_path / "1.parquet")
    parquet.write_table(pa.table({"ts": micros, **rest}), tmp_path / "2.parquet")
    found = cepheid.query(text).run(str(tmp_path))
    last = pa.table({"ts": micros.cast(NS), **rest})
    assert found.equals(cepheid.query(text).run(pa.concat_tables([table, last])))


def test_finer_files_than_the_first_are_refused(tmp_path: Path) -> None:
    kinds: dict[str, Any] = {"1": pa.timestamp("us"), "2": pa.timestamp("ns")}
    for name, kind in kinds.items():
        ticks = pa.array([int(name) * 1_000 + 5]).cast(kind)
        parquet.write_table(pa.table({"ts": ticks, "type": ["A"]}), tmp_path / f"{name}.parquet")
    with pytest.raises(DataError, match="E514"):
        cepheid.query("RETURN COUNT(*) PATTERN A WITHIN 1 s").run(str(tmp_path))


def test_live_rules_take_the_unit_of_their_schema() -> None:
    table = events(NS)
    rules = cepheid.workload({"q": PATTERNS[0]}).live(table.schema)
    parts = [rules.feed(table.slice(0, 20)), rules.feed(table.slice(20)), rules.close()]
    found = pa.concat_tables(parts).drop_columns(["query"])
    assert rows(found) == rows(cepheid.query(PATTERNS[0]).run(table))


def test_streams_of_two_units_are_joined_by_their_times() -> None:
    table = events(NS)
    coarse = pa.table(
        {"ts": pa.array([BASE // 1000 + 2]).cast(pa.timestamp("us", "UTC")), "y": [1]}
    )
    text = "SELECT a.x, b.y FROM a JOIN b ON b.y = 1 WINDOW 1 us"
    near = np.abs(table.column("ts").cast(pa.int64()).to_numpy() - BASE - 2_000) < 1_000
    for streams in ({"a": table, "b": coarse}, {"b": coarse, "a": table}):
        assert len(cepheid.query(text).run(streams)) == near.sum() > 5


def test_nanoseconds_compare_and_are_not_computed_with() -> None:
    kind = pa.timestamp("ns")
    table = pa.table({"ts": pa.array([0, 400, 999]).cast(kind), "type": ["A", "A", "A"]})
    early = "RETURN COUNT(*) PATTERN A WHERE A.ts < '1970-01-01 00:00:00.000001'"
    assert cepheid.query(early).run(table).to_pylist() == [{"count": 3.0}]
    equal = "RETURN COUNT(*) PATTERN SEQ(A a, A b) WHERE a.ts < b.ts"
    assert cepheid.query(equal).run(table).to_pylist() == [{"count": 3.0}]
    with pytest.raises(DataError, match=r"E514.*0\.400 us in column `ts`"):
        cepheid.query("RETURN MIN(A.ts) PATTERN A").run(table)


def test_rows_that_are_whole_microseconds_can_be_computed_with() -> None:
    times = Nanoseconds.of(np.array([1_000, 1_500, -3_000]), "ts")
    assert times.take(np.array([0, 2])).numbers.tolist() == [1, -3]
    with pytest.raises(DataError, match=r"E514.*1\.500 us"):
        assert times.numbers.any()


@pytest.mark.spark
def test_slices_of_files_are_exact_or_refused(spark: SparkSession, tmp_path: Path) -> None:
    parquet.write_table(events(NS), tmp_path / "e.parquet", row_group_size=10)
    path = str(tmp_path / "e.parquet")
    sliding = cepheid.query(PATTERNS[0])
    found: Any = sliding.run(path, spark=spark, strategy="scan slices").toArrow()
    expected: Any = sliding.run(events(NS))
    assert found.schema.field(0).type == pa.timestamp("us", "UTC")
    assert sorted(found.column("window_start").cast(NS).to_pylist()) == sorted(
        expected.column("window_start").to_pylist()
    )
    assert sorted(found.column(2).to_pylist()) == sorted(expected.column(2).to_pylist())
    trailing = cepheid.query(PATTERNS[1]).run(path, spark=spark, strategy="scan slices")
    with pytest.raises(PythonException, match=r"E514.*in column `window_start`"):
        trailing.toArrow()
