"""Read the columns of a trend with an edge predicate on the device, as they lie in Arrow.

This is for one partition, types alone that choose the events, and a comparison of two columns. The
host looks only for the edges of windows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.grouping import grid_of
from cepheid.accelerator.kernels import columns as kernels
from cepheid.accelerator.kernels.compaction import gather_kernel
from cepheid.accelerator.selecting import rows_on_device
from cepheid.accelerator.uploading import upload_columns, uploader
from cepheid.events.temporal import TIME_MAX
from cepheid.kernels.ranks import OPERATORS
from cepheid.kinds.trend.device.columns import ALIKE, WEIGHED, WINDOWS, Read, read_named
from cepheid.kinds.trend.device.trends import Compared, Segments, Trends, windows_of
from cepheid.kinds.trend.program.job import Job
from cepheid.language import tree

CHOSEN = ("known", 0, 0)
"""The form of the condition that an event is of the variable."""


def compared_columns(job: Job) -> tuple[str, str] | None:
    """Find the columns of the earlier and of the later event that are compared."""
    plan = job.plan
    separation = plan.edges[0].separation if len(plan.edges) == 1 else None
    if separation is None or not _reads_types_only(job):
        return None
    names = [
        side.attribute.text for side in (separation.prev, separation.next)
        if isinstance(side, tree.Attribute)
    ]  # fmt: skip
    return (names[0], names[1]) if len(names) == 2 else None


def _reads_types_only(job: Job) -> bool:
    plan = job.plan
    return (
        plan.type is not None
        and len(job.variables) == 1
        and not plan.local
        and not plan.partition.attributes
        and not plan.tiebreak
        and plan.window.kind in WINDOWS
        and all(part.what in WEIGHED for part in job.parts)
    )


def read_columns(job: Job, table: pa.Table) -> Trends | None:
    """Copy the columns of a table to the device; None if the host must read them."""
    compared = compared_columns(job)
    if compared is None or not len(table):
        return None
    weighed = [str(part.attribute) for part in job.parts[1:] if part.what not in ALIKE]
    ranked = [extreme.attribute for extreme in job.extremes]
    read = read_named(job, table, sorted({*compared, *weighed, *ranked}))
    if read is None:
        return None
    kinds = {read.numbers[name][0].dtype for name in compared}
    times = read.times[0] if len(read.times) == 1 else np.concatenate(read.times)
    if len(kinds) > 1 or max(-int(times[0]), int(times[-1])) > TIME_MAX:
        return None
    return _Reading(job, read, times).trends(*compared)


class _Reading:
    """The columns of a table, which become those of trends."""

    def __init__(self, job: Job, read: Read, times: NDArray[np.int64]) -> None:
        self._job, self._read, self._times = job, read, times
        self._grid = grid_of(len(times))
        self._verdict = cuda.to_device(np.zeros(4, np.int32))

    def trends(self, earlier: str, later: str) -> Trends | None:
        """Build the trends; None without any, or if times are out of order, or tied with effect."""
        job, read = self._job, self._read
        there = upload_columns([[self._times], *read.numbers.values()], len(self._times))
        columns = {name: there.whole[row + 1] for row, name in enumerate(read.numbers)}
        kernels.check_times[self._grid](there.whole[0], self._verdict)
        rows = self._chosen()
        # The host looks up windows in sorted times, so it asks for the verdict first.
        back, tied, _, _ = self._verdict.copy_to_host()
        none = rows is not None and not len(rows)
        if none or back or (tied and job.plan.ties is tree.Ties.STRICT):
            return None
        segments = self._segments(rows)
        if rows is not None:
            columns = {name: _gathered(column, rows) for name, column in columns.items()}
        length = len(self._times) if rows is None else len(rows)
        weights, values = self._weights(columns, length), self._values(columns, length)
        _, _, unfit, taken = self._verdict.copy_to_host()
        if unfit or taken:
            return None
        keys = {name: self._keys(columns[name], name) for name in {earlier, later}}
        before = cuda.device_array(length, np.int64)
        kernels.count_off[grid_of(length)](before)
        zeros = np.broadcast_to(np.int64(0), (length,))
        operator = OPERATORS[job.plan.edges[0].separation.operator]  # type: ignore[union-attr]  # the caller has looked
        compared = (Compared(keys[earlier], keys[later], operator),)
        return Trends(zeros, weights, values, compared, before, segments)

    def _chosen(self) -> Any:
        """Find the events of the variable; None for all of them."""
        read = self._read
        if all(codes[:-1].all() for codes in read.codes):
            return None
        indices = cuda.device_array(read.length, read.indices[0].dtype)
        uploader().put([read.indices], [indices])
        flags = cuda.device_array((1, read.length), np.uint8)
        begin = 0
        for chunk, codes in zip(read.indices, read.codes, strict=True):
            end = begin + len(chunk)
            kernels.look_up[self._grid](
                indices[begin:end], cuda.to_device(codes), 0, flags[0][begin:end]
            )
            begin = end
        rows = rows_on_device((flags, flags, flags), CHOSEN, read.length)
        return cuda.device_array(0, np.int64) if rows is None else rows

    def _segments(self, rows: Any) -> Segments:
        """Build all windows that have events of the variable."""
        found = windows_of(self._job.plan.window, self._times, 0)
        if rows is None:
            return found
        edges = cuda.to_device(np.stack([found.begin, found.end]))
        kernels.find_places[grid_of(2 * len(found.begin))](rows, edges)
        begin, end = edges.copy_to_host()
        some = begin < end
        return Segments(begin[some], end[some], found.window[some])

    def _weights(self, columns: dict[str, Any], length: int) -> Any:
        """Build the weights of the parts after the count."""
        parts = self._job.parts[1:]
        rows = cuda.device_array((max(len(parts), 1), max(length, 1)), np.float64)
        grid = grid_of(length)
        for place, part in enumerate(parts):
            row = rows[place]
            if part.what in ALIKE:
                kernels.weigh_alike[grid](row)
            else:
                name = str(part.attribute)
                kernels.weigh[grid](self._typed(columns[name], name), row, self._verdict)
        return rows

    def _values(self, columns: dict[str, Any], length: int) -> Any:
        """Build the keys of minima and maxima."""
        extremes = self._job.extremes
        if not extremes:
            return np.zeros((0, length), np.int64)
        rows = cuda.device_array((len(extremes), length), np.int64)
        grid = grid_of(length)
        for row, extreme in enumerate(extremes):
            column, largest = columns[extreme.attribute], extreme.largest
            if self._is_double(extreme.attribute):
                kernels.rank_doubles[grid](column, largest, rows[row])
            else:
                kernels.rank_whole[grid](column, largest, rows[row], self._verdict)
        return rows

    def _keys(self, column: Any, name: str) -> Any:
        """Build keys that compare as the values do."""
        if not self._is_double(name):
            return column
        keys = cuda.device_array(len(column), np.int64)
        kernels.rank_doubles[grid_of(len(column))](column, False, keys)
        return keys

    def _typed(self, column: Any, name: str) -> Any:
        return column.view(np.float64) if self._is_double(name) else column

    def _is_double(self, name: str) -> bool:
        return bool(self._read.numbers[name][0].dtype == np.float64)


def _gathered(column: Any, rows: Any) -> Any:
    out = cuda.device_array(len(rows), np.int64)
    if len(rows):
        gather_kernel[grid_of(len(rows))](column, rows, out)
    return out
