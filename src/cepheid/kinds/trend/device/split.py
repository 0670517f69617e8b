"""Run one query on the CPU and the GPU concurrently; the results of batches stay in order.

Every lane is a thread with its own job and summariser: one for the CPU, two for the GPU, of which
one reads and copies its batch while the other computes. Kernels and copies release the GIL. The
matrices of all batches are multiplied in the order of time, whichever lane computed them.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.accelerator.device import Found, find_device
from cepheid.accelerator.failures import DeviceError, message_of, reporting_failures, warn_once
from cepheid.accelerator.schedule import MOST_ROWS, Pace, Place, Scheduler
from cepheid.arrays.columns import KeyTable
from cepheid.kinds.trend.ordered_input import Gate
from cepheid.kinds.trend.program.job import Job, lower
from cepheid.kinds.trend.program.partials import key_table
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows.summaries import Composer, Summariser, Summary
from cepheid.plans.plan import TrendPlan

LANES = {Place.CPU: 1, Place.GPU: 2}

WARM_ROWS = 1024
"""Events with which the device compiles its kernels, while the CPU works on the first batches."""


BACKLOG = 64
"""The maximum number of batches that wait for an earlier one; they take memory."""


class Made(NamedTuple):
    """The result of a lane for one batch."""

    names: pa.Table
    summaries: list[Summary]
    place: Place
    events: int
    seconds: float


class Lanes:
    """The threads of one device.

    With ``replaced``, the CPU works in the threads of a GPU after this has failed.
    """

    def __init__(
        self, plan: TrendPlan, schema: pa.Schema, place: Place, count: int, *, replaced: bool
    ) -> None:
        self._plan, self._schema, self._place = plan, schema, place
        self._replaced, self._failed = replaced, False
        self._own = threading.local()
        self.pool = ThreadPoolExecutor(count, thread_name_prefix=f"cepheid-{place.value}")

    def submit(self, batch: pa.Table) -> Future[Made]:
        """Submit a batch to a lane, which summarises it."""
        return self.pool.submit(self._summarise, batch)

    def _summarise(self, batch: pa.Table) -> Made:
        if not hasattr(self._own, "job"):
            # Jobs keep room for a batch, so threads do not share them.
            self._own.job = lower(self._plan)
        begun = time.perf_counter()
        keys, summaries = self._reduced(batch)
        names = key_table(keys, np.arange(len(keys)), self._schema)
        return Made(names, summaries, self._place, len(batch), time.perf_counter() - begun)

    def _reduced(self, batch: pa.Table) -> tuple[KeyTable, list[Summary]]:
        """Reduce a batch to matrices; on the CPU once the device has failed."""
        try:
            with reporting_failures():
                summariser = self._summariser(self._own.job)
                summariser.feed(batch, last=True)
                return summariser.close()
        except DeviceError as error:
            if not self._replaced or self._place is Place.CPU:
                raise
            self._failed = True
            warn_once(message_of(error))
        # Of a new job: the old one has memory of the device.
        self._own.job = lower(self._plan)
        return self._reduced(batch)

    def _summariser(self, job: Job) -> Summariser:
        if self._place is Place.CPU or self._failed:
            return Summariser(job)
        from cepheid.kinds.trend.device.summaries import DeviceSummariser

        if not hasattr(self._own, "device"):
            self._own.device = DeviceSummariser(job, Scheduler(Place.GPU))
        device: DeviceSummariser = self._own.device
        device.begin()
        return device


class Warmth:
    """Compiles the kernels of the device in the background, while the CPU works alone."""

    def __init__(self, lanes: dict[Place, Lanes]) -> None:
        self._lanes = lanes
        self._first: Future[Made] | None = None

    def open(self, place: Place, batch: pa.Table) -> bool:
        """Check whether a device accepts batches; its first one is small, to compile kernels."""
        if place is Place.CPU or len(self._lanes) < 2:
            return True
        if self._first is None:
            self._first = self._lanes[Place.GPU].submit(batch.slice(0, WARM_ROWS))
        return self._first.done()


class Feed:
    """Batches sorted by time, from which lanes take any number of events."""

    def __init__(self, batches: Iterable[pa.Table]) -> None:
        self._batches = iter(batches)
        self._rest: pa.Table | None = None

    def peek(self) -> pa.Table | None:
        """Return the rest of the current batch; None at the end."""
        while self._rest is None or not len(self._rest):
            self._rest = next(self._batches, None)
            if self._rest is None:
                return None
        return self._rest

    def take(self, rows: int) -> pa.Table:
        """Take the next events, at most the given number."""
        rest = self.peek()
        assert rest is not None, "there is more"
        self._rest = rest.slice(rows)
        return rest.slice(0, rows)


class Turns:
    """The batches in flight, in the order of time, and the free lanes."""

    def __init__(self, lanes: dict[Place, Lanes], pace: Pace, composer: Composer) -> None:
        self._lanes, self._pace, self._composer = lanes, pace, composer
        self._free = dict(pace.lanes)
        self._warmth = Warmth(lanes)
        self._under_way: deque[Future[Made]] = deque()
        self._busy: set[Future[Made]] = set()

    def next(self, batch: pa.Table) -> Place:
        """Wait for a free lane and return its device; the GPU comes first."""
        while True:
            if len(self._under_way) >= BACKLOG:
                wait([self._under_way[0]])
                self._wait()
            for place in (Place.GPU, Place.CPU):
                if self._free.get(place) and self._warmth.open(place, batch):
                    return place
            self._wait()

    def submit(self, place: Place, batch: pa.Table | None) -> None:
        """Submit a batch to a lane."""
        if batch is None or not len(batch):
            return
        self._free[place] -= 1
        future = self._lanes[place].submit(batch)
        self._under_way.append(future)
        self._busy.add(future)

    def finish(self) -> None:
        """Wait for all batches in flight."""
        while self._busy:
            self._wait()

    def _wait(self) -> None:
        done, self._busy = wait(self._busy, return_when=FIRST_COMPLETED)
        for future in done:
            made = future.result()
            self._free[made.place] += 1
            self._pace.finish(made.place, made.events, made.seconds)
        while self._under_way and self._under_way[0].done():
            made = self._under_way.popleft().result()
            self._composer.add(made.names, made.summaries)


def run_split(
    plan: TrendPlan, batches: Iterable[pa.Table], schema: pa.Schema, pace: Pace
) -> pa.Table:
    """Run a plan over batches sorted by time."""
    both = len(pace.lanes) > 1
    lanes = {place: Lanes(plan, schema, place, n, replaced=both) for place, n in pace.lanes.items()}
    composer, gate, feed = Composer(lower(plan)), Gate(plan), Feed(batches)
    turns = Turns(lanes, pace, composer)
    try:
        more = 1
        while (waiting := feed.peek()) is not None:
            place = turns.next(waiting)
            ready = gate.admit(feed.take(min(more * pace.rows(place), MOST_ROWS)))
            turns.submit(place, ready)
            # The gate looks again at all events of one time that it holds back.
            more = 1 if ready is not None and len(ready) else 2 * more
        rest = gate.rest()
        if rest is not None and len(rest):
            turns.submit(turns.next(rest), rest)
        turns.finish()
    finally:
        # A device that still compiles keeps nobody waiting; the simulator has one kernel at a time.
        simulated = find_device()[0] is Found.SIMULATOR
        for own in lanes.values():
            own.pool.shutdown(wait=simulated, cancel_futures=True)
    return build_table(composer.job, composer.finish(), composer.keys, schema)
