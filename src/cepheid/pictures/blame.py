"""Draw the rows of `RETURN BLAME()`: every event at its time, in the colour of its share."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cepheid.errors import DataError, Diagnostic
from cepheid.pictures.axes import QUANTITATIVE, Spec, date_axis, json_time, spec_of
from cepheid.pictures.dots import LANES_MAX, Lanes, label
from cepheid.pictures.shown_times import WINDOW

EVENTS_MAX = 5_000
"""Events that are drawn: those of the largest shares."""
_NUMBERS = ("matches", "share", "log2_matches")


def is_blame(table: pa.Table) -> bool:
    """Check whether a table is the result of BLAME."""
    names = table.column_names
    if not {"event", *_NUMBERS} <= set(names) or len(set(names)) < len(names):
        return False
    return bool(pa.types.is_struct(table.schema.field("event").type))


def blame_of(table: pa.Table, lanes: Lanes) -> tuple[Spec, str]:
    """Draw events in lanes by group: the larger the share, the higher; tell what is left out.

    Raises
    ------
    DataError
        E582 if no event has a time.
    """
    order: Any = pc.sort_indices(table, sort_keys=[("share", "descending")])
    best = table.take(order[:EVENTS_MAX])
    note = f"the timeline has the {EVENTS_MAX:,} events with the largest shares"
    note = f"{note} of {len(table):,}" if len(table) > EVENTS_MAX else ""
    rows = _points(best, lanes)
    if not rows:
        message = f"there is nothing to draw: no event has a time in `{lanes.time}`"
        helps = ("name the time column: `timeline(rows, time=...)`",)
        raise DataError([Diagnostic("E582", message, helps=helps)])
    wanted = list(dict.fromkeys(row["lane"] for row in rows))
    if len(wanted) > LANES_MAX:
        note = f"the timeline has the first {LANES_MAX} of {len(wanted):,} lanes"
        chosen = set(wanted[:LANES_MAX])
        rows = [row for row in rows if row["lane"] in chosen]
    return _spec(rows, lanes, min(len(wanted), LANES_MAX)), note


def _points(table: pa.Table, lanes: Lanes) -> list[dict[str, Any]]:
    """Take events apart, the least share first, so that larger ones lie above it."""
    points = []
    for row in reversed(table.to_pylist()):
        at = row["event"].get(lanes.time)
        if at is None:
            continue
        known = row["event"] | row
        keys = [name for name in lanes.by if name in known]
        point = {
            "lane": label([known[name] for name in keys]) if keys else "all",
            "time": json_time(at),
            "share": row["share"],
            "log2": row["log2_matches"],
            "event": label([f"{k}={v}" for k, v in row["event"].items() if k != lanes.time]),
        }
        if row.get(WINDOW[0]) is not None:
            point["window"] = json_time(row[WINDOW[0]])
        points.append(point)
    return points


def _spec(rows: list[dict[str, Any]], lanes: Lanes, count: int) -> Spec:
    stamps = [row["time"] for row in rows if isinstance(row["time"], str)]
    share: Spec = {"field": "share", "type": "quantitative"}
    # Offsets grow downwards, so that they are reversed.
    told = ("lane", "time", "window", "share", "log2", "event")
    encoding: Spec = {
        "x": {"field": "time", "title": "time"} | (date_axis(stamps) if stamps else QUANTITATIVE),
        "y": {"field": "lane", "type": "nominal", "title": label(lanes.by) or None},
        "yOffset": share | {"scale": {"reverse": True}},
        "color": share | {"title": "share of matches", "scale": {"scheme": "viridis"}},
        "tooltip": [{"field": name} for name in told if name in rows[-1]],
    }
    zoom = {"name": "zoom", "select": {"type": "interval", "encodings": ["x"]}, "bind": "scales"}
    # Thousands of labels for readers of screens help nobody; the axes keep theirs.
    mark = {"type": "point", "filled": True, "size": 24, "opacity": 0.8, "aria": False}
    layer = {"mark": mark, "encoding": encoding, "params": [zoom]}
    return spec_of(rows, width=720, height=max(90, min(70 * count, 1200)), layer=[layer])
