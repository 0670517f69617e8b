"""Summarise stretches of a stream as matrices, and multiply them in another task.

A sorted stretch of events is one linear map for every key and pane, whatever comes before it. So
tasks summarise stretches in parallel (``Summariser``), and one task composes them in time order
(``Composer``): the events themselves are not shuffled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, KeyTable, read_times
from cepheid.decoding import from_msgpack
from cepheid.events.temporal import LONG_AGO
from cepheid.kernels import compose, linear
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import (
    RESIDUE,
    SEMANTICS_CODES,
    WIDE,
    Events,
    LinearRun,
    Rows,
)
from cepheid.kinds.trend.program.partials import RowsOfRuns, key_table
from cepheid.kinds.trend.program.reading import read_arrays
from cepheid.kinds.trend.windows.step import PartitionState, encode_events
from cepheid.language import tree
from cepheid.plans.plan import WindowKind, WindowPlan

HUGE = 2**62
"""The one pane of a query without a window."""

PANE_EVENTS_MIN = 4096
"""Panes of at least this many events run one by one, with the fast kernels."""

ROOM = 1 << 12


class Summary(NamedTuple):
    """Matrices of one program: a row for every key and pane, in time order for each key."""

    key: NDArray[np.int64]
    pane: NDArray[np.int64]
    numbers: NDArray[Any]
    values: NDArray[np.int64]
    start: NDArray[np.int32]

    def take(self, rows: NDArray[Any]) -> Summary:
        """Select some of the rows."""
        return Summary(*(column[rows] for column in self))


class Stretch(msgspec.Struct):
    """The serialized summaries of a stretch: arrays with their shapes, keys as Arrow."""

    keys: bytes
    arrays: tuple[tuple[tuple[str, tuple[int, ...], bytes], ...], ...]


def pane_window(window: WindowPlan) -> WindowPlan:
    """Express a window in panes, with the same rows: each is a product of matrices."""
    if window.kind is WindowKind.SLIDING:
        return window
    return one_pane(HUGE if window.kind is WindowKind.NONE else window.within)


def one_pane(length: int) -> WindowPlan:
    """Build a window of consecutive panes."""
    return WindowPlan(WindowKind.SLIDING, length, length, length)


def runs_of(job: Job, window: WindowPlan, *, wide: bool = False) -> list[LinearRun]:
    """Create a run for every program and number format, with a matrix for every key."""
    runs = [
        LinearRun(program, window, job.columns_of(program), modulus)
        for program in job.programs
        for modulus in (0, *job.moduli)
    ]
    for run in runs:
        if wide and not run.modulus:
            run.widen()
    return runs


class Summariser:
    """Summarises the events of one stretch, in batches in time order.

    The panes are those of the query's windows, or of a length that divides these.
    """

    step_rows = 1
    """Smaller batches are concatenated first."""

    def __init__(self, job: Job, pane: int = 0) -> None:
        self.job = job
        self.state = PartitionState(job)
        self.runs = runs_of(job, one_pane(pane) if pane else pane_window(job.plan.window))
        self._sizes = [program.size for program in job.programs]
        self._held: pa.Table | None = None
        self._found: list[list[Summary]] = [[] for _ in self.runs]

    def feed(self, batch: pa.Table, *, last: bool = False) -> None:
        """Process a batch; events of the last time wait for others of the same time."""
        whole = batch if self._held is None else pa.concat_tables([self._held, batch])
        if not len(whole):
            return
        ready = len(whole)
        if self.job.plan.ties is tree.Ties.STRICT and not last:
            times = read_times(Columns(whole), self.job.plan.time)
            ready = int(np.searchsorted(times, times[-1], side="left"))
        self._held = whole.slice(ready) if ready < len(whole) else None
        arrays = read_arrays(self.job, self.state.keys, Columns(whole.slice(0, ready)))
        if not len(arrays.ts):
            return
        encoded: dict[int, Events] = {}
        for run, found in zip(self.runs, self._found, strict=True):
            if id(run.program) not in encoded:
                encoded[id(run.program)] = encode_events(self.job, run.program, arrays)
            run.grow(len(self.state.keys))
            self._feed_run(run, encoded[id(run.program)], found)

    def close(self) -> tuple[KeyTable, list[Summary]]:
        """Return the keys and, for each program and number format, its matrices."""
        if self._held is not None:
            self.feed(self._held.slice(0, 0), last=True)
        for program, size in zip(self.job.programs, self._sizes, strict=True):
            assert program.size == size, "a stretch met a class that was not known before"
        for run, found in zip(self.runs, self._found, strict=True):
            run.grow(1)
            found.append(take_open(run))
        return self.state.keys, joined(self._found)

    def _feed_run(self, run: LinearRun, events: Events, found: list[Summary]) -> None:
        if self.job.plan.window.kind is WindowKind.NONE:
            # One pane, which begins at 0: times only tell which events are tied.
            run.opened[:] = 0
            if events.ts[0] < 0:
                events = events._replace(ts=events.ts - events.ts[0])
            run.feed(events)
            run.dirty[events.key if run.keys > 1 else 0] = True
            return
        pane = events.ts // run.window.pane
        cuts = np.flatnonzero(np.diff(pane)) + 1
        if len(cuts) * PANE_EVENTS_MIN > len(pane):
            _run_panes(run, events, found)
            return
        for first, stop in zip([0, *cuts], [*cuts, len(pane)], strict=True):
            left = run.dirty & (run.opened != pane[first])
            if left.any():
                found.append(take_open(run))
            run.opened[:] = pane[first]
            part = Events(
                events.ts[first:stop],
                events.key[first:stop],
                events.codes[first:stop],
                events.weights[:, first:stop],
                events.values[:, first:stop],
                events.grouped,
            )
            run.feed(part)
            run.dirty[part.key] = True


def _matrices(run: LinearRun, rows: int) -> tuple[NDArray[Any], ...]:
    wide = RESIDUE if run.dtype == RESIDUE else WIDE
    _, size, parts, lanes = run.V.shape
    return (
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        np.zeros((rows, size, parts, lanes), wide),
        np.zeros((rows, size, run.M.shape[2], lanes), np.int64),
        np.zeros((rows, lanes), np.int32),
    )


def joined(found: Iterable[Sequence[Summary]]) -> list[Summary]:
    """Concatenate the matrices of stretches, for each number format."""
    return [
        Summary(*(np.concatenate(arrays) for arrays in zip(*own, strict=True))) for own in found
    ]


def take_open(run: LinearRun) -> Summary:
    """Take the matrices of all panes that have events, and reset the run."""
    keys = np.flatnonzero(run.dirty)
    out = _matrices(run, len(keys))
    unit, zero = run.dtype.type(1), run.dtype.type(0)
    out[0][:], out[1][:] = keys, run.opened[keys]
    compose.take_panes(
        run.V, run.M, run.start, run.one, run.exponent, keys, run.program.start_size, unit, zero,
        *out[2:],
    )  # fmt: skip
    run.dirty[:] = False
    return Summary(*out)


def _run_panes(run: LinearRun, events: Events, found: list[Summary]) -> None:
    """Summarise events of short panes in one loop."""
    run.fit(events.weights)
    begin = 0
    while True:
        tables = run.program.tables()
        letters = run.program.letters_of_codes()[events.codes]
        codes = events.codes.astype(np.int32, copy=False)
        out = _matrices(run, ROOM)
        status, begin, rows = compose.summarise_panes(
            tables, run.V, run.M, run.start, run.one, run.exponent, run.opened, run.dirty,
            events.ts, events.key, codes, letters, run.weights(events.weights), events.values,
            run.wcol, run.xcol, begin, run.window.pane, events.grouped,
            SEMANTICS_CODES[run.program.semantics], run.program.start_size,
            run.dtype.type(1), run.dtype.type(0), run.modulus, *out,
        )  # fmt: skip
        found.append(Summary(*(array[:rows] for array in out)))
        if status == linear.OK:
            return
        if status == linear.NARROW:
            run.widen()


class Composer:
    """Multiplies the summaries of consecutive stretches, and closes windows."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.keys = KeyTable(job.plan.partition.attributes)
        self._window = pane_window(job.plan.window)
        self._last = LONG_AGO
        self.runs = runs_of(job, self._window, wide=True)
        self._found: RowsOfRuns = [[] for _ in self.runs]

    @property
    def pane(self) -> int:
        """Return the length of the panes that windows consist of."""
        return self._window.pane

    def add(self, names: pa.Table, summaries: list[Summary]) -> None:
        """Add the summaries of the next stretch; ``names`` holds the values of its keys."""
        number = self.keys.number(Columns(names))
        for run, summary, found in zip(self.runs, summaries, self._found, strict=True):
            run.grow(len(self.keys))
            if len(summary.key):
                self._last = max(self._last, int(summary.pane.max()))
                self._compose(run, summary._replace(key=number[summary.key]), found)

    def finish(self, between: tuple[int, int] | None = None) -> RowsOfRuns:
        """Compute the rows of all windows, or of those that end after a time and by another one."""
        window = self._window
        until = (self._last + 1) * window.pane + window.within if window.pane < HUGE else HUGE
        if self._last > LONG_AGO:
            for run, found in zip(self.runs, self._found, strict=True):
                found += run.flush(until)
        wanted = self._found
        if between is not None:
            wanted = [[_ending(rows, window.pane, *between) for rows in own] for own in wanted]
        return [[self._renumber(rows) for rows in own] for own in wanted]

    def _compose(self, run: LinearRun, summary: Summary, found: list[Rows]) -> None:
        tables = run.program.tables()
        begin = 0
        while begin < len(summary.key):
            out = run.rows_room()
            _, begin, rows = compose.compose_panes(
                tables.counts, run.V, run.M, run.start, run.one, run.exponent, run.opened,
                run.dirty, run.block, *summary, begin, run.window.slide // run.window.pane,
                run.program.start_size, run.dtype.type(1), run.dtype.type(0), run.modulus, *out,
            )  # fmt: skip
            found.append(Rows(*(array[:rows] for array in out)))

    def _renumber(self, rows: Rows) -> Rows:
        """Rename the windows of rows as the plan does."""
        kind = self.job.plan.window.kind
        if kind is WindowKind.SLIDING:
            return rows
        if kind is WindowKind.TUMBLING:
            return rows._replace(window=(rows.window - 1) * self._window.pane)
        return rows._replace(window=np.full(len(rows.window), LONG_AGO, np.int64))


def _ending(rows: Rows, pane: int, since: int, until: int) -> Rows:
    ends = rows.window * pane
    kept = (ends > since) & (ends <= until)
    return Rows(*(column[kept] for column in rows))


def stretch_to_bytes(
    job: Job, keys: KeyTable, summaries: list[Summary], schema: pa.Schema, wanted: NDArray[np.bool_]
) -> bytes:
    """Serialize the summaries of some keys; empty if there are none."""
    number = np.cumsum(wanted) - 1
    taken = []
    for summary in summaries:
        rows = np.flatnonzero(wanted[summary.key])
        part = summary.take(rows)
        taken.append(part._replace(key=number[part.key]))
    if not any(len(part.key) for part in taken):
        return b""
    names = key_table(keys, np.flatnonzero(wanted), schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, names.schema) as writer:
        writer.write_table(names)
    arrays = tuple(
        tuple((a.dtype.str, a.shape, np.ascontiguousarray(a).tobytes()) for a in part)
        for part in taken
    )
    return msgspec.msgpack.encode(Stretch(sink.getvalue().to_pybytes(), arrays))


def stretch_from_bytes(data: bytes) -> tuple[pa.Table, list[Summary]]:
    """Deserialize the keys and summaries that ``stretch_to_bytes`` wrote."""
    stretch = from_msgpack(data, Stretch)
    summaries = [
        Summary(*(np.frombuffer(raw, dtype).reshape(shape) for dtype, shape, raw in arrays))
        for arrays in stretch.arrays
    ]
    return pa.ipc.open_stream(stretch.keys).read_all(), summaries
