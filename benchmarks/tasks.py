"""What is measured and what comes out, as values that travel between processes."""

from __future__ import annotations

import msgspec

CLOCK_VARIABLE = "CEPHEID_BENCH_CLOCK"
"""Whether processes count processor time: ``cpu``, else the time on the wall."""


class Task(msgspec.Struct, frozen=True):
    """One method on one input.

    Attributes
    ----------
    experiment, method
        Keys of `benchmarks.methods`.
    size
        The place on the experiment's axis, most often the events of a window.
    limit_s
        The time that one run may take.
    budget_s
        Short runs are repeated for so long, at most `rounds_max` times; the best counts.
    """

    experiment: str
    method: str
    size: int
    limit_s: float
    budget_s: float = 1.0
    rounds_max: int = 5


class Timing(msgspec.Struct, frozen=True):
    """The best time of one case of a task, and a number to compare the answers of methods by.

    There is no such number where a method's doubles end.
    """

    case: str
    event_count: int
    seconds: float
    check: float | None


class Measurement(msgspec.Struct, frozen=True):
    """What one process measured.

    Attributes
    ----------
    status
        ``"ok"``, ``"limit"`` if it ran into the time limit, or ``"failed"``.
    peak_mb
        The peak memory of the process, libraries and input included.
    working_mb
        By how much the memory grew during the runs.
    message
        Why it failed.
    """

    task: Task
    status: str
    timings: tuple[Timing, ...] = ()
    peak_mb: float = 0.0
    working_mb: float = 0.0
    message: str = ""

    @property
    def timing(self) -> Timing | None:
        """Return the first case, if the task finished."""
        return self.timings[0] if self.timings else None
