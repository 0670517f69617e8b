"""Draw one small picture for each paper: a panel for each part of its figures. Needs `charts`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.charts import FOLDER
from benchmarks.papers.entry import OURS, Entry, Found, Panel
from benchmarks.papers.page import SECTIONS, UNITS
from benchmarks.papers.results import Kept
from benchmarks.papers.shrink import shrink

WIDTH, HEIGHT, COLUMNS = 190, 110, 4
COLOURS = ("#0b6e4f", "#28587b", "#c8553d", "#e0a100", "#7d5ba6", "#7fb069", "#6fa8dc", "#555555")


def draw(
    entries: Sequence[Entry], results: Mapping[str, Kept], folder: Path = FOLDER
) -> list[Path]:
    """Write a picture for each section that has curves; return the files.

    Raises
    ------
    ModuleNotFoundError
        If the extra is not installed.
    """
    altair = importlib.import_module("altair")
    importlib.import_module("vl_convert")
    files = []
    for section in SECTIONS:
        panels = [
            _panel(altair, entry, panel, results[entry.key].found)
            for entry in entries
            if entry.section == section and entry.key in results
            for panel in entry.panels
            if is_drawn(panel, results[entry.key].found)
        ]
        if panels:
            files.append(folder / f"papers-{section}.png")
            picture = altair.concat(*panels, columns=COLUMNS, spacing=14)
            picture.resolve_scale(color="independent").configure(
                background="white", axis={"grid": False}, view={"stroke": None}
            ).save(files[-1])
            shrink(files[-1])
    return files


def is_drawn(panel: Panel, found: Found) -> bool:
    """Return whether a panel is a curve: it has numbers on both axes and three places."""
    places = {point.x for point in found.points if point.panel == panel.key}
    return len(places) > 2 and not any(isinstance(place, str) for place in places)


def _panel(altair: Any, entry: Entry, panel: Panel, found: Found) -> Any:
    rows = [
        {"x": point.x, "y": max(point.y, 1e-9), "m": point.series}
        for point in found.points
        if point.panel == panel.key and point.y is not None
    ]
    names = list(dict.fromkeys(str(row["m"]) for row in rows))
    names.sort(key=lambda name: name != OURS)
    figure = entry.title.partition(":")[0].removeprefix("Figure ")
    x = altair.Scale(type="log" if panel.is_log else "linear", zero=False, nice=False)
    unit = UNITS.get(panel.unit, panel.unit)
    percent = panel.unit == "%"
    kind = "linear" if percent else "log"
    return (
        altair.Chart(altair.InlineData(values=rows), width=WIDTH, height=HEIGHT)
        .mark_line(point={"size": 14}, strokeWidth=1.5)
        .encode(
            x=altair.X("x:Q", title=panel.x, scale=x, axis=altair.Axis(format="~s", tickCount=4)),
            y=altair.Y(
                "y:Q",
                title=unit or None,
                scale=altair.Scale(type=kind),
                axis=altair.Axis(format="~%" if percent else "~s", tickCount=4),
            ),
            color=altair.Color(
                "m:N",
                sort=names,
                title=None,
                scale=altair.Scale(domain=names, range=COLOURS[: len(names)]),
                legend=altair.Legend(orient="top", columns=3, labelFontSize=8, symbolSize=20),
            ),
        )
        .properties(title={"text": f"{figure} {panel.title}", "fontSize": 10})
    )
