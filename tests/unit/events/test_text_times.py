"""Times that are text: what is read, as what, and what is refused; the same in every reader."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, parquet

import cepheid
from cepheid.events.arriving import as_table
from cepheid.events.text_times import format_help, read_text_times
from cepheid.events.time_formats import time_format

TEXTS = {
    "2026-01-31": "2026-01-31T00:00:00",
    "2026-01-31T10": "2026-01-31T10:00:00",
    "2026-01-31 10:30": "2026-01-31T10:30:00",
    "2026-01-31T10:30:15.25Z": "2026-01-31T10:30:15.250000",
    "2026-01-31T10:30:15,123456789+0130": "2026-01-31T09:00:15.123456",
    " 2026-01-31t10:30:15z ": "2026-01-31T10:30:15",
    "2026-01-31T10:30-08": "2026-01-31T18:30:00",
    "2024-02-29": "2024-02-29T00:00:00",
    "1969-12-31T23:59:59.999999": "1969-12-31T23:59:59.999999",
    "2025-02-29": None,
    "2026-13-01": None,
    "2026-01-31T24:00": None,
    "2026-01-31T10:30:60": None,
    "2026-01-31T10:30+24:00": None,
    "0000-01-01": None,
    "1769855400": None,
    "tomorrow": None,
    "": None,
    "2026-01-31\n": None,
}
FORMATS = [
    ("%d/%b/%Y:%H:%M:%S %z", "17/Nov/2026:03:04:05 +0100", "2026-11-17T02:04:05"),
    ("%m/%d/%y %I:%M %p", "1/2/69 12:05 am", "1969-01-02T00:05:00"),
    ("%m/%d/%y %I:%M %p", "1/2/68 12:05 PM", "2068-01-02T12:05:00"),
    ("%A, %d %B %Y", "Monday, 3 May 2021", "2021-05-03T00:00:00"),
    ("%Y%m%d%H%M%S", "20260131235959", "2026-01-31T23:59:59"),
    ("%F %T.%f", "2026-01-31 10:30:15.5", "2026-01-31T10:30:15.500000"),
    ("%d/%m/%Y", "31/02/2026", None),
    ("%m/%d/%y %I:%M %p", "1/2/68 13:05 PM", None),
]
COUNT = "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 minutes SLIDE 10 minutes"
ROWS = [
    {"ts": "31/01/2026 10:00:01", "type": "A"},
    {"ts": "31/01/2026 10:03:00", "type": "B"},
    {"ts": "31/01/2026 11:03:00", "type": "B"},
]
FORMAT = "%d/%m/%Y %H:%M:%S"
START = dt.datetime(2026, 1, 31, 10, tzinfo=dt.UTC)


def _read(texts: list[str | None], form: str = "") -> list[str | None]:
    read, wrong = read_text_times(pa.array(texts, pa.string()), time_format(form))
    times = [None if t is None else t.isoformat()[:-6] for t in read.to_pylist()]
    assert [t is not None and w for t, w in zip(texts, wrong, strict=True)] == [
        t is not None and s is None for t, s in zip(texts, times, strict=True)
    ]
    return times


def test_iso_texts_are_read_in_utc_and_others_are_not() -> None:
    assert dict(zip(TEXTS, _read([*TEXTS]), strict=True)) == TEXTS
    assert {text: _read([text])[0] for text in TEXTS} == TEXTS, "alone, Arrow may read them"
    assert _read([None]) == [None]


@pytest.mark.parametrize(("form", "text", "time"), FORMATS)
def test_formats_read_what_they_say(form: str, text: str, time: str | None) -> None:
    assert _read([text], form) == [time]


@given(st.datetimes(timezones=st.just(dt.UTC)))
def test_every_time_is_read_as_python_writes_it(time: dt.datetime) -> None:
    text = f"{time:%d/%m/}{time.year:04}{time: %H:%M:%S.%f}"
    assert _read([text], "%d/%m/%Y %H:%M:%S.%f") == [time.isoformat()[:-6]]
    assert _read([time.isoformat(), "2026-01-31"])[0] == time.isoformat()[:-6]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("%s", "has `%s`"),
        ("%d/%m", "names no year"),
        ("%Y-%m-%d %d", "twice"),
        ("%Y-%m-%d %I", "go together"),
        ("%Y-%m-%d %", "has `%`"),
    ],
)
def test_a_format_that_names_no_time_is_refused(form: str, message: str) -> None:
    with pytest.raises(cepheid.errors.CepheidError, match=message):
        cepheid.query(COUNT, time_format=form)


def _containers(folder: Path) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    table = pa.Table.from_pylist(ROWS)
    parquet.write_table(table, folder / "e.parquet")
    csv.write_csv(table, folder / "e.csv")
    (folder / "e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    store = cepheid.EventStore(folder / "store")
    store.append(table, time_format=FORMAT)
    coded = table.set_column(0, "ts", table["ts"].dictionary_encode())
    return {
        "table": table,
        "dictionary": coded,
        "reader": table.to_reader(max_chunksize=2),
        "dicts": ROWS,
        "pandas": table.to_pandas(),
        "polars": pl.from_arrow(table),
        "parquet": folder / "e.parquet",
        "csv": folder / "e.csv",
        "json": folder / "e.jsonl",
        "store": store,
    }


def test_every_container_gives_the_same_answer(tmp_path: Path) -> None:
    query = cepheid.query(COUNT, time_format=FORMAT)
    select = cepheid.query("SELECT COUNT(*) FROM s WINDOW 10 minutes", time_format=FORMAT)
    held = cepheid.query("DEFINE A AS type = 'A' SITUATIONS A", time_format=FORMAT)
    for events in _containers(tmp_path).values():
        assert as_table(query.run(events))["window_start"].to_pylist() == [START]
    for events in _containers(tmp_path / "again").values():
        assert len(select.run(events)) == 2
    for events in _containers(tmp_path / "third").values():
        assert as_table(held.run(events))["ts"].to_pylist() == [START + dt.timedelta(seconds=1)]


def test_workloads_lists_and_live_rules_read_text_times(tmp_path: Path) -> None:
    rules = cepheid.workload({"ab": COUNT}, time_format=FORMAT)
    for events in (pa.Table.from_pylist(ROWS), _containers(tmp_path)["csv"]):
        assert rules.run(events)["window_start"].to_pylist() == [START]
    live = rules.live(pa.Table.from_pylist(ROWS).schema)
    assert live.feed(ROWS).num_rows + live.close().num_rows == 1
    listed = cepheid.query("RETURN MATCHES PATTERN SEQ(A, B)", time_format=FORMAT)
    events = listed.matches(ROWS).read_all()["events"].to_pylist()
    assert events[0][0]["ts"] == dt.datetime(2026, 1, 31, 10, 0, 1, tzinfo=dt.UTC)


def test_an_unreadable_time_is_named_with_its_row_and_a_format() -> None:
    events = [{"ts": "2026-01-31", "type": "A"}, {"ts": "31.01.2026 10:00:00", "type": "B"}]
    with pytest.raises(cepheid.errors.DataError) as raised:
        cepheid.query(COUNT).run(events)
    (told,) = raised.value.diagnostics
    assert told.code == "E580"
    assert told.message == "the time `31.01.2026 10:00:00` in row 1 of `ts` is not ISO 8601"
    assert told.helps == ("name its format: `cepheid.query(..., time_format='%d.%m.%Y %H:%M:%S')`",)
    assert format_help("2026-01-31") == "leave out the format: this text is ISO 8601"


def test_a_format_of_times_that_are_no_text_has_no_effect() -> None:
    events = pa.table({"ts": [1, 2], "type": ["A", "B"]})
    with pytest.raises(cepheid.errors.CepheidError, match="time_format has no effect here"):
        cepheid.query(COUNT, time_format=FORMAT).run(events)


def test_files_agree_where_arrow_guesses_the_kind_of_each(tmp_path: Path) -> None:
    # Arrow reads whole seconds in JSON as timestamps, and leaves fractions text.
    (tmp_path / "1.jsonl").write_text('{"ts": "2026-01-31 10:00:01", "type": "A"}\n')
    (tmp_path / "2.jsonl").write_text('{"ts": "2026-01-31 10:03:00.5", "type": "B"}\n')
    assert len(cepheid.query(COUNT).run(str(tmp_path))) == 1
