"""``cepheid run --chart``: draw a result as PNG, SVG or HTML, by the end of the file's name.

Windows become lines, groups become bars, matches and situations become timelines. The chart is a
Vega-Lite specification, which vl-convert draws without a browser and without a network.
"""

from __future__ import annotations

import datetime as dt
import importlib
import importlib.util
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from cepheid.errors import DataError, Diagnostic
from cepheid.interfaces.chart import LOGARITHMIC_FROM
from cepheid.interfaces.cli_input import WrongUseError, name_of
from cepheid.interfaces.shown_times import MICROSECONDS, WINDOW, ShownTimes

ENDINGS = (".png", ".svg", ".html")
MATCHES_MAX = 40
"""Matches and partitions of a timeline; more could not be told apart."""
POINTS_MAX = 20_000
NUMBERS_MAX = 4
"""Columns of numbers that are drawn, one below the other."""
BARS_MAX = 60

Spec = dict[str, Any]


def check_chart(path: Path | None) -> None:
    """Refuse a chart that cannot be drawn, before anything runs.

    Raises
    ------
    WrongUseError
        If the end of the name is unknown.
    DataError
        E581 if vl-convert is not installed.
    """
    if path is None:
        return
    if path.suffix.lower() not in ENDINGS:
        ends = ", ".join(ENDINGS)
        message = f"--chart must end in {ends}, but {name_of(path.name)} does not"
        raise WrongUseError(message)
    if importlib.util.find_spec("vl_convert") is None:
        helps = ("install it: `pip install 'cepheid[charts]'`",)
        message = "--chart needs vl-convert, which is not installed"
        raise DataError([Diagnostic("E581", message, helps=helps)])


class Drawing:
    """Collects the rows of a result that fit a chart, and draws them at the end."""

    def __init__(self, path: Path | None, times: ShownTimes = MICROSECONDS) -> None:
        self._path = path
        self._times = times
        self._tables: list[pa.Table] = []
        self._rows = 0

    def watch(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield tables, and remember the first rows."""
        for table in tables:
            self.add(table)
            yield table

    def add(self, table: pa.Table) -> None:
        """Remember the rows of a table, as far as they are drawn."""
        if self._path is not None and self._rows < POINTS_MAX:
            self._tables.append(table.slice(0, POINTS_MAX - self._rows))
        self._rows += len(table)

    def finish(self) -> str:
        """Draw the chart, and return a sentence about what it lacks; empty if it has all."""
        if self._path is None:
            return ""
        table = pa.concat_tables(self._tables) if self._tables else pa.table({})
        spec, note = chart_of(self._times.of(table), self._times.time)
        if not note and self._rows > POINTS_MAX:
            note = f"the chart has the first {POINTS_MAX:,} of {self._rows:,} rows"
        _write(self._path, _drawn(spec, self._path.suffix.lower()))
        return note


def draw_spec(spec: Spec, path: Path) -> None:
    """Draw a specification into a file."""
    whole = _spec(spec["data"]["values"], **{k: v for k, v in spec.items() if k != "data"})
    _write(path, _drawn(whole, path.suffix.lower()))


def chart_of(table: pa.Table, time: str = "ts") -> tuple[Spec, str]:
    """Choose a chart for a result; return its specification, and what it leaves out.

    Parameters
    ----------
    table
        The rows.
    time
        The time column of the events.

    Raises
    ------
    DataError
        E582 if the result has nothing that could be drawn.
    """
    names = table.column_names
    if "events" in names and pa.types.is_list(table.schema.field("events").type):
        return _matches(table, time)
    if {"situation", "ts", "te"} <= set(names):
        return _situations(table)
    left_out = ("match_id", *WINDOW)
    numbers = [f.name for f in table.schema if _is_number(f) and f.name not in left_out]
    if not len(table) or not numbers:
        message = "there is nothing to draw: the result has no rows"
        if len(table):
            message = "there is nothing to draw: the result has no numbers, matches or situations"
        helps = ("return an aggregate, such as COUNT(*), MATCHES or SITUATIONS",)
        raise DataError([Diagnostic("E582", message, helps=helps)])
    note = f"the chart has {NUMBERS_MAX} of {len(numbers)} columns" * (len(numbers) > NUMBERS_MAX)
    windows = len(set(table["window_start"].to_pylist())) if "window_start" in names else 0
    if windows > 1:
        return _lines(table, numbers[:NUMBERS_MAX]), note
    shown = table.slice(0, BARS_MAX)
    if len(table) > BARS_MAX:
        note = f"the chart has the first {BARS_MAX} of {len(table):,} rows"
    return _bars(shown, numbers[:NUMBERS_MAX]), note


def _is_number(field: pa.Field[Any]) -> bool:
    kind, types = field.type, pa.types
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind))


def _groups(table: pa.Table, numbers: list[str]) -> list[str]:
    left_out = {*numbers, *WINDOW}
    return [name for name in table.column_names if name not in left_out]


def _label(row: dict[str, Any], names: list[str]) -> str:
    return " ".join(str(row[name]) for name in names)


def _lines(table: pa.Table, numbers: list[str]) -> Spec:
    """Draw a line over windows for every group, below each other for every number."""
    groups = _groups(table, [f.name for f in table.schema if _is_number(f)])
    rows = [
        {
            "window": _time(row["window_start"]),
            "group": _label(row, groups),
            **{f"n{place}": _number(row[name]) for place, name in enumerate(numbers)},
        }
        for row in table.to_pylist()
    ]
    colour = {"color": {"field": "group", "title": " ".join(groups)}} if groups else {}
    parts = [
        {
            "width": 640,
            "height": 220,
            "mark": {"type": "line", "point": len(rows) <= 500},
            "encoding": {
                "x": {"field": "window", "title": "window"} | _axis(table, "window_start"),
                "y": _scaled(rows, f"n{place}", name),
                **colour,
            },
        }
        for place, name in enumerate(numbers)
    ]
    return _spec(rows, vconcat=parts)


def _bars(table: pa.Table, numbers: list[str]) -> Spec:
    """Draw a bar for every row, below each other for every number."""
    groups = _groups(table, numbers)
    rows = [
        {
            "group": _label(row, groups) or f"row {place}",
            "order": place,
            **{f"n{number}": _number(row[name]) for number, name in enumerate(numbers)},
        }
        for place, row in enumerate(table.to_pylist(), 1)
    ]
    parts = [
        {
            "width": 560,
            "mark": "bar",
            "encoding": {
                "y": {"field": "group", "sort": {"field": "order"}, "title": " ".join(groups)},
                "x": _scaled(rows, f"n{place}", name),
            },
        }
        for place, name in enumerate(numbers)
    ]
    return _spec(rows, vconcat=parts)


def _matches(table: pa.Table, time: str) -> tuple[Spec, str]:
    """Draw the events of every match on a line of its own."""
    rows = []
    for place, row in enumerate(table.slice(0, MATCHES_MAX).to_pylist(), 1):
        for event in row["events"]:
            times = [v for k, v in event.items() if k != "variable" and _is_time(v)]
            at = event.get(time, times[0] if times else None)
            label = row.get("match_id", place)
            rows.append({"match": label, "time": _time(at), "variable": event["variable"]})
    stamps = [row["time"] for row in rows if isinstance(row["time"], str)]
    x = {"field": "time", "title": "time"} | (_dates(stamps) if stamps else _QUANTITATIVE)
    y = {"field": "match", "type": "ordinal", "title": "match"}
    layers: list[Spec] = [
        {"mark": {"type": "line", "color": "#bbb"}, "encoding": {"detail": {"field": "match"}}},
        {
            "mark": {"type": "point", "filled": True, "size": 60},
            "encoding": {"color": {"field": "variable", "title": "variable"}},
        },
    ]
    spec = _spec(rows, width=640, layer=layers, encoding={"x": x, "y": y})
    return spec, f"the chart has the first {MATCHES_MAX} matches" * (len(table) > MATCHES_MAX)


def _situations(table: pa.Table) -> tuple[Spec, str]:
    """Draw situations as bars on a timeline, a line for every partition."""
    keys = table.column_names[: table.column_names.index("situation")]
    rows: list[dict[str, Any]] = []
    partitions: dict[str, None] = {}
    for row in table.to_pylist():
        label = _label(row, keys) or "all"
        partitions.setdefault(label)
        if len(partitions) <= MATCHES_MAX:
            start, end = _time(row["ts"]), _time(row["te"])
            rows.append({"of": label, "situation": row["situation"], "from": start, "to": end})
    axis = _axis(table, "ts")
    encoding = {
        "x": {"field": "from", "title": "time"} | axis,
        "x2": {"field": "to"},
        "y": {"field": "of", "title": " ".join(keys)},
        "yOffset": {"field": "situation"},
        "color": {"field": "situation"},
    }
    mark = {"type": "bar", "minBandSize": 2}
    more = len(partitions) > MATCHES_MAX
    note = f"the chart has the first {MATCHES_MAX} of {len(partitions):,} lines" * more
    return _spec(rows, width=640, mark=mark, encoding=encoding), note


# ---------------------------------------------------------------------------------------
# Values


_CLOCK = "%H:%M"
_TEMPORAL: Spec = {"type": "temporal", "scale": {"type": "utc"}}
_QUANTITATIVE: Spec = {
    "type": "quantitative",
    "scale": {"zero": False},
    "axis": {"tickCount": 6},  # Numbers of times are long.
}


def _axis(table: pa.Table, name: str) -> Spec:
    """Choose the kind of an axis: times in UTC, or whole numbers."""
    if not pa.types.is_timestamp(table.schema.field(name).type):
        return _QUANTITATIVE
    return _dates([_time(value) for value in table[name].to_pylist()])


def _dates(times: list[str]) -> Spec:
    """Choose what an axis of times shows: the hour, if all are of one day; else also the day."""
    days = {time[:10] for time in times}
    shown = _CLOCK if len(days) == 1 else f"%Y-%m-%d {_CLOCK}"
    title = f"UTC, {min(days)}" if len(days) == 1 else "UTC"
    return _TEMPORAL | {"axis": {"format": shown, "labelOverlap": True}, "title": title}


def _is_time(value: object) -> bool:
    return isinstance(value, dt.datetime | dt.date)


def _time(value: Any) -> Any:
    """Write a time as JSON has it: times without a zone are in UTC."""
    if isinstance(value, dt.datetime):
        zoned = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value
        return zoned.astimezone(dt.UTC).isoformat()
    return value.isoformat() if isinstance(value, dt.date) else value


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _scaled(rows: list[dict[str, Any]], field: str, title: str) -> Spec:
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


def _spec(rows: list[dict[str, Any]], **parts: Any) -> Spec:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": rows},
        "background": "white",
        **parts,
    }


def _drawn(spec: Spec, ending: str) -> bytes:
    """Draw a specification in the format of an ending."""
    convert: Any = importlib.import_module("vl_convert")
    if ending == ".png":
        return bytes(convert.vegalite_to_png(spec, scale=2))
    if ending == ".svg":
        return str(convert.vegalite_to_svg(spec)).encode()
    return _page(spec, str(convert.javascript_bundle())).encode()


def _page(spec: Spec, scripts: str) -> str:
    """Build a page with a chart; its scripts are inside, so that it asks no network.

    Values come from data: without `<` none of them can end the block that it stands in.
    """
    data = msgspec.json.encode(spec).decode().replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Chart</title>'
        f"<script>{scripts}</script></head><body>"
        f'<div id="chart"></div><script type="application/json" id="spec">{data}</script>'
        '<script>vegaEmbed("#chart", JSON.parse(document.getElementById("spec").textContent), '
        '{renderer: "svg", actions: {export: true, source: false, compiled: false, editor: false}}'
        ").catch(console.error);</script></body></html>\n"
    )


def _write(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        message = f"could not write {name_of(str(path))}: {error.strerror or error}"
        raise WrongUseError(message) from None
    finally:
        temporary.unlink(missing_ok=True)
