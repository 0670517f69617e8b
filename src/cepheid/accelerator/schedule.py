"""Choose the faster processor for a batch by costs that are measured at run time."""

from __future__ import annotations

from enum import StrEnum
from statistics import linear_regression

import msgspec

MEMORY = 0.3
"""The weight of a new measurement against the earlier ones."""


WHILE = 0.05
"""The time slice of a lane in seconds, if several lanes work concurrently."""

MOST_ROWS = 1 << 22

FEW_THREADS = 2
"""With more threads, the CPU runs patterns with keys faster than a GPU whose events it reads."""


class Place(StrEnum):
    """The processor of a batch."""

    CPU = "cpu"
    GPU = "gpu"


LEAST_ROWS = {Place.CPU: 1 << 14, Place.GPU: 1 << 19}
"""Events of a first batch; the device needs some for all of its lanes."""


LATEST = 8
"""Batches from which both parts of a cost are told apart."""

APART = 2
"""The largest of them has so many times the events of the smallest, at least."""


class Cost(msgspec.Struct):
    """The cost model of a processor: seconds per batch, and seconds per event.

    Examples
    --------
    >>> cost = Cost(1e-3, 1e-9)
    >>> for events in (10_000, 1_000_000) * 4:
    ...     cost.measure(events, 5e-3 + 2e-9 * events)
    >>> round(cost.batch, 6), round(cost.event, 12)
    (0.005, 2e-09)
    """

    batch: float
    event: float
    latest: list[tuple[int, float]] = msgspec.field(default_factory=list)

    def measure(self, events: int, seconds: float) -> None:
        """Learn from a batch; batches of about one size leave the cost of a batch as it was."""
        self.latest = [*self.latest[-LATEST + 1 :], (events, seconds)]
        sizes = [size for size, _ in self.latest]
        if max(sizes) >= APART * min(sizes) and len(sizes) == LATEST:
            event, batch = linear_regression(sizes, [taken for _, taken in self.latest])
            if event > 0 and batch >= 0:
                self.event, self.batch = event, batch
                return
        event = max(seconds - self.batch, 0.0) / events
        self.event += MEMORY * (event - self.event)


class Scheduler(msgspec.Struct):
    """Chooses a processor for every batch by the measured times of earlier batches.

    The first figures are guesses: a launch and its copies take the device some time whatever the
    size of a batch, and an event next to nothing.

    Examples
    --------
    >>> scheduler = Scheduler()
    >>> scheduler.choose(1_000).value, scheduler.choose(10_000_000).value
    ('cpu', 'gpu')
    >>> for _ in range(2):
    ...     scheduler.measure(Place.GPU, 1_000_000, 10.0)
    >>> scheduler.choose(10_000_000).value
    'cpu'
    """

    forced: Place | None = None
    cpu: Cost = msgspec.field(default_factory=lambda: Cost(0.0, 10e-9))
    gpu: Cost = msgspec.field(default_factory=lambda: Cost(1e-3, 1e-9))
    done: dict[str, int] = msgspec.field(default_factory=lambda: {"cpu": 0, "gpu": 0})

    def choose(self, events: int) -> Place:
        """Choose the processor that finishes a batch of this size first."""
        if self.forced is not None:
            return self.forced
        sooner = self.seconds(Place.CPU, events) <= self.seconds(Place.GPU, events)
        return Place.CPU if sooner else Place.GPU

    def seconds(self, place: Place, events: int) -> float:
        """Estimate the seconds for a number of events from earlier batches."""
        cost = self.cpu if place is Place.CPU else self.gpu
        return cost.batch + cost.event * events

    def measure(self, place: Place, events: int, seconds: float) -> None:
        """Record the time of a batch.

        The first batch on the device includes compiling its kernels, so it is ignored.
        """
        first = not self.done[place]
        self.done[place] += events
        if not events or (first and place is Place.GPU):
            return
        (self.cpu if place is Place.CPU else self.gpu).measure(events, seconds)


class Pace:
    """Chooses the number of events that a free lane takes next: the work of a short time slice.

    So a slow lane delays nobody: it takes a small batch, and the results of the others wait for it
    no longer than one time slice.

    Examples
    --------
    >>> pace = Pace({Place.CPU: 1, Place.GPU: 2})
    >>> pace.rows(Place.CPU), pace.rows(Place.GPU)
    (16384, 524288)
    >>> for _ in range(2):
    ...     pace.finish(Place.CPU, 16384, 0.016384)
    >>> pace.rows(Place.CPU)
    50000
    """

    def __init__(self, lanes: dict[Place, int], least: dict[Place, int] | None = None) -> None:
        self.lanes = lanes
        self.done = dict.fromkeys(lanes, 0)
        self._least = least or LEAST_ROWS
        self._rates: dict[Place, float] = {}

    def rows(self, place: Place) -> int:
        """Choose the number of events in the next batch of a processor."""
        wanted = int(self._rates.get(place, 0.0) * WHILE)
        return min(max(wanted, self._least[place]), MOST_ROWS)

    def finish(self, place: Place, events: int, seconds: float) -> None:
        """Record the time of a batch; the first one of a processor also loads its kernels."""
        first = not self.done[place]
        self.done[place] += events
        if first or not events:
            return
        rate = events / max(seconds, 1e-9)
        before = self._rates.get(place, rate)
        self._rates[place] = before + MEMORY * (rate - before)
