"""A result table in, bars of text out."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pyarrow as pa

BAR_COLUMNS = 40
ROWS_SHOWN_MAX = 40
LOGARITHMIC_FROM = 1000.0
"""Where the largest number is so many times the smallest, bars show digits instead."""

_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar_chart(table: pa.Table, value: str) -> str:
    """Return one bar for every row: groups and window on the left, the number on the right."""
    rows = table.slice(0, ROWS_SHOWN_MAX).to_pylist()
    numbers = [float(row[value] or 0) for row in rows]
    known = [n for n in numbers if n > 0 and math.isfinite(n)]
    if not known:
        return ""
    scale = max(known) / min(known) > LOGARITHMIC_FROM
    largest = _length(max(known), logarithmic=scale)
    labels = [_label(row, value) for row in rows]
    width = max(map(len, labels))
    lines = [f"{value}{', bars on a logarithmic scale' if scale else ''}"]
    for label, number in zip(labels, numbers, strict=True):
        part = _length(number, logarithmic=scale) / largest if largest else 0.0
        lines.append(f"{label:<{width}} {_bar(min(part, 1.0))} {number:.4g}")
    return "\n".join(lines)


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
    return f"{item:%H:%M}" if isinstance(item, dt.datetime) else str(item)
