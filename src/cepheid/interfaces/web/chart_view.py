"""The numbers of a result as a chart: lines over windows or values, cells, bars, a funnel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cepheid.interfaces.plain_values import plain_value
from cepheid.interfaces.web.spans import has_matches
from cepheid.interfaces.web.timeline_task import label_of
from cepheid.pictures.blame import is_blame
from cepheid.pictures.shown_times import ShownTimes
from cepheid.pictures.sweeps import Swept, draw_sweep

POINTS_MAX = 20_000
BARS_MAX = 60
SERIES_MAX = 12
LEFT_OUT = ("match_id", "window_start", "window_end")


def chart_view(table: pa.Table, times: ShownTimes, swept: Sequence[Swept] = ()) -> dict[str, Any]:
    """Choose a chart for a result; an empty kind if there is nothing to draw."""
    names = table.column_names
    numbers = [f.name for f in table.schema if _is_number(f.type) and f.name not in LEFT_OUT]
    if not len(table) or not numbers or has_matches(table) or is_blame(table):
        return {"kind": "", "numbers": []}
    if swept and {one.name for one in swept} <= set(names):
        return _sweep(table, swept) | {"rows": len(table)}
    groups = [
        f.name
        for f in table.schema
        if not _is_number(f.type) and f.name not in LEFT_OUT and not pa.types.is_nested(f.type)
    ]
    if {"step", "variable", "keys"} <= set(names):
        return _funnel(table.slice(0, BARS_MAX)) | {"rows": len(table)}
    shown = times.of(table.slice(0, POINTS_MAX))
    if "window_start" in names and len(set(table["window_start"].to_pylist())) > 1:
        return _lines(shown, numbers, groups) | {"rows": len(table)}
    return _bars(shown.slice(0, BARS_MAX), numbers, groups) | {"rows": len(table)}


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind))


def _label(row: dict[str, Any], groups: list[str]) -> str:
    return " ".join(label_of(row[name]) for name in groups)


def _number(value: Any) -> float | None:
    if value is None:
        return None
    made = float(value)
    return made if abs(made) < float("inf") else None


def _lines(table: pa.Table, numbers: list[str], groups: list[str]) -> dict[str, Any]:
    """Collect the points of every group; the largest groups have a line of their own."""
    points: dict[str, list[list[Any]]] = {}
    for row in table.to_pylist():
        values = [_number(row[name]) for name in numbers]
        when = row["window_start"]
        points.setdefault(_label(row, groups), []).append([_moment(when), *values])
    largest = sorted(points, key=lambda name: -len(points[name]))[:SERIES_MAX]
    series = [{"name": name, "points": points[name]} for name in sorted(largest)]
    return {
        "kind": "lines",
        "numbers": numbers,
        "series": series,
        "series_count": len(points),
        "dates": not isinstance(table["window_start"][0].as_py(), int),
    }


def _moment(when: Any) -> Any:
    """Convert a time to milliseconds, as JavaScript counts; whole numbers stay."""
    if isinstance(when, int) or when is None:
        return when
    iso = plain_value(when)
    scalar = pa.scalar(iso.replace("Z", "").partition("+")[0]).cast(pa.timestamp("us"))
    return scalar.cast(pa.int64()).as_py() / 1000


def _sweep(table: pa.Table, swept: Sequence[Swept]) -> dict[str, Any]:
    """Take the chart of a sweep from its specification: lines, bars of texts, or cells."""
    spec, _ = draw_sweep(table, swept)
    rows = spec["data"]["values"]
    if "vconcat" not in spec:
        cells = [[row["x"], row["y"], row["n0"]] for row in rows]
        axes = [one.name for one in swept[:2]]
        title = spec["encoding"]["color"]["title"]
        return {"kind": "grid", "numbers": [title], "axes": axes, "cells": cells}
    numbers = [part["encoding"]["y"]["title"] for part in spec["vconcat"]]
    places = [f"n{place}" for place in range(len(numbers))]
    if swept[0].is_text:
        bars = [
            {
                "name": " ".join(filter(None, [label_of(row["value"]), row["group"]])),
                "values": [row[place] for place in places],
            }
            for row in rows[:BARS_MAX]
        ]
        return {"kind": "bars", "numbers": numbers, "bars": bars}
    points: dict[str, list[list[Any]]] = {}
    for row in rows:
        line = points.setdefault(row["group"], [])
        line.append([row["value"], *(row[place] for place in places)])
    series = [{"name": name, "points": line} for name, line in points.items()]
    axes = [swept[0].name]
    return {"kind": "lines", "numbers": numbers, "axes": axes, "series": series, "dates": False}


def _funnel(table: pa.Table) -> dict[str, Any]:
    """Collect the steps of a funnel, for each group in order."""
    # Groups come before the step, what is known about it after.
    before = table.column_names[: table.column_names.index("step")]
    groups = [name for name in before if name not in LEFT_OUT]
    steps = [
        {
            "text": " ".join(filter(None, [_label(row, groups), label_of(row["variable"])])),
            "count": _number(row["keys"]) or 0.0,
        }
        for row in table.to_pylist()
    ]
    return {"kind": "funnel", "numbers": ["keys"], "steps": steps}


def _bars(table: pa.Table, numbers: list[str], groups: list[str]) -> dict[str, Any]:
    bars = [
        {
            "name": _label(row, groups) or f"row {place + 1}",
            "values": [_number(row[name]) for name in numbers],
        }
        for place, row in enumerate(table.to_pylist())
    ]
    return {"kind": "bars", "numbers": numbers, "bars": bars}
