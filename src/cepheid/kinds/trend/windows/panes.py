"""Panes of a live query without partitions: summarised in parallel, multiplied when needed.

Every bucket has its own panes and keeps their matrices until all windows that contain them are
closed. When the watermark passes the ends of windows, each bucket emits the matrices of these
windows, and one task multiplies them in time order. Panes of few events are kept and sent as
events, so the state and the traffic are never much larger than the events.

An event costs O(edges x lanes), as in every stretch; a window that closes O(panes x size^3), with
at most ``LIVE_PANES_MAX`` panes, however many events there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

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
    """The panes of one bucket: a matrix each, in time order, for every number format.

    A pane of few events keeps the events, as long as they are smaller than a matrix.
    """

    def __init__(self, job: Job, pane: int, events: pa.Table, summaries: list[Summary]) -> None:
        self.job, self.pane = job, pane
        self.events, self.summaries = events, summaries

    @staticmethod
    def start(job: Job, pane: int, schema: pa.Schema) -> LivePanes:
        """Create the panes before the first event."""
        none = Summariser(job, pane).close()[1]
        return LivePanes(job, pane, schema.empty_table(), none)

    def feed(self, fresh: pa.Table) -> LivePanes:
        """Add events, which come in time order, to the panes."""
        events = pa.concat_tables([self.events, fresh])
        if not len(events):
            return self
        panes = read_times(Columns(events), self.job.plan.time) // self.pane
        edges = np.concatenate([[0], np.flatnonzero(np.diff(panes)) + 1, [len(panes)]])
        counts = np.diff(edges)
        dense = counts >= self._few()
        # Time advances, so only the last pane that has a matrix can get more events.
        dense |= np.isin(panes[edges[:-1]], self.summaries[0].pane[-1:])
        if not dense.any():
            return LivePanes(self.job, self.pane, events, self.summaries)
        ready, few = events, events.slice(0, 0)
        if not dense.all():
            chosen = np.repeat(dense, counts)
            ready, few = events.filter(pa.array(chosen)), events.filter(pa.array(~chosen))
        made = [self.summaries, summarised(self.job, self.pane, ready)]
        return LivePanes(
            self.job, self.pane, few, _multiplied(self.job, joined(zip(*made, strict=True)))
        )

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
        return LivePanes(self.job, self.pane, events, kept)

    def __len__(self) -> int:
        return len(self.summaries[0].pane) + len(self.events)

    def parts(self) -> tuple[bytes, bytes]:
        """Serialize events and matrices."""
        keys, every = KeyTable(()), np.ones(1, np.bool_)
        matrices = stretch_to_bytes(self.job, keys, self.summaries, self.events.schema, every)
        return pack_table(self.events) if len(self.events) else b"", matrices

    @staticmethod
    def of_parts(
        job: Job, pane: int, schema: pa.Schema, parts: Iterable[tuple[bytes, bytes]]
    ) -> LivePanes:
        """Combine the panes of one or several buckets; no two buckets share a pane."""
        whole = LivePanes.start(job, pane, schema)
        tables, made = [whole.events], [whole.summaries]
        for events, matrices in parts:
            tables += [unpack_table(events)] if events else []
            made += [stretch_from_bytes(matrices)[1]] if matrices else []
        return LivePanes(job, pane, pa.concat_tables(tables), joined(zip(*made, strict=True)))

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
            # All events of a pane are from one bucket, and in order there.
            panes = read_times(Columns(self.events), job.plan.time) // self.pane
            events = self.events.take(np.argsort(panes, kind="stable"))
            made.append(summarised(job, self.pane, events))
        whole = []
        for summary in joined(zip(*made, strict=True)):
            ordered = summary.take(np.argsort(summary.pane, kind="stable"))
            whole.append(ordered._replace(pane=ordered.pane * self.pane // composer.pane))
        composer.add(key_table(KeyTable(()), np.arange(1), self.events.schema), whole)
        return composer.finish((since, until)), composer.keys


def summarised(job: Job, pane: int, events: pa.Table) -> list[Summary]:
    """Compute the matrices of panes from events in time order."""
    summariser = Summariser(job, pane)
    for begin in range(0, len(events), STEP_ROWS):
        summariser.feed(events.slice(begin, STEP_ROWS))
    return summariser.close()[1]


def _multiplied(job: Job, summaries: list[Summary]) -> list[Summary]:
    """Multiply matrices of the same pane; one that continued in this micro-batch has two."""
    found = []
    for run, summary in zip(runs_of(job, one_pane(1), wide=True), summaries, strict=True):
        panes, number = np.unique(summary.pane, return_inverse=True)
        if len(panes) == len(number):
            found.append(summary)
            continue
        # Each pane becomes a key, and all are open: matrices of one key are multiplied.
        run.grow(len(panes))
        run.opened[:] = 0
        compose.compose_panes(
            run.program.tables().counts, run.V, run.M, run.start, run.one, run.exponent,
            run.opened, run.dirty, run.block, number.astype(np.int64), np.zeros_like(summary.pane),
            *summary[2:], 0, 1, run.program.start_size, run.dtype.type(1), run.dtype.type(0),
            run.modulus, *run.rows_room(),
        )  # fmt: skip
        product = take_open(run)
        found.append(product._replace(key=np.zeros_like(panes), pane=panes[product.key]))
    return found
