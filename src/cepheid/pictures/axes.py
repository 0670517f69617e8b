"""Axes and values of charts: times in UTC, numbers of very different sizes, and labels."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

LOGARITHMIC_FROM = 1000.0
"""If the maximum is more than this multiple of the minimum, axes are logarithmic."""

Spec = dict[str, Any]

_CLOCK = "%H:%M"
_SECONDS_UP_TO = dt.timedelta(minutes=15)
_TEMPORAL: Spec = {"type": "temporal", "scale": {"type": "utc"}}
QUANTITATIVE: Spec = {
    "type": "quantitative",
    "scale": {"zero": False},
    "axis": {"tickCount": 6},  # Numbers of times are long.
}


def is_number(field: pa.Field[Any]) -> bool:
    """Check whether a column has numbers."""
    kind, types = field.type, pa.types
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind))


def label_of(row: dict[str, Any], names: Sequence[str]) -> str:
    """Join the values of some columns."""
    return " ".join(str(row[name]) for name in names)


def time_axis(table: pa.Table, name: str) -> Spec:
    """Choose the kind of an axis: times in UTC, or whole numbers."""
    if not pa.types.is_timestamp(table.schema.field(name).type):
        return QUANTITATIVE
    return date_axis([json_time(value) for value in table[name].to_pylist()])


def date_axis(times: list[str]) -> Spec:
    """Choose what an axis of times shows: the hour, if all are of one day; else also the day.

    Seconds stand on the axis where its ticks would have the same minute.
    """
    days = {time[:10] for time in times}
    span = dt.datetime.fromisoformat(max(times)) - dt.datetime.fromisoformat(min(times))
    clock = _CLOCK if span > _SECONDS_UP_TO else f"{_CLOCK}:%S"
    shown = clock if len(days) == 1 else f"%Y-%m-%d {clock}"
    title = f"UTC, {min(days)}" if len(days) == 1 else "UTC"
    labels = {"format": shown, "labelOverlap": True, "labelSeparation": 6}
    return _TEMPORAL | {"axis": labels, "title": title}


def is_time(value: object) -> bool:
    """Check whether a value is a time or a date."""
    return isinstance(value, dt.datetime | dt.date)


def json_time(value: Any) -> Any:
    """Write a time as JSON has it: times without a zone are in UTC."""
    if isinstance(value, dt.datetime):
        zoned = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value
        return zoned.astimezone(dt.UTC).isoformat()
    return value.isoformat() if isinstance(value, dt.date) else value


def number_of(value: Any) -> float | None:
    """Convert a number, which may be a decimal, to a double; an infinite one cannot be drawn."""
    number = math.nan if value is None else float(value)
    return number if math.isfinite(number) else None


def scaled(rows: list[dict[str, Any]], field: str, title: str) -> Spec:
    """Choose a linear or, for numbers of very different sizes, a logarithmic scale."""
    known = [abs(row[field]) for row in rows if row[field]]
    axis: Spec = {"field": field, "type": "quantitative", "title": title}
    if not known or max(known) / min(known) <= LOGARITHMIC_FROM:
        return axis
    powers = math.floor(math.log10(max(known)))
    step = max(1, math.ceil(powers / 5))
    # Vega's own marks of this scale are evenly spaced numbers, all at its end.
    marks = [0, *(10.0**power for power in range(step, powers + 1, step))]
    return axis | {"scale": {"type": "symlog"}, "axis": {"values": marks, "format": "~g"}}


def spec_of(rows: list[dict[str, Any]], **parts: Any) -> Spec:
    """Build a specification with its data."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": rows},
        "background": "white",
        **parts,
    }
