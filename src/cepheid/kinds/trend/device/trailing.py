"""Windows without SLIDE on the GPU: one row for every time at which a match ends (§6.3)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.accelerator.linear import DeviceSystem
from cepheid.accelerator.systems import system_of
from cepheid.accelerator.trailing import TrailingEvents, trailing_windows
from cepheid.arrays.columns import Columns, EventArrays, KeyTable
from cepheid.kernels.columns import scan_times
from cepheid.kinds.trend.program.job import Job, lower
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.kinds.trend.program.reading import read_arrays
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.program.wide import fit_doubles
from cepheid.kinds.trend.windows.event_windows import sorted_by_key
from cepheid.kinds.trend.windows.step import encode_events
from cepheid.language import tree
from cepheid.plans.plan import TrendPlan


class DeviceTrailing:
    """A pattern query whose window moves with every event; each group is one partition."""

    in_order = True
    whole = True

    def __init__(self, plan: TrendPlan) -> None:
        # Where no two events of a key have one time, each is seen alone, as under TIES arrival.
        self._job = lower(msgspec.structs.replace(plan, ties=tree.Ties.ARRIVAL))

    def answer(self, events: pa.Table | pa.RecordBatchReader, *, forced: bool) -> pa.Table | None:
        """Aggregate all windows; None for ties, residues, and systems that are too large."""
        del forced
        assert isinstance(events, pa.Table), "all events are there"
        job = self._job
        if job.moduli:
            return None
        keys = KeyTable(job.plan.partition.attributes)
        arrays = sorted_by_key(read_arrays(job, keys, Columns(events)), len(keys))
        if has_ties(arrays) or not fit_doubles(arrays.weights, finite=True):
            return None
        found = [] if not len(arrays.ts) else run_trailing(job, arrays)
        return None if found is None else build_table(job, [found], keys, events.schema)

    def answer_streams(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Refuse: a pattern is about one stream."""
        raise AssertionError(tables)


def has_ties(arrays: EventArrays) -> bool:
    """Check whether two events of one key have the same time; events come by key."""
    ts, key = arrays.ts, arrays.key
    if not len(key) or key[0] == key[-1]:
        return bool(scan_times(ts)[1])
    return bool(((ts[1:] == ts[:-1]) & (key[1:] == key[:-1])).any())


def run_trailing(job: Job, arrays: EventArrays) -> list[Rows] | None:
    """Compute the rows of events by key; None if the system is too large for the device."""
    (program,) = job.programs
    events = encode_events(job, program, arrays, sort=False)
    system = system_of(program, *job.columns_of(program))
    if system is None:
        return None
    codes = events.codes if events.codes.dtype == np.uint8 else events.codes.astype(np.int32)
    own = TrailingEvents(codes, events.weights, events.values, events.ts, first_of(events.key))
    counts = np.asarray(program.tables().counts, np.bool_)
    found = trailing_windows(DeviceSystem(system), own, job.plan.window.within, counts)
    ends = found.ends
    return [Rows(events.key[ends], events.ts[ends], found.numbers, found.values)]


def first_of(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find for every event the first one of its key."""
    if key[0] == key[-1]:
        return np.zeros(len(key), np.int64)
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    return np.repeat(starts, np.diff(starts, append=len(key)))
