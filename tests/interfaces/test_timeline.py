"""Situations along the time, as text."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

from cepheid.interfaces.chart import TIME_COLUMNS, timeline

START = dt.datetime(2026, 11, 15, 12, 0)


def minutes(*values: int) -> list[dt.datetime]:
    return [START + dt.timedelta(minutes=value) for value in values]


def test_a_line_for_each_partition_and_definition() -> None:
    listed = pa.table(
        {
            "car": ["red", "red", "blue"],
            "situation": ["A", "B", "A"],
            "ts": minutes(0, 30, 30),
            "te": minutes(30, 60, 60),
        }
    )
    marks = pa.table({"car": ["red", "green"], "ts": minutes(30, 30)})
    half = TIME_COLUMNS // 2
    assert timeline(listed, marks=marks).splitlines() == [
        f"{'':<9} 12:00:00{'13:00:00':>{TIME_COLUMNS - 8}}",
        f"{'blue A':<9} {'·' * half}{'█' * (half - 1)}·",
        f"{'red A':<9} {'█' * half}{'·' * half}",
        f"{'red B':<9} {'·' * half}{'█' * (half - 1)}·",
        f"{'red match':<9} {' ' * half}^",
    ]


def test_no_situations_and_no_partitions() -> None:
    names: dict[str, list[object]] = {"situation": ["A"], "ts": [5], "te": [5]}
    assert timeline(pa.table(names).slice(0, 0)) == ""
    assert timeline(pa.table(names)).splitlines()[1] == f"A █{'·' * (TIME_COLUMNS - 1)}"
