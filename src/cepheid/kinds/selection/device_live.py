"""A live SELECT whose micro-batches run on a GPU or on the CPU, wherever they take less time.

Both have the same state, which is small beside the events. So every micro-batch is free to choose,
and a device that fails leaves the query to the CPU.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from cepheid.accelerator.placing import Placing
from cepheid.accelerator.schedule import Place, Scheduler
from cepheid.jobs.microbatch import Size
from cepheid.jobs.steps import Steps
from cepheid.kinds.selection.device import DeviceOperators
from cepheid.kinds.selection.operators import Candidates, Joined, Operators, Pairs
from cepheid.plans.plan import Plan

STEP_ROWS = 1 << 22
"""Events of one step."""


class PlacedSteps:
    """Two step functions of one query, of which the scheduler takes one for every micro-batch."""

    def __init__(self, cpu: Steps[Any], gpu: Steps[Any], scheduler: Scheduler) -> None:
        self._cpu, self._gpu = cpu, gpu
        self.placing = Placing(scheduler)

    @property
    def plan(self) -> Plan:
        """Return the plan."""
        return self._cpu.plan

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return STEP_ROWS

    def start(self) -> Any:
        """Create the state before the first event."""
        return self._cpu.start()

    def step(self, state: Any, events: pa.Table) -> tuple[Any, pa.Table]:
        """Process events where that is faster."""
        return self.placing.run(
            len(events),
            lambda: self._gpu.step(state, events),
            lambda: self._cpu.step(state, events),
        )

    def advance(self, state: Any, until: int) -> tuple[Any, pa.Table]:
        """Close the windows that end by a time."""
        return self._cpu.advance(state, until)

    def finish(self, state: Any) -> tuple[Any, pa.Table]:
        """Close all windows."""
        return self._cpu.finish(state)

    def forget(self, state: Any, until: int) -> Any:
        """Drop state that no event at or after a time can need."""
        return self._cpu.forget(state, until)

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return self._cpu.nothing()

    def read(self, data: bytes) -> Any:
        """Deserialize a state; E524 if it belongs to another query."""
        return self._cpu.read(data)

    def write(self, state: Any) -> bytes:
        """Serialize a state."""
        return self._cpu.write(state)

    def size(self, state: Any) -> Size:
        """Measure the size of a state."""
        return self._cpu.size(state)


class PlacedPairs(Operators):
    """Operators whose pairs are found on a GPU or on the CPU, wherever that takes less time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.placing = Placing(scheduler)

    def match(self, joined: Joined, candidates: Candidates) -> Iterator[Pairs]:
        """Find the pairs of candidates for which all conditions are true."""
        events, scheduler = len(candidates.probes), self.placing.scheduler
        place, begun = scheduler.choose(events), time.perf_counter()
        found: list[Pairs] | None = None
        if place is Place.GPU:
            there = DeviceOperators()
            found = self.placing.there(lambda: list(there.match(joined, candidates)), _nothing)
        # Blocks of the CPU come one by one, so that too many pairs are refused in time.
        yield from super().match(joined, candidates) if found is None else found
        scheduler.measure(place, events, time.perf_counter() - begun)


def _nothing() -> None:
    """Leave work to the CPU."""
