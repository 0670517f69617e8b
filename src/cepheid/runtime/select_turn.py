"""One bucket of a live SELECT over windows of events: state and what arrived in, rows out (§10.7).

The same shape as ``stream_state.turn``. Events for which WHERE is true wait until the watermark
passes them; then they have their numbers, and the windows that they fill leave.
"""

from __future__ import annotations

import pyarrow as pa

from cepheid.engine.select_counted import (
    CountedJob,
    CountedState,
    count_open,
    empty_rows,
    step_counted,
)
from cepheid.engine.select_counted_snapshot import counted_from_bytes, counted_to_bytes
from cepheid.planner.plan import SelectsPlan
from cepheid.runtime.bucket import Outcome, read_bucket, restored, take_in, write_bucket
from cepheid.runtime.ordering import STEP_ROWS, slices
from cepheid.runtime.work import Work

KIND = "a SELECT over windows of events"


def turn_counted(
    work: Work, data: bytes | None, arrived: list[pa.Table], latest: int | None
) -> tuple[bytes, Outcome]:
    """Take in what arrived, up to the watermark that follows from the latest time.

    Raises
    ------
    DataError
        E524 if the state was written by another query, or for other columns; E5xx for what is
        wrong with the events.
    """
    job = CountedJob.of(SelectsPlan.from_json(work.plan), work.schema)
    bucket = read_bucket(work, data, KIND)
    state = restored(job, bucket.engine, CountedState.start, counted_from_bytes)
    came = take_in(work, job.plan, bucket, arrived, latest)
    found = [empty_rows(job)]
    for part in slices(came.ready, STEP_ROWS):
        state, rows = step_counted(job, state, part)
        found.append(rows)
    results = work.shown(pa.concat_tables(found))
    counts = (came.events, came.late, len(came.waiting), len(state.seen), count_open(job, state))
    saved = write_bucket(work, KIND, came, counted_to_bytes(job, state))
    return saved, Outcome(results, *counts, came.lag)
