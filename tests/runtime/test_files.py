"""Files on Spark: slices of time, order from statistics, and what happens without it."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.runtime.cases import same
from tests.runtime.test_spark import events_of

from cepheid.api import query
from cepheid.errors import DataError
from cepheid.runtimes import scan
from cepheid.runtimes.scan import RowGroup, cut, units_of
from cepheid.runtimes.spark import scan as spark_scan

pytestmark = pytest.mark.spark

WINDOWS = query(
    "RETURN key, COUNT(*), SUM(A.x) PATTERN SEQ(A, B) GROUP-BY key "
    "WITHIN 300 microseconds SLIDE 100 microseconds"
)
TABS = csv.WriteOptions(delimiter="\t")
WHOLE = query("RETURN COUNT(*), MIN(A.x), LOG2(COUNT(*)) PATTERN (SEQ(A+, B))+")
TRAILING = query("RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [key] WITHIN 50 us EMIT ON EXPIRY")
LONG = query(
    "RETURN key, COUNT(*) PATTERN SEQ(A, B) GROUP-BY key WITHIN 9 seconds SLIDE 3 milliseconds"
)


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SLICE_ROWS_MIN", 1)


def write(events: pa.Table, folder: Path, *, files: int = 2, rows: int = 64) -> str:
    folder.mkdir(exist_ok=True)
    per_file = -(-len(events) // files)
    for number in range(files):
        part = events.slice(number * per_file, per_file)
        parquet.write_table(part, folder / f"{number}.parquet", row_group_size=rows)
    return str(folder / "*.parquet")


@pytest.mark.parametrize(
    "q", [WINDOWS, WHOLE, TRAILING, LONG], ids=["sliding", "none", "trailing", "long"]
)
def test_slices_give_what_one_process_gives(spark: SparkSession, tmp_path: Path, q: object) -> None:
    assert isinstance(q, type(WINDOWS))
    events = events_of(1000)
    path = write(events, tmp_path / "events")
    expected = q.run(events).to_pylist()
    assert same(q.run(path, spark=spark, strategy="scan slices").toArrow(), expected)
    assert same(q.run(Path(tmp_path / "events")), expected)


def test_slices_are_several_and_cover_the_time_once() -> None:
    groups = [RowGroup("f", n, 100, 1000 * n, 1000 * n + 900) for n in range(40)]
    units = units_of(groups, apart=False)
    pieces = cut(units, 8, before=0, after=500)
    assert len(pieces) == 8
    assert [piece.begin for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    assert pieces[0].begin is None
    assert pieces[-1].end is None
    # A window that starts before the end of a slice may need the first unit of the next one.
    assert all(len(piece.units) == 6 for piece in pieces[:-1])
    assert len(cut(units, 8, before=0, after=10**9)) == 1


def test_tasks_get_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Workers of a cluster run in folders of their own.
    write(events_of(10), tmp_path / "events")
    monkeypatch.chdir(tmp_path)
    assert scan.find_paths("events/*.parquet") == scan.find_paths(f"{tmp_path}/events/*.parquet")


def test_row_groups_that_overlap_are_one_unit() -> None:
    groups = [
        RowGroup("f", 0, 10, 0, 50),
        RowGroup("f", 1, 10, 40, 90),
        RowGroup("f", 2, 10, 90, 120),
        RowGroup("g", 0, 10, 130, 140),
    ]
    assert [len(unit.groups) for unit in units_of(groups, apart=False)] == [2, 1, 1]
    assert [len(unit.groups) for unit in units_of(groups, apart=True)] == [3, 1]


def test_files_out_of_order_are_sorted_in_parts(spark: SparkSession, tmp_path: Path) -> None:
    events = events_of(600)
    expected = WINDOWS.run(events).to_pylist()
    # Mixed inside row groups of 64, and files whose names are not in the order of time.
    order = np.concatenate([np.arange(n, min(n + 64, 600))[::-1] for n in range(0, 600, 64)])
    mixed = events.take(order)
    folder = tmp_path / "mixed"
    folder.mkdir()
    parquet.write_table(mixed.slice(320), folder / "0.parquet", row_group_size=64)
    parquet.write_table(mixed.slice(0, 320), folder / "1.parquet", row_group_size=64)
    assert same(WINDOWS.run(str(folder), spark=spark).toArrow(), expected)


def test_files_without_order_fall_back_with_a_notice(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = events_of(600)
    shuffled = events.take(np.random.default_rng(1).permutation(600))
    path = write(shuffled, tmp_path / "shuffled")
    monkeypatch.setattr(spark_scan, "UNIT_ROWS_MAX", 100)
    with pytest.warns(UserWarning, match="600 events in row groups overlap in time"):
        result = WINDOWS.run(path, spark=spark)
    assert same(result.toArrow(), WINDOWS.run(events).to_pylist())
    with pytest.raises(ValueError, match="cannot read these files"):
        WINDOWS.run(path, spark=spark, strategy="scan slices")


def test_files_without_statistics_fall_back(spark: SparkSession, tmp_path: Path) -> None:
    events = events_of(200)
    file = tmp_path / "plain.parquet"
    parquet.write_table(events, file, write_statistics=False)
    with pytest.warns(UserWarning, match="their footers do not contain the times of `ts`"):
        result = WINDOWS.run(str(file), spark=spark)
    assert same(result.toArrow(), WINDOWS.run(events).to_pylist())


def test_other_files_and_other_file_systems(spark: SparkSession, tmp_path: Path) -> None:
    events = events_of(200)
    path = write(events, tmp_path / "events")
    expected = WINDOWS.run(events).to_pylist()
    uri = f"file://{path}"
    assert same(WINDOWS.run(uri, spark=spark, strategy="scan slices").toArrow(), expected)
    assert same(WINDOWS.run(path, spark=spark, strategy="key shuffle").toArrow(), expected)
    counted = query("RETURN COUNT(*) PATTERN A GROUP-BY key WITHIN 4 EVENTS SLIDE 4 EVENTS")
    assert same(counted.run(path, spark=spark).toArrow(), counted.run(events).to_pylist())
    lines = tmp_path / "events.csv"
    lines.write_text("ts,type\n1,A\n2,B\n3,B\n", encoding="utf-8")
    pairs = query("RETURN COUNT(*) PATTERN SEQ(A, B)")
    with pytest.warns(UserWarning, match="is no Parquet file"):
        assert pairs.run(str(lines), spark=spark).toArrow().to_pylist() == [{"count": 2.0}]


def test_what_is_wrong_with_files_is_said(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"E501.*no file"):
        WINDOWS.run(str(tmp_path / "*.parquet"), spark=spark)
    with pytest.raises(DataError, match="E501"):
        WINDOWS.run("file:///no/such/folder/*.parquet", spark=spark)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 no footer")
    with pytest.raises(DataError, match=r"E501.*could not read"):
        WINDOWS.run(str(broken), spark=spark)
    parquet.write_table(events_of(5), tmp_path / "0.parquet")
    parquet.write_table(events_of(5).drop_columns(["x"]), tmp_path / "1.parquet")
    with pytest.raises(DataError, match=r"E501.*has other columns"):
        WINDOWS.run(str(tmp_path / "[01].parquet"), spark=spark)
    gone = tmp_path / "2.parquet"
    parquet.write_table(events_of(50), gone)
    result = WINDOWS.run(str(gone), spark=spark)
    gone.unlink()
    with pytest.raises(PySparkException, match=r"error\[E501\]: could not read"):
        result.collect()


def test_packed_texts_are_read(spark: SparkSession, tmp_path: Path) -> None:
    rows = events_of(60).select(["ts", "type"])
    text = "RETURN COUNT(*) PATTERN SEQ(A, B)"
    expected = query(text).run(rows).to_pylist()
    sink = pa.BufferOutputStream()
    csv.write_csv(rows.set_column(0, "ts", rows["ts"].cast(pa.int64())), sink, TABS)
    (tmp_path / "events.tsv.gz").write_bytes(gzip.compress(sink.getvalue().to_pybytes()))
    path = str(tmp_path / "events.tsv.gz")
    assert query(text).run(path).to_pylist() == expected
    with pytest.warns(UserWarning, match="no Parquet file"):
        assert same(query(text).run(path, spark=spark).toArrow(), expected)


def test_an_empty_cell_of_csv_is_null_everywhere(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "valves.csv"
    path.write_text('ts,type,n,state\n1,v,1,shut\n2,v,1,\n3,v,1,""\n4,v,1,NA\n5,v,1,open\n')
    q = query("RETURN v.state PATTERN v WHERE [n] AND v.state <> 'shut'")
    expected = ["NA", "open"]
    assert q.run(path)["v_state"].to_pylist() == expected
    with pytest.warns(UserWarning, match="is no Parquet file"):
        on_spark = q.run(str(path), spark=spark).toArrow()["v_state"].to_pylist()
    assert sorted(map(str, on_spark)) == expected
