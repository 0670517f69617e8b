"""Run a query in several threads of one process: each owns a range of time.

The windows of different ranges are independent, so a thread gets the events of its range and, on
either side, those that its windows reach. Kernels and Arrow release Python's lock. Short streams
and queries whose windows reach far run in one thread.

    time      |------ range 1 ------|------ range 2 ------|--- rest ---
    thread 1   =====================++
    thread 2                         =====================++
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.jobs.owned import EVERYTHING, Owned
from cepheid.kernels.columns import scan_times
from cepheid.memory_limits import collect

RANGE_ROWS = 1 << 20
"""Events of a range: large enough to hide the cost of a thread, small enough to share evenly."""

HEAVY_RANGE_ROWS = 1 << 18
"""The same where an event costs so much that fewer of them hide the cost of a thread."""

RANGE_REACHES = 4
"""The minimum ratio of a range to what its thread reads beyond it."""

WAITING_ROWS_MAX = 16 << 20
"""If no range ends within so many events, one thread runs over the rest."""


class OwnedJob(Protocol):
    """A query whose windows can be computed in ranges of time."""

    @property
    def reach(self) -> tuple[int, int] | None:
        """Return the overlap of windows before and after a range; None if it cannot be split."""

    @property
    def stride(self) -> int:
        """Return of which number the bounds of ranges are multiples."""

    @property
    def is_heavy(self) -> bool:
        """Check whether an event costs so much that short ranges are worth a thread."""

    def fresh(self) -> OwnedJob:
        """Create the same query for another thread."""

    def answer_owned(
        self, batches: Iterable[pa.Table], schema: pa.Schema, owned: Owned
    ) -> pa.Table:
        """Compute the rows of the windows in a range, in their order."""


class Range(NamedTuple):
    """A range of time, and the events that its windows need."""

    owned: Owned
    tables: Iterable[pa.Table]


def thread_count() -> int:
    """Count the threads that a query may use: as many as Arrow (``pyarrow.set_cpu_count``)."""
    return pa.cpu_count()


def range_rows(*, heavy: bool) -> int:
    """Choose the number of events of a range."""
    return min(HEAVY_RANGE_ROWS, RANGE_ROWS) if heavy else RANGE_ROWS


def is_one_range(event_count: int, *, heavy: bool) -> bool:
    """Check whether so few events are never cut into ranges."""
    return event_count <= range_rows(heavy=heavy)


def answer_side_by_side(
    job: OwnedJob, batches: Iterable[pa.Table], schema: pa.Schema, time: str
) -> pa.Table:
    """Run a query over batches in time order, with threads where they help."""
    reach, threads = job.reach, thread_count()
    if reach is None or threads == 1:
        return job.answer_owned(batches, schema, EVERYTHING)
    rows = range_rows(heavy=job.is_heavy)
    ranges = cut_ranges(iter(batches), time, reach, rows, job.stride)
    first = next(ranges)
    if first.owned.end is None:
        return job.answer_owned(first.tables, schema, first.owned)
    tables = collect(_in_threads(job, chain([first], ranges), schema, threads))
    return pa.concat_tables([table for table in tables if len(table)] or tables[:1])


def _in_threads(
    job: OwnedJob, ranges: Iterable[Range], schema: pa.Schema, threads: int
) -> Iterator[pa.Table]:
    """Yield the rows of ranges in order; one more range than threads is in work."""
    running: deque[_Running] = deque()
    try:
        for owned, tables in ranges:
            own = job.fresh()
            # In the list before it starts: Ctrl-C may come at any time.
            running.append(_Running(partial(own.answer_owned, tables, schema, owned)))
            running[-1].start()
            if len(running) > threads:
                yield running[0].result()
                running.popleft()
        while running:
            yield running[0].result()
            running.popleft()
    finally:
        for one in running:
            one.abandon()


class _Running:
    """A function that runs in a thread.

    The thread does not keep the process alive, and nobody waits for one that is abandoned: Ctrl-C
    ends a query at once, though a signal reaches only the main thread.
    """

    def __init__(self, answer: Callable[[], pa.Table]) -> None:
        self._future: Future[pa.Table] = Future()
        self._is_abandoned = False
        # Limits and what is noticed about events are those of the caller.
        inside = partial(copy_context().run, self._run, answer)
        self._thread = threading.Thread(target=inside, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self, answer: Callable[[], pa.Table]) -> None:
        if self._is_abandoned:
            return
        try:
            self._future.set_result(answer())
        except BaseException as error:  # The caller raises it.
            self._future.set_exception(error)

    def result(self) -> pa.Table:
        """Wait for the result; raise what the function raised."""
        return self._future.result()

    def abandon(self) -> None:
        """Let the thread end behind the kernel that it is in."""
        self._is_abandoned = True
        # A thread without a number has not begun, and will see that nobody waits for it.
        if not self._future.done() and self._thread.ident is not None:
            stop = ctypes.py_object(SystemExit)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident), stop)


class _Piece(NamedTuple):
    table: pa.Table
    times: NDArray[np.int64]

    def between(self, low: int | None, high: int | None) -> _Piece:
        """Select the events of a range of time."""
        begin = 0 if low is None else int(np.searchsorted(self.times, low))
        end = len(self.times) if high is None else int(np.searchsorted(self.times, high))
        return _Piece(self.table.slice(begin, max(end - begin, 0)), self.times[begin:end])


def cut_ranges(
    batches: Iterator[pa.Table], time: str, reach: tuple[int, int], rows: int,
    stride: int = 1,
) -> Iterator[Range]:  # fmt: skip
    """Cut a stream into ranges of time of about ``rows`` events; the last one takes the rest.

    Bounds are multiples of ``stride``, so that windows which begin there reach into no other range.

    Events that are not in order end the cutting, so that the query reports them.
    """
    before, after = reach
    held: list[_Piece] = []
    begin: int | None = None
    for table in batches:
        piece = _Piece(table, read_times(Columns(table), time))
        in_order = scan_times(piece.times)[0] < 0 and not _falls(held, piece)
        held.append(piece)
        if not in_order or sum(len(one.times) for one in held) > WAITING_ROWS_MAX + rows:
            break
        while (end := _end_of(held, begin, reach, stride, rows)) is not None:
            low = None if begin is None else begin - before
            tables = [one.between(low, end + after).table for one in held]
            yield Range(Owned(begin, end), [one for one in tables if len(one)] or tables[:1])
            kept = [one.between(end - before, None) for one in held]
            held, begin = [one for one in kept if len(one.times)], end
    yield Range(Owned(begin, None), chain([one.table for one in held], batches))


def _falls(held: list[_Piece], piece: _Piece) -> bool:
    known = [one for one in held if len(one.times)]
    return bool(known and len(piece.times)) and piece.times[0] < known[-1].times[-1]


def _end_of(
    held: list[_Piece], begin: int | None, reach: tuple[int, int], stride: int, left: int
) -> int | None:
    """Choose the end of a range if it has enough events and all that its windows need are there."""
    own = [one.between(begin, None).times for one in held]
    own = [times for times in own if len(times)]
    for times in own:
        if len(times) > left:
            first = int(own[0][0]) if begin is None else begin
            end = max(int(times[left]), first + max(RANGE_REACHES * sum(reach), 1))
            end = -(-end // stride) * stride
            return end if end + reach[1] <= int(own[-1][-1]) else None
        left -= len(times)
    return None
