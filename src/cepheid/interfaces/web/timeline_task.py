"""Prepare the events of a data set for a timeline: sorted by time, with numbers of lanes and types.

Arrays go to files of the task's folder, which the server maps into memory and cuts into tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns as EventColumns
from cepheid.arrays.columns import read_times
from cepheid.errors import visible
from cepheid.events.nanoseconds import is_nanoseconds
from cepheid.interfaces.data_sets import Columns, DataSet
from cepheid.interfaces.reading import batches_of, schema_of
from cepheid.interfaces.web.requests import TimelineTask

TIMES, LANES, TYPES = "times.npy", "lanes.npy", "types.npy"
TYPES_MAX = 11
"""Types that have a colour; all others share one."""
LANES_TOLD_MAX = 5_000
LABEL_MAX = 60


class Numbered:
    """Numbers for values of a column, in the order in which they first come."""

    def __init__(self) -> None:
        self.values: dict[Any, int] = {}

    def of(self, column: Any) -> NDArray[np.int32]:
        """Give each value of a batch its number."""
        texts = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        encoded: Any = texts.dictionary_encode(null_encoding="encode")
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        known = [
            self.values.setdefault(v, len(self.values)) for v in encoded.dictionary.to_pylist()
        ]
        numbers = np.asarray(known, np.int32)
        if not len(numbers):
            return np.zeros(len(encoded), np.int32)
        places: NDArray[np.int32] = encoded.indices.to_numpy(zero_copy_only=False)
        return numbers[places]


def micros_of(table: pa.Table, time: str) -> NDArray[np.int64]:
    """Read times in microseconds, or as the whole numbers that they are."""
    times = read_times(EventColumns(table), time)
    return times // 1000 if is_nanoseconds(table.column(time).type) else times


def build_timeline(task: TimelineTask, progress: Callable[[int], None]) -> dict[str, Any]:
    """Sort the events of a data set by time, and write their times, lanes and types."""
    columns = task.columns
    schema = schema_of(task.data, columns)
    kind = columns.type if columns.type in schema.names else None
    key = task.key if task.key in schema.names else None
    parts = _read(task.data, columns, (key, kind), progress)
    times, lanes, types, keys, kinds = parts
    if len(times) and bool((times[1:] < times[:-1]).any()):
        order = np.argsort(times, kind="stable")
        times, lanes, types = times[order], lanes[order], types[order]
    types, named = _fewer_types(types, kinds)
    folder = Path(task.folder)
    np.save(folder / TIMES, times)
    np.save(folder / LANES, lanes)
    np.save(folder / TYPES, types)
    counts = np.bincount(lanes, minlength=max(1, len(keys)))
    labels = [label_of(value) for value in keys] or ["events"]
    return {
        "events": len(times),
        "key": key,
        "lanes": labels[:LANES_TOLD_MAX],
        "counts": counts.tolist()[:LANES_TOLD_MAX],
        "types": named,
        "dates": not pa.types.is_integer(schema.field(columns.time).type),
    }


def _read(
    data: DataSet,
    columns: Columns,
    names: tuple[str | None, str | None],
    progress: Callable[[int], None],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], list[Any], list[Any]]:
    key, kind = names
    wanted = [columns.time, *(name for name in names if name is not None)]
    numbered = {name: Numbered() for name in names if name is not None}
    found: list[list[NDArray[Any]]] = [[], [], []]
    for table in batches_of(data, columns, wanted, progress):
        held = table.filter(pc.is_valid(table.column(columns.time)))
        found[0].append(micros_of(held, columns.time))
        for place, name in ((1, key), (2, kind)):
            none = np.zeros(len(held), np.int32)
            found[place].append(none if name is None else numbered[name].of(held.column(name)))
    whole = [np.concatenate(one) if one else np.zeros(0, np.int64) for one in found]
    values = [list(numbered[name].values) if name is not None else [] for name in names]
    return whole[0], whole[1], whole[2], values[0], values[1]


def _fewer_types(types: NDArray[Any], kinds: list[Any]) -> tuple[NDArray[np.uint8], list[str]]:
    """Give the commonest types the numbers from 0 on, and all others the next one."""
    if not kinds:
        return np.zeros(len(types), np.uint8), ["event"]
    counts = np.bincount(types, minlength=len(kinds))
    common = np.argsort(-counts, kind="stable")[:TYPES_MAX]
    numbers = np.full(len(kinds), len(common), np.uint8)
    numbers[common] = np.arange(len(common))
    named = [label_of(kinds[place]) for place in common]
    return numbers[types], named + ["other"] * (len(kinds) > len(common))


def label_of(value: Any) -> str:
    """Write a value as a short text without control characters."""
    text = visible(str("NULL" if value is None else value))
    return text if len(text) <= LABEL_MAX else text[: LABEL_MAX - 1] + "…"
