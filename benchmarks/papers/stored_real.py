"""Körber's thesis, section 3.5.3: figures 3.15 to 3.17, crimes and landings in a store."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks import store as stores
from benchmarks.papers import data
from benchmarks.papers.entry import Entry, Found, Panel, Point, Verdict, times
from benchmarks.papers.stored import blind_error, ends_verdict, plan_points, prefixes
from benchmarks.store_plans import AskedTrends, timed

import cepheid

EVENTS = 800_000
AREAS = {
    "one area": "community_area = 59",
    "five areas": "community_area >= 55 AND {0}.community_area <= 59",
}
RELATED = """RETURN MATCHES PATTERN SEQ(ROBBERY A, BATTERY B, `MOTOR VEHICLE THEFT` C)
    WHERE {0} WITHIN 30 minutes SLIDE 30 minutes"""
LANDING = "landing"
WITHIN_US = {"one area": 1_800_000_000, "five areas": 1_800_000_000, LANDING: 900_000_000}


def _crimes() -> tuple[pa.Table, str]:
    table = data.read("chicago_crimes_2022", ["ts", "type", "community_area"])
    if table is not None:
        return table, "`chicago_crimes_2022`, laid out again and again"
    random = np.random.default_rng(3)
    count = 200_000
    kinds = np.array(["THEFT", "BATTERY", "ROBBERY", "MOTOR VEHICLE THEFT"])
    columns: dict[str, Any] = {
        "ts": pa.array(np.arange(count) * 140_000_000).view(pa.timestamp("us")),
        "type": pa.array(kinds[random.choice(4, count, p=[0.7, 0.18, 0.04, 0.08])]),
        "community_area": random.integers(1, 78, count).astype(np.int16),
    }
    return pa.table(columns), "made: crimes of four types in 77 areas"


def _flights() -> tuple[pa.Table, str]:
    table = data.read("flight_tracks", ["ts", "icao24", *stores.REPORTED])
    if table is not None:
        return stores.tracks(table, EVENTS), "`flight_tracks`, interpolated, one after the other"
    phase = np.arange(EVENTS) % 4000
    height = np.where(phase < 1000, phase, np.where(phase < 3000, 1000, 4000 - phase)) * 35.0
    columns: dict[str, Any] = {
        "ts": pa.array(np.arange(EVENTS) * 1_000_000).view(pa.timestamp("us")),
        "altitude_ft": height,
        "groundspeed_kt": 120 + height / 90,
        "vertical_rate_fpm": np.where(phase < 1000, 2000.0, np.where(phase < 3000, 0.0, -900.0)),
    }
    return pa.table(columns), "made: tracks that rise, fly and descend"


@cache
def _store(name: str) -> tuple[cepheid.EventStore, str]:
    base, source = _flights() if name == LANDING else _crimes()
    times_us = base["ts"].to_numpy().astype("datetime64[us]").astype(np.int64)
    span = int(times_us.max() - times_us.min()) + 3_600 * stores.SECOND_US
    folder = tempfile.TemporaryDirectory(prefix="cepheid-papers-")
    atexit.register(folder.cleanup)
    store = cepheid.EventStore(folder.name)
    stores.append_all(store, stores.copies(base, span, EVENTS))
    for attribute in stores.REPORTED if name == LANDING else ("type", "community_area"):
        store.index(attribute)
    return store, source


def _asked(name: str) -> tuple[cepheid.EventStore, AskedTrends, str]:
    store, source = _store(LANDING if name == LANDING else "crimes")
    if name == LANDING:
        return store, AskedTrends(store, cepheid.query(stores.LANDING, type=None)), source
    parts = [f"{symbol}.{AREAS[name].format(symbol)}" for symbol in "ABC"]
    return store, AskedTrends(store, cepheid.query(RELATED.format(" AND ".join(parts)))), source


def runtimes() -> Found:
    """Run the queries by a replay and as planned (figure 3.15)."""
    points, sources = [], []
    for name in (*AREAS, LANDING):
        _, asked, source = _asked(name)
        sources.append(source)
        for method in ("replay", "auto"):
            runs = [timed(asked, None, method) for _ in range(3)]
            label = "replay" if method == "replay" else "index"
            points.append(Point(label, name, min(taken for taken, _ in runs)))
    note = (
        "Neither Flink nor a database reads the store here. The crimes have no coordinates. With "
        "50 M events the gains were 290 times for one area and 7.7 times for landings "
        "([before](benchmarks.md#event-store))."
    )
    return Found(tuple(points), "; ".join(dict.fromkeys(sources)), note)


def crimes() -> Found:
    """Run all plans of both queries for crimes (figure 3.16)."""
    points, source = list[Point](), ""
    for name in AREAS:
        _, asked, source = _asked(name)
        points += plan_points(asked, name)
    return Found(tuple(points), source)


def landings() -> Found:
    """Run all plans of the landing (figure 3.17)."""
    store, asked, source = _asked(LANDING)
    points = list(plan_points(asked))
    every = prefixes(asked)
    blind = [blind_error(asked, picked, store, WITHIN_US[LANDING]) for picked in every]
    plans = [asked.planned(picked, "index") for picked in every]
    known = [abs(plan.groups - plan.expected) / max(plan.groups, 1) for plan in plans]
    points += [
        Point("median error", "with blocks", float(np.median(known)), "blocks"),
        Point("median error", "without", float(np.median(blind)), "blocks"),
    ]
    return Found(tuple(points), source)


# Comparisons ------------------------------------------------------------------------------------


def _runtimes(found: Found) -> Sequence[Verdict]:
    gain = {x: found.at("replay", x) / found.at("index", x) for x in (*AREAS, LANDING)}
    said = ", ".join(f"{times(value)} for {name}" for name, value in gain.items())
    return (
        Verdict(
            min(gain.values()) > 3 and gain["one area"] > 10,
            f"the index gains {said} (the paper: 100, 10 and 10 times)",
        ),
    )


def _crime_plans(found: Found) -> Sequence[Verdict]:
    return [ends_verdict(found, name, name, 1.5) for name in AREAS]


def _landing_plans(found: Found) -> Sequence[Verdict]:
    ends = found.curve("seconds", "ends")
    gain = ends["replay"] / ends["chosen"]
    errors = found.curve("median error", "blocks")
    return (
        ends_verdict(found, "", "the landing", 1.5),
        Verdict(gain > 3, f"the chosen plan is {times(gain)} as fast as a replay (the paper: 3)"),
        Verdict(
            ends["worst"] > ends["replay"],
            f"some plans are slower than a replay: {ends['worst'] / ends['replay']:.2f} times",
        ),
        Verdict(
            errors["with blocks"] <= errors["without"],
            f"row groups are estimated {errors['with blocks']:.0%} off with statistics of blocks "
            f"and {errors['without']:.0%} without, as the conditions depend on each other",
        ),
    )


BY_RANK = "plan, by estimate"
ENTRIES = (
    Entry(
        "thesis-3.15",
        "Figure 3.15: real data",
        "Crimes of Chicago (7 M) in a beat and in a bounding box, landings of an aircraft (50 M). "
        "Indexes gain two orders of magnitude for the first and one for the others, in "
        "ChronicleDB, Flink and a database.",
        f"Three crimes within half an hour in one area, and in five; landings; {EVENTS:,} events.",
        (Panel("", "time", "query"),),
        runtimes,
        _runtimes,
    ),
    Entry(
        "thesis-3.16",
        "Figure 3.16: all plans of the crimes",
        "Estimates are too low, as crimes cluster in time, but rank plans well: the best plan is "
        "chosen for the first variant, the fourth best for the second.",
        "All plans of both queries, the cheapest estimate first (in the chart).",
        tuple(
            panel
            for name in AREAS
            for panel in (
                Panel(f"{name}ends", name, "plan"),
                Panel(name, name, BY_RANK, is_log=False),
            )
        ),
        crimes,
        _crime_plans,
    ),
    Entry(
        "thesis-3.17",
        "Figure 3.17: all plans of the landings",
        "64 plans. Many are far slower than a replay, since 90 % of the events satisfy the first "
        "symbol; the chosen one is at least 3 times as fast. Only a fine map of regions finds the "
        "best plan, in under a second; errors reach a factor of 5.",
        "All plans, the cheapest estimate first (in the chart), and errors with and without "
        "statistics of blocks.",
        (
            Panel("ends", "time", "plan"),
            Panel("", "time", BY_RANK, is_log=False),
            Panel("blocks", "error of row groups", "estimate", "%"),
        ),
        landings,
        _landing_plans,
    ),
)
