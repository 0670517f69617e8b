"""Random streams and SELECTs, small and full of collisions, and how results are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

SCHEMA = {
    "ts": pa.int64(),
    "k": pa.string(),
    "g": pa.int64(),
    "x": pa.int64(),
    "y": pa.float64(),
}
VALUES: dict[str, tuple[Any, ...]] = {
    "k": ("p", "p", "q", "pq", None),
    "g": (1, 1, 2, None),
    "x": (1, 1, 2, 3, -4, 0, None),
    "y": (1.0, 2.5, -0.0, 0.0, float("nan"), None),
}
CONDITIONS = (
    "x > 1",
    "y >= 1.0 OR k = 'p'",
    "x IS NULL",
    "NOT (x = 2)",
    "k LIKE 'p%'",
    "x + g < 3",
    "ABS(x - 2) <= 1 AND k <> 'q'",
    "ts >= 3",
    "ts > -2 AND ts < 6",
    "x IN (1, 3) OR y IS NULL",
    "y > x",
    "x BETWEEN 0 AND 2 AND ts <= 7",
)
AGGREGATES = (
    "COUNT(*)",
    "COUNT(x)",
    "COUNT(k)",
    "SUM(x)",
    "AVG(x)",
    "MIN(x)",
    "MAX(x)",
    "SUM(x * 2 + g) AS twice",
    "MIN(ts)",
    "MAX(y)",
    "MIN(y)",
)
ITEMS = ("*", "k, x", "x * 2 AS twice, k", "ts, y, x + g AS sum")
PAIRS = (
    "a.k = b.k",
    "a.x < b.x",
    "a.k = b.k AND a.x <> b.x",
    "a.g = b.g AND b.k = a.k AND a.x >= b.y",
    "a.x > 0 AND b.y IS NOT NULL",
    "a.x + b.x > 2 OR a.k = b.k",
    "a.y = b.y",
    "a.ts < b.ts AND a.g = b.x",
)


@st.composite
def rows(
    draw: st.DrawFn, most: int = 14, *, values: Mapping[str, Sequence[Any]] = VALUES
) -> list[dict[str, Any]]:
    """Draw events in the order of time, which may be negative and the same."""
    times = sorted(draw(st.lists(st.integers(-6, 12), max_size=most)))
    return [
        {"ts": time, **{name: draw(st.sampled_from(v)) for name, v in values.items()}}
        for time in times
    ]


@st.composite
def filters(draw: st.DrawFn) -> str:
    """Draw a filter."""
    where = draw(st.sampled_from(("", *CONDITIONS)))
    items = draw(st.sampled_from(ITEMS))
    return f"SELECT {items} FROM s" + (f" WHERE {where}" if where else "")


@st.composite
def aggregations(draw: st.DrawFn, *, counted: bool | None = None, windowed: bool = False) -> str:
    """Draw a windowed aggregation."""
    aggregates = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=4, unique=True))
    keys = draw(st.sampled_from(("", "", "k", "g", "k, g", "y")))
    where = draw(st.sampled_from(("", "", *CONDITIONS)))
    text = f"SELECT {', '.join(aggregates)} FROM s"
    text += f" WHERE {where}" if where else ""
    text += f" GROUP BY {keys}" if keys else ""
    if not windowed and draw(st.integers(0, 5)) == 0:
        return text
    unit = "EVENTS" if (draw(st.booleans()) if counted is None else counted) else "us"
    slide = draw(st.one_of(st.none(), st.integers(1, 9)))
    text += f" WINDOW {draw(st.integers(1, 7))} {unit}"
    return text + (f" SLIDE {slide} {unit}" if slide else "")


@st.composite
def joins(draw: st.DrawFn, *, counted: bool | None = None) -> str:
    """Draw a windowed join."""
    unit = "EVENTS" if (draw(st.booleans()) if counted is None else counted) else "us"
    items = draw(st.sampled_from(("*", "a.ts, b.ts AS t, a.x, b.y", "a.*, b.k", "a.x + b.x AS z")))
    where = draw(st.sampled_from(("", "a.x > 0", "b.k LIKE 'p%' AND a.ts < b.ts")))
    text = f"SELECT {items} FROM s a JOIN r b ON {draw(st.sampled_from(PAIRS))}"
    text += f" WHERE {where}" if where else ""
    return text + f" WINDOW {draw(st.integers(1, 6))} {unit}"


def table_of(events: list[dict[str, Any]], kind: pa.DataType | None = None) -> pa.Table:
    """Return rows as a table, with times of a type."""
    table = pa.table(
        {name: pa.array([row[name] for row in events], t) for name, t in SCHEMA.items()}
    )
    if kind is None:
        return table
    return table.set_column(0, "ts", table.column("ts").cast(kind))


def plain(rows_: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return rows whose values compare: NaN equals itself, and 2 equals 2.0."""
    return [tuple(_plain(value) for value in row.values()) for row in rows_]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value + 0.0, 9)
    if hasattr(value, "timestamp"):
        return round(value.timestamp() * 1e6)
    return value


def unordered(rows_: list[dict[str, Any]]) -> list[str]:
    """Return rows in an order of their own, for what comes in none."""
    return sorted(repr(tuple(map(_number, row))) for row in plain(rows_))


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
