"""A sweep on a GPU: every value of its parameters is a thread, in every key and window.

Where the values are not those of conditions on single events, each has a query, and HAVING chooses
among the rows of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from cepheid.accelerator.linear import DeviceSystem
from cepheid.accelerator.sweeping import Swept, SweptEvents, sweep_segments, sweep_steps
from cepheid.accelerator.systems import system_of
from cepheid.arrays.columns import Columns
from cepheid.events.temporal import LONG_AGO
from cepheid.jobs.kind import kind_of
from cepheid.kernels.compose import add_rows
from cepheid.kinds.sweep.leaves import Leaves
from cepheid.kinds.sweep.local import LocalSweep, Piece
from cepheid.kinds.sweep.run import OnePass
from cepheid.kinds.sweep.segments import firsts, numbered
from cepheid.kinds.sweep.steps import Ints
from cepheid.kinds.trend.program.linear_state import NO_VALUE
from cepheid.kinds.trend.program.results import Added, build_added, groups_of
from cepheid.kinds.trend.program.wide import fit_doubles
from cepheid.kinds.trend.windows.step import encode_events
from cepheid.language import tree
from cepheid.plans.plan import Plan, TrendPlan, WindowKind
from cepheid.plans.sweep import SweepPlan

STEPS_PER_SECOND = 1e11
STEPS_OF_A_THREAD = 1e7
CPU_EVENT_SECONDS = 1.5e-6
"""Rates of an H200, of one of its threads, and of the CPU, which takes all values at once."""


class DeviceSweep:
    """A sweep of queries that a GPU runs."""

    in_order = True
    whole = True

    def __init__(self, plan: SweepPlan) -> None:
        self._plan, self._local = plan, LocalSweep(plan)

    def answer(self, events: pa.Table | pa.RecordBatchReader, *, forced: bool) -> pa.Table | None:
        """Run over a sorted table; None for ties, large systems, or where the CPU is faster."""
        assert isinstance(events, pa.Table), "all events are there"
        pieces = []
        for one in self._plan.plans:
            piece = self._piece(one, events, forced=forced)
            if piece is None:
                return None
            pieces.append(piece)
        return self._local.united(self._local.with_each(iter(pieces)), events.schema)

    def _piece(self, one: Plan, events: pa.Table, *, forced: bool) -> Piece | None:
        """Compute the rows of one query, for all values that are in it."""
        if self._plan.thresholds:
            return SweptThere(self._plan, TrendPlan.of(one)).piece(events, forced=forced)
        rows = kind_of(one).device_job(one).answer(events, forced=forced)
        return None if rows is None else Piece(rows, {})

    def answer_streams(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Refuse: a pattern is about one stream."""
        raise AssertionError(tables)


class SweptThere(OnePass):
    """A query with one or two conditions on a parameter, over a whole table, on the device."""

    def __init__(self, sweep: SweepPlan, plan: TrendPlan) -> None:
        self._strict = plan.ties is tree.Ties.STRICT
        super().__init__(sweep, msgspec.structs.replace(plan, ties=tree.Ties.ARRIVAL))

    def piece(self, table: pa.Table, *, forced: bool) -> Piece | None:
        """Compute the rows of all values; None if the CPU should do it."""
        leaves = self.leaves_of(Columns(table)) if len(table) else None
        if leaves is None:
            return Piece(*self.finish(table.schema))
        key, ts = leaves.arrays.key, leaves.arrays.ts
        if self._strict and ((ts[1:] == ts[:-1]) & (key[1:] == key[:-1])).any():
            return None
        if not fit_doubles(leaves.arrays.weights, finite=True):
            return None
        owner, window, begin, end = self._segments(key, ts)
        sides = [len(scale.values) for scale in self.scales]
        steps = (end - begin).astype(np.float64)
        taken = steps.sum() * np.prod(sides) / STEPS_PER_SECOND + steps.max() / STEPS_OF_A_THREAD
        if not forced and len(sides) > 1 and taken > CPU_EVENT_SECONDS * len(ts):
            return None
        found = self._swept(leaves, begin, end)
        return None if found is None else self._piece(found, owner, window, table.schema)

    def _segments(self, key: Ints, ts: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Find the windows of all keys that have events: key, window, first event and end."""
        plan = self.job.plan.window
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        found: list[tuple[Any, ...]] = []
        for first, last in zip(starts, np.append(starts[1:], len(key)), strict=True):
            times = ts[first:last]
            if plan.kind is WindowKind.NONE:
                found.append(([LONG_AGO], [first], [last], [key[first]]))
                continue
            slide = plan.slide or plan.within
            low, high = (times[0] - plan.within) // slide + 1, times[-1] // slide
            begins = np.arange(low, high + 1) * slide
            at = np.searchsorted(times, begins)
            to = np.searchsorted(times, begins + plan.within)
            some = at < to
            sliding = plan.kind is WindowKind.SLIDING
            name = (begins + plan.within) // plan.pane if sliding else begins
            same = np.full(int(some.sum()), key[first])
            found.append((name[some], first + at[some], first + to[some], same))
        window, begin, end, owner = (np.concatenate(part) for part in zip(*found, strict=True))
        return owner, window, begin, end

    def _swept(self, leaves: Leaves, begin: Ints, end: Ints) -> list[Swept] | None:
        """Run all segments for all values."""
        arrays, scales = leaves.arrays, self.scales
        codes = []
        for which in range(1 << len(scales)):
            bits = arrays.bits
            for number, scale in enumerate(scales):
                if not which >> number & 1:
                    bits = bits & ~bits.dtype.type(scale.mask)
            passed = encode_events(self.job, self.program, arrays._replace(bits=bits), sort=False)
            codes.append(passed.codes.astype(np.int32, copy=False))
        system = system_of(self.program, *self.job.columns_of(self.program))
        if system is None:
            return None
        ranks = (*leaves.ranks, np.zeros(1, np.int64))
        below = (*(scale.below for scale in scales), True)
        events = SweptEvents(
            np.stack(codes), arrays.weights, arrays.values, (ranks[0], ranks[1]),
            (below[0], below[1]),
        )  # fmt: skip
        sides = (*(len(scale.values) for scale in scales), 1)
        counts = np.asarray(self.program.tables().counts, np.bool_)
        device = DeviceSystem(system)
        if len(scales) == 1:
            relevant = arrays.bits & arrays.bits.dtype.type(scales[0].mask) != 0
            parts = sweep_steps(device, events, begin, end, sides[0], counts, relevant)
        else:
            parts = sweep_segments(device, events, begin, end, (sides[0], sides[1]), counts)
        found: list[Swept] = []
        for part in parts:
            if part is None:
                return None
            found.append(part)
        return found

    def _piece(self, found: list[Swept], owner: Ints, window: Ints, schema: pa.Schema) -> Piece:
        """Add up the partitions of groups, and build the rows of all values."""
        swept = Swept(*(np.concatenate(part) for part in zip(*found, strict=True)))
        group_of, values_of = groups_of(self.job, self.state.keys)
        group, named = group_of[owner[swept.segment]], window[swept.segment]
        rest = swept.value
        if (owner == owner[0]).all():
            # Results of one partition are in order, and nothing is to be added up.
            added = Added(named, group, swept.numbers, swept.least)
        else:
            order = np.lexsort((owner[swept.segment], swept.value, group, named))
            named, group, rest = named[order], group[order], swept.value[order]
            place = numbered(named, group, rest)
            heads = firsts(place)
            numbers = np.zeros((len(heads), swept.numbers.shape[1]), np.complex128)
            least = np.full((len(heads), swept.least.shape[1]), NO_VALUE, np.int64)
            add_rows(swept.numbers[order], swept.least[order], place, numbers, least, np.uint64(1))
            added, rest = Added(named[heads], group[heads], numbers, least), rest[heads]
        rows = build_added(self.job, added, values_of, schema)
        places: dict[int, Ints] = {}
        for number in reversed(range(len(self.scales))):
            rest, rank = np.divmod(rest, len(self.scales[number].values))
            places[self.parameters[number]] = self.scales[number].order[rank]
        return Piece(rows, places)
