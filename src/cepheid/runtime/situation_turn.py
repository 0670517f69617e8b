"""One bucket of a live stream of situations: its state and what arrived in, rows out.

The same shape as ``stream_state.turn``. Events wait until the watermark passes them; then all of
their time are there, and what is certain leaves at once, while situations still go on.
"""

from __future__ import annotations

import pyarrow as pa

from cepheid.engine.situation_job import SituationJob
from cepheid.engine.situation_results import empty_rows
from cepheid.engine.situation_snapshot import situations_from_bytes, situations_to_bytes
from cepheid.engine.situations import (
    SituationState,
    forget_idle_partitions,
    step_situations,
)
from cepheid.planner.plan import SituationsPlan
from cepheid.runtime.bucket import Outcome, read_bucket, restored, take_in, write_bucket
from cepheid.runtime.ordering import STEP_ROWS, slices
from cepheid.runtime.work import Work

KIND = "a query about situations"


def turn_situations(
    work: Work, data: bytes | None, arrived: list[pa.Table], latest: int | None
) -> tuple[bytes, Outcome]:
    """Take in what arrived, up to the watermark that follows from the latest time.

    Raises
    ------
    DataError
        E524 if the state was written by another query, or for other columns; E5xx for what is
        wrong with the events.
    """
    job = SituationJob(SituationsPlan.from_json(work.plan))
    bucket = read_bucket(work, data, KIND)
    state = restored(job, bucket.engine, SituationState.start, situations_from_bytes)
    came = take_in(work, job.plan, bucket, arrived, latest)
    found = [empty_rows(job, work.schema)]
    partitions = len(state.keys)
    if came.until is not None:
        for part in slices(came.ready, STEP_ROWS):
            state, rows = step_situations(job, state, part)
            found.append(rows)
        # No event before the watermark can come any more.
        state, rows = step_situations(job, state, work.schema.empty_table(), complete=True)
        found.append(rows)
        partitions = len(state.keys)
        state = forget_idle_partitions(state)
    results = work.shown(pa.concat_tables(found))
    counts = (came.events, came.late, len(came.waiting), partitions, partitions, came.lag)
    saved = write_bucket(work, KIND, came, situations_to_bytes(job, state))
    return saved, Outcome(results, *counts)
