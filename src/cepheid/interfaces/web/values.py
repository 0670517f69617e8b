"""Values of rows as JSON that a browser can show: hostile texts escaped, large numbers as text."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import Any

from cepheid.errors import visible

TEXT_MAX = 2_000
ITEMS_MAX = 200
WHOLE_MAX = 1 << 53
"""Larger whole numbers are not exact in JavaScript."""


def plain(value: Any) -> Any:
    r"""Convert a value to JSON: times to ISO 8601, what JSON lacks to text.

    Examples
    --------
    >>> plain({"x": float("nan"), "n": 2**60, "s": "a\x1b[2J"})
    {'x': 'NaN', 'n': '1152921504606846976', 's': 'a\\x1b[2J'}
    """
    match value:
        case None | bool():
            return value
        case int():
            return value if -WHOLE_MAX <= value <= WHOLE_MAX else str(value)
        case float():
            if math.isfinite(value):
                return value
            return "NaN" if math.isnan(value) else ("∞" if value > 0 else "−∞")
        case str():
            short = value if len(value) <= TEXT_MAX else f"{value[:TEXT_MAX]}…"
            return visible(short, keep="\n\t")
        case dt.datetime():
            return value.astimezone(dt.UTC).isoformat() if value.tzinfo else value.isoformat()
        case dt.date() | dt.time():
            return value.isoformat()
        case bytes():
            return f"0x{value[:64].hex()}" + "…" * (len(value) > 64)
        case Mapping():
            return {visible(str(key)): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value[:ITEMS_MAX]]
        case _:
            return visible(str(value)[:TEXT_MAX])
