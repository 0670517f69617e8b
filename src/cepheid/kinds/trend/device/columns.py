"""Read Arrow columns on the GPU, where the CPU would spend most of its time.

This is for queries over one partition whose types alone determine the effect of an event. Columns
are copied as they lie in Arrow, each once: dictionary indices become codes there, numbers become
weights and value keys, and times are checked: they must be sorted and, under TIES strict, all
different. The host only looks for the edges of windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.accelerator import linear
from cepheid.accelerator.kernels import columns as kernels
from cepheid.accelerator.lanes import Lane, turn
from cepheid.accelerator.room import events_at_once
from cepheid.accelerator.systems import system_of
from cepheid.accelerator.uploading import Chunks, encoded_chunks, plain_chunks, uploader
from cepheid.events.temporal import TIME_MAX
from cepheid.kinds.trend.device.summaries import summary_of
from cepheid.kinds.trend.program.job import UNKNOWN_CODE, Job
from cepheid.kinds.trend.windows.summaries import Summary, pane_window
from cepheid.language import tree
from cepheid.plans.plan import WindowKind

BLOCKS_MAX = 4096
BATCH_ROWS = 1 << 26
"""Events that are on the device at once."""

PANE_EVENTS_MIN = 64
"""Shorter panes are cut by the host, event by event."""

ALIKE = frozenset({"bindings", "values"})
WEIGHED = frozenset({"count", "sum"}) | ALIKE
WINDOWS = (WindowKind.NONE, WindowKind.TUMBLING, WindowKind.SLIDING)


def reads_directly(job: Job) -> bool:
    """Check whether types alone determine the effect of events, and columns are weights."""
    plan = job.plan
    return (
        not job.moduli
        and len(job.programs) == 1
        and len(job.variables) <= 8
        and plan.type is not None
        and not plan.local
        and not plan.partition.attributes
        and not plan.tiebreak
        and plan.window.kind in WINDOWS
        and all(part.what in WEIGHED for part in job.parts)
    )


class Read(NamedTuple):
    """The columns of a batch as they lie in Arrow, in chunks."""

    times: Chunks
    indices: Chunks
    codes: list[NDArray[np.uint8]]
    """The code of every text of the dictionary of each chunk of indices."""
    numbers: dict[str, Chunks]

    @property
    def length(self) -> int:
        """Return the number of events."""
        return sum(map(len, self.times))


def read_batch(job: Job, batch: pa.Table) -> Read | None:
    """Look at the columns of a batch without copying them; None if the CPU must read one."""
    names = {part.attribute for part in job.parts} | {one.attribute for one in job.extremes}
    read = read_named(job, batch, sorted(name for name in names if name is not None))
    if read is None or any(table[:-1].max(initial=0) >= UNKNOWN_CODE for table in read.codes):
        return None
    return read


def read_named(job: Job, batch: pa.Table, names: Sequence[str]) -> Read | None:
    """Look at times, types and columns of numbers; None if the CPU must read one."""
    plan = job.plan
    if not {plan.time, str(plan.type), *names} <= set(batch.column_names):
        return None
    times = plain_chunks(batch.column(plan.time), times=True)
    types = encoded_chunks(batch.column(str(plan.type)))
    numbers = {name: plain_chunks(batch.column(name)) for name in names}
    if times is None or types is None:
        return None
    found = {name: chunks for name, chunks in numbers.items() if chunks is not None}
    if len(found) < len(numbers):
        return None
    codes = [codes_of_types(job, chunk.dictionary.to_pylist()) for chunk in types]
    return Read(times, [chunk.indices.to_numpy() for chunk in types], codes, found)


def codes_of_types(job: Job, names: list[Any]) -> NDArray[np.uint8]:
    """Compute the code of every text of a dictionary of types, and one more for none of them."""
    types = [job.types[name] for name in job.variables]
    fits = [{str(name), tree.ANY_TYPE} for name in names]
    bits = [sum(1 << n for n, t in enumerate(types) if t in own) for own in fits]
    if job.looks_back:
        # Of one variable, an event is or is not.
        return np.array([*bits, 0], np.uint8)
    return job.byte_codes(job.programs[0])[np.array([*bits, 0], np.int64)]


class TableOnDevice:
    """Summarises the batches of a table on the device."""

    def __init__(self, job: Job, *, untied: bool) -> None:
        program = job.programs[0]
        self._job, self._untied = job, untied
        self._system = system_of(program, *job.columns_of(program))
        self._device = None if self._system is None else linear.DeviceSystem(self._system)
        self._lane = Lane()
        self._window = pane_window(job.plan.window)

    def summaries(self, table: pa.Table) -> Iterator[Summary | None]:
        """Summarise all events batch by batch; None where the CPU must read them."""
        before: int | None = None
        step = events_at_once(BATCH_ROWS)
        for first in range(0, len(table), step):
            read = read_batch(self._job, table.slice(first, step))
            if read is None or self._device is None:
                yield None
                return
            begin, last = int(read.times[0][0]), int(read.times[-1][-1])
            tied = before is not None and (begin < before or (begin == before and self._untied))
            bounds = None if tied else self._bounds(read, begin, last)
            yield None if bounds is None else self._summary(self._device, read, *bounds)
            before = last

    def _bounds(
        self, read: Read, first: int, last: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Find the panes that have events, as if times were sorted, and where each begins."""
        if max(-first, last) > TIME_MAX:
            return None
        if self._job.plan.window.kind is WindowKind.NONE:
            return np.array([0, read.length]), np.zeros(1, np.int64)
        length = self._window.pane
        low, high = first // length, last // length
        if not 0 <= high - low < max(read.length // PANE_EVENTS_MIN, 1):
            return None
        panes = np.arange(low, high + 1)
        places = [np.searchsorted(chunk, panes * length) for chunk in read.times]
        begins = np.append(np.sum(places, axis=0), read.length)
        some = begins[:-1] < begins[1:]
        return np.append(begins[:-1][some], read.length), panes[some]

    def _summary(
        self, device: linear.DeviceSystem, read: Read, bounds: NDArray[np.int64],
        panes: NDArray[np.int64],
    ) -> Summary | None:  # fmt: skip
        lane, sizes = self._lane, linear.default_sizes()
        length = read.length
        times = lane.room("times", (length,), np.int64)
        indices = lane.room("indices", (length,), read.indices[0].dtype)
        raw = {
            name: lane.room(f"raw {name}", (length,), chunks[0].dtype)
            for name, chunks in read.numbers.items()
        }
        uploader().put(
            [read.times, read.indices, *read.numbers.values()], [times, indices, *raw.values()]
        )
        with turn():
            verdict = lane.put("verdict", np.zeros(4, np.int32))
            grid = (min(-(-length // sizes.threads), BLOCKS_MAX), sizes.threads, lane.stream)
            kernels.check_times[grid](times, verdict)
            codes = self._codes(read, indices, grid)
            weights = self._weights(raw, length, grid, verdict)
            values = self._values(raw, length, grid, verdict)
            back, tied, unfit, taken = lane.get(verdict)
            if back or (tied and self._untied) or unfit or taken:
                return None
            numbers, least = linear.summarise(
                device, codes, weights, values, bounds, sizes, lane=lane
            )
        key = np.zeros(len(panes), np.int64)
        return summary_of(key, panes, numbers, least, device.system.starts)

    def _codes(self, read: Read, indices: Any, grid: tuple[Any, ...]) -> Any:
        """Look up the codes of all events, chunk by chunk, and pad them to whole words."""
        assert self._system is not None, "there is a system"
        lane, filler, length = self._lane, self._system.identity, read.length
        codes = lane.room("codes", (-(-length // 8) * 8,), np.uint8)
        begin = 0
        for place, (chunk, table) in enumerate(zip(read.indices, read.codes, strict=True)):
            end = begin + len(chunk)
            until = len(codes) if end == length else end
            there = lane.put(f"table {place % 64}", table)
            kernels.look_up[grid](indices[begin:end], there, filler, codes[begin:until])
            begin = end
        return codes

    def _weights(
        self, raw: dict[str, Any], length: int, grid: tuple[Any, ...], verdict: Any
    ) -> Any:
        parts = self._job.parts[1:]
        rows = self._lane.room("weights", (max(len(parts), 1), length if parts else 1), np.float64)
        for row, part in enumerate(parts):
            if part.what in ALIKE:
                kernels.weigh_alike[grid](rows[row])
            else:
                kernels.weigh[grid](raw[str(part.attribute)], rows[row], verdict)
        return rows

    def _values(self, raw: dict[str, Any], length: int, grid: tuple[Any, ...], verdict: Any) -> Any:
        extremes = self._job.extremes
        rows = self._lane.room(
            "values", (max(len(extremes), 1), length if extremes else 1), np.int64
        )
        for row, extreme in enumerate(extremes):
            column = raw[extreme.attribute]
            if column.dtype == np.float64:
                kernels.rank_doubles[grid](column.view(np.int64), extreme.largest, rows[row])
            else:
                kernels.rank_whole[grid](column, extreme.largest, rows[row], verdict)
        return rows
