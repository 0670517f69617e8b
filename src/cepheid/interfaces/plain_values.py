"""Values of rows as plain JSON: hostile texts escaped and cut, what JSON lacks as text."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import Any

from cepheid.errors import visible

TEXT_MAX = 2_000
"""Characters of a text."""
ITEMS_MAX = 200
"""Items of a list."""
WHOLE_MAX = 1 << 53
"""Larger whole numbers are texts, because many readers of JSON take numbers as doubles."""


def plain_value(value: Any) -> Any:
    r"""Convert a value to what JSON has: times to ISO 8601, and texts without control characters.

    Examples
    --------
    >>> plain_value({"x": float("nan"), "n": 2**60, "s": "a\x1b[2J"})
    {'x': 'NaN', 'n': '1152921504606846976', 's': 'a\\x1b[2J'}
    """
    match value:
        case None | bool():
            return value
        case int():
            return value if abs(value) <= WHOLE_MAX else str(value)
        case float():
            return value if math.isfinite(value) else {"nan": "NaN"}.get(str(value), str(value))
        case str():
            return plain_text(value)
        case dt.datetime():
            return (value.astimezone(dt.UTC) if value.tzinfo else value).isoformat()
        case dt.date() | dt.time():
            return value.isoformat()
        case bytes():
            return f"0x{value[:64].hex()}{'…' * (len(value) > 64)}"
        case Mapping():
            return {plain_text(str(key)): plain_value(one) for key, one in value.items()}
        case list() | tuple():
            more = [f"… {len(value) - ITEMS_MAX:,} more"] if len(value) > ITEMS_MAX else []
            return [*(plain_value(one) for one in value[:ITEMS_MAX]), *more]
        case _:
            return plain_text(str(value))


def plain_text(text: str) -> str:
    """Escape and cut a text; line breaks and tabs stay."""
    short = text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
    return visible(short, keep="\n\t")
