"""Draw a picture for each entry, with a panel for each part of its figure. Needs `charts`.

A method has one colour in all pictures. Places that are names get bars, numbers get lines.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.charts import FOLDER as IMAGES
from benchmarks.papers.entry import Entry, Found, Panel, Point
from benchmarks.papers.page import UNITS
from benchmarks.papers.results import Kept

FOLDER = IMAGES / "papers"
WIDTH, HEIGHT = 230, 140
LINEAR_MAX = 50
"""Bars whose heights differ more than this have a logarithmic axis."""
UNSEEN = re.compile(r' (?:aria-[a-z]+|role|class|pointer-events|opacity)="(?:[^"]*)"')
"""Attributes of a drawn picture that change nothing of what is seen."""

GREEN, BLUE, RED, YELLOW = "#0b6e4f", "#28587b", "#c8553d", "#e0a100"
PURPLE, LEAF, SKY, GREY = "#7d5ba6", "#7fb069", "#6fa8dc", "#555555"
BROWN = "#a05a2c"
NAMES = {
    GREEN: (
        *("Cepheid", "Cepheid, shared", "shared", "chosen", "index", "suggested", "adaptive"),
        *("median", "time", "compared", "seconds", "measured", "with blocks", "median error"),
        *("rate", "GPU, resident", "Cepheid works", "cpu", "speed-up", "batch", "by car", "mean"),
        *("window 1 minute", "1:2", "Equal"),
    ),
    LEAF: ("Cepheid, alone", "alone", "CET", "rate, second machine", "Cepheid waits for an event"),
    BLUE: ("GRETA", "16 threads", "ISEQ", "ISEQ, work of 100 events", "ISEQ waits for an event"),
    RED: ("COGRA", "E-Cube, shared", "two phases", "all", "without", "worst", "most", "Combined"),
    YELLOW: ("A-Seq", "A-Seq, alone", "points", "greedy", "estimated", "GPU with copies", "1:1"),
    PURPLE: ("SASE", "stacks", "stacks, alone", "partial matches", "Star"),
    SKY: ("75th percentile", "window 100 ms", "least", "best", "without keys", "2:1", "Meets"),
    BROWN: ("a count an event",),
    GREY: ("Flink CEP", "replay", "all sets", "window 20 ms", "Chain"),
}
COLOURS = {name: colour for colour, names in NAMES.items() for name in names}


def draw(
    entries: Sequence[Entry], results: Mapping[str, Kept], folder: Path = FOLDER
) -> list[Path]:
    """Write a picture for each entry that was measured; return the files.

    Raises
    ------
    ModuleNotFoundError
        If the extra is not installed.
    """
    altair = importlib.import_module("altair")
    importlib.import_module("vl_convert")
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for entry in entries:
        if entry.key in results:
            files.append(folder / f"{entry.key}.svg")
            _picture(altair, entry, results[entry.key].found).save(files[-1])
            text = UNSEEN.sub("", files[-1].read_text("utf-8"))
            files[-1].write_text(re.sub(r"(\.\d)\d+", r"\1", text) + "\n", encoding="utf-8")
    return files


def _picture(altair: Any, entry: Entry, found: Found) -> Any:
    drawn = [(panel, _drawable(panel, found)) for panel in entry.panels]
    names = list(dict.fromkeys(point.series for _, points in drawn for point in points))
    names.sort(key=list(COLOURS).index)
    colour = altair.Color(
        "m:N",
        sort=names,
        title=None,
        scale=altair.Scale(domain=names, range=[COLOURS[name] for name in names]),
        legend=altair.Legend(orient="top", columns=5, labelLimit=0) if len(names) > 1 else None,
    )
    panels = [_panel(altair, panel, points, colour) for panel, points in drawn]
    picture = altair.concat(*panels, columns=2 if len(panels) == 4 else 3, spacing=16)
    # Without descriptions of every mark: the page has them in a table.
    return picture.configure(
        background="white", aria=False, axis={"grid": False}, view={"stroke": None}
    )


def has_names(points: Sequence[Point]) -> bool:
    """Return whether the places of a panel are names."""
    return any(isinstance(point.x, str) for point in points)


def _drawable(panel: Panel, found: Found) -> list[Point]:
    """Return the points of a panel; a logarithmic axis has no place for 0."""
    own = [point for point in found.points if point.panel == panel.key and point.y is not None]
    return own if _is_linear(panel, own) else [point for point in own if point.y]


def _is_linear(panel: Panel, points: Sequence[Point]) -> bool:
    heights = [point.y for point in points if point.y]
    is_close = max(heights, default=1) < LINEAR_MAX * min(heights, default=1)
    return is_close if has_names(points) else panel.unit == "%"


def _panel(altair: Any, panel: Panel, points: Sequence[Point], colour: Any) -> Any:
    rows = [{"x": point.x, "y": point.y, "m": point.series} for point in points]
    chart = altair.Chart(altair.InlineData(values=rows), width=WIDTH, height=HEIGHT)
    is_linear = _is_linear(panel, points)
    height = {
        "title": UNITS.get(panel.unit, panel.unit) or None,
        "axis": altair.Axis(format="~%" if panel.unit == "%" else "~s", tickCount=4),
    }
    title = {"text": panel.title, "fontSize": 11}
    if has_names(points):
        order = list(dict.fromkeys(row["x"] for row in rows))
        least = min(point.y for point in points if point.y is not None) / 2
        scale = altair.Scale() if is_linear else altair.Scale(type="log", domainMin=least)
        bars = chart.mark_bar().encode(
            x=altair.X("x:N", title=panel.x, sort=order, axis=altair.Axis(labelAngle=-20)),
            xOffset=altair.XOffset("m:N", sort=list(COLOURS)),
            y=altair.Y("y:Q", scale=scale, **height),
            color=colour,
        )
        if not is_linear:
            bars = bars.encode(y2=altair.datum(least))
        return bars.properties(title=title)
    scale = altair.Scale(type="log" if panel.is_log else "linear", zero=False, nice=False)
    lines = chart.mark_line(point={"size": 16}, strokeWidth=1.5).encode(
        x=altair.X("x:Q", title=panel.x, scale=scale, axis=altair.Axis(format="~s", tickCount=4)),
        y=altair.Y("y:Q", scale=altair.Scale(type="linear" if is_linear else "log"), **height),
        color=colour,
    )
    return lines.properties(title=title)
