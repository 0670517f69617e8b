"""The watermark of a bucket of a live stream, kept in the bucket's state.

Event times may be integers of any unit. Spark's watermark is in milliseconds, and is compared with
times in microseconds; a bucket keeps its watermark in the unit of its events.
"""

from __future__ import annotations

from cepheid.jobs.work import Work

MILLISECOND = 1000


def in_microseconds(work: Work, ticks: int) -> int:
    """Convert an event time to whole microseconds, Spark's unit."""
    return ticks * work.tick_ns // 1000


def in_ticks(work: Work, microseconds: int) -> int:
    """Convert microseconds to the first event time that is not before them."""
    return -(-microseconds * 1000 // work.tick_ns)


def watermark_after(work: Work, before: int | None, latest: int | None) -> int | None:
    """Compute the watermark after a micro-batch, rounded to whole milliseconds as in Spark."""
    if latest is None:
        return before
    now = in_microseconds(work, latest) // MILLISECOND * MILLISECOND - work.delay
    until = in_ticks(work, now)
    return until if before is None or until > before else before
