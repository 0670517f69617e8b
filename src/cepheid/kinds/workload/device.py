"""Queries of a workload on the GPU: many systems side by side over events that are read once.

A group of queries (``sharing.py``) distinguishes kinds of events. Every query is a system of small
matrices, one for each kind; together they form one block-diagonal matrix. Blocks of one shape are
one kernel launch: each row of thread blocks runs one query over all events.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.accelerator import linear
from cepheid.accelerator.lanes import Lane
from cepheid.accelerator.schedule import Place, Scheduler
from cepheid.accelerator.systems import SHARED_BYTES_MAX, System, shared_bytes, system_of
from cepheid.arrays.columns import Columns, KeyTable
from cepheid.kinds.trend.device.summaries import by_key, segments_of, summary_of
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.partials import RowsOfRuns, key_table
from cepheid.kinds.trend.program.wide import fit_doubles
from cepheid.kinds.trend.windows.summaries import Composer, Summariser, Summary
from cepheid.kinds.workload.shared_reading import SharedEvents, read_shared
from cepheid.kinds.workload.shared_tables import SharedProgram
from cepheid.kinds.workload.sharing import Group
from cepheid.language import tree
from cepheid.patterns.symbols import symbols_of

KINDS_MAX = 64
"""Kinds of events of a group on the device."""

Shape = tuple[int, int, bool]


class GroupOnDevice:
    """Summarises the events of one group of queries, and composes the summaries of each query."""

    def __init__(
        self, program: SharedProgram, jobs: list[Job], schema: pa.Schema,
        scheduler: Scheduler, sizes: linear.Sizes | None = None,
    ) -> None:  # fmt: skip
        self.program, self.jobs, self.schema = program, jobs, schema
        self.scheduler, self.sizes = scheduler, sizes
        self.keys = KeyTable(program.group.plan.partition.attributes)
        self._classes = _classes(program, jobs)
        self._devices = {
            shape: linear.DeviceSystem(*(system for _, system in members))
            for shape, members in self._classes.items()
        }
        inside = {n for members in self._classes.values() for n, _ in members}
        self._outside = [n for n in range(len(jobs)) if n not in inside]
        self.composers = [Composer(job) for job in jobs]
        self._lane = Lane()

    def feed(self, batch: pa.Table) -> None:
        """Process a batch in time order; later batches have no event of its last time."""
        begun = time.perf_counter()
        columns = Columns(batch)
        events = read_shared(self.program.group, self.program.kinds, self.keys, columns)
        length = len(events.ts)
        if not length:
            return
        order = by_key(events.key)
        events = events if order is None else events.take(order)
        # Ties of a key are adjacent now.
        plain = not self._tied(events) and fit_doubles(events.weights, finite=True)
        place = self.scheduler.choose(length) if plain else Place.CPU
        if place is Place.CPU:
            self._on_cpu(range(len(self.jobs)), batch)
        else:
            self._on_device(events)
            self._on_cpu(self._outside, batch)
        self.scheduler.measure(place, length, time.perf_counter() - begun)

    def finish(self) -> list[tuple[RowsOfRuns, KeyTable]]:
        """Compute the rows of all windows, and the keys, query by query."""
        return [(composer.finish(), composer.keys) for composer in self.composers]

    def _tied(self, events: SharedEvents) -> bool:
        if self.program.group.plan.ties is not tree.Ties.STRICT:
            return False
        same = (events.ts[1:] == events.ts[:-1]) & (events.key[1:] == events.key[:-1])
        return bool(same.any())

    def _on_cpu(self, members: Any, batch: pa.Table) -> None:
        for n in members:
            summariser = Summariser(self.jobs[n])
            summariser.feed(batch, last=True)
            keys, summaries = summariser.close()
            names = key_table(keys, np.arange(len(keys)), self.schema)
            self.composers[n].add(names, summaries)

    def _on_device(self, events: SharedEvents) -> None:
        window = self.composers[0].runs[0].window
        bounds, panes = segments_of(self.program.group.plan.window.kind, window, events)
        names = key_table(self.keys, np.arange(len(self.keys)), self.schema)
        key = events.key[bounds[:-1]]
        for shape, members in self._classes.items():
            numbers, values = linear.summarise(
                self._devices[shape], events.kinds, events.weights, events.values, bounds,
                self.sizes, lane=self._lane,
            )  # fmt: skip
            segments = len(bounds) - 1
            for place, (n, _) in enumerate(members):
                mine = slice(place * segments, (place + 1) * segments)
                summary = summary_of(key, panes, numbers[mine], values[mine], shape[1])
                self.composers[n].add(names, [self._in_own_order(n, summary)])

    def _in_own_order(self, member: int, summary: Summary) -> Summary:
        parts, extremes = (
            np.argsort(np.array(order, np.int64)) for order in self.program.group.orders[member]
        )
        return summary._replace(
            numbers=np.ascontiguousarray(summary.numbers[:, :, parts]),
            values=np.ascontiguousarray(summary.values[:, :, extremes]),
        )


def _classes(program: SharedProgram, jobs: list[Job]) -> dict[Shape, list[tuple[int, System]]]:
    """Group the queries that the device runs by the shape of their systems over kinds."""
    found: dict[Shape, list[tuple[int, System]]] = {}
    if program.kinds.count > KINDS_MAX:
        return found
    for n, job in enumerate(jobs):
        system = _system_of(program, program.group, n, job)
        if system is not None:
            shape = (system.dimension, system.starts, system.steady)
            found.setdefault(shape, []).append((n, system))
    return found


def _system_of(program: SharedProgram, group: Group, member: int, job: Job) -> System | None:
    """Build the system of a query over the kinds of its group; None if it is too large."""
    if len(job.programs) != 1 or job.moduli:
        return None
    own = job.programs[0]
    codes = _codes_of_kinds(program, group, job)
    system = system_of(own, *job.columns_of(own))
    if system is None:
        return None
    parts, extremes = (np.array(order, np.int64) for order in group.orders[member])
    # The last kind stands for other events: its matrix is the identity.
    kinds = np.append(codes, system.identity)
    system = system._replace(
        kept=system.kept[kinds],
        gained=system.gained[kinds],
        weighs=system.weighs[parts],
        values=system.values[extremes],
    )
    return system if shared_bytes(system) <= SHARED_BYTES_MAX else None


def _codes_of_kinds(program: SharedProgram, group: Group, job: Job) -> NDArray[np.int64]:
    """Map every kind of event of the group to the code of a query."""
    number = {symbol: n for n, symbol in enumerate(group.symbols)}
    mine = {name: number.get(symbol, -1) for name, symbol in symbols_of(job.plan).items()}
    codes = []
    for kind in range(program.kinds.count):
        symbols = set(program.kinds.symbols_of(kind))
        taken = frozenset(name for name in job.variables if mine[name] in symbols)
        ((code,),) = job.programs[0].number_codes([(taken,)])
        codes.append(code)
    return np.array(codes, np.int64)
