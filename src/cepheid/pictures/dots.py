"""Count events in lanes and bins of time, so that a picture of millions of them stays small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.errors import visible

BINS = 400
"""Bins of time, each about two dots wide."""
LANES_MAX = 40
TYPES_MAX = 9
"""Types that have a colour of their own; the rest is `other`."""
LABEL_MAX = 60
"""Characters of a label."""
OTHER = "other"


class Lanes(NamedTuple):
    """The attributes that lanes are made of, and the time and type of events."""

    by: tuple[str, ...]
    time: str
    type: str


def label(values: Sequence[object]) -> str:
    """Join the values of a lane, escaped and cut."""
    text = " ".join(visible("" if value is None else str(value)) for value in values)
    return text if len(text) <= LABEL_MAX else f"{text[: LABEL_MAX - 1]}…"


def count_dots(events: pa.Table, lanes: Lanes, kept: Sequence[str]) -> list[dict[str, Any]]:
    """Count events by lane, bin and type.

    Parameters
    ----------
    events
        The events; columns that are not there have no part.
    lanes
        What lanes are made of.
    kept
        The labels of lanes that have a place; others follow, the most frequent first, as far as
        there is room.
    """
    if lanes.time not in events.column_names or not len(events):
        return []
    times = events[lanes.time]
    known = events.filter(pc.is_valid(times)).combine_chunks()
    if not len(known):
        return []
    numbers = _numbers(known[lanes.time])
    first, last = float(numbers.min()), float(numbers.max())
    width = (last - first) / BINS or 1.0
    bins = np.minimum((numbers - first) // width, BINS - 1).astype(np.int32)
    by = [name for name in lanes.by if name in known.column_names]
    keys, labels = _codes(known, by)
    kinds, names = _types(known, lanes.type)
    grouped = pa.table({"lane": keys, "bin": bins, "type": kinds}).group_by(["lane", "bin", "type"])
    rows = grouped.aggregate([([], "count_all")]).to_pylist()
    chosen = _chosen(labels, keys, kept)
    at: Any = first + (np.arange(BINS) + 0.5) * width
    moments = _moments(at, known[lanes.time].type)
    return [
        {
            "lane": labels[row["lane"]],
            "time": moments[row["bin"]],
            "type": names[row["type"]],
            "events": row["count_all"],
        }
        for row in rows
        if labels[row["lane"]] in chosen
    ]


def _numbers(values: pa.ChunkedArray[Any]) -> Any:
    """Return times as doubles, which are exact enough for a picture."""
    kind: Any = values.type
    whole: Any = values
    if pa.types.is_temporal(kind):
        if pa.types.is_timestamp(kind):
            whole = values.cast(pa.timestamp("us", kind.tz), safe=False)
        whole = whole.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    return whole.to_numpy().astype(np.float64)


def _moments(numbers: Any, kind: Any) -> list[Any]:
    """Convert the middles of bins back to times as JSON has them."""
    if pa.types.is_timestamp(kind):
        stamps = numbers.astype(np.int64).astype("datetime64[us]")
        return [f"{stamp}+00:00" for stamp in np.datetime_as_string(stamps)]
    return [float(number) for number in numbers]


def _codes(events: pa.Table, by: list[str]) -> tuple[Any, list[str]]:
    """Give each event the number of its lane, and each lane a label."""
    if not by:
        return np.zeros(len(events), np.int32), ["all"]
    parts: list[Any] = [events[name].cast(pa.string()) for name in by]
    joined: Any = pc.binary_join_element_wise(
        *parts, "\x1f", null_handling="replace", null_replacement=""
    )
    encoded = joined.combine_chunks().dictionary_encode()
    labels = [label(text.split("\x1f")) for text in encoded.dictionary.to_pylist()]
    return encoded.indices.to_numpy().astype(np.int32), labels


def _types(events: pa.Table, column: str) -> tuple[Any, list[str]]:
    """Give each event the number of its type; types that are rare have the last one."""
    if column not in events.column_names:
        return np.zeros(len(events), np.int32), ["event"]
    texts: Any = events[column].cast(pa.string())
    encoded = texts.fill_null("").combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy()
    frequent = np.argsort(-np.bincount(codes), kind="stable")[:TYPES_MAX]
    place = np.full(len(encoded.dictionary), len(frequent), np.int32)
    place[frequent] = np.arange(len(frequent))
    names = [label([encoded.dictionary[int(code)].as_py()]) for code in frequent]
    return place[codes], [*names, OTHER]


def _chosen(labels: list[str], keys: Any, kept: Sequence[str]) -> set[str]:
    frequent = np.argsort(-np.bincount(keys, minlength=len(labels)), kind="stable")
    ordered = dict.fromkeys([*kept, *(labels[int(code)] for code in frequent)])
    return set(list(ordered)[:LANES_MAX])
