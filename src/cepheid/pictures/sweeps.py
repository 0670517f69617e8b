"""Draw sweeps: lines along a parameter, a heat map over two of them, precision and recall."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import pyarrow as pa

from cepheid.pictures.axes import Spec, is_number, label_of, number_of, scaled, spec_of
from cepheid.pictures.shown_times import WINDOW
from cepheid.plans.plan import Plan
from cepheid.plans.sweep import SweepPlan, ValuesKind

LINES_MAX = 12
NUMBERS_MAX = 4
CELLS_MAX = 20_000
"""Up to so many combinations, values without a row are drawn, too."""
ROWS = "rows"


class Swept(NamedTuple):
    """A parameter of a sweep: its column and its values, as numbers or texts."""

    name: str
    values: tuple[float | str, ...]

    @property
    def is_text(self) -> bool:
        """Check whether the values are texts."""
        return any(isinstance(value, str) for value in self.values)


def swept_of(plan: Plan) -> tuple[Swept, ...]:
    """Read the parameters of a plan; durations in seconds, as charts have them."""
    if not isinstance(plan, SweepPlan):
        return ()
    found = []
    for parameter in plan.parameters:
        ticks = 10**6 if parameter.kind is ValuesKind.DURATION else 1
        values = (v if isinstance(v, str) else v / ticks for v in parameter.values)
        found.append(Swept(parameter.name, tuple(values)))
    return tuple(found)


def draw_sweep(table: pa.Table, swept: Sequence[Swept]) -> tuple[Spec, str]:
    """Draw the rows of a sweep.

    One row for a value (and group) is drawn as its numbers. Where a value has many rows, such as
    those of windows, the rows are counted: a value without a row has the number 0.

    Parameters
    ----------
    table
        The rows.
    swept
        The parameters of the query, which are its first columns.
    """
    shown = list(swept[:2])
    note = f"the chart has 2 of {len(swept)} parameters, and the rows of all values of the others"
    note = note * (len(swept) > 2)
    names = [one.name for one in swept]
    numbers = [f.name for f in table.schema if is_number(f) and f.name not in (*names, *WINDOW)]
    groups = [n for n in table.column_names if n not in {*names, *numbers, *WINDOW}]
    lines = groups if len(shown) == 1 else []
    most = NUMBERS_MAX if len(shown) == 1 else 1
    if not (numbers and _are_few(table, lines) and _are_single(table, shown, lines)):
        rows, numbers, lines = _counted(table, shown), [ROWS], []
    else:
        rows = table.to_pylist()
    more = f"the chart has {most} of {len(numbers)} columns" * (len(numbers) > most)
    if len(shown) == 1:
        return _lines(rows, shown[0], numbers[:most], lines), note or more
    return _cells(rows, shown, numbers[0]), note or more


def _value(value: Any) -> Any:
    """Convert a value of a parameter: a duration to seconds, a decimal to a double."""
    if value is None or isinstance(value, str):
        return value
    return value.total_seconds() if hasattr(value, "total_seconds") else float(value)


def _are_few(table: pa.Table, groups: list[str]) -> bool:
    return not groups or len(_keys(table, groups)) <= LINES_MAX


def _are_single(table: pa.Table, shown: list[Swept], groups: list[str]) -> bool:
    """Check whether every value, or pair of values, has one row in each group."""
    return len(_keys(table, [*(one.name for one in shown), *groups])) == len(table)


def _keys(table: pa.Table, names: list[str]) -> pa.Table:
    """List the combinations of some columns, and how many rows each has."""
    columns: dict[str, Any] = {name: table[name] for name in names}
    for name, column in columns.items():
        if pa.types.is_dictionary(column.type):
            columns[name] = column.cast(column.type.value_type)
    return pa.table(columns).group_by(names).aggregate([([], "count_all")])


def _counted(table: pa.Table, shown: list[Swept]) -> list[dict[str, Any]]:
    """Count the rows of every value, or of every pair of values."""
    names = [one.name for one in shown]
    cells = prod(len(one.values) for one in shown)
    every = product(*(one.values for one in shown)) if cells <= CELLS_MAX else ()
    counts: dict[tuple[Any, ...], int] = dict.fromkeys(every, 0)
    for row in _keys(table, names).to_pylist():
        counts[tuple(_value(row[name]) for name in names)] = row["count_all"]
    return [dict(zip(names, key, strict=True)) | {ROWS: n} for key, n in counts.items()]


def _lines(rows: list[dict[str, Any]], one: Swept, numbers: list[str], groups: list[str]) -> Spec:
    """Draw a line along the parameter for every group, below each other for every number."""
    drawn = [
        {"value": _value(row[one.name]), "group": label_of(row, groups)}
        | {f"n{place}": number_of(row[name]) for place, name in enumerate(numbers)}
        for row in rows
    ]
    colour = {"color": {"field": "group", "title": " ".join(groups)}} if groups else {}
    parts = [
        {
            "width": 640,
            "height": 220,
            "mark": {"type": "line", "point": len(drawn) <= 500},
            "encoding": {"x": _axis("value", one), "y": scaled(drawn, f"n{n}", name), **colour},
        }
        for n, name in enumerate(numbers)
    ]
    return spec_of(drawn, vconcat=parts)


def _cells(rows: list[dict[str, Any]], shown: list[Swept], number: str) -> Spec:
    """Draw a cell for every pair of values, in the colour of its number."""
    across, up = shown
    drawn = [
        {"x": _value(row[across.name]), "y": _value(row[up.name]), "n0": number_of(row[number])}
        for row in rows
    ]
    colour = scaled(drawn, "n0", number)
    colour = {k: v for k, v in colour.items() if k != "axis"}
    colour["scale"] = colour.get("scale", {}) | {"scheme": "viridis"}
    x, y = (_axis(field, one) | {"type": "ordinal"} for field, one in zip("xy", shown, strict=True))
    if not up.is_text:
        y |= {"sort": "descending"}
    labels = {"axis": {"labelOverlap": True}}
    told = (("x", across.name), ("y", up.name), ("n0", number))
    tooltip = [{"field": field, "title": title} for field, title in told]
    encoding: Spec = {"x": x | labels, "y": y | labels, "color": colour, "tooltip": tooltip}
    return spec_of(drawn, width=640, height=300, mark="rect", encoding=encoding)


def _axis(field: str, one: Swept) -> Spec:
    if one.is_text:
        return {"field": field, "type": "ordinal", "sort": list(one.values), "title": one.name}
    return {"field": field, "type": "quantitative", "title": one.name, "scale": {"zero": False}}


# ---------------------------------------------------------------------------------------
# Curves

_COUNTED = ("alerts", "alerts_a_day")


def is_curve(table: pa.Table) -> bool:
    """Check whether a table is the curve of a sweep."""
    return set(_COUNTED) <= set(table.column_names) and table.column_names.index("alerts") > 0


def draw_curve(table: pa.Table) -> Spec:
    """Draw precision and recall, or alerts a day, over the values of the first parameter."""
    judged = [name for name in ("precision", "recall") if name in table.column_names]
    shown: list[str] = [*judged] or ["alerts_a_day"]
    first, *others = table.column_names[: table.column_names.index("alerts")]
    rows = [
        {
            "value": _value(row[first]),
            "number": row[name],
            "line": " ".join([name, *(f"{other}={row[other]}" for other in others)]),
        }
        for row in table.to_pylist()
        for name in shown
    ]
    text = pa.types.is_string(table.schema.field(first).type)
    encoding: Spec = {
        "x": {"field": "value", "type": "ordinal" if text else "quantitative", "title": first},
        "y": {"field": "number", "type": "quantitative", "title": ", ".join(shown)},
        "color": {"field": "line", "title": ""},
    }
    mark = {"type": "line", "point": len(rows) <= 500}
    return spec_of(rows, width=640, height=260, mark=mark, encoding=encoding)
