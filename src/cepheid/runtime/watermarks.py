"""How far a live stream is complete: the watermark of a bucket, kept with its state."""

from __future__ import annotations

from cepheid.runtime.work import Work

MILLISECOND = 1000


def watermark_after(work: Work, before: int | None, latest: int | None) -> int | None:
    """Return the watermark after a micro-batch, in whole milliseconds as Spark has it."""
    if latest is None:
        return before
    now = (latest // MILLISECOND) * MILLISECOND - work.delay
    # Spark knows no watermark before 1970.
    return before if now <= max(before or 0, 0) else now
