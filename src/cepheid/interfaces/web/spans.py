"""Rows of a result as spans on a timeline: matches, situations, and the events of BLAME."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cepheid.interfaces.web.timeline_task import label_of, micros_of
from cepheid.pictures.blame import is_blame

SPANS_MAX = 5_000


def spans_of(table: pa.Table, time: str, key: str | None) -> dict[str, Any]:
    """List the spans of a result: begin, end, lane, label and row, the first of them.

    Events of matches tell their lane; situations do if the key is one of their columns. Events of
    BLAME also have their share; those of the largest shares are listed, which lie above others.
    """
    if is_blame(table):
        return {"spans": _blame(table, time, key), "total": len(table), "kind": "event"}
    kind = "match" if has_matches(table) else "situation"
    if has_matches(table):
        spans = _matches(table.slice(0, SPANS_MAX), time, key)
    elif {"situation", "ts", "te"} <= set(table.column_names):
        spans = _situations(table.slice(0, SPANS_MAX), key)
    else:
        return {"spans": [], "total": 0, "kind": ""}
    return {"spans": spans, "total": len(table), "kind": kind}


def has_matches(table: pa.Table) -> bool:
    """Check whether the rows are matches: lists of events."""
    if "events" not in table.column_names:
        return False
    kind = table.schema.field("events").type
    return pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)


def _matches(table: pa.Table, time: str, key: str | None) -> list[list[Any]]:
    """Read the first and the last event of every match."""
    lists: Any = table.column("events").combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)
    lengths = pc.list_value_length(lists).to_pylist()
    events = pc.list_flatten(lists)
    times = micros_of(pa.table({time: pc.struct_field(events, [time])}), time)
    kind = events.type
    has_key = key is not None and kind.get_field_index(key) >= 0
    keys = pc.struct_field(events, [key]) if has_key else None
    spans, place = [], 0
    for row, length in enumerate(lengths):
        lane = label_of(keys[place].as_py()) if keys is not None else "events"
        inside = times[place : place + length].tolist()
        spans.append([inside[0], inside[-1], lane, f"match {row + 1}", row, inside[:50]])
        place += length
    return spans


def _blame(table: pa.Table, time: str, key: str | None) -> list[list[Any]]:
    """Read the events of the largest shares, the largest one last."""
    order: Any = pc.sort_indices(table, sort_keys=[("share", "descending")])
    rows = order[:SPANS_MAX][::-1]
    best = table.take(rows)
    events = best.column("event")
    if events.type.get_field_index(time) < 0:
        return []
    times = micros_of(pa.table({time: pc.struct_field(events, [time])}), time).tolist()
    has_key = key is not None and events.type.get_field_index(key) >= 0
    keys = pc.struct_field(events, [key]).to_pylist() if has_key else ["events"] * len(best)
    shares = best.column("share").to_pylist()
    return [
        [at, at, label_of(lane), f"share {share:.3g}", row, [], share]
        for at, lane, share, row in zip(times, keys, shares, rows.to_pylist(), strict=True)
    ]


def _situations(table: pa.Table, key: str | None) -> list[list[Any]]:
    begins, ends = micros_of(table, "ts").tolist(), micros_of(table, "te").tolist()
    names = table.column("situation").to_pylist()
    keys = table.column(key).to_pylist() if key in table.column_names else None
    return [
        [begin, end, label_of(keys[row]) if keys else "events", label_of(names[row]), row, []]
        for row, (begin, end) in enumerate(zip(begins, ends, strict=True))
    ]
