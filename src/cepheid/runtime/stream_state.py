"""One bucket of a live stream: its state and what arrived in, its state and what is certain out.

    turn(work, data, arrived, latest)  ->  (data, Outcome)

The state is bytes: the watermark, the engine's snapshot, and a buffer of the events that are not
before the watermark. Events wait in the buffer until the watermark passes them; then they are put
in order and go through ``step``, and ``advance`` closes the windows that end by the watermark.

Every bucket is told the latest time of all events of a micro-batch, so all move their watermarks
alike, and at once: Spark's own is one micro-batch behind, and all events would wait in the state.
What comes before the watermark of the micro-batches before is late: counted, without effect.
"""

from __future__ import annotations

import pyarrow as pa

from cepheid.engine.events import Columns, KeyTable
from cepheid.engine.idle import forget_idle_keys
from cepheid.engine.job import Job
from cepheid.engine.partials import RowsOfRuns
from cepheid.engine.results import build_table
from cepheid.engine.snapshot import state_from_bytes, state_to_bytes
from cepheid.engine.step import PartitionState, advance, finish, step
from cepheid.planner.plan import SituationsPlan, WindowKind, WindowPlan
from cepheid.runtime.bucket import Outcome, read_bucket, restored, take_in, write_bucket
from cepheid.runtime.local import LOOK_BACK_ROWS
from cepheid.runtime.ordering import STEP_ROWS, slices
from cepheid.runtime.situation_turn import turn_situations
from cepheid.runtime.stream_matches import list_until
from cepheid.runtime.work import Work

KIND = "a query"


def turn(
    work: Work, data: bytes | None, arrived: list[pa.Table], latest: int | None
) -> tuple[bytes, Outcome]:
    """Take in what arrived, up to the watermark that follows from the latest time.

    Raises
    ------
    DataError
        E524 if the state was written by another query; E5xx for what is wrong with the events.
    """
    if isinstance(work.planned(), SituationsPlan):
        return turn_situations(work, data, arrived, latest)
    job = work.job()
    bucket = read_bucket(work, data, KIND)
    state = restored(job, bucket.engine, PartitionState, state_from_bytes)
    came = take_in(work, job.plan, bucket, arrived, latest)
    results = work.result_schema.empty_table()
    partitions = len(state.keys)
    if came.until is not None:
        take = list_until if job.plan.lists_matches else _answer_until
        state, found = take(job, state, came.ready, came.until, work.schema)
        results = work.shown(found)
        partitions = len(state.keys)
        state = forget_idle_keys(job, state, came.until)
    engine = state_to_bytes(job, state)
    if job.plan.window.emit_early and len(came.on_time):
        results = pa.concat_tables([results, _so_far(work, engine, came.waiting, came.on_time)])
    outcome = Outcome(
        results, came.events, came.late, len(came.waiting), partitions,
        open_windows(job.plan.window, came.until, came.lag, partitions), came.lag,
    )  # fmt: skip
    return write_bucket(work, KIND, came, engine), outcome


def _so_far(work: Work, engine: bytes, waiting: pa.Table, came: pa.Table) -> pa.Table:
    """Return what is known of open windows, of the groups of which events came (§6.7).

    What waits goes through a copy of the state, with a job of its own: programs learn.
    """
    job = work.job()
    state = state_from_bytes(job, engine)
    rows: RowsOfRuns = [[] for _ in range(job.outputs)]
    for part in slices(waiting, LOOK_BACK_ROWS if job.looks_back else STEP_ROWS):
        state, found = step(job, state, part)
        _add(rows, found)
    state, found = finish(job, state)
    _add(rows, found)
    table = build_table(job, rows, state.keys, work.schema)
    groups = KeyTable(job.plan.partition.group_by)
    groups.number(Columns(came))
    count = len(groups)
    changed = groups.number(Columns(table)) < count
    return work.shown(table.filter(pa.array(changed)))


def open_windows(window: WindowPlan, until: int | None, lag: int, partitions: int) -> int:
    """Return how many windows have begun by the latest event and are not closed.

    Windows that go with the events of a partition are one for each partition.
    """
    if window.kind not in (WindowKind.SLIDING, WindowKind.TUMBLING):
        return partitions
    if until is None:
        return 0
    slide = window.slide or window.within
    first = (until - window.within) // slide + 1
    return int((until + lag) // slide - first + 1)


def _answer_until(
    job: Job, state: PartitionState, events: pa.Table, until: int, schema: pa.Schema
) -> tuple[PartitionState, pa.Table]:
    """Return the results of the windows that end by a time, after events before it."""
    rows: RowsOfRuns = [[] for _ in range(job.outputs)]
    for part in slices(events, LOOK_BACK_ROWS if job.looks_back else STEP_ROWS):
        state, found = step(job, state, part)
        _add(rows, found)
    state, found = advance(job, state, until)
    _add(rows, found)
    return state, build_table(job, rows, state.keys, schema)


def _add(rows: RowsOfRuns, found: RowsOfRuns) -> None:
    for mine, new in zip(rows, found, strict=True):
        mine += new
