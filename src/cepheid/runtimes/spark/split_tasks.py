"""Tasks of Spark's Python workers for a stream whose hot keys are split (``jobs.hot_keys``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns, notice_types, read_times
from cepheid.jobs.blobs import Batches, split
from cepheid.jobs.bucket import COUNTED, Outcome
from cepheid.jobs.hot_keys import Split
from cepheid.jobs.ordering import ordered
from cepheid.jobs.room import roomy
from cepheid.jobs.split_turn import SplitArrived, rows_of_split, split_turn
from cepheid.jobs.tables import table_from_bytes
from cepheid.jobs.watermarks import in_microseconds
from cepheid.jobs.work import Work
from cepheid.plans.plan import Plan
from cepheid.runtimes.spark.decisions import Tell, words_of_keys
from cepheid.runtimes.spark.stream_tasks import (
    PANES,
    SIDE_BITS,
    Turns,
    kept_events,
    latest_of,
    only_bad,
    sent_rows,
    turns_of_sides,
    without_bad,
)
from cepheid.spark.batches import BUCKET, REPORT_ROWS, chunks, in_task, partition_id, with_names

HOME, OF_PANES, HEAT = range(3)
"""Kinds of blobs that are sent to a bucket; the number of a blob contains its kind."""


def send_split(
    work: Work, buckets: tuple[int, ...], by: Split, tell: Tell
) -> Callable[[Batches], Batches]:
    """Build the task that sends events to the buckets of their keys or panes.

    The column of buckets has the hash of the key. Keys that are split are told.
    """

    def run(batches: Batches) -> Batches:
        plan, seq, hot = Plan.from_json(work.plan), partition_id() << 32, by.read()
        keeps = work.kind.keeps(plan)
        if len(hot):
            tell(words_of_keys(hot.found))
        for chunk in chunks(batches):
            table, wrong = without_bad(with_names(chunk, work.schema))
            table, latest = latest_of(work, plan, table)
            if latest is None:
                yield only_bad(seq, wrong)
                continue
            notice_types(Columns(table), plan.type)
            kept = ordered(kept_events(work, plan, keeps, table), plan)
            hashes = kept[BUCKET].to_numpy().astype(np.int64)
            kept = kept.drop_columns([BUCKET])
            placed = by.place(hot, kept, hashes, read_times(Columns(kept), work.time))
            home = kept.append_column(COUNTED, pa.array(placed.counted))
            found = {HOME: _parts(home, placed.home, by), OF_PANES: _parts(kept, placed.pane, by)}
            heat = by.heat(hot, kept, hashes) if len(kept) else None
            if heat is not None:
                found[HEAT] = _parts(heat, heat["__hash"].to_numpy() % by.buckets, by)
            told = latest, in_microseconds(work, latest)
            for side, parts in found.items():
                about = (len(table), wrong) if side == HOME else (0, None)
                if parts or side == HOME:
                    yield sent_rows(buckets, seq + (side << SIDE_BITS), told, parts, about)
            seq += 1

    return in_task(run)


def _parts(table: pa.Table, place: np.ndarray, by: Split) -> dict[int, pa.Table]:
    """Split a table by bucket, without the rows that go nowhere."""
    goes = place >= 0
    if not goes.all():
        table, place = table.filter(pa.array(goes)), place[goes]
    return dict(split(table, place, by.buckets))


def take_split_turns(work: Work, by: Split) -> Turns:
    """Build the stateful operator of a query whose hot keys are split."""

    def one(
        _bucket: int,
        data: bytes | None,
        arrived: list[list[pa.Table]],
        latest: int | None,
        _passed: int,
    ) -> tuple[bytes, Outcome]:
        saved, outcome = split_turn(work, by, data, SplitArrived(*arrived), latest)
        return saved, outcome._replace(lag=in_microseconds(work, outcome.lag))

    return turns_of_sides(one, work, HEAT + 1)


def rows_and_panes(work: Work, by: Split) -> Callable[[Batches], Batches]:
    """Build the task that decodes rows, and makes rows of the panes of all buckets."""

    def run(batches: Batches) -> Batches:
        closed: list[pa.Table] = []
        for batch in batches:
            for part, payload in zip(batch.column(0), batch.column(1), strict=True):
                table = table_from_bytes(payload.as_py())
                if part.as_py() == PANES:
                    closed.append(table)
                else:
                    yield from _batches(table)
        if closed:
            yield from _batches(roomy(rows_of_split)(work, by, closed))

    return in_task(run)


def _batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from rows.combine_chunks().to_batches(REPORT_ROWS)
