"""Draw a result table as text: bars of numbers, or situations on a timeline."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cepheid.errors import visible

BAR_COLUMNS = 40
TIME_COLUMNS = 60
ROWS_SHOWN_MAX = 40
LOGARITHMIC_FROM = 1000.0
"""If the maximum is more than this multiple of the minimum, bars are logarithmic."""

_EIGHTHS = " ▏▎▍▌▋▊▉"
_LEVELS = "▁▂▃▄▅▆▇█"


def bar_chart(table: pa.Table, value: str) -> str:
    """Draw one bar for every row: groups and window on the left, the number on the right."""
    rows = table.slice(0, ROWS_SHOWN_MAX).to_pylist()
    numbers = [float(row[value] or 0) for row in rows]
    known = [n for n in numbers if n > 0 and math.isfinite(n)]
    if not known:
        return ""
    scale = max(known) / min(known) > LOGARITHMIC_FROM
    largest = _length(max(known), logarithmic=scale)
    labels = [_label(row, value) for row in rows]
    width = max(map(len, labels))
    lines = [f"{visible(value)}{', bars on a logarithmic scale' if scale else ''}"]
    for label, number in zip(labels, numbers, strict=True):
        part = _length(number, logarithmic=scale) / largest if largest else 0.0
        lines.append(f"{label:<{width}} {_bar(min(part, 1.0))} {number:.4g}")
    return "\n".join(lines)


def bars(labels: Sequence[str], numbers: Sequence[float]) -> str:
    """Draw one bar for every label, with its number."""
    most, width = max([*numbers, 1]), max(map(len, labels))
    pairs = zip(labels, numbers, strict=True)
    return "\n".join(f"{name:<{width}} {_bar(n / most)} {n:,.0f}" for name, n in pairs)


def sparkline(numbers: Sequence[float], *, logarithmic: bool = False) -> str:
    """Draw numbers as one line of characters, the least as a low one.

    Examples
    --------
    >>> sparkline([0, 1, 2, 4]), sparkline([0, 10, 10**6], logarithmic=True)
    ('·▂▄█', '·▂█')
    """
    heights = [math.log10(n + 1) if logarithmic and n > 0 else max(n, 0) for n in numbers]
    most = max([*heights, 0.0])
    return "".join(
        _LEVELS[max(0, math.ceil(h / most * len(_LEVELS)) - 1)] if h > 0 else "·" for h in heights
    )


def _length(number: float, *, logarithmic: bool) -> float:
    if not logarithmic or number <= 0:
        return max(number, 0.0)
    return math.log2(number + 1) if math.isfinite(number) else math.inf


def _bar(part: float) -> str:
    eighths = max(1, round(part * BAR_COLUMNS * 8)) if part > 0 else 0
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def _label(row: dict[str, Any], value: str) -> str:
    names = [name for name in row if name not in (value, "window_end")]
    shown = [row[name] for name in names if not isinstance(row[name], float)]
    return " ".join(_text(item) for item in shown)


def _text(item: Any) -> str:
    return f"{item:%H:%M}" if isinstance(item, dt.datetime) else visible(str(item))


def timeline(situations: pa.Table, *, marks: pa.Table | None = None) -> str:
    """Draw situations on a timeline: one line for each partition and definition.

    Parameters
    ----------
    situations
        The result of a query with SITUATIONS.
    marks
        The result of a query with PATTERN over the same partitions; ``^`` marks the time at which
        a match became certain.
    """
    rows = situations.to_pylist()
    if not rows:
        return ""
    names = situations.column_names[: situations.column_names.index("situation")]
    first, last = min(row["ts"] for row in rows), max(row["te"] for row in rows)
    lines: dict[tuple[Any, ...], list[str]] = {}
    for row in sorted(rows, key=lambda row: ([str(row[n]) for n in names], row["situation"])):
        key = tuple(row[name] for name in names)
        line = lines.setdefault((*key, row["situation"]), ["·"] * TIME_COLUMNS)
        begin, end = _column(row["ts"], first, last), _column(row["te"], first, last)
        line[begin : max(end, begin + 1)] = "█" * max(end - begin, 1)
    for row in [] if marks is None else marks.to_pylist():
        key = tuple(row[name] for name in names)
        below = [place for place in lines if place[:-1] == key]
        if below:
            line = lines.setdefault((*key, "match"), [" "] * TIME_COLUMNS)
            line[_column(row["ts"], first, last)] = "^"
    order = sorted(lines, key=lambda place: ([str(p) for p in place[:-1]], place[-1] == "match"))
    labels = [" ".join(_text(item) for item in place) for place in order]
    width = max(map(len, labels))
    shown = [f"{name:<{width}} {''.join(lines[p])}" for name, p in zip(labels, order, strict=True)]
    return "\n".join([f"{'':<{width}} {_ends(first, last)}", *(line.rstrip() for line in shown)])


def _column(time: Any, first: Any, last: Any) -> int:
    part = (time - first) / (last - first) if last > first else 0.0
    return min(int(part * TIME_COLUMNS), TIME_COLUMNS - 1)


def _ends(first: Any, last: Any) -> str:
    left, right = (f"{t:%H:%M:%S}" if isinstance(t, dt.datetime) else str(t) for t in (first, last))
    return f"{left}{right:>{TIME_COLUMNS - len(left)}}"
