"""One micro-batch of one bucket of a live stream: state and new events in, state and rows out.

    turn(job, work, data, arrived, latest)  ->  (data, Outcome)

The state is bytes: the watermark, the job's own state, and a buffer of the events at or after the
watermark. Events wait in the buffer until the watermark passes them; then they are sorted, and the
job processes them and closes the windows that end by the watermark.

Every bucket receives the latest time of all events of a micro-batch, so that all buckets advance
their watermarks alike and immediately: Spark's own watermark is one micro-batch behind, and all
events would wait in the state. Events before the previous watermark are late: they are counted and
dropped.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from cepheid.jobs.bucket import (
    Arrived,
    Bucket,
    Outcome,
    arriving,
    bucket_of,
    open_bucket,
    take_in,
    write_bucket,
)
from cepheid.jobs.continuing import continued
from cepheid.jobs.tables import with_columns
from cepheid.jobs.work import Work
from cepheid.plans.plan import Plan

StateType = TypeVar("StateType")


class Size(NamedTuple):
    """The size of a state, for the progress of a query."""

    partitions: int
    open_windows: int


class LiveJob(Protocol[StateType]):
    """A query over an unbounded stream: the state of a bucket, and how a micro-batch updates it."""

    @property
    def kind(self) -> str:
        """Return the name of the kind of query, for messages."""

    @property
    def plan(self) -> Plan:
        """Return the plan, or one of the plans that share the state."""

    def start(self) -> StateType:
        """Create the state before the first event."""

    def read(self, data: bytes) -> StateType:
        """Deserialize a state that ``write`` wrote; E524 if it belongs to another query."""

    def write(self, state: StateType) -> bytes:
        """Serialize a state."""

    def take(
        self, state: StateType, events: pa.Table, since: int | None, until: int
    ) -> tuple[StateType, list[pa.Table]]:
        """Process events before a watermark, in order; return the rows that it makes final.

        ``since`` is the previous watermark.
        """

    def nothing(self) -> pa.Table:
        """Create an empty result."""

    def forget(self, state: StateType, until: int) -> StateType:
        """Drop state that no later event can need."""

    def measure(self, state: StateType, came: Arrived) -> Size:
        """Measure the size of a state."""


@runtime_checkable
class AdaptsBucket(Protocol):
    """A job that can continue buckets of other columns, or restart them."""

    def adapt(self, bucket: Bucket) -> Bucket:
        """Convert a bucket to the form that the job reads."""


@runtime_checkable
class EmitsEarly(Protocol):
    """A job that also emits provisional rows of open windows."""

    def so_far(self, data: bytes, came: Arrived) -> list[pa.Table]:
        """Compute the provisional rows of open windows, from a copy of the state."""


def turn(
    job: LiveJob[StateType],
    work: Work,
    data: bytes | None,
    arrived: list[pa.Table],
    latest: int | None,
) -> tuple[bytes, Outcome]:
    """Process a micro-batch up to the watermark that follows from the latest time.

    Raises
    ------
    DataError
        E524 if the state was written by another query, or for other columns; E5xx for errors in the
        events.
    """
    saved = open_bucket(job.kind, data)
    job, work = continued(job, work, saved, job.kind)
    known = saved is not None and bool(saved.means)
    any_columns = isinstance(job, AdaptsBucket) or (known and work.kind.adapts_columns)
    bucket = bucket_of(work, saved, job.kind, same_columns=not any_columns)
    if isinstance(job, AdaptsBucket):
        bucket = job.adapt(bucket)
    bucket = bucket._replace(buffer=with_columns(bucket.buffer, work.schema))
    arrived = [arriving(table, work.schema) for table in arrived]
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
    counts = (came.events, len(came.late_events), len(came.waiting), *size, came.lag)
    outcome = Outcome(results, *counts, came.late_events, since=bucket.until)
    return write_bucket(work, job.kind, came, engine), outcome


def live_job(work: Work) -> LiveJob[Any]:
    """Create the job of a query over a stream."""
    return work.kind.live_job(work)
