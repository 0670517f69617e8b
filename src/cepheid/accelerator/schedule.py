"""Where a batch is done first: costs are measured while work goes on, none is known before."""

from __future__ import annotations

from enum import StrEnum

import msgspec

MEMORY = 0.3
"""How much a new measurement counts against the earlier ones."""


class Place(StrEnum):
    """Where a batch is worked off."""

    CPU = "cpu"
    GPU = "gpu"


class Cost(msgspec.Struct):
    """What a place takes: seconds a batch, and seconds an event."""

    batch: float
    event: float


class Scheduler(msgspec.Struct):
    """Chooses a place for every batch by what batches took there so far.

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
        """Return where a batch of so many events is done first."""
        if self.forced is not None:
            return self.forced
        sooner = self.seconds(Place.CPU, events) <= self.seconds(Place.GPU, events)
        return Place.CPU if sooner else Place.GPU

    def seconds(self, place: Place, events: int) -> float:
        """Return what so many events would take, by what others took."""
        cost = self.cpu if place is Place.CPU else self.gpu
        return cost.batch + cost.event * events

    def measure(self, place: Place, events: int, seconds: float) -> None:
        """Take note of what a batch took.

        The first batch on the device compiles its kernels and says nothing of the next ones.
        """
        first = not self.done[place]
        self.done[place] += events
        if not events or (first and place is Place.GPU):
            return
        cost = self.cpu if place is Place.CPU else self.gpu
        event = max(seconds - cost.batch, 0.0) / events
        cost.event += MEMORY * (event - cost.event)


class Balancer:
    """Shares batches out between places that work at the same time, and lanes of each.

    A batch goes where it would be finished first, behind what waits there already.

    Examples
    --------
    >>> balancer = Balancer({Place.CPU: 1, Place.GPU: 2})
    >>> [balancer.choose(4_000_000).value for _ in range(24)].count("cpu")
    1
    """

    def __init__(self, lanes: dict[Place, int], scheduler: Scheduler | None = None) -> None:
        self.lanes = lanes
        self.scheduler = scheduler or Scheduler()
        self.waiting = dict.fromkeys(lanes, 0)
        self.closed: set[Place] = set()
        """Places that are not ready yet."""

    def choose(self, events: int) -> Place:
        """Return where a batch goes, and remember that it waits there."""
        ready = [place for place in self.lanes if place not in self.closed] or [*self.lanes]
        place = min(ready, key=lambda p: self._finished(p, events))
        self.waiting[place] += events
        return place

    def _finished(self, place: Place, events: int) -> float:
        return self.scheduler.seconds(place, self.waiting[place] + events) / self.lanes[place]

    def finish(self, place: Place, events: int, seconds: float) -> None:
        """Take note that a batch is done, and what it took."""
        self.waiting[place] -= events
        self.scheduler.measure(place, events, seconds)
