"""Tables and charts of plans over stores, in the shape of the figures of Körber's thesis."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.charts import FOLDER, HEIGHT, SCALE, WIDTH
from benchmarks.store_plans import (
    Asked,
    AskedRows,
    PlanFigure,
    Rows,
    Strategies,
    all_picks,
    figures_of,
    geometric,
    plan_rows_of,
    random_strategies,
    shares,
)
from benchmarks.store_queries import DEVIATIONS, events, random_query
from rich.table import Table

import cepheid

SYNTHETIC_EVENTS = 50_000_000
SIZES = (2, 3, 4)
QUERIES = 10
SINGLE_SIZE = 6
PLANS_MAX = 256
COLUMNS = ("replay s", "all", "greedy", "chosen", "best", "within 1.3", "error", "plans")


def filled(store: cepheid.EventStore, count: int) -> None:
    """Store synthetic events, with an index on every attribute."""
    for table in events(count):
        store.append(table)
    for name in DEVIATIONS:
        store.index(name)


def strategies_table(
    title: str, label: str, found: dict[str, list[Strategies]], rows: Rows
) -> Table:
    """Return speed-ups over a replay by how look-ups are chosen; add them to rows of a chart."""
    shown = Table(title=title, title_justify="left")
    for name in (label, *COLUMNS):
        shown.add_column(name, justify="right")
    for key, own in found.items():
        speeds = {
            "all": geometric([s.replay / s.everything for s in own]),
            "greedy": geometric([s.replay / s.greedy for s in own]),
            "chosen": geometric([s.replay / s.chosen for s in own]),
            "best": geometric([s.replay / s.best for s in own]),
        }
        rows += [
            {"figure": label, "x": key, "strategy": name, "times": speed}
            for name, speed in speeds.items()
        ]
        shown.add_row(
            key,
            f"{np.mean([s.replay for s in own]):.3f}",
            *(f"{speed:.1f}" for speed in speeds.values()),
            f"{shares(own):.0%}",
            f"{np.mean([s.error for s in own]):.0%}",
            f"{own[0].plans}",
        )
    together = [s for own in found.values() for s in own]
    shown.caption = (
        f"chosen within 1.3 times the best on {shares(together):.0%} of {len(together)} queries; "
        "times over a replay, geometric means"
    )
    return shown


def synthetic(
    store: cepheid.EventStore, tell: Callable[[str], None]
) -> tuple[list[Table], Rows, Rows]:
    """Run random queries by size (figure 3.9), by data (3.13), and one in all ways (3.12)."""
    speeds: Rows = []
    tell("store: random queries by size")
    by_size = random_strategies(store, SIZES, QUERIES)
    tables = [
        strategies_table(
            "Random queries by the number of symbols (figure 3.9)",
            "symbols",
            {str(size): own for size, own in by_size.items()},
            speeds,
        )
    ]
    tell("store: random queries by data")
    by_data = {
        name: random_strategies(store, SIZES[1:2], QUERIES, name)[SIZES[1]] for name in DEVIATIONS
    }
    title = "Random queries by the distribution of one symbol (figure 3.13)"
    tables.append(strategies_table(title, "attribute", by_data, speeds))
    tell("store: all plans of one query")
    query = random_query(np.random.default_rng(12), SINGLE_SIZE, "a4")
    table, rows = plans_table(
        f"All plans of a query with {SINGLE_SIZE} symbols (figure 3.12)",
        AskedRows(store, query.text()),
        "synthetic",
    )
    return [*tables, table], speeds, rows


def plans_table(title: str, asked: Asked, name: str) -> tuple[Table, Rows]:
    """Return how good the estimates of all plans of a query are, and rows of a chart."""
    found = figures_of(asked, all_picks(asked.costs())[:PLANS_MAX])
    shown = Table(title=title, title_justify="left")
    for column in ("plan", "s", "estimated s", "row groups", "estimated", "rank"):
        shown.add_column(column, justify="right")
    by_time = sorted(found, key=lambda figure: figure.seconds)

    def add(label: str, figure: PlanFigure) -> None:
        shown.add_row(
            label,
            f"{figure.seconds:.3f}",
            f"{figure.estimated_s:.3f}" if figure.estimated_s else "",
            f"{figure.groups:,} of {figure.total:,}",
            f"{figure.expected:,.0f}",
            f"{by_time.index(figure) + 1}",
        )

    add("replay", found[0])
    add("chosen", found[1])
    add("best", by_time[0])
    add("worst", by_time[-1])
    errors = [figure.error for figure in found[2:]]
    told = f"error of row groups: median {np.median(errors):.0%}, mean {np.mean(errors):.0%}"
    shown.caption = f"{len(found)} plans; {told}"
    return shown, [{**row, "query": name} for row in plan_rows_of(found)]


# ---------------------------------------------------------------------------------------
# Charts


def _saved(chart: Any, file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    chart.configure(background="white").save(file, scale_factor=SCALE)
    return file


def draw_windows(rows: Rows, folder: Path = FOLDER) -> Path:
    """Draw the time of windowed aggregates by the slide, from the index and by replay.

    Raises
    ------
    ModuleNotFoundError
        If the extra `charts` is not installed.
    """
    altair = importlib.import_module("altair")
    importlib.import_module("vl_convert")
    log = altair.Scale(type="log")
    chart = (
        altair.Chart(altair.InlineData(values=rows), width=WIDTH, height=HEIGHT)
        .mark_line(point=True)
        .encode(
            x=altair.X("slide:Q", title="slide (s)", scale=log),
            y=altair.Y("seconds:Q", title="time (s)", scale=log),
            color=altair.Color("method:N", title=None),
            strokeDash=altair.StrokeDash("events:N", title=None),
        )
        .properties(title="Windows of a day over a week at 100 events/s")
    )
    return _saved(chart, folder / "bench-store-windows.png")


def draw_plans(speeds: Rows, plans: Rows, folder: Path = FOLDER) -> list[Path]:
    """Draw speed-ups of strategies, and all plans of some queries, cheapest estimate first.

    Raises
    ------
    ModuleNotFoundError
        If the extra `charts` is not installed.
    """
    altair = importlib.import_module("altair")
    importlib.import_module("vl_convert")
    files = []
    log = altair.Scale(type="log")
    if speeds:
        panels = [
            altair.Chart(
                altair.InlineData(values=[row for row in speeds if row["figure"] == figure]),
                width=WIDTH,
                height=HEIGHT,
            )
            .mark_bar()
            .encode(
                x=altair.X("x:N", title=figure),
                xOffset=altair.XOffset("strategy:N", sort=["all", "greedy", "chosen", "best"]),
                y=altair.Y("times:Q", title="times over a replay"),
                color=altair.Color(
                    "strategy:N", sort=["all", "greedy", "chosen", "best"], title=None
                ),
            )
            for figure in ("symbols", "attribute")
        ]
        both = altair.hconcat(*panels).resolve_scale(xOffset="independent")
        files.append(_saved(both, folder / "bench-store-strategies.png"))
    rows = [
        {"query": p["query"], "rank": p["rank"], "what": what, "seconds": max(p[key], 1e-5)}
        for p in plans
        for what, key in (("measured", "measured"), ("estimated", "estimated"))
    ]
    if rows:
        chart = (
            altair.Chart(altair.InlineData(values=rows), width=WIDTH, height=HEIGHT)
            .mark_circle()
            .encode(
                x=altair.X("rank:Q", title="plan, by estimated cost"),
                y=altair.Y("seconds:Q", title="time (s)", scale=log),
                color=altair.Color("what:N", title=None),
                facet=altair.Facet("query:N", columns=2, title=None),
            )
        )
        files.append(_saved(chart, folder / "bench-store-plans.png"))
    return files


def names_of(files: Sequence[Path]) -> str:
    """Return files in words."""
    return ", ".join(file.name for file in files)
