"""Draw a result on a timeline: lanes by key, matches and situations as spans, events as dots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cepheid.errors import DataError, Diagnostic
from cepheid.pictures.axes import QUANTITATIVE, Spec, date_axis, json_time, spec_of
from cepheid.pictures.blame import blame_of, is_blame
from cepheid.pictures.charts import lists_events
from cepheid.pictures.dots import LANES_MAX, Lanes, count_dots, label
from cepheid.pictures.shown_times import WINDOW

SPANS_MAX = 2_000
"""Matches, situations or windows that are drawn."""
POINTS_MAX = 5_000
"""Events of matches that are drawn."""
LEVELS = 6
"""Spans that overlap in a lane lie below each other, up to so many."""

USUAL = Lanes((), "ts", "type")
Rows = list[dict[str, Any]]


def timeline_of(
    table: pa.Table, events: pa.Table | None = None, lanes: Lanes = USUAL
) -> tuple[Spec, str]:
    """Draw a result on a timeline; return its specification, and what it leaves out.

    Parameters
    ----------
    table
        The rows: matches, situations, windows, the events of BLAME, or rows with a time.
    events
        The events that the query ran over; they become dots, counted in bins of time.
    lanes
        The attributes of lanes, and the time and type of events.

    Raises
    ------
    DataError
        E582 if no row has a time.
    """
    if is_blame(table):
        return blame_of(table, lanes)
    spans, points, note = _marks(table, lanes)
    wanted = list(dict.fromkeys(row["lane"] for row in [*spans, *points]))
    if len(wanted) > LANES_MAX:
        note = f"the timeline has the first {LANES_MAX} of {len(wanted):,} lanes"
        wanted = wanted[:LANES_MAX]
    chosen = set(wanted)
    spans = [row for row in spans if row["lane"] in chosen]
    points = [row for row in points if row["lane"] in chosen]
    dots = [] if events is None else count_dots(events, lanes, wanted)
    if not (spans or points or dots):
        message = "there is nothing to draw: no row has a time"
        helps = ("list matches or situations, or aggregate windows",)
        raise DataError([Diagnostic("E582", message, helps=helps)])
    _set_levels(spans)
    level = {row["match"]: row["level"] for row in spans}
    for row in points:
        row["level"] = level.get(row["match"], 0)
    for row in dots:
        # Below all spans.
        row["level"] = max(level.values(), default=0) + 1
    return _timeline(spans, points, dots, lanes), note


def _marks(table: pa.Table, lanes: Lanes) -> tuple[Rows, Rows, str]:
    """Find the spans and the points of a result."""
    names = table.column_names
    note = f"the timeline has the first {SPANS_MAX:,} of {len(table):,} rows"
    note = note if len(table) > SPANS_MAX else ""
    rows = table.slice(0, SPANS_MAX).to_pylist()
    if lists_events(table):
        return *_matches(rows, names, lanes), note
    if {"situation", "ts", "te"} <= set(names):
        keys = names[: names.index("situation")]
        spans = [
            _span(row, keys, row["situation"], (row["ts"], row["te"]), n)
            for n, row in enumerate(rows)
        ]
        return spans, [], note
    ends = [name[:-3] for name in names if name.endswith("_ts") and f"{name[:-3]}_te" in names]
    if ends:
        keys = [name for name in lanes.by if name in names] or names[: names.index("ts")]
        spans = [
            _span(row, keys, one, (row[f"{one}_ts"], row[f"{one}_te"] or row["ts"]), n)
            for n, row in enumerate(rows)
            for one in ends
            if row[f"{one}_ts"] is not None
        ]
        return spans, [], note
    if set(WINDOW) <= set(names):
        keys = [name for name in names if name in lanes.by]
        shown = next((name for name in names if name not in (*WINDOW, *keys)), "")
        spans = [
            _span(row, keys, shown or "window", (row[WINDOW[0]], row[WINDOW[1]]), n)
            | {"value": str(row.get(shown, ""))}
            for n, row in enumerate(rows)
        ]
        return spans, [], note
    if lanes.time in names:
        keys = [name for name in lanes.by if name in names]
        points = [
            {
                "lane": _lane(row, keys),
                "time": json_time(row[lanes.time]),
                "variable": "row",
                "match": n,
            }
            for n, row in enumerate(rows)
            if row[lanes.time] is not None
        ]
        return [], points, note
    return [], [], note


def _matches(rows: Rows, names: list[str], lanes: Lanes) -> tuple[Rows, Rows]:
    """Draw every match from its first to its last event, and its events on it."""
    spans: Rows = []
    points: Rows = []
    for place, row in enumerate(rows):
        number = row.get("match_id", row.get("rank", row.get("draw", place + 1)))
        events = [event for event in row["events"] or () if event.get(lanes.time) is not None]
        if not events:
            continue
        known = {**events[0], **{name: row[name] for name in names if name != "events"}}
        keys = [name for name in lanes.by if name in known]
        times = [event[lanes.time] for event in events]
        spans.append(_span(known, keys, "match", (min(times), max(times)), place))
        spans[-1]["value"] = f"match {number}"
        if len(points) + len(events) <= POINTS_MAX:
            points += [
                {
                    "lane": spans[-1]["lane"],
                    "time": json_time(event[lanes.time]),
                    "variable": label([event["variable"]]),
                    "match": place,
                }
                for event in events
            ]
    return spans, points


def _span(
    row: dict[str, Any], keys: Sequence[str], what: str, ends: tuple[Any, Any], match: int
) -> dict[str, Any]:
    start, end = ends
    marks = {"lane": _lane(row, keys), "what": label([what]), "match": match}
    return marks | {"from": json_time(start), "to": json_time(end), "value": label([what])}


def _lane(row: dict[str, Any], keys: Sequence[str]) -> str:
    return label([row.get(key) for key in keys]) if keys else "all"


def _set_levels(spans: Rows) -> None:
    """Let spans of one lane that overlap lie below each other, situations by their names."""
    names = list(dict.fromkeys(row["what"] for row in spans))
    if 1 < len(names) <= LEVELS:
        for row in spans:
            row["level"] = names.index(row["what"])
        return
    ends: dict[str, list[Any]] = {}
    for row in sorted(spans, key=lambda row: (row["lane"], row["from"])):
        taken = ends.setdefault(row["lane"], [])
        free = next((n for n, end in enumerate(taken) if end <= row["from"]), len(taken))
        level = free if free < LEVELS else min(range(LEVELS), key=lambda n: taken[n])
        taken[level : level + 1] = [row["to"]]
        row["level"] = level


def _timeline(spans: Rows, points: Rows, dots: Rows, lanes: Lanes) -> Spec:
    """Build the layers: events as dots, spans, and the events of matches."""
    stamps = [row[key] for row in spans for key in ("from", "to")]
    stamps += [row["time"] for row in [*points, *dots]]
    texts = [stamp for stamp in stamps if isinstance(stamp, str)]
    axis = {"title": "time"} | (date_axis(texts) if texts else QUANTITATIVE)
    title = label(lanes.by) or None
    lane: Spec = {"field": "lane", "type": "nominal", "title": title}
    level: Spec = {"field": "level", "type": "nominal"}
    zoom = {"name": "zoom", "select": {"type": "interval", "encodings": ["x"]}, "bind": "scales"}
    layers: list[Spec] = []
    if dots:
        layers.append(_dots(dots, axis, lane, level))
    if spans:
        encoding: Spec = {
            "x": {"field": "from"} | axis,
            "x2": {"field": "to"},
            "y": lane,
            "yOffset": level,
            "color": {"field": "what", "type": "nominal", "title": None, "scale": _DARK},
            "tooltip": [{"field": name} for name in ("lane", "value", "from", "to")],
        }
        mark = {"type": "bar", "opacity": 0.6, "minBandSize": 2}
        layers.append({"data": {"values": spans}, "mark": mark, "encoding": encoding})
    if points:
        encoding = {
            "x": {"field": "time"} | axis,
            "y": lane,
            "yOffset": level,
            "shape": {"field": "variable", "type": "nominal", "title": "variable"},
            "tooltip": [{"field": name} for name in ("lane", "variable", "time")],
        }
        mark = {"type": "point", "filled": True, "size": 40, "color": "#333"}
        layers.append({"data": {"values": points}, "mark": mark, "encoding": encoding})
    layers[0]["params"] = [zoom]
    count = len({row["lane"] for row in [*spans, *points, *dots]})
    levels = 1 + max((row["level"] for row in [*spans, *points, *dots]), default=0)
    height = max(60, min((20 + 12 * levels) * count, 1200))
    return spec_of([], width=720, height=height, layer=layers, resolve=_APART)


_DARK = {"scheme": "dark2"}
_APART = {"scale": {"color": "independent", "shape": "independent"}}


def _dots(dots: Rows, axis: Spec, lane: Spec, level: Spec) -> Spec:
    encoding: Spec = {
        "x": {"field": "time"} | axis,
        "y": lane,
        "yOffset": level,
        "color": {"field": "type", "type": "nominal", "title": "events"},
        "opacity": {
            "field": "events",
            "type": "quantitative",
            "scale": {"type": "symlog", "range": [0.25, 0.9]},
            "legend": None,
        },
        "tooltip": [{"field": name} for name in ("lane", "type", "time", "events")],
    }
    return {
        "data": {"values": dots},
        "mark": {"type": "tick", "thickness": 2},
        "encoding": encoding,
    }
