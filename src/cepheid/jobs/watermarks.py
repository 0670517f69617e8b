"""How far a live stream is complete: the watermark of a bucket, kept with its state.

Times of events may be whole numbers of any unit. Spark's watermark counts milliseconds, and is
compared with times in microseconds; a bucket keeps its own in the unit of its events.
"""

from __future__ import annotations

from cepheid.jobs.work import Work

MILLISECOND = 1000


def in_microseconds(work: Work, ticks: int) -> int:
    """Return a time of events in whole microseconds, as Spark has it."""
    return ticks * work.tick_ns // 1000


def in_ticks(work: Work, microseconds: int) -> int:
    """Return the first time of events that is not before a time in microseconds."""
    return -(-microseconds * 1000 // work.tick_ns)


def watermark_after(work: Work, before: int | None, latest: int | None) -> int | None:
    """Return the watermark after a micro-batch, in whole milliseconds as Spark has it."""
    if latest is None:
        return before
    now = in_microseconds(work, latest) // MILLISECOND * MILLISECOND - work.delay
    until = in_ticks(work, now)
    return until if before is None or until > before else before
