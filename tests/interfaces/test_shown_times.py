"""People see times where a result has whole numbers that are times; files keep the numbers."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.interfaces.program import run

from cepheid.pictures.shown_times import ShownTimes

VISITS = """when,event,patient
1760000000,admit,p1
1760000600,treat,p1
1760000700,admit,p2
1760003000,treat,p2
"""
OPTIONS = ("--time", "when", "--type", "event", "--time-unit", "s")
WINDOWS = "RETURN COUNT(*) PATTERN SEQ(admit, treat) WHERE [patient] WITHIN 1 hour SLIDE 1 hour"


def visits(folder: Path) -> Path:
    path = folder / "visits.csv"
    path.write_text(VISITS, encoding="utf-8")
    return path


def test_a_table_shows_windows_as_times(tmp_path: Path) -> None:
    path = visits(tmp_path)
    table = run("run", "-q", WINDOWS, "--input", path, *OPTIONS)
    assert "│ 2025-10-09 08:00 │ 2025-10-09 09:00 │" not in table.stdout
    assert "│ 2025-10-09 09:00 │ 2025-10-09 10:00 │     1 │" in table.stdout, table.stderr
    written = run("run", "-q", WINDOWS, "--input", path, *OPTIONS, "--format", "csv")
    assert written.stdout.splitlines()[1:] == ["1760000400,1760004000,1"]


def test_a_table_shows_the_times_of_events(tmp_path: Path) -> None:
    listed = "RETURN MATCHES PATTERN SEQ(admit, treat) WHERE [patient]"
    table = run("run", "-q", listed, "--input", visits(tmp_path), *OPTIONS)
    assert "events of 2025-10-09" in table.stdout, table.stderr
    assert "│ treat  09:03:20  event=treat  patient=p1 │" in table.stdout


def test_situations_have_times() -> None:
    numbers = pa.table({"situation": ["HOT"], "ts": [1_760_000_000_000], "te": [1_760_000_001_000]})
    found = ShownTimes("at", "ms").of(numbers)["te"].to_pylist()
    assert found == [dt.datetime(2025, 10, 9, 8, 53, 21, tzinfo=dt.UTC)]


def test_other_numbers_and_times_stay_as_they_are() -> None:
    times, date = ShownTimes("at", "us"), pa.array([1_760_000_000 * 10**6])
    events = pa.list_(pa.struct([("variable", pa.string()), ("at", pa.int64())]))
    for table in (
        pa.table({"window_start": [0, 10], "window_end": [10, 20]}),
        # Events of one file may be dates and others not.
        pa.table({"window_start": [-(10**15), 1_760_000_000 * 10**6], "window_end": [0, 1]}),
        pa.table(
            {"window_start": pa.array([], pa.int64()), "window_end": pa.array([], pa.int64())}
        ),
        pa.table({"ts": [1_760_000_000 * 10**6], "te": [1_760_000_001 * 10**6]}),
        pa.table({"events": pa.array([[{"variable": "A", "at": 5}], []], events)}),
        pa.table({"events": pa.array([], events)}),
        pa.table({"events": pa.array([], events)}).slice(1),
        pa.table([date] * 3, ["window_start", "window_end", "window_end"]),
        pa.table({"events": [3]}),
    ):
        assert times.of(table).equals(table)


def test_lists_of_events_keep_their_shape() -> None:
    dates = [1_760_000_000 * 10**6 + n for n in range(5)]
    lists = [[{"variable": "A", "at": dates[0]}], [], [{"variable": "A", "at": n} for n in dates]]
    table = pa.table({"events": lists}).slice(1)
    found: list[Any] = ShownTimes("at", "us").of(table)["events"].to_pylist()
    assert [len(events) for events in found] == [0, 5]
    assert [event["at"].microsecond for event in found[1]] == [0, 1, 2, 3, 4]
