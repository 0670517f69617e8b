"""One micro-batch of one bucket of a live stream: its state and what arrived in, rows out.

    turn(job, work, data, arrived, latest)  ->  (data, Outcome)

The state is bytes: the watermark, the job's own state, and a buffer of the events that are not
before the watermark. Events wait in the buffer until the watermark passes them; then they are put
in order, and the job takes them and closes what ends by the watermark.

Every bucket is told the latest time of all events of a micro-batch, so all move their watermarks
alike, and at once: Spark's own is one micro-batch behind, and all events would wait in the state.
What comes before the watermark of the micro-batches before is late: counted, without effect.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from cepheid.jobs.bucket import (
    Arrived,
    Bucket,
    Outcome,
    read_bucket,
    take_in,
    write_bucket,
)
from cepheid.jobs.work import Work
from cepheid.plans.plan import Plan

StateType = TypeVar("StateType")


class Size(NamedTuple):
    """How much a state holds, for the progress of a query."""

    partitions: int
    open_windows: int


class LiveJob(Protocol[StateType]):
    """A query over a stream that does not end: what a bucket keeps of it, and how that goes on."""

    @property
    def kind(self) -> str:
        """Return whose state this is, for messages."""

    @property
    def plan(self) -> Plan:
        """Return the plan, or one of those that share the state."""

    def start(self) -> StateType:
        """Return the state before the first event."""

    def read(self, data: bytes) -> StateType:
        """Return the state that ``write`` wrote; E524 if it belongs to another query."""

    def write(self, state: StateType) -> bytes:
        """Return a state as bytes."""

    def take(
        self, state: StateType, events: pa.Table, since: int | None, until: int
    ) -> tuple[StateType, list[pa.Table]]:
        """Take events before a watermark, in order; return the rows that are certain by it.

        ``since`` is the watermark before.
        """

    def nothing(self) -> pa.Table:
        """Return a result without rows."""

    def forget(self, state: StateType, until: int) -> StateType:
        """Drop what no later event can need."""

    def measure(self, state: StateType, came: Arrived) -> Size:
        """Return how much a state holds."""


@runtime_checkable
class AdaptsBucket(Protocol):
    """A job that goes on with buckets of other columns, or begins them anew."""

    def adapt(self, bucket: Bucket) -> Bucket:
        """Return a bucket as the job reads it."""


@runtime_checkable
class EmitsEarly(Protocol):
    """A job that also tells of windows that are still open."""

    def so_far(self, data: bytes, came: Arrived) -> list[pa.Table]:
        """Return what is known of open windows, of a copy of the state."""


def turn(
    job: LiveJob[StateType],
    work: Work,
    data: bytes | None,
    arrived: list[pa.Table],
    latest: int | None,
) -> tuple[bytes, Outcome]:
    """Take in what arrived, up to the watermark that follows from the latest time.

    Raises
    ------
    DataError
        E524 if the state was written by another query, or for other columns; E5xx for what is
        wrong with the events.
    """
    bucket = read_bucket(work, data, job.kind, same_columns=not isinstance(job, AdaptsBucket))
    if isinstance(job, AdaptsBucket):
        bucket = job.adapt(bucket)
    state = job.start() if bucket.engine is None else job.read(bucket.engine)
    came = take_in(work, job.plan, bucket, arrived, latest)
    found: list[pa.Table] = []
    if came.until is not None:
        state, found = job.take(state, came.ready, bucket.until, came.until)
    size = job.measure(state, came)
    if came.until is not None:
        state = job.forget(state, came.until)
    engine = job.write(state)
    if isinstance(job, EmitsEarly):
        found = [*found, *job.so_far(engine, came)]
    results = pa.concat_tables([job.nothing(), *found])
    counts = (came.events, came.late, len(came.waiting), *size, came.lag)
    return write_bucket(work, job.kind, came, engine), Outcome(results, *counts)


def live_job(work: Work) -> LiveJob[Any]:
    """Make the job of a query over a stream."""
    return work.kind.live_job(work)
