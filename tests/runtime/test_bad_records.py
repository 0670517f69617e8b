"""Bad records of live queries: none stops a query, each is counted, and `side` returns it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from tests.amount import share
from tests.runtime.cases import same
from tests.runtime.test_stream import drain, read_stream, write_files

import cepheid
from cepheid.api import query
from cepheid.events.temporal import TIME_MAX
from cepheid.runtimes.spark.bad_records import is_after, too_far
from cepheid.spark.failures import clear_error

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

DAY = 86_400_000_000
FUTURE = 7_258_118_400_000_000
"""The year 2200."""
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_000_000
"""The years 1 and 9999."""


Record = tuple[int | None, str | None, str | None, float | None]


def table(rows: Sequence[Record]) -> pa.Table:
    ts, kind, user, x = (list(column) for column in zip(*rows, strict=True))
    stamps = pa.array(ts, pa.timestamp("us", "UTC"))
    return pa.table({"ts": stamps, "type": kind, "user": user, "x": pa.array(x, pa.float64())})


GOOD = [(n * 1_000_000, "AB"[n % 2], "ann" if n % 3 else "bob", n / 2) for n in range(1, 40)]
WRONG = [
    (None, "A", "ann", 1.0),
    (FUTURE, "A", "ann", 1.0),
    (LAST, "B", "ann", 1.0),
    (5_000_000, "A", None, 1.0),
]
"""A NULL time, two times ahead of the clock, and a NULL key."""

USED = [(6_500_000, "Z", None, 1.0), (7_500_000, "A", "ann", None)]
"""A type that the pattern lacks needs no key; a value may be NULL."""

END = [(120_000_000, "Z", "ann", 0.0), (200_000_000, "Z", "ann", 0.0)]

TREND = "RETURN user, COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) GROUP-BY user WITHIN 9 s SLIDE 9 s"
KINDS: dict[str, tuple[Any, int]] = {
    "panes": (query("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 9 s SLIDE 3 s"), 3),
    "matches": (query("RETURN MATCHES PATTERN SEQ(A, B) WHERE [user] WITHIN 3 s"), 4),
    "situation": (query("DEFINE S AS x > 3 PARTITION BY user SITUATIONS S"), 5),
    "select": (query("SELECT user, COUNT(*) AS n FROM s GROUP BY user WINDOW 9 seconds"), 3),
    "counted": (query("SELECT user, COUNT(*) AS n FROM s GROUP BY user WINDOW 5 EVENTS"), 3),
    "workload": (cepheid.workload({"a": TREND}), 4),
}


def in_order(*parts: list[Any]) -> pa.Table:
    return table(sorted((row for part in parts for row in part), key=lambda row: row[0] or 0))


def files(folder: Path) -> Path:
    mixed = [*GOOD[:20], *WRONG, *USED, *GOOD[20:]]
    return write_files(folder, [table(mixed[:23]), table(mixed[23:]), table(END)])


def sums(progress: list[Any], name: str = "cepheid_records") -> dict[str, int]:
    found: dict[str, int] = {}
    for one in progress:
        counts = one["observedMetrics"].get(name)
        for key, value in (counts.asDict() if counts else {}).items():
            if key != "nulls":
                found[key] = found.get(key, 0) + (value or 0)
    return found


def test_a_trend_drops_returns_or_refuses(spark: SparkSession, tmp_path: Path) -> None:
    source = read_stream(spark, files(tmp_path / "events"), 1)
    q = query(TREND)
    rows, late, bad = q.stream(source, watermark="20 seconds", late="side", bad="side")
    found, progress = drain(rows, tmp_path, "rows")
    expected = q.run(in_order(GOOD, USED, END)).to_pylist()
    assert expected
    assert same(found, expected)
    counts = sums(progress)
    assert counts["records"] == len(GOOD) + len(WRONG) + len(USED) + len(END)
    assert (counts["bad"], counts["no_time"], counts["ahead"], counts["no_key"]) == (4, 1, 2, 1)
    nulls = [p["observedMetrics"]["cepheid_records"]["nulls"] for p in progress]
    assert sum(one["x"] for one in nulls) == 1
    assert sum(one["user"] for one in nulls) == 1
    returned, _ = drain(bad, tmp_path, "bad")
    reasons = sorted(map(str, returned["_reason"].to_pylist()))
    assert [reason.split(",")[0] for reason in reasons] == [
        "a key is NULL: `user`",
        "the time `ts` is NULL",
        "the time of `ts`",
        "the time of `ts`",
    ]
    assert all('"type"' in str(text) for text in returned["_raw"].to_pylist())
    assert not len(drain(late, tmp_path, "late")[0])
    failing = q.stream(source, watermark="20 seconds", bad="fail")
    with pytest.raises(StreamingQueryException) as caught:
        drain(failing, tmp_path, "fail")
    (said,) = clear_error(caught.value).diagnostics
    assert said.code == "E526"
    assert "a record is bad: the " in said.message
    assert len(said.message) < 400


@share(3)
@pytest.mark.parametrize("name", KINDS)
def test_no_kind_stops(spark: SparkSession, tmp_path: Path, name: str) -> None:
    asked, wrong = KINDS[name]
    source = read_stream(spark, files(tmp_path / "events"), 3)
    rows, progress = drain(asked.stream(source, watermark="20 seconds"), tmp_path, "rows")
    assert sums(progress)["bad"] == wrong
    also: list[Any] = [] if wrong >= 4 else WRONG[3:]
    expected = asked.run(in_order(GOOD, also, USED, END)).to_pylist()
    if name == "counted":
        expected = [row for row in expected if row["n"] == 5]
    if name == "select":
        expected = [row for row in expected if row["window_end"].timestamp() <= 180]
    assert expected
    assert same(rows, expected)


def test_match_recognize_does_not_stop(spark: SparkSession, tmp_path: Path) -> None:
    source = read_stream(spark, files(tmp_path / "events"), 3)
    source.createOrReplaceTempView("wrong_events")
    text = """SELECT * FROM wrong_events MATCH_RECOGNIZE (
        PARTITION BY user ORDER BY ts MEASURES FIRST(B.x) AS first
        PATTERN (A B) DEFINE A AS type = 'A', B AS type = 'B')"""
    rows, bad = cepheid.sql(spark, text, watermark="20 seconds", bad="side")
    found, progress = drain(rows, tmp_path, "rows")
    assert sums(progress)["bad"] == 3, "NULL is a partition of its own"
    assert len(found)
    assert len(drain(bad, tmp_path, "bad")[0]) == 3


def test_years_from_1_to_9999_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """A long `max_ahead` lets any time pass; the first file has the year 1, the last 9999."""
    years = [(FIRST, "A", "ann", 1.0), (FIRST + 1_000_000, "B", "ann", 1.0)]
    last = [(LAST - 1_000_000, "A", "ann", 1.0), (LAST, "B", "ann", 1.0)]
    folder = write_files(tmp_path / "events", [table(years), table(GOOD), table(last)])
    q = query(TREND)
    ahead = "4000000 days"
    rows = q.stream(read_stream(spark, folder, 1), watermark="20 seconds", max_ahead=ahead)
    found, progress = drain(rows, tmp_path, "rows")
    assert sums(progress)["bad"] == 0
    assert same(found, q.run(table([*years, *GOOD])).to_pylist())


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_times_without_a_zone_are_judged_by_their_reading(spark: SparkSession, zone: str) -> None:
    near = [n + d for n in (0, DAY - 1, DAY, FUTURE, -DAY) for d in (-1, 0, 1)]
    far = [sign * TIME_MAX + d for sign in (-1, 1) for d in (-1, 0, 1)]
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        columns, expected = [], []
        for micros in near + far:
            seconds, rest = divmod(abs(micros), 1_000_000)
            sign = "-" if micros < 0 else "+"
            since = f"INTERVAL '{seconds}.{rest:06}' SECOND"
            time = sf.expr(f"TIMESTAMP_NTZ '1970-01-01 00:00:00' {sign} {since}")
            columns.append(too_far(time, "timestamp_ntz"))
            expected.append(abs(micros) > TIME_MAX)
            for latest in (micros - DAY, micros - 1, micros, micros + 1, micros + DAY):
                columns.append(is_after(time, "timestamp_ntz", sf.lit(latest).cast("long")))
                expected.append(micros > latest)
        (row,) = spark.range(1).select(*columns).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    assert list(row) == expected


def test_a_pause_is_no_error(spark: SparkSession, tmp_path: Path) -> None:
    """Only the clock decides: a time may be any distance from the one before."""
    now = int(dt.datetime.now(dt.UTC).timestamp() * 1_000_000)
    folder = write_files(
        tmp_path / "events",
        [table(GOOD), table([(now + DAY // 2, "A", "ann", 1.0), (now + 2 * DAY, "A", "ann", 1.0)])],
    )
    rows = query(TREND).stream(read_stream(spark, folder, 1), watermark="1 second")
    found, progress = drain(rows, tmp_path, "rows")
    assert sums(progress)["ahead"] == 1
    assert same(found, query(TREND).run(table(GOOD)).to_pylist())


def test_a_text_that_is_no_time_is_a_bad_record(spark: SparkSession, tmp_path: Path) -> None:
    texts = ["1970-01-01T00:00:01Z", "yesterday", None, "1970-01-01 00:00:02", "1970-01-01 00:02"]
    rows: dict[str, Any] = {
        "ts": texts,
        "type": ["A", "A", "B", "B", "Z"],
        "user": ["ann"] * 5,
        "x": [1.0] * 5,
    }
    folder = write_files(tmp_path / "events", [pa.table(rows)])
    stream, bad = query(TREND).stream(
        read_stream(spark, folder, 1), watermark="1 second", bad="side"
    )
    found, progress = drain(stream, tmp_path, "rows")
    assert [row["count"] for row in found.to_pylist()] == [1.0]
    counts = sums(progress)
    assert (counts["unread"], counts["no_time"], counts["records"]) == (1, 1, 5)
    returned = {str(row["_reason"]): row for row in drain(bad, tmp_path, "bad")[0].to_pylist()}
    assert set(returned) == {"the time `yesterday` is not ISO 8601", "the time `ts` is NULL"}
    assert '"ts":"yesterday"' in str(returned["the time `yesterday` is not ISO 8601"]["_raw"])
