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
    >>> scheduler.measure(Place.GPU, 1_000_000, 10.0)
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
        cpu = self.cpu.batch + self.cpu.event * events
        gpu = self.gpu.batch + self.gpu.event * events
        return Place.CPU if cpu <= gpu else Place.GPU

    def measure(self, place: Place, events: int, seconds: float) -> None:
        """Take note of what a batch took.

        The first batch on the device compiles its kernels and says nothing of the next ones, so
        it counts only if it was slow beyond that.
        """
        self.done[place] += events
        if not events:
            return
        cost = self.cpu if place is Place.CPU else self.gpu
        event = max(seconds - cost.batch, 0.0) / events
        cost.event += MEMORY * (event - cost.event)
