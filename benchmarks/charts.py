"""Draw the experiments as the papers' figures do: measurements in, PNG files out.

Needs the extra `charts` (altair and vl-convert-python).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.edges import EXPERIMENTS as EDGE_EXPERIMENTS
from benchmarks.linear import EXPERIMENTS, METHOD_NAMES, Experiment
from benchmarks.measure import ROOT
from benchmarks.situations import Figure
from benchmarks.spark_suite import Rate
from benchmarks.tasks import Measurement

FOLDER = ROOT / "docs" / "img"
MISSING = "No charts: they need the extra `charts`: pip install 'cepheid[charts]'"
COLOURS = {
    "ours": "#0b6e4f",
    "cogra": "#c8553d",
    "greta": "#28587b",
    "aseq": "#e0a100",
    "sase": "#7d5ba6",
    "pairwise": "#7fb069",
    "loop": "#28587b",
    "vectorised": "#6fa8dc",
}
LINEAR_AXES = ("length", "selectivity")
WIDTH, HEIGHT, SCALE = 330, 260, 2


def draw(measurements: Sequence[Measurement], folder: Path = FOLDER) -> list[Path]:
    """Write one PNG per experiment and return the files.

    Raises
    ------
    ModuleNotFoundError
        If the extra is not installed.
    """
    altair = importlib.import_module("altair")
    importlib.import_module("vl_convert")
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for experiment in EXPERIMENTS + EDGE_EXPERIMENTS:
        rows = [row for m in measurements for row in _rows(experiment, m)]
        if rows:
            files.append(folder / f"bench-{experiment.key}.png")
            _chart(altair, experiment, rows).save(files[-1], scale_factor=SCALE)
    return files


def draw_rates(rates: Sequence[Rate], folder: Path = FOLDER) -> Path:
    """Write one PNG of the events a second of every case of the Spark benchmark.

    Raises
    ------
    ModuleNotFoundError
        If the extra is not installed.
    """
    altair = importlib.import_module("altair")
    importlib.import_module("vl_convert")
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"case": f"{r.part[0]}: {r.what}", "rate": r.events_per_second / 1e6} for r in rates]
    names = sorted((str(row["case"]) for row in rows), key=lambda name: name[0])
    chart = (
        altair.Chart(altair.InlineData(values=rows), width=2 * WIDTH)
        .mark_circle(color=COLOURS["ours"], size=120, opacity=1)
        .encode(
            x=altair.X("rate:Q", title="million events a second", scale=altair.Scale(type="log")),
            y=altair.Y("case:N", sort=names, title=None, axis=altair.Axis(labelLimit=WIDTH)),
        )
    )
    file = folder / "bench-spark.png"
    chart.save(file, scale_factor=SCALE)
    return file


def draw_windows(figures: Sequence[Figure], folder: Path = FOLDER) -> Path:
    """Write one PNG of the time of disconnected situations as windows grow.

    Raises
    ------
    ModuleNotFoundError
        If the extra is not installed.
    """
    altair = importlib.import_module("altair")
    importlib.import_module("vl_convert")
    folder.mkdir(parents=True, exist_ok=True)
    names = {"ours": "Cepheid", "iseq": "waits for ends", "duckdb": "DuckDB", "phases": "phases"}
    rows = [
        {"size": f.size, "method": names[f.method], "seconds": f.cpu_s}
        for f in figures
        if f.part == "disconnected"
    ]
    log = altair.Scale(type="log", nice=False)
    chart = (
        altair.Chart(altair.InlineData(values=rows), width=WIDTH, height=HEIGHT)
        .mark_line(point=True)
        .encode(
            x=altair.X("size:Q", title="window (s)", scale=log),
            y=altair.Y("seconds:Q", title="processor time (s)", scale=altair.Scale(type="log")),
            color=altair.Color("method:N", sort=list(names.values()), title=None),
        )
        .properties(title="A starts B before C overlaps D")
        .configure(background="white")
    )
    file = folder / "bench-situations.png"
    chart.save(file, scale_factor=SCALE)
    return file


def _rows(experiment: Experiment, found: Measurement) -> list[dict[str, object]]:
    if found.task.experiment != experiment.key or found.timing is None:
        return []
    return [
        {
            "size": found.task.size,
            "method": METHOD_NAMES[found.task.method],
            "seconds": found.timing.seconds,
            "megabytes": found.peak_mb,
        }
    ]


def _chart(altair: Any, experiment: Experiment, rows: list[dict[str, object]]) -> Any:
    """Return time and peak memory side by side; both axes are logarithmic."""
    measured = {row["method"] for row in rows}
    methods = [method for method in experiment.methods if METHOD_NAMES[method] in measured]
    names = [METHOD_NAMES[method] for method in methods]
    axis = altair.Axis(grid=False, **_tick_options(experiment, rows))
    x = altair.X("size:Q", title=experiment.axis, axis=axis, scale=_scale(altair, experiment))
    colour = altair.Color(
        "method:N",
        sort=names,
        title=None,
        scale=altair.Scale(domain=names, range=[COLOURS[method] for method in methods]),
    )
    panels = [
        altair.Chart(altair.Data(values=rows), width=WIDTH, height=HEIGHT)
        .mark_line(point=True)
        .encode(
            x=x,
            y=altair.Y(
                f"{field}:Q",
                title=title,
                scale=altair.Scale(type="log"),
                axis=altair.Axis(format="~g", tickCount=6),
            ),
            color=colour,
        )
        for field, title in (("seconds", "time (s)"), ("megabytes", "peak memory (MB)"))
    ]
    return altair.hconcat(*panels, title=experiment.title).configure(background="white")


def _scale(altair: Any, experiment: Experiment) -> Any:
    kind = "linear" if experiment.key in LINEAR_AXES else "log"
    return altair.Scale(type=kind, zero=False, nice=False)


def _tick_options(experiment: Experiment, rows: list[dict[str, object]]) -> dict[str, object]:
    if experiment.key in LINEAR_AXES:
        return {"values": sorted({str(row["size"]) for row in rows}), "format": "d"}
    return {"format": "~s", "tickCount": 8}
