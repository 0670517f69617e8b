"""Draw how time and memory grow with the window where matches are built: figures in, a PNG out."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from benchmarks.charts import FOLDER, HEIGHT, SCALE, WIDTH
from benchmarks.matches import METHODS, Growth

COLOURS = ("#0b6e4f", "#7d5ba6", "#c8553d")
TITLES = {"v-shape": "Query 1 of RCEP", "big-after-small": "big after small"}


def draw_growth(grown: Sequence[Growth], folder: Path = FOLDER) -> Path:
    """Write one PNG: processor time and peak memory by the size of the window, for every query.

    Raises
    ------
    ModuleNotFoundError
        If the extra `charts` is not installed.
    """
    altair = importlib.import_module("altair")
    importlib.import_module("vl_convert")
    folder.mkdir(parents=True, exist_ok=True)
    names = list(METHODS.values())
    colour = altair.Color(
        "method:N", sort=names, title=None, scale=altair.Scale(domain=names, range=COLOURS)
    )
    panels = []
    for query, title in TITLES.items():
        rows = [
            {"size": g.size, "method": METHODS[g.method], "cpu": g.cpu_s, "peak": g.peak_mb}
            for g in grown
            if g.query == query
        ]
        chart = altair.Chart(altair.InlineData(values=rows), width=WIDTH, height=HEIGHT)
        x = altair.X("size:Q", title=f"{title}: events of a key in a window")
        panels += [
            chart.mark_line(point=True).encode(
                x=x, y=altair.Y(field, title=name, scale=altair.Scale(type="log")), color=colour
            )
            for field, name in (("cpu:Q", "processor time (s)"), ("peak:Q", "peak memory (MB)"))
        ]
    file = folder / "bench-matches.png"
    drawn = altair.concat(*panels, columns=2).configure(background="white")
    drawn.save(file, scale_factor=SCALE)
    return file
