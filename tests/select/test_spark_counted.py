"""Live windows of events on Spark: files as micro-batches, restarts, late events and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.amount import share
from tests.runtime.test_stream import cut, drain, read_stream, write_files
from tests.select.cases import table_of, unordered
from tests.select.test_counted_turn import full
from typer.testing import CliRunner

import cepheid
from cepheid.interfaces.cli import app
from cepheid.interfaces.stream_command import stream_in, wrong_use
from cepheid.interfaces.stream_options import Options
from cepheid.spark.failures import clear_error
from cepheid.testing.oracle_select import evaluate_select

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

Events = list[dict[str, Any]]
UTC = pa.timestamp("us", "UTC")
SECOND = 1_000_000


def events_of(count: int, seed: int) -> Events:
    """Return events at different times, in their order."""
    random = np.random.default_rng(seed)
    times = np.sort(random.choice(60_000, count, replace=False)) * 1_000 + SECOND
    columns: dict[str, Any] = {
        "k": np.array(["p", "q", "pq", None])[random.integers(0, 4, count)],
        "g": random.integers(0, 3, count),
        "x": random.integers(-5, 6, count),
        "y": random.random(count),
    }
    rows = zip(times.tolist(), *(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(("ts", *columns), row, strict=True)) for row in rows]


def mixed(events: Events, seed: int, delay: int = 4 * SECOND) -> Events:
    noise = np.random.default_rng(seed).integers(0, delay, len(events))
    order = np.argsort([event["ts"] for event in events] + noise)
    return [events[n] for n in order]


LAST: Events = [{"ts": 3600 * SECOND, "k": "last", "g": 1, "x": 1, "y": 1.0}]
"""Moves the watermark past all others; alone in its group, it fills no window of two."""


def tables(events: Events, count: int, kind: pa.DataType = UTC) -> list[pa.Table]:
    return cut(table_of(events, kind), count)


@share(2)
@pytest.mark.parametrize(
    ("files", "text"),
    [
        (
            1,
            "SELECT k AS key, COUNT(*), SUM(x), AVG(y), MIN(ts), MAX(x * g) AS z FROM s "
            "WHERE x <> 2 GROUP BY k WINDOW 20 EVENTS SLIDE 6 EVENTS",
        ),
        (100, "SELECT SUM(x), MAX(y) FROM s WHERE g > 0 WINDOW 5 EVENTS SLIDE 9 EVENTS"),
    ],
)
def test_batch_equals_stream(spark: SparkSession, tmp_path: Path, files: int, text: str) -> None:
    events = events_of(300, 1)
    kind = UTC if files == 1 else pa.timestamp("us")
    parts = [*tables(mixed(events, 2), 3, kind), table_of(LAST, kind)]
    folder = write_files(tmp_path / "s", parts)
    result = cepheid.query(text).stream(read_stream(spark, folder, files), watermark="4 seconds")
    found, progress = drain(result, tmp_path, "a")
    expected = full(text, events)
    assert expected
    assert unordered(found.to_pylist()) == unordered(expected)
    counts = [p["observedMetrics"]["cepheid"] for p in progress if p["observedMetrics"]]
    assert sum(c["late"] or 0 for c in counts) == 0
    # The last event of a stream waits for a later one.
    assert counts[-1]["buffered"] == 1
    assert counts[-1]["state_bytes"] > 0


@pytest.mark.slow
def test_a_restart_goes_on_and_gives_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    events = events_of(240, 3)
    parts = tables(mixed(events, 4), 2)
    text = "SELECT SUM(x), COUNT(*) FROM s GROUP BY g WINDOW 7 EVENTS SLIDE 3 EVENTS"
    q = cepheid.query(text)
    folder = write_files(tmp_path / "s", parts[:1])
    drain(q.stream(read_stream(spark, folder, 1), watermark="4 seconds"), tmp_path, "a")
    write_files(folder, [*parts[1:], table_of(LAST, UTC)])
    result = q.stream(read_stream(spark, folder, 1), watermark="4 seconds")
    found, _ = drain(result, tmp_path, "a")
    assert unordered(found.to_pylist()) == unordered(full(text, events))
    changed = cepheid.query(text.replace("SLIDE 3", "SLIDE 4"))
    write_files(folder, [table_of([{**LAST[0], "ts": 7200 * SECOND}], UTC)])
    with pytest.raises(StreamingQueryException) as caught:
        drain(changed.stream(read_stream(spark, folder, 1), watermark="4 seconds"), tmp_path, "a")
    assert clear_error(caught.value).diagnostics[0].code == "E524"


def test_late_events_are_counted_and_returned(spark: SparkSession, tmp_path: Path) -> None:
    events = events_of(60, 5)
    late = [{**event, "k": "p", "x": 4, "d": None} for event in events[:3]]
    dropped = [{**event, "k": "p", "x": 99} for event in events[:2]]
    parts = [events, late + dropped, LAST]
    folder = write_files(tmp_path / "s", [table_of(part, UTC) for part in parts])
    text = "SELECT SUM(x) FROM s WHERE x < 10 GROUP BY k WINDOW 2 EVENTS"
    source = read_stream(spark, folder, 1)
    result, side = cepheid.query(text).stream(source, watermark="1 second", late="side")
    found, progress = drain(result, tmp_path, "rows")
    assert unordered(found.to_pylist()) == unordered(full(text, events))
    counts = [p["observedMetrics"]["cepheid"] for p in progress if p["observedMetrics"]]
    assert sum(c["late"] or 0 for c in counts) == 3
    returned, _ = drain(side, tmp_path, "late")
    assert unordered(returned.to_pylist()) == unordered(late)


@pytest.mark.slow
def test_joins_of_two_streams(spark: SparkSession, tmp_path: Path) -> None:
    events, others = events_of(90, 6), events_of(50, 7)
    text = (
        "SELECT a.ts, b.ts AS t, a.x, b.k, a.x + b.x AS z FROM s a JOIN r b "
        "ON a.k = b.k AND a.x > b.g WHERE b.x < 5 WINDOW 8 EVENTS"
    )
    q = cepheid.query(text)
    parts = tables(mixed(events, 8), 2), tables(mixed(others, 9), 2)
    folders = [write_files(tmp_path / name, one[:1]) for name, one in zip("sr", parts, strict=True)]

    def streams() -> Any:
        return {n: read_stream(spark, f, 1) for n, f in zip("sr", folders, strict=True)}

    drain(q.stream(streams(), watermark="4 seconds"), tmp_path, "a")
    for folder, one in zip(folders, parts, strict=True):
        write_files(folder, [*one[1:], table_of(LAST, UTC)])
    found, progress = drain(q.stream(streams(), watermark="4 seconds"), tmp_path, "a")
    expected = evaluate_select(text, {"s": events, "r": others})
    assert expected
    assert unordered(found.to_pylist()) == unordered(expected)
    counts = [p["observedMetrics"]["cepheid"] for p in progress if p["observedMetrics"]]
    assert counts[-1]["buffered"] == 2
    assert sum(c["late"] or 0 for c in counts) == 0


@share(2)
@pytest.mark.parametrize(
    "text",
    [
        """SELECT a.ts, b.ts AS t, c.ts AS u, a.x, b.k, a.x + c.x AS z
        FROM s a WITHIN 4 seconds JOIN r b WITHIN 2 seconds ON a.k = b.k AND a.x > b.g
        JOIN t c WITHIN 3 seconds ON c.k = b.k WHERE b.x < 5""",
        """SELECT b.g, COUNT(*) AS n, SUM(a.x * c.x) AS x, MAX(c.y) AS y
        FROM s a WITHIN 4 seconds JOIN r b WITHIN 2 seconds ON a.k = b.k
        JOIN t c WITHIN 3 seconds ON c.x > a.x GROUP BY b.g WINDOW 10 seconds SLIDE 5 seconds""",
        """SELECT COUNT(*) AS n, MIN(a.x) AS x FROM s a WITHIN 9 seconds
        JOIN r b WITHIN 5 seconds ON a.k = b.k WINDOW SESSION 2 seconds""",
    ],
)
def test_joins_of_different_streams(spark: SparkSession, tmp_path: Path, text: str) -> None:
    names = "srt" if " t c" in text else "sr"
    events = {name: events_of(50, seed) for seed, name in enumerate(names)}
    q = cepheid.query(text)
    parts = {name: tables(mixed(one, 8), 2) for name, one in events.items()}
    for name in names:
        write_files(tmp_path / name, parts[name][:1])

    def rows() -> Any:
        streams = {name: read_stream(spark, tmp_path / name, 1) for name in names}
        return drain(q.stream(streams, watermark="4 seconds"), tmp_path, "a")

    # One stream is there first, and the query starts anew before the others go on.
    rows()
    for name in names:
        write_files(tmp_path / name, [*parts[name][1:], table_of(LAST, UTC)])
    found, progress = rows()
    expected = evaluate_select(text, events)
    assert len(expected) > 5
    assert unordered(found.to_pylist()) == unordered(expected)
    counts = [p["observedMetrics"]["cepheid"] for p in progress if p["observedMetrics"]]
    assert sum(c["late"] or 0 for c in counts) == 0
    assert counts[-1]["buffered"] == len(names)


@pytest.mark.slow
def test_a_stream_meets_itself_in_seconds(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"ts": [1, 2, 3, 5, 8, 4000], "x": range(6)})
    folder = write_files(tmp_path / "s", [table.slice(0, 3), table.slice(3)])
    text = "SELECT a.x, b.x AS y FROM s a JOIN s b ON a.x <= b.x WINDOW 2 EVENTS"
    q = cepheid.query(text, time_unit="s")
    found, _ = drain(q.stream(read_stream(spark, folder, 1), watermark="10 seconds"), tmp_path, "a")
    expected = [row for row in q.run(table).to_pylist() if row["y"] < 5]
    assert unordered(found.to_pylist()) == unordered(expected)


@pytest.mark.slow
def test_the_command_streams_windows_and_joins(spark: SparkSession, tmp_path: Path) -> None:
    events = events_of(40, 10)
    folder = str(write_files(tmp_path / "s", [*tables(events, 2), table_of(LAST, UTC)]))
    windows = "SELECT SUM(x) FROM s WINDOW 3 EVENTS"
    join = "SELECT a.x, b.x AS z FROM s a JOIN r b ON a.k = b.k WINDOW 2 EVENTS"
    for name, text, source, expected in (
        ("windows", windows, folder, full(windows, events)),
        (
            "join",
            join,
            {"s": folder, "r": folder},
            evaluate_select(join, {"s": events, "r": events}),
        ),
    ):
        sink, state = tmp_path / f"{name}-rows", tmp_path / f"{name}-state"
        options = Options(source, str(sink), state, "4 seconds", once=True)
        assert wrong_use(cepheid.query(text), options) == ""
        stream_in(spark, cepheid.query(text), options)
        found = spark.read.parquet(str(sink)).toArrow().to_pylist()
        assert unordered(found) == unordered(expected)


def test_the_command_takes_one_source_but_for_a_join(tmp_path: Path) -> None:
    query = tmp_path / "q.cq"
    query.write_text("SELECT SUM(x) FROM s WINDOW 3 EVENTS")
    places = ["--sink", "-", "--checkpoint", str(tmp_path / "state")]
    sources = ["--source", "s=a", "--source", "r=b"]
    done = CliRunner().invoke(app.typer(), ["stream", str(query), *sources, *places])
    assert "--source may be given only once" in str(done.exception)
    query.write_text("SELECT a.x FROM s a JOIN r b ON a.k = b.k WINDOW 2 EVENTS")
    done = CliRunner().invoke(app.typer(), ["stream", str(query), *sources, *places])
    assert "could not read a: no such folder" in str(done.exception)
