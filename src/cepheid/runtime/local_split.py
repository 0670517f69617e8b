"""One query on the CPU and the GPU at the same time: batches shared out, results in order.

Every lane is a thread with a job and a summariser of its own: one for the CPU, two for the GPU, of
which one reads and copies its batch while the other computes. Kernels and copies let other threads
run. The matrices of all batches are multiplied in the order of time, whoever made them.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.accelerator.device import Found, find_device
from cepheid.accelerator.schedule import Balancer, Place, Scheduler
from cepheid.engine.job import Job, lower
from cepheid.engine.partials import key_table
from cepheid.engine.results import build_table
from cepheid.engine.summaries import Composer, Summariser, Summary
from cepheid.planner.plan import Plan
from cepheid.runtime.gate import Gate

BATCH_ROWS = 1 << 22
"""Events of a batch: enough for the lanes of a GPU, few enough to be shared out evenly."""

LANES = {Place.CPU: 1, Place.GPU: 2}

WARM_ROWS = 1024
"""Events with which the device compiles its kernels, while the CPU works on the first batches."""


class Made(NamedTuple):
    """What a lane made of a batch."""

    names: pa.Table
    summaries: list[Summary]
    place: Place
    events: int
    seconds: float


class Lanes:
    """The threads of one place."""

    def __init__(self, plan: Plan, schema: pa.Schema, place: Place, count: int) -> None:
        self._plan, self._schema, self._place = plan, schema, place
        self._own = threading.local()
        self.pool = ThreadPoolExecutor(count, thread_name_prefix=f"cepheid-{place.value}")

    def submit(self, batch: pa.Table) -> Future[Made]:
        """Let a lane summarise a batch."""
        return self.pool.submit(self._summarise, batch)

    def _summarise(self, batch: pa.Table) -> Made:
        begun = time.perf_counter()
        if not hasattr(self._own, "job"):
            # Jobs keep room for a batch, so threads do not share them.
            self._own.job = lower(self._plan)
        summariser = self._summariser(self._own.job)
        summariser.feed(batch, last=True)
        keys, summaries = summariser.close()
        names = key_table(keys, np.arange(len(keys)), self._schema)
        return Made(names, summaries, self._place, len(batch), time.perf_counter() - begun)

    def _summariser(self, job: Job) -> Summariser:
        if self._place is Place.CPU:
            return Summariser(job)
        from cepheid.accelerator.summaries import DeviceSummariser

        if not hasattr(self._own, "device"):
            self._own.device = DeviceSummariser(job, Scheduler(Place.GPU))
        device: DeviceSummariser = self._own.device
        device.begin()
        return device


class Warmth:
    """Lets the device compile its kernels first, and closes it as long as that takes."""

    def __init__(self, lanes: dict[Place, Lanes], balancer: Balancer) -> None:
        self._lanes, self._balancer = lanes, balancer
        self._first: Future[Made] | None = None

    def look(self, batch: pa.Table) -> None:
        """See whether the device is ready; the first time it gets something to begin with."""
        if len(self._lanes) < 2:
            return
        if self._first is None:
            self._first = self._lanes[Place.GPU].submit(batch.slice(0, WARM_ROWS))
            self._balancer.closed.add(Place.GPU)
        elif self._first.done():
            self._balancer.closed.discard(Place.GPU)


def run_split(
    plan: Plan, batches: Iterable[pa.Table], schema: pa.Schema, balancer: Balancer
) -> pa.Table:
    """Return the result of a plan over batches in the order of time."""
    lanes = {place: Lanes(plan, schema, place, n) for place, n in balancer.lanes.items()}
    most = sum(balancer.lanes.values()) + 1
    composer, gate = Composer(lower(plan)), Gate(plan)
    under_way: deque[Future[Made]] = deque()
    warmth = Warmth(lanes, balancer)

    def collect() -> None:
        made = under_way.popleft().result()
        balancer.finish(made.place, made.events, made.seconds)
        composer.add(made.names, made.summaries)

    def share_out(batch: pa.Table | None) -> None:
        if batch is None or not len(batch):
            return
        warmth.look(batch)
        if len(under_way) >= most:
            collect()
        under_way.append(lanes[balancer.choose(len(batch))].submit(batch))

    try:
        for batch in batches:
            share_out(gate.admit(batch))
        share_out(gate.rest())
        while under_way:
            collect()
    finally:
        # A device that still compiles keeps nobody waiting; the simulator has one kernel at a time.
        wait = find_device()[0] is Found.SIMULATOR
        for own in lanes.values():
            own.pool.shutdown(wait=wait, cancel_futures=True)
    return build_table(composer.job, composer.finish(), composer.keys, schema)
