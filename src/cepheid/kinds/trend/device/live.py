"""A live pattern query whose micro-batches become matrices on the GPU.

The state is that of the CPU, panes of sliding windows, so every micro-batch runs where it is
faster: on the device, whose matrices are multiplied into the panes, or on the CPU. Tables, buffers
and streams of the device stay there between micro-batches.
"""

from __future__ import annotations

import time

import msgspec
import pyarrow as pa

from cepheid.accelerator.failures import DeviceError, message_of, reporting_failures, warn_once
from cepheid.accelerator.schedule import Place, Scheduler
from cepheid.arrays.columns import Columns
from cepheid.jobs.microbatch import Size
from cepheid.kernels import compose
from cepheid.kinds.trend.device.summaries import DeviceSummariser
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.program.linear_state import DOUBLE, WIDE, Events, LinearRun, Rows
from cepheid.kinds.trend.program.reading import read_arrays
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.program.wide import fit_doubles
from cepheid.kinds.trend.steps import TrendSteps
from cepheid.kinds.trend.windows.step import PartitionState, admit, encode_events, known_until
from cepheid.kinds.trend.windows.summaries import Summary
from cepheid.plans.plan import TrendPlan, WindowKind

STEP_ROWS = 1 << 22
"""Events of one step."""


def in_panes(plan: TrendPlan) -> TrendPlan:
    """Plan tumbling windows as sliding ones of one pane, which have the same rows."""
    window = plan.window
    if window.kind is not WindowKind.TUMBLING:
        return plan
    sliding = msgspec.structs.replace(
        window, kind=WindowKind.SLIDING, slide=window.within, pane=window.within
    )
    return msgspec.structs.replace(plan, window=sliding)


class DeviceSteps:
    """The step function of a pattern query; ``forced`` if no micro-batch may run on the CPU."""

    def __init__(self, plan: TrendPlan, schema: pa.Schema, *, forced: bool) -> None:
        self._inner = TrendSteps(lower(in_panes(plan)), schema)
        self._forced = forced
        self._device: DeviceSummariser | None = DeviceSummariser(
            self._inner.job, Scheduler(Place.GPU if forced else None)
        )

    @property
    def plan(self) -> TrendPlan:
        """Return the plan."""
        return self._inner.plan

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return STEP_ROWS

    def start(self) -> PartitionState:
        """Create the state before the first event."""
        return self._inner.start()

    def step(self, state: PartitionState, events: pa.Table) -> tuple[PartitionState, pa.Table]:
        """Process events; return the rows of windows that they close."""
        job, state = self._inner.job, state.copy()
        rows: list[list[Rows]] = [[] for _ in range(job.outputs)]
        ready = admit(job, state, events)
        if ready is not None:
            arrays = read_arrays(job, state.keys, Columns(ready))
            encoded = {id(p): encode_events(job, p, arrays) for p in job.programs}
            until = known_until(job, state)
            for found, run in zip(rows, state.runs, strict=True):
                assert isinstance(run, LinearRun), "matches are not chosen"
                run.grow(len(state.keys))
                own = encoded[id(run.program)]
                found += self._fed(run, own) if len(own.ts) else []
                found += run.flush(until) if until is not None else []
        return state, build_table(job, rows, state.keys, self._inner.schema)

    def _fed(self, run: LinearRun, events: Events) -> list[Rows]:
        """Process events where that is faster."""
        device = self._device
        plain = not events.grouped and run.dtype in (DOUBLE, WIDE) and not run.apart
        if device is None or not plain or not fit_doubles(events.weights, finite=True):
            return run.feed(events)
        scheduler = device.scheduler
        place = scheduler.choose(len(events.ts))
        begun = time.perf_counter()
        summary = None if place is Place.CPU else self._summarised(device, run, events)
        found = run.feed(events) if summary is None else composed(run, summary)
        scheduler.measure(place, len(events.ts), time.perf_counter() - begun)
        return found

    def _summarised(
        self, device: DeviceSummariser, run: LinearRun, events: Events
    ) -> Summary | None:
        """Compute the matrices of a micro-batch; None if the device cannot, or fails."""
        try:
            with reporting_failures():
                return device.summary_of_run(run, events)
        except DeviceError as error:
            if self._forced:
                raise
            self._device = None
            warn_once(message_of(error))
            return None

    def advance(self, state: PartitionState, until: int) -> tuple[PartitionState, pa.Table]:
        """Close the windows that end by a time."""
        return self._inner.advance(state, until)

    def finish(self, state: PartitionState) -> tuple[PartitionState, pa.Table]:
        """Close all windows."""
        return self._inner.finish(state)

    def forget(self, state: PartitionState, until: int) -> PartitionState:
        """Drop keys whose windows have closed."""
        return self._inner.forget(state, until)

    def next_rows(self, until: int) -> int:
        """Return the first watermark above a given one at which rows can leave."""
        return self._inner.next_rows(until)

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return self._inner.nothing()

    def read(self, data: bytes) -> PartitionState:
        """Deserialize a state; E524 if it belongs to another query."""
        return self._inner.read(data)

    def write(self, state: PartitionState) -> bytes:
        """Serialize a state."""
        return self._inner.write(state)

    def size(self, state: PartitionState) -> Size:
        """Measure the size of a state."""
        return self._inner.size(state)


def composed(run: LinearRun, summary: Summary) -> list[Rows]:
    """Multiply matrices into the panes of a run; return the rows of windows that end before."""
    if run.dtype == DOUBLE:
        # Matrices of the device are wide numbers.
        run.widen()
    found: list[Rows] = []
    begin = 0
    while begin < len(summary.key):
        out = run.rows_room()
        _, begin, rows = compose.compose_panes(
            run.program.tables().counts, run.V, run.M, run.start, run.one, run.exponent, run.opened,
            run.dirty, run.block, *summary, begin, run.window.slide // run.window.pane,
            run.program.start_size, run.dtype.type(1), run.dtype.type(0), run.modulus, *out,
        )  # fmt: skip
        found.append(Rows(*(array[:rows].copy() for array in out)))
    return found
