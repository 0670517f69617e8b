"""The matrices of blocks: made from events or from other matrices, kept by number.

A matrix says what a stretch of events does to whatever came before it (``windows/summaries.py``);
there is one for each program and number format. Those of events come from the kernels that
summarise stretches, each block as a key of its own, and products from the kernel that composes
them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import EventArrays
from cepheid.events.temporal import LONG_AGO
from cepheid.kernels import compose
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import DOUBLE, LinearRun, Rows
from cepheid.kinds.trend.program.wide import wide_of
from cepheid.kinds.trend.windows.step import encode_events
from cepheid.kinds.trend.windows.summaries import (
    HUGE,
    Summary,
    one_pane,
    pane_window,
    runs_of,
)
from cepheid.plans.plan import WindowKind

Numbers = NDArray[np.int64]

CHUNK_BLOCKS = 1 << 14
"""So many matrices are made at once: a bound of memory."""


class Matrices:
    """The matrices of all nodes, for each program and number format."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._window = pane_window(job.plan.window)
        self._arrays: list[list[NDArray[Any]]] = [[] for _ in runs_of(job, one_pane(1))]
        self._count = 0
        self._free = np.zeros(0, np.int64)

    @property
    def runs(self) -> int:
        """Count the programs and number formats."""
        return len(self._arrays)

    def of_events(self, events: EventArrays, starts: Numbers) -> Numbers:
        """Make the matrices of blocks of events; each begins at a place; their numbers are keys."""
        nodes = self._take(len(starts))
        edges = np.append(starts, len(events.ts))
        for first in range(0, len(starts), CHUNK_BLOCKS):
            last = min(first + CHUNK_BLOCKS, len(starts))
            part = events.take(slice(int(edges[first]), int(edges[last])))
            # Times only tell which events are tied; a block is a pane that begins at 0.
            least = int(part.ts.min()) if len(part.ts) else 0
            part = part._replace(ts=part.ts - least, key=part.key - first)
            self._put(nodes[first:last], self._summarised(part, last - first))
        return nodes

    def _summarised(self, events: EventArrays, blocks: int) -> list[Summary]:
        found = []
        for run in runs_of(self.job, one_pane(HUGE)):
            run.grow(blocks)
            run.opened[:] = 0
            run.feed(encode_events(self.job, run.program, events, sort=False))
            found.append(_taken(run, blocks))
        return found

    def of_nodes(self, nodes: Numbers, block: Numbers, blocks: int) -> Numbers:
        """Multiply matrices block by block, in order."""
        made = self._take(blocks)
        cuts = np.searchsorted(block, np.arange(0, blocks + CHUNK_BLOCKS, CHUNK_BLOCKS))
        for turn, begin in enumerate(cuts[:-1]):
            first = turn * CHUNK_BLOCKS
            last = min(first + CHUNK_BLOCKS, blocks)
            here = slice(int(begin), int(cuts[turn + 1]))
            products = self._multiplied(nodes[here], block[here] - first, last - first)
            self._put(made[first:last], products)
        return made

    def _multiplied(self, nodes: Numbers, block: Numbers, blocks: int) -> list[Summary]:
        found = []
        for run, arrays in zip(
            runs_of(self.job, one_pane(1), wide=True), self._arrays, strict=True
        ):
            run.grow(blocks)
            run.opened[:] = 0
            panes = np.zeros(len(nodes), np.int64)
            summary = Summary(block, panes, *(array[nodes] for array in arrays))
            _compose(run, summary, 0, 1)
            found.append(_taken(run, blocks))
        return found

    def rows(self, key: Numbers, pane: Numbers, nodes: Numbers) -> list[list[Rows]]:
        """Compute the rows of windows from the matrices of their panes, by key and then pane."""
        found: list[list[Rows]] = []
        keys, window = int(key.max(initial=-1)) + 1, self._window
        until = (int(pane.max(initial=0)) + 1) * window.pane + window.within
        for run, arrays in zip(runs_of(self.job, window, wide=True), self._arrays, strict=True):
            rows: list[Rows] = []
            run.grow(keys)
            summary = Summary(key, pane, *(array[nodes] for array in arrays))
            begin = 0
            while begin < len(key):
                begin, some = _compose(run, summary, begin, window.slide // window.pane)
                rows.append(some)
            if len(key):
                rows += run.flush(HUGE if window.pane == HUGE else until)
            found.append([self._named(one) for one in rows])
        return found

    def _named(self, rows: Rows) -> Rows:
        """Rename the windows of rows as the plan does."""
        kind = self.job.plan.window.kind
        if kind is WindowKind.TUMBLING:
            return rows._replace(window=(rows.window - 1) * self._window.pane)
        if kind is WindowKind.NONE:
            return rows._replace(window=np.full(len(rows.window), LONG_AGO, np.int64))
        return rows

    def free(self, nodes: Numbers) -> None:
        """Let numbers be used again."""
        self._free = np.concatenate([self._free, nodes])

    def _take(self, count: int) -> Numbers:
        """Return unused numbers."""
        spare = self._free[: min(count, len(self._free))]
        self._free = self._free[len(spare) :]
        new = np.arange(self._count, self._count + count - len(spare))
        self._count += len(new)
        return np.concatenate([spare, new])

    def _put(self, nodes: Numbers, summaries: list[Summary]) -> None:
        for arrays, summary in zip(self._arrays, summaries, strict=True):
            if not arrays:
                arrays += [np.zeros((0, *new.shape[1:]), new.dtype) for new in summary[2:]]
            for place, new in enumerate(summary[2:]):
                if len(arrays[place]) < self._count:
                    longer = np.zeros((2 * self._count, *new.shape[1:]), new.dtype)
                    longer[: len(arrays[place])] = arrays[place]
                    arrays[place] = longer
                arrays[place][nodes] = new


def _taken(run: LinearRun, count: int) -> Summary:
    """Return the matrices of all keys of a run that is not used any more."""
    numbers = run.V[:count]
    if run.dtype == DOUBLE:
        numbers = wide_of(numbers, run.exponent[:count, None, None, :].astype(np.float64))
    keys = np.arange(count)
    return Summary(keys, keys, numbers, run.M[:count], run.start[:count])


def _compose(run: LinearRun, summary: Summary, begin: int, slide: int) -> tuple[int, Rows]:
    """Multiply matrices into the panes of their keys; return the next one, and rows."""
    out = run.rows_room()
    _, begin, rows = compose.compose_panes(
        run.program.tables().counts, run.V, run.M, run.start, run.one, run.exponent, run.opened,
        run.dirty, run.block, *summary, begin, slide, run.program.start_size, run.dtype.type(1),
        run.dtype.type(0), run.modulus, *out,
    )  # fmt: skip
    return begin, Rows(*(array[:rows] for array in out))
