"""``cepheid stream`` over damaged files: rows, late events and bad records leave one query."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from tests.amount import share
from tests.runtime.cases import same

import cepheid
from cepheid import runtimes
from cepheid.interfaces.stream_command import start
from cepheid.interfaces.stream_options import Options
from cepheid.interfaces.stream_sources import source_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COLUMNS = "ts timestamp, type string, user string, x double"
TREND = "RETURN user, COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) GROUP-BY user WITHIN 9 s SLIDE 9 s"

GOOD: list[dict[str, Any]] = [
    {"ts": n, "type": "AB"[n % 2], "user": "ann" if n % 3 else "bob", "x": n / 2} for n in range(40)
]
LATE = {"ts": 1, "type": "A", "user": "ann", "x": 7.0}
NO_KEY = GOOD[5] | {"user": None}
END = {"ts": 200, "type": "Z", "user": None, "x": None}
FUTURE = 7_258_118_400


FIELDS: dict[str, pa.DataType] = {
    "ts": pa.timestamp("us", "UTC"),
    "type": pa.string(),
    "user": pa.string(),
    "x": pa.float64(),
}


def events(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows as a table; times are seconds."""
    times = [None if row["ts"] is None else row["ts"] * 1_000_000 for row in rows]
    return pa.Table.from_pylist(
        [row | {"ts": ts} for row, ts in zip(rows, times, strict=True)], schema=pa.schema(FIELDS)
    )


def iso(seconds: int) -> str:
    start = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return (start + dt.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def json_files(folder: Path) -> int:
    """Write a file of each kind of damage; return the number of bad records."""

    def line(row: dict[str, Any], **changed: Any) -> str:
        return json.dumps(row | {"ts": iso(row["ts"])} | changed)

    wrong = [
        "this is no JSON",
        line(GOOD[5], ts=None),
        line(GOOD[5], ts="yesterday"),
        line(GOOD[5], ts=iso(FUTURE)),
        line(GOOD[5], x="many"),
        line(GOOD[5], user=None),
        '{"ts": "2026-01-01',
    ]
    lines = [line(row) for row in GOOD]
    files = [[*lines[:20], *wrong, ""], [*lines[20:], wrong[0]], [line(LATE)], wrong, [line(END)]]
    for number, rows in enumerate(files):
        (folder / f"{number}.json").write_text("\n".join(rows) + "\n")
        os.utime(folder / f"{number}.json", (1000 + number, 1000 + number))
    return 2 * len(wrong) + 1


def parquet_files(folder: Path) -> int:
    wrong = [GOOD[5] | {"ts": None}, GOOD[5] | {"ts": FUTURE}, NO_KEY]
    files = [[*GOOD[:20], *wrong], GOOD[20:], [LATE], [], [END]]
    for number, rows in enumerate(files):
        path = folder / f"{number}.parquet"
        parquet.write_table(events(rows).select(("x", "user", "type", "ts")), path)
        if not rows:
            # The writer died before it wrote the end of the file.
            parquet.write_table(events(GOOD), path)
            path.write_bytes(path.read_bytes()[:-30])
        os.utime(path, (1000 + number, 1000 + number))
    return len(wrong) + 1


def csv_files(folder: Path) -> int:
    def line(row: dict[str, Any], **changed: Any) -> str:
        shown = row | {"ts": iso(row["ts"])} | changed
        return ",".join("" if v is None else str(v) for v in shown.values())

    wrong = [
        line(GOOD[5], ts=""),
        line(GOOD[5], ts=iso(FUTURE)),
        line(GOOD[5], x="many"),
        line(GOOD[5]) + ",more",
        "one",
    ]
    lines = [line(row) for row in GOOD]
    files = [[*lines[:20], *wrong], lines[20:], [line(LATE)], wrong, [line(END)]]
    for number, rows in enumerate(files):
        (folder / f"{number}.csv").write_text("\n".join(["ts,type,user,x", *rows]) + "\n")
        os.utime(folder / f"{number}.csv", (1000 + number, 1000 + number))
    return 2 * len(wrong)


SELECT = "SELECT user, COUNT(*) AS n, SUM(x) AS total FROM s WHERE x < 18 GROUP BY user WINDOW "


class Case(NamedTuple):
    """Files of a form with damage, and a query over them."""

    form: str
    write: Callable[[Path], int]
    run: Any
    query: Any
    keyed: bool = True
    """Whether a record without a key is bad."""


CASES = {
    "json": Case("json", json_files, runtimes.stream, cepheid.query(TREND)),
    "parquet": Case("parquet", parquet_files, runtimes.stream, cepheid.query(TREND)),
    "rules": Case(
        "csv", csv_files, runtimes.stream_workload, cepheid.workload({"a": TREND, "b": TREND})
    ),
    "select": Case(
        "parquet", parquet_files, runtimes.stream, cepheid.query(SELECT + "9 s"), keyed=False
    ),
    "counted": Case(
        "parquet", parquet_files, runtimes.stream, cepheid.query(SELECT + "1 EVENT"), keyed=False
    ),
}


@share(3)
@pytest.mark.parametrize("name", CASES)
def test_every_record_is_used_late_or_bad(spark: SparkSession, tmp_path: Path, name: str) -> None:
    form, write, run, query, keyed = CASES[name]
    folder, sink = tmp_path / "events", tmp_path / "rows"
    folder.mkdir()
    wrong = write(folder)
    used = [*GOOD, END]
    if not keyed:
        used, wrong = [*GOOD, NO_KEY, END], wrong - 1
    options = Options(
        str(folder), str(sink), tmp_path / "state", "5 seconds", form, once=True, files=1,
        columns=None if form == "parquet" else COLUMNS, late="side",
    )  # fmt: skip
    live = start(
        run(query, source_of(spark, str(folder), options), options.live),
        options,
        lambda write: write,
    )
    live.awaitTermination()
    rows = spark.read.parquet(str(sink)).toArrow()
    assert same(rows, query.run(events(sorted(used, key=lambda row: int(row["ts"])))).to_pylist())
    bad = spark.read.parquet(f"{sink}-bad").toArrow()
    assert len(bad) == wrong
    assert all(str(place).endswith(form) for place in bad["_origin"].to_pylist())
    assert all(bad["_reason"].to_pylist())
    late = spark.read.parquet(f"{sink}-late").toArrow()
    assert same(late.select(("ts", "type", "user", "x")), events([LATE]).to_pylist())
    numbers = {
        name: Counter(table["batch"].to_pylist()) for name, table in (("bad", bad), ("late", late))
    }
    batches = [p for p in live.recentProgress if p["observedMetrics"]]
    assert len(batches) >= 5
    for progress in batches:
        records = progress["observedMetrics"]["cepheid_records"]
        counts = progress["observedMetrics"]["cepheid"]
        number = progress["batchId"]
        in_time = (counts["seen"] or 0) - (counts["late"] or 0)
        assert records["records"] == in_time + (counts["late"] or 0) + records["bad"]
        assert records["bad"] == numbers["bad"][number]
        assert (counts["late"] or 0) == numbers["late"][number]
