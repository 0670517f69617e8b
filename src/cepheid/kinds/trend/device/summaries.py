"""Compute summaries of stretches of a stream on the GPU; ``windows/summaries.py`` does so on a CPU.

Tied events that are processed together, residues, and systems that are too large stay on the CPU;
so do batches that the CPU finishes before the GPU has started. Summaries of both are kept in time
order, and are multiplied alike.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cepheid.accelerator import linear
from cepheid.accelerator.lanes import Lane, allocate_pinned, turn
from cepheid.accelerator.placing import Placing
from cepheid.accelerator.schedule import Place, Scheduler
from cepheid.accelerator.systems import System, system_of
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import DOUBLE, Events, LinearRun
from cepheid.kinds.trend.program.wide import fit_doubles
from cepheid.kinds.trend.windows.summaries import Summariser, Summary, take_open
from cepheid.plans.plan import WindowKind, WindowPlan

if TYPE_CHECKING:
    from cepheid.kinds.workload.shared_reading import SharedEvents


class DeviceSummariser(Summariser):
    """Summarises the events of one stretch; each batch runs where it is faster."""

    step_rows = 1 << 22

    def __init__(
        self, job: Job, scheduler: Scheduler, sizes: linear.Sizes | None = None, pane: int = 0
    ) -> None:
        super().__init__(job, pane)
        # Batches are read into page-locked memory, from which the device copies directly.
        job.allocate = allocate_pinned
        self.lane = Lane()
        self.scheduler = scheduler
        self.sizes = sizes
        self._systems: dict[tuple[int, int], System | None] = {}
        self._there: dict[tuple[int, int], linear.DeviceSystem] = {}

    def _feed_run(self, run: LinearRun, events: Events, found: list[Summary]) -> None:
        # Values outside the range of doubles stay on the CPU, as tied events do.
        plain = (
            not events.grouped and run.dtype == DOUBLE and fit_doubles(events.weights, finite=True)
        )
        cpu = partial(super()._feed_run, run, events, found)
        if plain and self._system(run) is not None:
            gpu = partial(self._feed_there, run, events, found)
            Placing(self.scheduler).run(len(events.ts), gpu, cpu)
            return
        begun = time.perf_counter()
        cpu()
        self.scheduler.measure(Place.CPU, len(events.ts), time.perf_counter() - begun)

    def _feed_there(self, run: LinearRun, events: Events, found: list[Summary]) -> None:
        summary = self.summary_of_run(run, events)
        assert summary is not None, "the system is small enough"
        # Earlier summaries of the CPU come first.
        if run.dirty.any():
            found.append(take_open(run))
        found.append(summary)

    def _name(self, run: LinearRun) -> tuple[int, int]:
        # A program grows with the classes of events in the data.
        return id(run.program), len(run.program.tables().target_ptr)

    def _system(self, run: LinearRun) -> System | None:
        name = self._name(run)
        if name not in self._systems:
            self._systems[name] = system_of(run.program, run.wcol, run.xcol)
        return self._systems[name]

    def summary_of_run(self, run: LinearRun, events: Events) -> Summary | None:
        """Compute the matrices of events by key and pane; None if the system is too large."""
        name, system = self._name(run), self._system(run)
        if system is None:
            return None
        if name not in self._there:
            self._there[name] = linear.DeviceSystem(system)
        return self._summarise(run, self._there[name], events)

    def _summarise(self, run: LinearRun, device: linear.DeviceSystem, events: Events) -> Summary:
        """Summarise a batch by key and pane."""
        order = by_key(events.key)
        if order is not None:
            events = Events(
                events.ts[order], events.key[order], events.codes[order], events.weights[:, order],
                events.values[:, order], grouped=False,
            )  # fmt: skip
        bounds, panes = segments_of(self.job.plan.window.kind, run.window, events)
        codes = events.codes if events.codes.dtype == np.uint8 else events.codes.astype(np.int32)
        with turn():
            numbers, values = linear.summarise(
                device, codes, events.weights, events.values, bounds, self.sizes, lane=self.lane
            )
        return summary_of(events.key[bounds[:-1]], panes, numbers, values, run.program.start_size)

    def take(self) -> list[Summary]:
        """Return the matrices so far, and reset."""
        _, summaries = self.close()
        self.begin()
        return summaries

    def begin(self) -> None:
        """Drop the matrices so far; keys keep their numbers."""
        self._found = [[] for _ in self.runs]


def segments_of(
    kind: WindowKind, window: WindowPlan, events: Events | SharedEvents
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the boundaries of runs of one key and pane, and the pane of each."""
    edges = np.diff(events.key) != 0
    if kind is WindowKind.NONE:
        bounds = np.concatenate([[0], np.flatnonzero(edges) + 1, [len(events.ts)]])
        return bounds, np.zeros(len(bounds) - 1, np.int64)
    pane = events.ts // window.pane
    edges |= np.diff(pane) != 0
    bounds = np.concatenate([[0], np.flatnonzero(edges) + 1, [len(events.ts)]])
    return bounds, pane[bounds[:-1]]


def summary_of(
    key: NDArray[np.int64], panes: NDArray[np.int64], numbers: NDArray[np.complex128],
    values: NDArray[np.int64], starts: int,
) -> Summary:  # fmt: skip
    """Convert device matrices to the layout of the engine."""
    return Summary(
        key,
        panes,
        np.ascontiguousarray(numbers[:, starts:]),
        np.ascontiguousarray(values[:, starts:]),
        start_of(numbers[:, :starts, 0].real),
    )


def by_key(key: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Compute the order that makes the events of a key adjacent; None if they are."""
    if not len(key) or key.min() == key.max():
        return None
    return np.argsort(key, kind="stable")


def start_of(rows: NDArray[np.float64]) -> NDArray[np.int32]:
    """Find the start configuration of every lane, -1 for none."""
    return np.where(rows.any(1), rows.argmax(1), -1).astype(np.int32)
