"""Random streams and SELECTs, small and full of collisions, and how results are compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from cepheid.errors import DataError
from cepheid.testing.strategies import choice, choices

SCHEMA = {
    "ts": pa.int64(),
    "k": pa.string(),
    "g": pa.int64(),
    "x": pa.int64(),
    "y": pa.float64(),
    "d": pa.decimal128(20, 2),
}
VALUES: dict[str, tuple[Any, ...]] = {
    "k": ("p", "p", "q", "pq", None),
    "g": (1, 1, 2, None),
    "x": (1, 1, 2, 3, -4, 0, None),
    "y": (1.0, 2.5, -0.0, 0.0, float("nan"), None, float("inf"), float("-inf"), 1e300),
    "d": (None, *map(Decimal, ("1.00", "2.50", "0.10", "-4.00", "1.00"))),
}
WILD: dict[str, tuple[Any, ...]] = {
    "x": (*VALUES["x"], 2**53 + 1, 2**62, 2**63 - 1, -(2**63)),
    "d": (*VALUES["d"], Decimal("123456789012345678.10"), Decimal("123456789012345678.11")),
}
"""Values that leave 64 bits once they are added up, and that no double stands for."""
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
    "d > 0.1 AND d <= y",
    "d = x OR d IN (0.1, 2.5)",
    "d * 2 > 3 OR POWER(y, x) > 1",
    "123456789012345678.1 < d",
    "CASE WHEN x > 1 THEN y ELSE g END > 1 OR CASE k WHEN 'p' THEN TRUE END",
    "k ILIKE 'P_' OR x IS NOT DISTINCT FROM g",
    "k || 'q' = 'pq' AND (x IS DISTINCT FROM 1 OR g::double > x)",
    "CAST(x AS STRING) = '1' OR TRY_CAST(k AS INT) IS NULL AND TRY_CAST(y AS INT) > 0",
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
    "MIN(d)",
    "MAX(d)",
    "SUM(d)",
    "SUM(CASE WHEN k = 'p' THEN x ELSE 0 END) AS chosen",
    "MAX(CAST(x AS DOUBLE)) AS cast",
    "SUM(x) FILTER (WHERE k = 'p') AS some, COUNT(*) FILTER (WHERE y > 1) AS many",
    "SUM(x) - COUNT(*) AS less",
    "COUNT(DISTINCT k)",
    "COUNT(DISTINCT y)",
    "COUNT(DISTINCT d)",
    "COUNT(DISTINCT x)",
    "MEDIAN(x)",
    "PERCENTILE(y, 0.3)",
    "APPROX_COUNT_DISTINCT(y)",
    "APPROX_COUNT_DISTINCT(d)",
    "APPROX_COUNT_DISTINCT(x % 2) + 1 AS about",
    "APPROX_PERCENTILE(x, 0.5)",
    "APPROX_PERCENTILE(y, 0.25)",
    "PERCENTILE(x * 2, 1) - MEDIAN(y) AS between",
    "MAX(ts) - MIN(ts) AS lasting",
    "CASE WHEN COUNT(k) > 1 THEN MAX(x) * 2 ELSE -1 END AS case",
)
ITEMS = (
    "*",
    "k, x",
    "x * 2 AS twice, k",
    "ts, y, x + g AS sum",
    "d + 1 AS e, d > y AS f, -y AS h",
    "CASE WHEN x > 1 THEN 'more' WHEN k = 'p' THEN k END AS c, TRY_CAST(y AS BIGINT) AS i",
)
PAIRS = (
    "a.k = b.k",
    "a.x < b.x",
    "a.k = b.k AND a.x <> b.x",
    "a.g = b.g AND b.k = a.k AND a.x >= b.y",
    "a.x > 0 AND b.y IS NOT NULL",
    "a.x + b.x > 2 OR a.k = b.k",
    "a.y = b.y",
    "a.ts < b.ts AND a.g = b.x",
    "a.d = b.d",
    "a.d > b.x AND a.d <> b.y",
)


HAVINGS = (
    "COUNT(*) > 1",
    "SUM(x) > 1 OR COUNT(k) = 0",
    "MAX(y) >= 1.0 AND COUNT(*) < 4",
    "NOT AVG(x) > 1.25",
    "COUNT(DISTINCT s.k) > 1 OR MEDIAN(x) >= 1",
    "MIN(x) IS NULL OR MIN(ts) + 1 = MAX(ts)",
)


@st.composite
def rows(
    draw: st.DrawFn,
    most: int = 14,
    *,
    wild: bool = False,
    values: Mapping[str, Sequence[Any]] = VALUES,
) -> list[dict[str, Any]]:
    """Draw events in the order of time, which may be negative and the same."""
    times = sorted(draw(st.lists(st.integers(-6, 12), max_size=most)))
    drawn = dict(values) | WILD if wild else values
    return [{"ts": time, **{name: draw(choice(v)) for name, v in drawn.items()}} for time in times]


REPRESENTATIONS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda column: column,
    "large": lambda column: (
        column.cast(pa.large_string()) if pa.types.is_string(column.type) else column
    ),
    "dictionary": lambda column: column.dictionary_encode(),
    "categorical": lambda column: pa.array(column.to_pandas().astype("category")),
}
"""How a column of keys may come."""


def leaves_64_bits(found: list[dict[str, Any]]) -> bool:
    """Return whether a result by definition has a whole number that there is no room for."""
    cells = [cell for row in found for cell in row.values() if type(cell) is int]
    return any(not -(2**63) <= cell < 2**63 for cell in cells)


def agree(
    run: Callable[[], list[dict[str, Any]]], definition: Callable[[], list[dict[str, Any]]]
) -> None:
    """Assert that a run over wild values gives what is right, or an error where there is one.

    An operand that leaves 64 bits is an error even where the result has room for the rest.
    """
    try:
        right = definition()
    except ValueError:
        right = None  # A decimal for which no double stands is computed with.
    try:
        found = run()
    except DataError as error:
        if error.diagnostics[0].code in ("E504", "E570"):
            return
        raise
    assert right is not None
    assert not leaves_64_bits(right)
    assert unordered(found) == unordered(right)


@st.composite
def filters(draw: st.DrawFn) -> str:
    """Draw a filter."""
    where = draw(choice(("", *CONDITIONS)))
    items = draw(choice(ITEMS))
    return f"SELECT {items} FROM s" + (f" WHERE {where}" if where else "")


@st.composite
def aggregations(draw: st.DrawFn, *, counted: bool | None = None, windowed: bool = False) -> str:
    """Draw a windowed aggregation."""
    aggregates = draw(choices(AGGREGATES, 1, 4, unique=True))
    keys = draw(choice(("", "", "k", "g", "k, g", "y")))
    where = draw(choice(("", "", *CONDITIONS)))
    text = f"SELECT {', '.join(aggregates)} FROM s"
    text += f" WHERE {where}" if where else ""
    text += f" GROUP BY {keys}" if keys else ""
    having = draw(choice(("", "", "", *HAVINGS)))
    if having and keys == "k" and draw(st.booleans()):
        having = f"({having}) AND k <> 'q'"
    text += f" HAVING {having}" if having else ""
    if not windowed and draw(st.integers(0, 5)) == 0:
        return text
    unit = "EVENTS" if (draw(st.booleans()) if counted is None else counted) else "us"
    if unit == "us" and draw(st.integers(0, 3)) == 0:
        return f"{text} WINDOW SESSION {draw(st.integers(1, 5))} us"
    slide = draw(st.one_of(st.none(), st.integers(1, 9)))
    text += f" WINDOW {draw(st.integers(1, 7))} {unit}"
    return text + (f" SLIDE {slide} {unit}" if slide else "")


@st.composite
def joins(draw: st.DrawFn, *, counted: bool | None = None) -> str:
    """Draw a windowed join."""
    unit = "EVENTS" if (draw(st.booleans()) if counted is None else counted) else "us"
    items = draw(choice(("*", "a.ts, b.ts AS t, a.x, b.y", "a.*, b.k", "a.x + b.x AS z")))
    where = draw(choice(("", "a.x > 0", "b.k LIKE 'p%' AND a.ts < b.ts")))
    text = f"SELECT {items} FROM s a JOIN r b ON {draw(choice(PAIRS))}"
    text += f" WHERE {where}" if where else ""
    if draw(st.integers(0, 2)) == 0:
        first, second = draw(st.integers(1, 6)), draw(st.integers(1, 6))
        text = text.replace("FROM s a ", f"FROM s a WITHIN {first} {unit} ", 1)
        return text.replace("JOIN r b ", f"JOIN r b WITHIN {second} {unit} ", 1)
    return text + f" WINDOW {draw(st.integers(1, 6))} {unit}"


@st.composite
def joined_aggregations(draw: st.DrawFn) -> str:
    """Draw aggregates over the pairs of a join."""
    items = ("COUNT(*) AS n", "SUM(a.x * b.x) AS xx", "MAX(b.y) AS y", "COUNT(DISTINCT a.k) AS d")
    shown = draw(choices((*items, "MEDIAN(a.x + b.g) AS m", "MIN(a.ts) AS t"), 1, 3, unique=True))
    keys = draw(choice(("", "a.k", "b.g, a.k")))
    unit = draw(choice(("us", "EVENTS")))
    lengths = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    text = f"SELECT {', '.join(shown)} FROM s a WITHIN {lengths[0]} {unit} "
    text += f"JOIN r b WITHIN {lengths[1]} {unit} ON {draw(choice(PAIRS))}"
    text += f" GROUP BY {keys}" if keys else ""
    text += draw(choice(("", " HAVING COUNT(*) > 1", " HAVING SUM(b.x) > 0 OR MAX(a.x) IS NULL")))
    window = draw(choice(("", "WINDOW 5 us", "WINDOW 6 us SLIDE 2 us", "WINDOW SESSION 3 us")))
    return f"{text} {window}".strip()


THIRDS = (
    "c.k = b.k",
    "a.k = c.k AND b.x < c.x",
    "c.x > a.x",
    "c.g = a.g AND c.k = b.k",
    "a.x + b.x + c.x > 2 OR c.k = a.k",
    "c.y IS NOT NULL AND c.y = a.y",
    "b.ts < c.ts AND c.d > a.x",
)


@st.composite
def many_joins(draw: st.DrawFn, *, aggregated: bool = False, one: bool = False) -> str:
    """Draw a join of three streams or four; with ``one``, of a stream with itself."""
    names = ["s"] * 4 if one else ["s", "r", "s", "r"]
    lengths = [f" WITHIN {draw(st.integers(1, 6))} us" for _ in range(4)]
    if not aggregated and draw(st.booleans()):
        lengths = [""] * 4
    items = "a.ts, b.ts AS t, c.ts AS u, a.x + b.x + c.x AS z, c.k"
    if aggregated:
        items = draw(choice(("COUNT(*)", "SUM(c.x) AS n, COUNT(DISTINCT a.k) AS d")))
    if not aggregated and draw(choice((False, False, True))):
        items = "*"
    text = f"SELECT {items} FROM {names[0]} a{lengths[0]}"
    text += f" JOIN {names[1]} b{lengths[1]} ON {draw(choice(PAIRS))}"
    text += f" JOIN {names[2]} c{lengths[2]} ON {draw(choice(THIRDS))}"
    if draw(choice((False, False, True))):
        text += f" JOIN {names[3]} e{lengths[3]} ON e.k = a.k AND e.x >= c.x"
    text += draw(choice(("", "", " WHERE b.x > 0 AND a.ts <= c.ts")))
    if aggregated:
        text += draw(choice((" GROUP BY b.k", "")))
        return text + draw(choice((" WINDOW 5 us", " WINDOW 6 us SLIDE 2 us")))
    return text if lengths[0] else f"{text} WINDOW {draw(st.integers(1, 6))} us"


@st.composite
def sessions(draw: st.DrawFn) -> str:
    """Draw an aggregation of sessions."""
    text = draw(aggregations(windowed=True)).partition(" WINDOW ")[0]
    return f"{text} WINDOW SESSION {draw(st.integers(1, 5))} us"


ORDERS = {
    "filter": (
        "k",
        "x DESC",
        "y",
        "y DESC NULLS FIRST",
        "x + g NULLS LAST",
        "d DESC",
        "ts",
        "x > 1",
    ),
    "aggregation": ("COUNT(*)", "SUM(x) DESC", "MAX(y)", "MEDIAN(x) DESC NULLS FIRST", "MIN(ts)"),
    "join": ("a.x", "b.y DESC", "a.k NULLS LAST", "a.x + b.x DESC", "b.ts"),
}


@st.composite
def ordered(draw: st.DrawFn) -> tuple[str, str]:
    """Draw a query with ORDER BY and LIMIT, and its kind."""
    kind = draw(choice(sorted(ORDERS)))
    base = {"filter": filters(), "aggregation": aggregations(), "join": joins()}[kind]
    by = draw(choices(ORDERS[kind], 0, 3, unique=True))
    text = draw(base) + (f" ORDER BY {', '.join(by)}" if by else "")
    limit = draw(st.one_of(st.none(), st.integers(0, 5)))
    return text + ("" if limit is None else f" LIMIT {limit}"), kind


def table_of(events: list[dict[str, Any]], kind: pa.DataType | None = None) -> pa.Table:
    """Return rows as a table, with times of a type."""
    table = pa.table(
        {name: pa.array([row.get(name) for row in events], t) for name, t in SCHEMA.items()}
    )
    if kind is None:
        return table
    return table.set_column(0, "ts", table.column("ts").cast(kind))


def plain(rows_: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return rows whose values compare: NaN equals itself, and 2 equals 2.0."""
    return [tuple(_plain(value) for value in row.values()) for row in rows_]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        # Sums and means differ in the last digits, and large ones have no digits behind the point.
        return "NaN" if math.isnan(value) else float(f"{value + 0.0:.12g}")
    if hasattr(value, "timestamp"):
        return round(value.timestamp() * 1e6)
    return value


def unordered(rows_: list[dict[str, Any]]) -> list[str]:
    """Return rows in an order of their own, for what comes in none."""
    return sorted(repr(tuple(map(_number, row))) for row in plain(rows_))


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
