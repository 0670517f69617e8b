"""Small random streams for surveys and variances of matches: types, numbers, keys and groups."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

Event = dict[str, Any]

_COLUMNS: dict[str, pa.DataType] = {
    "ts": pa.int64(),
    "type": pa.string(),
    "x": pa.int64(),
    "y": pa.float64(),
    "k": pa.string(),
    "g": pa.int64(),
}


def random_events(chance: random.Random) -> list[Event]:
    """Draw up to nine events; some have equal times, and some no value."""
    events: list[Event] = []
    second = 0
    for _ in range(chance.randrange(10)):
        second += chance.choice((0, 1, 1, 2))
        event: Event = {"ts": second * 1_000_000, "type": chance.choice("AAABBC")}
        event |= {"x": chance.choice((0, 1, 2, -1, None)), "y": chance.choice((0.5, 1.0, 2.25))}
        events.append(event | {"k": chance.choice("pq"), "g": chance.choice((1, 2, None))})
    return events


def table_of(events: list[Event]) -> pa.Table:
    """Build a table whose columns do not depend on which values are drawn."""
    return pa.Table.from_pylist(events, pa.schema(_COLUMNS))


def numbered_table(events: list[Event]) -> pa.Table:
    """Build such a table with a column that numbers the events."""
    return table_of(events).append_column("number", pa.array(range(len(events)), pa.int64()))
