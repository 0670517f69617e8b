"""Panes of a live query, or of its hot keys: summarised in parallel, multiplied when needed.

Every bucket has its own panes and keeps their matrices until all windows that contain them are
closed. When the watermark passes the ends of windows, each bucket emits the matrices of these
windows, and one task multiplies them in time order. Panes of few events are kept and sent as
events, so the state and the traffic are never much larger than the events.

An event costs O(edges x lanes), as in every stretch; a window that closes O(panes x size^3), with
at most ``LIVE_PANES_MAX`` panes, however many events there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, KeyTable, read_times
from cepheid.events.temporal import FOREVER, LONG_AGO
from cepheid.jobs.state_format import Format, Meant, meaning_of, read_own, text_of, write_state
from cepheid.jobs.tables import pack_table, unpack_table
from cepheid.kernels import compose
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.partials import RowsOfRuns, key_table
from cepheid.kinds.trend.windows.summaries import (
    Composer,
    Summariser,
    Summary,
    joined,
    one_pane,
    runs_of,
    stretch_from_bytes,
    stretch_to_bytes,
    take_open,
)
from cepheid.plans.plan import WindowPlan

FORMAT = Format("panes", 2, "a query")

EVENT_BYTES = 32
"""The approximate size of an event in a state or a shuffle."""

STEP_ROWS = 1 << 18

MakesSummariser = Callable[[Job, int], Summariser]
"""Creates the summariser of a job, for panes of a length."""


class _Panes(Meant):
    """The panes of a bucket, as they are stored in its state."""

    events: bytes
    matrices: bytes


class Closing(NamedTuple):
    """The windows that end after one watermark and by the next one."""

    since: int
    until: int
    begin: int
    """The begin of the first window and the end of the last one."""
    end: int
    kept: int
    """The begin of the first window that stays open."""


def closing(window: WindowPlan, before: int | None, until: int) -> Closing | None:
    """Find the windows that a watermark closes; None if it closes none."""
    slide = window.slide or window.within
    last = (until - window.within) // slide
    since = LONG_AGO if before is None else before
    begin = LONG_AGO
    if before is not None:
        first = (before - window.within) // slide + 1
        if first > last:
            return None
        begin = first * slide
    return Closing(since, until, begin, last * slide + window.within, (last + 1) * slide)


class LivePanes:
    """The panes of one bucket: a matrix for each key, in time order, for every number format.

    A pane in which a key has few events keeps these, as long as they are smaller than a matrix.
    """

    def __init__(
        self, job: Job, pane: int, events: pa.Table, keys: KeyTable, summaries: list[Summary]
    ) -> None:
        self.job, self.pane = job, pane
        self.events, self.keys, self.summaries = events, keys, summaries

    @staticmethod
    def start(job: Job, pane: int, schema: pa.Schema) -> LivePanes:
        """Create the panes before the first event."""
        none = Summariser(job, pane).close()[1]
        keys = KeyTable(job.plan.partition.attributes)
        return LivePanes(job, pane, schema.empty_table(), keys, none)

    def feed(self, fresh: pa.Table, make: MakesSummariser = Summariser) -> LivePanes:
        """Add events, which come in time order, to the panes; tasks may have a GPU for that."""
        events = pa.concat_tables([self.events, fresh])
        if not len(events):
            return self
        panes = read_times(Columns(events), self.job.plan.time) // self.pane
        number = self.keys.number(Columns(events))
        base, count = int(panes[0]), len(self.keys)
        pairs, place, counts = _pairs((panes - base) * count + number, sorted_=count == 1)
        # Time advances, so only a pane that goes on has a matrix and gets more events.
        first = self.summaries[0]
        dense = counts >= self._few()
        dense |= np.isin(pairs, ((first.pane - base) * count + first.key)[first.pane >= base])
        if not dense.any():
            return LivePanes(self.job, self.pane, events, self.keys, self.summaries)
        ready, few = events, events.slice(0, 0)
        if not dense.all():
            chosen = dense[place]
            ready, few = events.filter(pa.array(chosen)), events.filter(pa.array(~chosen))
        made = [self.summaries, summarised(self.job, self.pane, ready, self.keys, make)]
        whole = _multiplied(self.job, joined(zip(*made, strict=True)), len(self.keys))
        return LivePanes(self.job, self.pane, few, self.keys, whole)

    def _few(self) -> float:
        """Compute the number of events from which a matrix is smaller."""
        first = self.summaries[0]
        return sum(a.dtype.itemsize * np.prod(a.shape[1:]) for a in first[2:]) / EVENT_BYTES

    def between(self, begin: int, end: int = FOREVER) -> LivePanes:
        """Select the panes that begin in a time range."""
        kept = []
        for summary in self.summaries:
            starts = summary.pane * self.pane
            kept.append(summary.take(np.flatnonzero((starts >= begin) & (starts < end))))
        panes = read_times(Columns(self.events), self.job.plan.time) // self.pane * self.pane
        events = self.events.filter(pa.array((panes >= begin) & (panes < end)))
        return LivePanes(self.job, self.pane, events, self.keys, kept)

    def __len__(self) -> int:
        return len(self.summaries[0].pane) + len(self.events)

    def parts(self) -> tuple[bytes, bytes]:
        """Serialize events and matrices."""
        used = np.zeros(len(self.keys), np.bool_)
        used[self.summaries[0].key] = True
        matrices = stretch_to_bytes(self.job, self.keys, self.summaries, self.events.schema, used)
        return pack_table(self.events) if len(self.events) else b"", matrices

    @staticmethod
    def of_parts(
        job: Job, pane: int, schema: pa.Schema, parts: Iterable[tuple[bytes, bytes]]
    ) -> LivePanes:
        """Combine the panes of one or several buckets; no two of them share a pane of a key."""
        whole = LivePanes.start(job, pane, schema)
        tables, made = [whole.events], [whole.summaries]
        for events, matrices in parts:
            tables += [unpack_table(events)] if events else []
            if matrices:
                names, summaries = stretch_from_bytes(matrices)
                made.append(renumbered(summaries, whole.keys.number(Columns(names))))
        found = joined(zip(*made, strict=True))
        return LivePanes(job, pane, pa.concat_tables(tables), whole.keys, found)

    def to_bytes(self) -> bytes:
        """Serialize the panes as a state."""
        return write_state(FORMAT, _Panes(self._meaning(), *self.parts()))

    def read(self, data: bytes) -> LivePanes:
        """Deserialize panes that ``to_bytes`` wrote for the same query.

        Raises
        ------
        DataError
            E524 if the bytes are no panes, of another version, or of another query; E546 if they
            are damaged.
        """
        texts = (*text_of(self.job.plan), str(self.pane))
        saved = read_own(FORMAT, data, _Panes, self._meaning(), texts)
        parts = [(saved.events, saved.matrices)]
        return LivePanes.of_parts(self.job, self.pane, self.events.schema, parts)

    def _meaning(self) -> tuple[str, ...]:
        return meaning_of(self.job.plan), str(self.pane)

    def rows(self, since: int, until: int) -> tuple[RowsOfRuns, KeyTable]:
        """Compute the rows of the windows that end after a time and by another one."""
        job, composer = self.job, Composer(self.job)
        made = [self.summaries]
        if len(self.events):
            # All events of a pane of a key are from one bucket, and in order there.
            times = read_times(Columns(self.events), job.plan.time)
            events = self.events.take(np.argsort(times, kind="stable"))
            made.append(summarised(job, self.pane, events, self.keys))
        whole = []
        for summary in joined(zip(*made, strict=True)):
            ordered = summary.take(np.argsort(summary.pane, kind="stable"))
            whole.append(ordered._replace(pane=ordered.pane * self.pane // composer.pane))
        every = np.arange(len(self.keys))
        composer.add(key_table(self.keys, every, self.events.schema), whole)
        return composer.finish((since, until)), composer.keys


def summarised(
    job: Job, pane: int, events: pa.Table, keys: KeyTable, make: MakesSummariser = Summariser
) -> list[Summary]:
    """Compute the matrices of panes from events in time order; keys get the numbers of a table."""
    summariser = make(job, pane)
    rows = max(STEP_ROWS, summariser.step_rows)
    for begin in range(0, len(events), rows):
        summariser.feed(events.slice(begin, rows))
    found, summaries = summariser.close()
    names = key_table(found, np.arange(len(found)), events.schema)
    return renumbered(summaries, keys.number(Columns(names)))


def renumbered(summaries: list[Summary], number: NDArray[np.int64]) -> list[Summary]:
    """Give the keys of matrices other numbers."""
    return [summary._replace(key=number[summary.key]) for summary in summaries]


def _pairs(codes: NDArray[np.int64], *, sorted_: bool) -> tuple[Any, Any, Any]:
    """Return the distinct codes, the place of each event's code among them, and their counts."""
    if not sorted_:
        return np.unique(codes, return_inverse=True, return_counts=True)
    edges = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]])
    counts = np.diff(edges)
    return codes[edges[:-1]], np.repeat(np.arange(len(counts)), counts), counts


def _multiplied(job: Job, summaries: list[Summary], keys: int) -> list[Summary]:
    """Multiply matrices of a key in the same pane; one that goes on has two."""
    found = []
    for run, summary in zip(runs_of(job, one_pane(1), wide=True), summaries, strict=True):
        base = int(summary.pane.min(initial=FOREVER))
        codes = (summary.pane - base) * keys + summary.key
        pairs, number = np.unique(codes, return_inverse=True)
        if len(pairs) == len(number):
            found.append(summary)
            continue
        # Each pair becomes a key, and all are open: matrices of one key are multiplied.
        run.grow(len(pairs))
        run.opened[:] = 0
        compose.compose_panes(
            run.program.tables().counts, run.V, run.M, run.start, run.one, run.exponent,
            run.opened, run.dirty, run.block, number.astype(np.int64), np.zeros_like(summary.pane),
            *summary[2:], 0, 1, run.program.start_size, run.dtype.type(1), run.dtype.type(0),
            run.modulus, *run.rows_room(),
        )  # fmt: skip
        product = take_open(run)
        pane, key = np.divmod(pairs[product.key], keys)
        found.append(product._replace(key=key, pane=pane + base))
    return found
