"""The event store: appends, windowed aggregates and patterns, from the index and by replay.

Crimes and flights need real data, which is made longer: crimes are laid out again and again, one
copy after the other, flights are interpolated. Set CEPHEID_DATA to the folder that holds
chicago_crimes_2022.parquet and flight_tracks.parquet.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.charts import MISSING
from benchmarks.edge_streams import FOLDER_VARIABLE
from benchmarks.store_figures import (
    SYNTHETIC_EVENTS,
    draw_plans,
    draw_windows,
    filled,
    names_of,
    plans_table,
    synthetic,
)
from benchmarks.store_parts import parts
from benchmarks.store_plans import AskedTrends, Rows
from pyarrow import parquet
from rich.table import Table

import cepheid
from cepheid.runtimes.store import measure_store

SECOND_US = 1_000_000
WEEK_S = 7 * 86_400
EVENTS_PER_SECOND = 100
CRIME_EVENTS = 50_000_000
FLIGHT_EVENTS = 50_000_000
CHUNK_ROWS = 4_000_000
REPORTED = ("altitude_ft", "groundspeed_kt", "vertical_rate_fpm")
WANTED = ["COUNT(*)", "SUM(x)", "AVG(x)"]
WINDOWS = [
    ("1 day", "15 minutes"),
    ("1 day", "1 hour"),
    ("1 day", "901 s"),
    ("1 hour", "907 s"),
    ("1 day", "1 minute"),
    ("1 day", "10 s"),
]
SLIDES = ["1 s", "3 s", "10 s", "31 s", "61 s", "301 s", "901 s", "3601 s", "14401 s", "86400 s"]
CRIMES = {
    "related crimes, listed": "RETURN MATCHES {} WITHIN 30 minutes SLIDE 30 minutes",
    "related crimes, counted": "RETURN COUNT(*) {} WITHIN 30 minutes",
}
RELATED = """PATTERN SEQ(ROBBERY A, BATTERY B, `MOTOR VEHICLE THEFT` C)
    WHERE A.community_area = 59 AND B.community_area = 59 AND C.community_area = 59"""
LANDING = """RETURN COUNT(*) PATTERN SEQ(Report A, Report B, Report C)
    WHERE A.altitude_ft > 9000 AND A.groundspeed_kt > 250
    AND B.altitude_ft < 4000 AND B.vertical_rate_fpm < -600
    AND C.altitude_ft < 1000 AND C.groundspeed_kt < 140
    WITHIN 15 minutes SLIDE 5 minutes"""


@contextmanager
def made_store() -> Iterator[cepheid.EventStore]:
    folder = Path(tempfile.mkdtemp(prefix="cepheid-store-"))
    try:
        yield cepheid.EventStore(folder)
    finally:
        shutil.rmtree(folder)


def clock(work: Callable[[], Any], runs: int) -> tuple[float, Any]:
    best, result = np.inf, None
    for _ in range(runs):
        begin = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - begin)
    return float(best), result


def append_all(store: cepheid.EventStore, tables: Iterator[pa.Table]) -> float:
    """Append tables and return the events of a second, without the time to make them."""
    rows, seconds = 0, 0.0
    for table in tables:
        begin = time.perf_counter()
        rows += store.append(table)
        seconds += time.perf_counter() - begin
    return rows / seconds


def week(shrink: int, numbers: int = 1) -> Iterator[pa.Table]:
    """Yield a week of events at 100 a second; with one or nine numbers, as in figure 3.8."""
    random = np.random.default_rng(8)
    last, left = 0, WEEK_S * EVENTS_PER_SECOND // shrink
    while left:
        size = min(left, CHUNK_ROWS)
        steps = random.exponential(SECOND_US / EVENTS_PER_SECOND, size)
        times = last + np.cumsum(steps).astype(np.int64)
        last, left = int(times[-1]), left - size
        columns: dict[str, Any] = {"ts": pa.array(times).view(pa.timestamp("us"))}
        names = ["x", *(f"x{n}" for n in range(1, numbers))]
        yield pa.table(
            columns | {name: np.round(random.normal(20.0, 5.0, size), 2) for name in names}
        )


def aggregates(shrink: int) -> Table:
    shown = Table(title="Windowed aggregates, a week at 100 events/s", title_justify="left")
    for name in ("window", "slide", "replay s", "index s", "times", "row groups", "chosen"):
        shown.add_column(name, justify="right")
    with made_store() as store:
        rate = append_all(store, week(shrink))
        for within, slide in WINDOWS:
            figures = []
            for method, runs in (("replay", 1), ("index", 3)):

                def run(method: str = method, within: str = within, slide: str = slide) -> Any:
                    return store.aggregate(WANTED, within=within, slide=slide, method=method)

                figures.append(clock(run, runs))
            (replay, first), (index, second) = figures
            assert first["count"] == second["count"], "index and replay count alike"
            told = store.explain_aggregate(WANTED, within=within, slide=slide)
            chosen, _, reason = told.partition(": ")
            times = f"{replay / index:.1f}"
            groups = reason.partition(" row")[0]
            shown.add_row(within, slide, f"{replay:.3f}", f"{index:.3f}", times, groups, chosen)
    shown.caption = f"append: {rate / 1e6:.1f} M events/s, two columns"
    return shown


def slides(shrink: int, rows: Rows) -> Table:
    """Aggregate with slides from seconds to a day; add the times to rows of a chart."""
    shown = Table(title="Windows of a day by the slide (figure 3.8)", title_justify="left")
    for name in ("numbers", "slide s", "replay s", "index s", "times", "chosen"):
        shown.add_column(name, justify="right")
    for numbers in (1, 9):
        with made_store() as store:
            # Events with nine numbers are many bytes: a tenth of the week is enough.
            append_all(store, week(shrink * numbers, numbers))
            for slide in SLIDES:

                def run(method: str, slide: str = slide) -> Any:
                    return store.aggregate(WANTED, within="1 day", slide=slide, method=method)

                found = {
                    "replay": clock(lambda r=run: r("replay"), 1)[0],  # type: ignore[misc]
                    "index": clock(lambda r=run: r("index"), 3)[0],  # type: ignore[misc]
                }
                told = store.explain_aggregate(WANTED, within="1 day", slide=slide)
                seconds = float(slide.partition(" ")[0])
                label = f"{8 * numbers + 8} bytes an event"
                rows += [
                    {"slide": seconds, "method": name, "events": label, "seconds": value}
                    for name, value in found.items()
                ]
                times = f"{found['replay'] / found['index']:.1f}"
                parts = [f"{found[name]:.3f}" for name in ("replay", "index")]
                shown.add_row(f"{numbers}", f"{seconds:g}", *parts, times, told.partition(":")[0])
    return shown


def copies(base: pa.Table, span_us: int, events: int) -> Iterator[pa.Table]:
    """Yield a table again and again, each copy later than the one before."""
    times = base["ts"].to_numpy().astype("datetime64[us]").astype(np.int64)
    together = max(1, CHUNK_ROWS // len(base))
    count = max(1, events // len(base))
    place = base.column_names.index("ts")
    for begin in range(0, count, together):
        parts = []
        for number in range(begin, min(begin + together, count)):
            moved: Any = pa.array(times + span_us * number).view(pa.timestamp("us"))
            parts.append(base.set_column(place, "ts", moved))
        yield pa.concat_tables(parts)


def tracks(table: pa.Table, events: int) -> pa.Table:
    """Return the tracks of all aircraft one after the other, as if they were those of one.

    Reports are seconds apart; between them values are interpolated until there are enough events.
    """
    table = table.sort_by([("icao24", "ascending"), ("ts", "ascending")])
    times = table["ts"].to_numpy().astype("datetime64[us]").astype(np.int64)
    steps = np.diff(times, prepend=times[0])
    hour = 3_600 * SECOND_US
    times = np.cumsum(np.where((steps < 0) | (steps > hour), hour, steps))
    factor = max(1, events // len(table))
    known = np.arange(len(table))
    places = np.arange(len(table) * factor) / factor
    moved = np.interp(places, known, times).astype(np.int64)
    columns: dict[str, Any] = {"ts": pa.array(moved).view(pa.timestamp("us"))}
    for name in REPORTED:
        values = table[name].to_numpy()
        columns[name] = np.interp(places, known, np.nan_to_num(values, nan=1e5))
    return pa.table(columns)


def patterns(
    title: str,
    base: pa.Table,
    events: int,
    indexes: list[tuple[str, ...]],
    queries: dict[str, cepheid.CompiledQuery],
) -> Table:
    shown = Table(title=title, title_justify="left")
    for name in ("query", "method", "s", "MB read", "row groups", "estimated", "times", "bytes"):
        shown.add_column(name, justify="right")
    times = base["ts"].to_numpy().astype("datetime64[us]").astype(np.int64)
    span = int(times.max() - times.min()) + 3_600 * SECOND_US
    with made_store() as store:
        rate = append_all(store, copies(base, span, events))
        spent = clock(lambda: [store.index(*names) for names in indexes], 1)[0]
        for name, query in queries.items():
            first: tuple[float, float] | None = None
            for method in ("replay", "auto"):
                seconds, run = clock(
                    # A new object each time: nothing of the index is in memory.
                    lambda q=query, m=method: measure_store(q, cepheid.EventStore(store.path), m),
                    1 if method == "replay" else 3,
                )
                effort = run.effort
                size = float(effort.data_bytes + effort.index_bytes)
                first = first or (seconds, size)
                shown.add_row(
                    name,
                    method,
                    f"{seconds:.3f}",
                    f"{size / 1e6:.1f}",
                    f"{effort.groups:,} of {run.replay.total:,}",
                    f"{run.replay.expected:,.0f}",
                    f"{first[0] / seconds:.1f}",
                    f"{first[1] / max(size, 1.0):.1f}",
                )
        rows = store.snapshot().manifest.rows
    built = f"{len(indexes)} indexes built in {spent:.1f} s"
    shown.caption = f"{rows:,} events; append: {rate / 1e6:.1f} M events/s; {built}"
    return shown


def plans(shrink: int, folder: Path) -> tuple[list[Table], Rows]:
    """Run all plans of the crimes and of the landings (figures 3.16 and 3.17)."""
    tables, rows = [], []
    crimes = parquet.read_table(folder / "chicago_crimes_2022.parquet")
    counted = cepheid.query(CRIMES["related crimes, listed"].format(RELATED))
    count = FLIGHT_EVENTS // shrink
    flights = tracks(parquet.read_table(folder / "flight_tracks.parquet"), count)
    landing = cepheid.query(LANDING, type=None)
    for name, base, indexes, query in (
        ("crimes", crimes, ["type", "community_area"], counted),
        ("landings", flights, list(REPORTED), landing),
    ):
        times = base["ts"].to_numpy().astype("datetime64[us]").astype(np.int64)
        span = int(times.max() - times.min()) + 3_600 * SECOND_US
        with made_store() as store:
            append_all(store, copies(base, span, count))
            for attribute in indexes:
                store.index(attribute)
            table, found = plans_table(f"All plans: {name}", AskedTrends(store, query), name)
        tables.append(table)
        rows += found
    return tables, rows


def run(*, shrink: int, tell: Callable[[str], None], only: str | None = None) -> list[Table]:
    """Measure everything, or one part.

    These are a aggregates, b crimes, c flights, d random queries, e all plans of b and c, f parts
    that are read for patterns with conditions on times, and for situations.
    """
    tables = []
    windows: Rows = []
    speeds: Rows = []
    planned: Rows = []
    if only in (None, "a"):
        tell("store: aggregates")
        tables += [aggregates(shrink), slides(shrink, windows)]
    if only in (None, "d"):
        with made_store() as store:
            filled(store, SYNTHETIC_EVENTS // shrink)
            found, speeds, planned = synthetic(store, tell)
        tables += found
    if only in (None, "f"):
        tell("store: parts")
        with made_store() as store:
            tables.append(parts(store, shrink))
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is not None:
        tables += real(Path(folder), shrink, tell, only)
        if only in (None, "e"):
            tell("store: all plans of real queries")
            found, rows = plans(shrink, Path(folder))
            tables += found
            planned = planned + rows
    try:
        files = [draw_windows(windows)] if windows else []
        files += draw_plans(speeds, planned)
        tell(f"charts: {names_of(files)}")
    except ModuleNotFoundError:
        tell(MISSING)
    return tables


def real(folder: Path, shrink: int, tell: Callable[[str], None], only: str | None) -> list[Table]:
    """Measure crimes and flights against a replay (figure 3.15)."""
    tables = []
    if only in (None, "b"):
        tell("store: crimes")
        base = parquet.read_table(folder / "chicago_crimes_2022.parquet")
        queries = {name: cepheid.query(text.format(RELATED)) for name, text in CRIMES.items()}
        indexes: list[tuple[str, ...]] = [("community_area",), ("community_area", "type")]
        title = "Crimes of Chicago, three in one area within half an hour"
        tables.append(patterns(title, base, CRIME_EVENTS // shrink, indexes, queries))
    if only in (None, "c"):
        tell("store: flights")
        events = FLIGHT_EVENTS // shrink
        base = tracks(parquet.read_table(folder / "flight_tracks.parquet"), events)
        landing = {"landing": cepheid.query(LANDING, type=None)}
        attributes = [(name,) for name in REPORTED]
        title = "Landings, the tracks of all aircraft one after the other"
        tables.append(patterns(title, base, events, attributes, landing))
    return tables
