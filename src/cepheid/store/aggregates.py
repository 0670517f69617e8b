"""Parse aggregates such as ``AVG(price)`` and window lengths such as ``15 minutes``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from cepheid.errors import DataError, Diagnostic, suggest_names
from cepheid.events.temporal import UNIT_MICROSECONDS, duration_us
from cepheid.store.blocks import is_summed
from cepheid.store.slices import Windows

_CALL = re.compile(r"\s*(COUNT|SUM|AVG|MIN|MAX)\s*\(\s*(\*|[^()]+?)\s*\)\s*", re.IGNORECASE)
_LENGTH = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµμ]+)\s*", re.IGNORECASE)


class Aggregate(NamedTuple):
    """A result column: a function and an attribute; COUNT(*) has none."""

    name: str
    function: str
    attribute: str | None


def read_aggregates(
    wanted: Iterable[str] | Mapping[str, str], schema: pa.Schema
) -> list[Aggregate]:
    """Parse aggregates from texts, or from a dict of texts by result column name.

    Raises
    ------
    ValueError
        If a text is no aggregate.
    DataError
        E505 if there is no such column, E506 if it cannot be aggregated.

    Examples
    --------
    >>> read_aggregates(["COUNT(*)", "avg(price)"], pa.schema([("price", pa.float64())]))[1]
    Aggregate(name='avg_price', function='AVG', attribute='price')
    """
    pairs: list[tuple[str | None, str]]
    if isinstance(wanted, Mapping):
        pairs = list(wanted.items())
    else:
        pairs = [(None, text) for text in ([wanted] if isinstance(wanted, str) else wanted)]
    return [_read(name, text, schema) for name, text in pairs]


def _read(name: str | None, text: str, schema: pa.Schema) -> Aggregate:
    match = _CALL.fullmatch(text)
    function = match[1].upper() if match else ""
    if match is None or (match[2] == "*" and function != "COUNT"):
        message = (
            f"an aggregate is COUNT(*) or COUNT, SUM, AVG, MIN or MAX of a column, not {text!r}"
        )
        raise ValueError(message)
    if match[2] == "*":
        return Aggregate(name or "count", function, None)
    attribute = match[2].strip("`")
    if attribute not in schema.names:
        helps = (suggest_names(attribute, schema.names, owner="the store"),)
        message = f"the store has no column `{attribute}`"
        raise DataError([Diagnostic("E505", message, helps=helps)])
    kind = schema.field(attribute).type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not is_summed(kind) or (function in ("SUM", "AVG") and not number):
        message = f"{function} of column `{attribute}` of type {kind} cannot be computed"
        helps = ("SUM and AVG take whole numbers and doubles, MIN, MAX and COUNT also times",)
        raise DataError([Diagnostic("E506", message, helps=helps)])
    return Aggregate(name or f"{function.lower()}_{attribute}", function, attribute)


class WindowSpec(NamedTuple):
    """Windows, and whether their lengths are numbers of events."""

    windows: Windows
    counted: bool

    def scaled(self, factor: int) -> WindowSpec:
        """Convert the windows to a unit that is ``factor`` times smaller."""
        within, slide = (length * factor for length in self.windows)
        if max(within, slide) > LENGTH_MAX:
            message = "a window is at most 2^60 ns long, the unit of the times of this store"
            raise ValueError(message)
        return WindowSpec(Windows(within, slide), self.counted)


LENGTH_MAX = 2**60
"""With a longer window, the edges of the first and the last windows would overflow 64 bits."""


def read_windows(within: Any, slide: Any) -> WindowSpec:
    """Parse windows from lengths such as ``"15 minutes"`` or ``"1000 events"``.

    Raises
    ------
    ValueError
        If a text is no length, or one length is of time and the other of events.

    Examples
    --------
    >>> read_windows("1 hour", "15 minutes")
    WindowSpec(windows=Windows(within=3600000000, slide=900000000), counted=False)
    >>> read_windows("100 events", None).windows
    Windows(within=100, slide=100)
    """
    length, counted = _length(within)
    step, step_counted = (length, counted) if slide is None else _length(slide)
    if counted is not step_counted:
        message = f"both lengths are of time or both of events, not {within!r} and {slide!r}"
        raise ValueError(message)
    return WindowSpec(Windows(length, step), counted)


def _length(value: Any) -> tuple[int, bool]:
    if isinstance(value, int):
        found: int | None = value
        counted = False
    else:
        match = _LENGTH.fullmatch(str(value))
        unit = match[2].lower() if match else ""
        counted = unit in ("event", "events")
        if match is None or not (counted or unit in UNIT_MICROSECONDS):
            message = f"a length is such as '15 minutes' or '1000 events', not {value!r}"
            raise ValueError(message)
        whole = match[1].isdigit()
        found = (int(match[1]) if whole else None) if counted else duration_us(match[1], unit)
    if found is None or not 1 <= found <= LENGTH_MAX:
        message = f"a window has a whole length of one or more, at most 2^60, not {value!r}"
        raise ValueError(message)
    return found, counted
