"""One bucket of a live query without partitions: it has panes of its own, and gives their matrices.

The same shape as ``stream_state.turn``. What it gives is no result yet: in the micro-batch in which
windows close, all buckets give the matrices of these windows, and one task multiplies them.
"""

from __future__ import annotations

import pyarrow as pa

from cepheid.engine.live_panes import LivePanes, closing
from cepheid.engine.results import build_table
from cepheid.planner.strategies import live_pane
from cepheid.runtime.bucket import Outcome, read_bucket, restored, take_in, write_bucket
from cepheid.runtime.stream_state import open_windows
from cepheid.runtime.work import Work

KIND = "panes of a query"

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("since", pa.int64()),
    ("until", pa.int64()),
    ("events", pa.binary()),
    ("matrices", pa.binary()),
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
    window = job.plan.window
    bucket = read_bucket(work, data, KIND)
    start = LivePanes.start(job, live_pane(job.plan), work.schema)
    panes = restored(start, bucket.engine, lambda none: none, LivePanes.read)
    came = take_in(work, job.plan, bucket, arrived, latest)
    closed = _CLOSED.empty_table()
    if came.until is not None:
        panes = panes.feed(came.ready)
        ending = closing(window, bucket.until, came.until)
        if ending is not None:
            given = panes.between(ending.begin, ending.end)
            if len(given):
                row = (ending.since, ending.until, *given.parts())
                closed = pa.Table.from_arrays([pa.array([v]) for v in row], schema=_CLOSED)
            panes = panes.between(ending.kept)
    outcome = Outcome(
        closed, came.events, came.late, len(came.waiting), int(len(panes) > 0),
        open_windows(window, came.until, came.lag, 1), came.lag,
    )  # fmt: skip
    return write_bucket(work, KIND, came, panes.to_bytes()), outcome


def rows_of_panes(work: Work, closed: list[pa.Table]) -> pa.Table:
    """Return the rows of the windows that closed, of what all buckets gave in a micro-batch."""
    job = work.job()
    given = pa.concat_tables(closed)
    # All buckets are told the same times, so they have the same watermarks.
    since, until = given["since"][0].as_py(), given["until"][0].as_py()
    parts = [(row["events"], row["matrices"]) for row in given.to_pylist()]
    panes = LivePanes.of_parts(job, live_pane(job.plan), work.schema, parts)
    rows, keys = panes.rows(since, until)
    return work.shown(build_table(job, rows, keys, work.schema))
