"""Panes of a live query without partitions: summarised side by side, put together when needed.

Every bucket has panes of its own and keeps their matrices until all windows that they are
in are closed. When the watermark passes the ends of windows, each bucket gives the matrices of
these windows, and one task multiplies them in the order of time.

An event costs O(edges x lanes), as in every stretch; a window that closes O(panes x size^3), with
at most ``LIVE_PANES_MAX`` panes, however many events there are.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.engine.events import KeyTable
from cepheid.engine.job import Job
from cepheid.engine.partials import RowsOfRuns
from cepheid.engine.runs import LONG_AGO
from cepheid.engine.summaries import (
    Composer,
    Summariser,
    Summary,
    one_pane,
    runs_of,
    stretch_from_bytes,
    stretch_to_bytes,
    take_open,
)
from cepheid.engine.versions import Versioned, read_versioned
from cepheid.kernels import compose
from cepheid.planner.plan import WindowPlan

PANES_VERSION = 1
"""Goes up whenever old bytes can no longer be read."""


class _Panes(Versioned):
    """The panes of a bucket, as they lie in its state."""

    stretch: bytes


def place_panes(times: NDArray[np.int64], pane: int, buckets: int) -> NDArray[np.int64]:
    """Return the bucket of each event's pane.

    Numbers are mixed, since events of whole seconds may have only panes of even numbers.
    """
    mixed = (times // pane).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(32)) % np.uint64(buckets)).astype(np.int64)


class Closing(NamedTuple):
    """The windows that end after one watermark and by the next one."""

    since: int
    until: int
    begin: int
    """Where the first of them begins, and the last one ends."""
    end: int
    kept: int
    """Where the first window begins that stays open."""


def closing(window: WindowPlan, before: int | None, until: int) -> Closing | None:
    """Return the windows that a watermark closes, or None if it closes none."""
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
    """The panes of one bucket: a matrix each, in the order of time, for every kind of numbers."""

    def __init__(self, job: Job, pane: int, summaries: list[Summary] | None = None) -> None:
        self.job, self.pane = job, pane
        self.summaries = summaries

    def __len__(self) -> int:
        return len(self.summaries[0].pane) if self.summaries else 0

    def feed(self, events: list[pa.Table]) -> LivePanes:
        """Return the panes after events, which come in the order of time."""
        summariser = Summariser(self.job, self.pane)
        for table in events:
            summariser.feed(table)
        _, fresh = summariser.close()
        if self.summaries is not None:
            pairs = zip(self.summaries, fresh, strict=True)
            fresh = [
                Summary(*(np.concatenate([a, b]) for a, b in zip(kept, new, strict=True)))
                for kept, new in pairs
            ]
        return LivePanes(self.job, self.pane, _multiplied(self.job, fresh))

    def between(self, begin: int, end: int | None = None) -> LivePanes:
        """Return the panes that begin in a range of time."""
        if self.summaries is None:
            return self
        kept = []
        for summary in self.summaries:
            starts = summary.pane * self.pane
            wanted = starts >= begin
            if end is not None:
                wanted &= starts < end
            kept.append(summary.take(np.flatnonzero(wanted)))
        return LivePanes(self.job, self.pane, kept)

    def stretch(self, schema: pa.Schema) -> bytes:
        """Return the matrices as bytes, or nothing if there are none."""
        if not len(self):
            return b""
        keys = KeyTable(())
        return stretch_to_bytes(self.job, keys, self.summaries or [], schema, np.ones(1, np.bool_))

    def to_bytes(self, schema: pa.Schema) -> bytes:
        """Return the panes as a state."""
        saved = _Panes(PANES_VERSION, (self.job.plan.text,), self.stretch(schema))
        return msgspec.msgpack.encode(saved)

    @staticmethod
    def from_bytes(job: Job, pane: int, data: bytes) -> LivePanes:
        """Return what ``to_bytes`` wrote.

        Raises
        ------
        ValueError
            If the bytes are no panes, of another version, or of another query.
        """
        saved = read_versioned(data, _Panes, PANES_VERSION, (job.plan.text,), "a query")
        if not saved.stretch:
            return LivePanes(job, pane)
        return LivePanes(job, pane, stretch_from_bytes(saved.stretch)[1])


def put_together(
    job: Job, pane: int, stretches: list[bytes], since: int, until: int
) -> tuple[RowsOfRuns, KeyTable]:
    """Return the rows of the windows that end after a time and by another one.

    The stretches are those of all buckets, each with panes of its own.
    """
    composer = Composer(job)
    read = [stretch_from_bytes(data) for data in stretches if data]
    if read:
        names = read[0][0]
        whole = []
        for parts in zip(*(summaries for _, summaries in read), strict=True):
            summary = Summary(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
            ordered = summary.take(np.argsort(summary.pane, kind="stable"))
            whole.append(ordered._replace(pane=ordered.pane * pane // composer.pane))
        composer.add(names, whole)
    return composer.finish((since, until)), composer.keys


def _multiplied(job: Job, summaries: list[Summary]) -> list[Summary]:
    """Return one matrix for each pane; one that went on in this micro-batch has two."""
    found = []
    for run, summary in zip(runs_of(job, one_pane(1), wide=True), summaries, strict=True):
        panes, number = np.unique(summary.pane, return_inverse=True)
        if len(panes) == len(number):
            found.append(summary)
            continue
        # A key for each pane, all of which are open: matrices of one key are multiplied.
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
