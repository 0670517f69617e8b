"""Tasks of Spark's Python workers for a stream that may shed events (``jobs.shedding``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns, notice_types, read_times
from cepheid.jobs.blobs import Batches, split
from cepheid.jobs.bucket import Outcome
from cepheid.jobs.ordering import ordered
from cepheid.jobs.shed_turn import ShedArrived, shed_turn
from cepheid.jobs.shedding import Level, Shed, kept
from cepheid.jobs.watermarks import in_microseconds
from cepheid.jobs.work import Work
from cepheid.plans.plan import Plan
from cepheid.runtimes.spark.decisions import Tell, words_of_levels
from cepheid.runtimes.spark.stream_tasks import (
    SIDE_BITS,
    Turns,
    arrived_of_streams,
    kept_events,
    latest_of,
    only_bad,
    sent_rows,
    time_goes_on,
    turns_by,
    without_bad,
)
from cepheid.spark.batches import BUCKET, chunks, in_task, partition_id, with_names

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupState

HOME, DROPPED = range(2)
"""Kinds of blobs that are sent to a bucket; the number of a blob contains its kind."""
_Parts = dict[int, pa.Table]


def send_shed(
    work: Work,
    buckets: tuple[int, ...],
    by: Shed,
    tell: Tell,
    arriving: pa.Schema | None = None,
) -> Callable[[Batches], Batches]:
    """Build the task that sends events that are kept, and counts of the others, to buckets.

    ``arriving`` are the columns that come, if buckets get fewer of them. Levels are told.
    """

    def run(batches: Batches) -> Batches:
        plan, seq, levels = Plan.from_json(work.plan), partition_id() << 32, by.levels()
        if levels:
            tell(words_of_levels(by.allowed_ms, levels))
        keeps = work.kind.keeps(plan)
        names = [*work.schema.names, BUCKET]
        for chunk in chunks(batches):
            table, wrong = without_bad(with_names(chunk, arriving or work.schema))
            table, latest = latest_of(work, plan, table)
            if latest is None:
                yield only_bad(seq, wrong)
                continue
            notice_types(Columns(table), plan.type)
            events = kept_events(work, plan, keeps, table)
            events = events.select([name for name in events.column_names if name in names])
            told = latest, in_microseconds(work, latest)
            home, dropped = _parts(work, plan, by, levels, events)
            yield sent_rows(buckets, seq, told, home, (len(table), wrong))
            if dropped:
                beside = seq + (DROPPED << SIDE_BITS)
                yield sent_rows(buckets, beside, told, dropped, (0, None))
            seq += 1

    return in_task(run)


def _parts(
    work: Work, plan: Plan, by: Shed, levels: list[Level], events: pa.Table
) -> tuple[_Parts, _Parts]:
    """Split events that are kept, and counts of those that are not, by bucket."""
    keep = kept(levels, read_times(Columns(events), work.time))
    stays = ordered(events if keep.all() else events.filter(pa.array(keep)), plan)
    found = _by_bucket(stays, work.buckets, lambda own: own)
    if keep.all():
        return found, {}
    gone = events.filter(pa.array(~keep))

    def counted(own: pa.Table) -> pa.Table:
        return by.dropped(own, read_times(Columns(own), work.time))

    return found, _by_bucket(gone, work.buckets, counted)


def _by_bucket(
    events: pa.Table, count: int, then: Callable[[pa.Table], pa.Table]
) -> dict[int, pa.Table]:
    place = np.zeros(len(events), np.int64)
    if BUCKET in events.column_names:
        place = events[BUCKET].to_numpy().astype(np.int64)
        events = events.drop_columns([BUCKET])
    return {number: then(own) for number, own in split(events, place, count)}


def take_shed_turns(work: Work, by: Shed, decider: int) -> Turns:
    """Build the stateful operator of a query that may shed events; one bucket decides."""

    def one(
        bucket: int,
        data: bytes | None,
        arrived: list[list[pa.Table]],
        latest: int | None,
        started_ms: int,
        _passed: int,
    ) -> tuple[bytes, Outcome]:
        home, dropped = arrived
        came = ShedArrived(home, dropped, bucket, started_ms, decides=bucket == decider)
        saved, outcome = shed_turn(work, by, data, came, latest)
        by.note_pace(bucket, started_ms, time.time_ns() // 1_000_000 - started_ms)
        return saved, outcome._replace(lag=in_microseconds(work, outcome.lag))

    def read(sent: list[pd.DataFrame], state: GroupState) -> tuple[Any, ...]:
        tables, latest = arrived_of_streams(sent, DROPPED + 1)
        told = max((found for found in latest if found is not None), default=None)
        told, clock = time_goes_on(work, state, told)
        return clock, tables, told, state.getCurrentProcessingTimeMs()

    return turns_by(one, read, work)
