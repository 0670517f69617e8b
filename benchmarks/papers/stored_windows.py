"""Körber's thesis, section 3.5.2: figure 3.8, aggregates of windows from a store."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks import store as stores
from benchmarks.papers.entry import Entry, Found, Panel, Point, Verdict, times
from benchmarks.papers.sweep import best

SLIDES_S = (1, 3, 10, 31, 61, 301, 901, 3600)


def slides() -> Found:
    """Aggregate windows of an hour by the slide (figure 3.8)."""
    points = []
    for numbers, shrink in ((1, 40), (9, 160)):
        with stores.made_store() as store:
            stores.append_all(store, stores.week(shrink, numbers))
            for slide in SLIDES_S:
                counts = set()
                for method in ("replay", "index"):
                    run = partial(
                        store.aggregate,
                        stores.WANTED,
                        within="1 hour",
                        slide=f"{slide} s",
                        method=method,
                    )
                    seconds, table = best(run)
                    counts.add(tuple(table["count"].to_pylist()))
                    points.append(Point(method, slide, seconds, f"{8 * numbers + 8}"))
                assert len(counts) == 1, "index and replay count alike"
    return Found(tuple(points), "made: 100 events a second, 1.5 M of one number, 378 k of nine")


def _slides(found: Found) -> Sequence[Verdict]:
    said, holds = [], True
    for panel in ("16", "80"):
        replay, index = found.curve("replay", panel), found.curve("index", panel)
        faster = [x for x in replay if index[x] < replay[x]]
        holds &= bool(faster) and index[3600] < replay[3600]
        gain = max(replay[x] / index[x] for x in replay)
        said.append(f"from {min(faster, default=0):g} s on with {panel} bytes, up to {times(gain)}")
    return (
        Verdict(
            holds,
            f"the index is faster than a replay {' and '.join(said)} (the paper: from 2 s and 5 s)",
        ),
    )


WINDOWS = Entry(
    "thesis-3.8",
    "Figure 3.8: sliding windows",
    "Sum, average and count in windows of a day, a week at 100 events/s. A replay is constant; "
    "the index wins from slides of 2 s (16 bytes an event) and 5 s (80 bytes) on, the naive "
    "use of it from 30 and 120 s on; it drops faster once pages are skipped.",
    "Windows of an hour over some hours.",
    (
        Panel("16", "16 bytes an event", "slide, s"),
        Panel("80", "80 bytes an event", "slide, s"),
    ),
    slides,
    _slides,
)
