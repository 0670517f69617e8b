"""Choose a chart for a result: lines over windows or sweeps, bars of groups, matches, situations.

A chart is a Vega-Lite specification, which notebooks show and vl-convert draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cepheid.errors import DataError, Diagnostic
from cepheid.pictures.axes import (
    QUANTITATIVE,
    Spec,
    date_axis,
    is_number,
    is_time,
    json_time,
    label_of,
    number_of,
    scaled,
    spec_of,
    time_axis,
)
from cepheid.pictures.blame import blame_of, is_blame
from cepheid.pictures.dots import Lanes
from cepheid.pictures.shown_times import WINDOW
from cepheid.pictures.sweeps import Swept, draw_curve, draw_sweep, is_curve

MATCHES_MAX = 40
"""Matches and partitions of a timeline; more could not be told apart."""
NUMBERS_MAX = 4
"""Columns of numbers that are drawn, one below the other."""
BARS_MAX = 60


def chart_of(table: pa.Table, time: str = "ts", swept: Sequence[Swept] = ()) -> tuple[Spec, str]:
    """Choose a chart for a result; return its specification, and what it leaves out.

    Parameters
    ----------
    table
        The rows.
    time
        The time column of the events.
    swept
        The parameters of a sweep.

    Raises
    ------
    DataError
        E582 if the result has nothing that could be drawn.
    """
    names = table.column_names
    if lists_events(table):
        return _matches(table, time)
    if is_blame(table):
        groups = names[: names.index(WINDOW[0] if WINDOW[0] in names else "event")]
        return blame_of(table, Lanes(tuple(groups), time, ""))
    if {"situation", "ts", "te"} <= set(names):
        return _situations(table)
    left_out = ("match_id", *WINDOW)
    numbers = [f.name for f in table.schema if is_number(f) and f.name not in left_out]
    if not len(table) or not numbers:
        message = "there is nothing to draw: the result has no rows"
        if len(table):
            message = "there is nothing to draw: the result has no numbers, matches or situations"
        helps = ("return an aggregate, such as COUNT(*), MATCHES or SITUATIONS",)
        raise DataError([Diagnostic("E582", message, helps=helps)])
    if is_curve(table):
        return draw_curve(table), ""
    if swept and {one.name for one in swept} <= set(names):
        return draw_sweep(table, swept)
    note = f"the chart has {NUMBERS_MAX} of {len(numbers)} columns" * (len(numbers) > NUMBERS_MAX)
    windows = len(set(table["window_start"].to_pylist())) if "window_start" in names else 0
    if windows > 1:
        return _lines(table, numbers[:NUMBERS_MAX]), note
    shown = table.slice(0, BARS_MAX)
    if len(table) > BARS_MAX:
        note = f"the chart has the first {BARS_MAX} of {len(table):,} rows"
    return _bars(shown, numbers[:NUMBERS_MAX]), note


def lists_events(table: pa.Table) -> bool:
    """Check whether a result lists the events of matches; Polars has large lists."""
    if "events" not in table.column_names:
        return False
    kind = table.schema.field("events").type
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def _groups(table: pa.Table, numbers: list[str]) -> list[str]:
    left_out = {*numbers, *WINDOW}
    return [name for name in table.column_names if name not in left_out]


def _lines(table: pa.Table, numbers: list[str]) -> Spec:
    """Draw a line over windows for every group, below each other for every number."""
    groups = _groups(table, [f.name for f in table.schema if is_number(f)])
    rows = [
        {
            "window": json_time(row["window_start"]),
            "group": label_of(row, groups),
            **{f"n{place}": number_of(row[name]) for place, name in enumerate(numbers)},
        }
        for row in table.to_pylist()
    ]
    colour = {"color": {"field": "group", "title": " ".join(groups)}} if groups else {}
    parts = [
        {
            "width": 640,
            "height": 220,
            "mark": {"type": "line", "point": len(rows) <= 500},
            "encoding": {
                "x": {"field": "window", "title": "window"} | time_axis(table, "window_start"),
                "y": scaled(rows, f"n{place}", name),
                **colour,
            },
        }
        for place, name in enumerate(numbers)
    ]
    return spec_of(rows, vconcat=parts)


def _bars(table: pa.Table, numbers: list[str]) -> Spec:
    """Draw a bar for every row, below each other for every number."""
    groups = _groups(table, numbers)
    rows = [
        {
            "group": label_of(row, groups) or f"row {place}",
            "order": place,
            **{f"n{number}": number_of(row[name]) for number, name in enumerate(numbers)},
        }
        for place, row in enumerate(table.to_pylist(), 1)
    ]
    parts = [
        {
            "width": 560,
            "mark": "bar",
            "encoding": {
                "y": {"field": "group", "sort": {"field": "order"}, "title": " ".join(groups)},
                "x": scaled(rows, f"n{place}", name),
            },
        }
        for place, name in enumerate(numbers)
    ]
    return spec_of(rows, vconcat=parts)


def _matches(table: pa.Table, time: str) -> tuple[Spec, str]:
    """Draw the events of every match on a line of its own."""
    rows = []
    for place, row in enumerate(table.slice(0, MATCHES_MAX).to_pylist(), 1):
        for event in row["events"]:
            times = [v for k, v in event.items() if k != "variable" and is_time(v)]
            at = event.get(time, times[0] if times else None)
            label = row.get("match_id", place)
            rows.append({"match": label, "time": json_time(at), "variable": event["variable"]})
    stamps = [row["time"] for row in rows if isinstance(row["time"], str)]
    x = {"field": "time", "title": "time"} | (date_axis(stamps) if stamps else QUANTITATIVE)
    y = {"field": "match", "type": "ordinal", "title": "match"}
    layers: list[Spec] = [
        {"mark": {"type": "line", "color": "#bbb"}, "encoding": {"detail": {"field": "match"}}},
        {
            "mark": {"type": "point", "filled": True, "size": 60},
            "encoding": {"color": {"field": "variable", "title": "variable"}},
        },
    ]
    spec = spec_of(rows, width=640, layer=layers, encoding={"x": x, "y": y})
    return spec, f"the chart has the first {MATCHES_MAX} matches" * (len(table) > MATCHES_MAX)


def _situations(table: pa.Table) -> tuple[Spec, str]:
    """Draw situations as bars on a timeline, a line for every partition."""
    keys = table.column_names[: table.column_names.index("situation")]
    rows: list[dict[str, Any]] = []
    partitions: dict[str, None] = {}
    for row in table.to_pylist():
        label = label_of(row, keys) or "all"
        partitions.setdefault(label)
        if len(partitions) <= MATCHES_MAX:
            start, end = json_time(row["ts"]), json_time(row["te"])
            rows.append({"of": label, "situation": row["situation"], "from": start, "to": end})
    axis = time_axis(table, "ts")
    encoding = {
        "x": {"field": "from", "title": "time"} | axis,
        "x2": {"field": "to"},
        "y": {"field": "of", "title": " ".join(keys)},
        "yOffset": {"field": "situation"},
        "color": {"field": "situation"},
    }
    mark = {"type": "bar", "minBandSize": 2}
    more = len(partitions) > MATCHES_MAX
    note = f"the chart has the first {MATCHES_MAX} of {len(partitions):,} lines" * more
    return spec_of(rows, width=640, mark=mark, encoding=encoding), note
