"""One bucket of a live query without partitions: it has panes of its own, and gives their matrices.

The same shape as ``stream_state.turn``. What it gives is no result yet: in the micro-batch in which
windows close, all buckets give the matrices of these windows, and one task multiplies them.
"""

from __future__ import annotations

import pyarrow as pa

from cepheid.engine.job import Job
from cepheid.engine.live_panes import LivePanes, closing, put_together
from cepheid.engine.results import build_table
from cepheid.planner.strategies import live_pane
from cepheid.runtime.bucket import Outcome, misfit, read_bucket, take_in, write_bucket
from cepheid.runtime.ordering import STEP_ROWS, slices
from cepheid.runtime.stream_state import open_windows
from cepheid.runtime.work import Work

KIND = "panes of a query"

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("since", pa.int64()),
    ("until", pa.int64()),
    ("stretch", pa.binary()),
]
_CLOSED = pa.schema(_FIELDS)


def turn_panes(
    work: Work, data: bytes | None, arrived: list[pa.Table], latest: int | None
) -> tuple[bytes, Outcome]:
    """Take in what arrived, up to the watermark that follows from the latest time.

    Raises
    ------
    DataError
        E524 if the state was written by another query; E5xx for what is wrong with the events.
    """
    job = work.job()
    window, pane = job.plan.window, live_pane(job.plan.window)
    bucket = read_bucket(work, data, KIND)
    panes = LivePanes(job, pane) if bucket.engine is None else _restore(job, pane, bucket.engine)
    came = take_in(work, job.plan, bucket, arrived, latest)
    closed = _CLOSED.empty_table()
    if came.until is not None:
        if len(came.ready):
            panes = panes.feed(list(slices(came.ready, STEP_ROWS)))
        ending = closing(window, bucket.until, came.until)
        if ending is not None:
            stretch = panes.between(ending.begin, ending.end).stretch(work.schema)
            if stretch:
                row = {"since": ending.since, "until": ending.until, "stretch": stretch}
                closed = pa.Table.from_pylist([row], _CLOSED)
            panes = panes.between(ending.kept)
    outcome = Outcome(
        closed, came.events, came.late, len(came.waiting), int(len(panes) > 0),
        open_windows(window, came.until, came.lag, 1), came.lag,
    )  # fmt: skip
    return write_bucket(work, KIND, came, panes.to_bytes(work.schema)), outcome


def rows_of_panes(work: Work, closed: list[pa.Table]) -> pa.Table:
    """Return the rows of the windows that closed, of what all buckets gave in a micro-batch."""
    job = work.job()
    given = pa.concat_tables(closed)
    # All buckets are told the same times, so they have the same watermarks.
    since, until = given["since"][0].as_py(), given["until"][0].as_py()
    stretches = [data.as_py() for data in given["stretch"]]
    rows, keys = put_together(job, live_pane(job.plan.window), stretches, since, until)
    return build_table(job, rows, keys, work.schema).cast(work.result_schema)


def _restore(job: Job, pane: int, engine: bytes) -> LivePanes:
    try:
        return LivePanes.from_bytes(job, pane, engine)
    except ValueError as error:
        raise misfit(str(error)) from error
