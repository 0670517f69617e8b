"""Live queries over a table that changes, on Spark: changes in, a changelog of rows out (§18).

    changes --mapInArrow--> blobs by bucket --stateful operator--> blobs --mapInArrow--> rows

The state of a bucket is the part of the table that it follows. All changes of an event must reach
its bucket, and so must all events of a row. So buckets are those of the keys of the query that are
in the id; without such a key there is one bucket.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from cepheid.arrays.columns import Columns, notice_types
from cepheid.jobs.blobs import Batches, split
from cepheid.jobs.bucket import Outcome
from cepheid.jobs.changes.asked import Changes, check_changelog
from cepheid.jobs.changes.follow import Follower
from cepheid.jobs.changes.journal import Journal
from cepheid.jobs.changes.ops import BEFORE, DELETE, read_ops
from cepheid.jobs.changes.rows import changelog_schema
from cepheid.jobs.kind import kind_of
from cepheid.jobs.watermarks import in_microseconds, watermark_after
from cepheid.jobs.work import Work
from cepheid.options import LiveOptions, unused
from cepheid.plans.plan import Plan
from cepheid.runtimes.spark import stream_tasks as tasks
from cepheid.runtimes.spark.bad_records import Asked, Checked, events_schema, timed_records
from cepheid.runtimes.spark.key_spread import canonical
from cepheid.runtimes.spark.live_output import LiveOutput
from cepheid.runtimes.spark.stream import (
    Delays,
    ReadColumns,
    bucket_count,
    buckets_of,
    check_stream,
    live_notices,
    output_of_turns,
    set_up,
    with_sides,
)
from cepheid.spark.batches import BUCKET, chunks, in_task, partition_id, with_names
from cepheid.spark.records import BAD as BAD_COLUMN
from cepheid.spark.schema import names_of, path_of, result_schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cepheid.runtimes.local import CompiledQueryLike


def stream_changes(compiled: CompiledQueryLike, frame: DataFrame, asked: LiveOptions) -> Any:
    """Build the changelog of rows of a stream of changes and, if requested, bad changes.

    Raises
    ------
    OptionError
        E591 for treatments of late events, which have no effect here.
    UnsupportedError
        E433 if the rows cannot follow changes.
    """
    changes = Changes.of(asked.changes)
    assert changes is not None, "there is a changelog"
    check_stream(frame, asked)
    _check_options(asked)
    frame = timed_records(frame, compiled.times)
    fields = events_schema(frame)
    changes.check_columns(fields.names)
    names = changes.attributes(fields.names)
    plan = compiled.with_schema(frame.select(*(path_of(frame, n) for n in names)).schema).plan
    set_up(frame.sparkSession)
    delays = Delays.of(frame.sparkSession, asked)
    reads = tuple(n for n in names_of(plan, names) if n != plan.time)
    checked = Checked.of(
        frame, Asked(plan.time, plan.tick_ns, None, (), reads, delays.ahead, changes)
    )
    if asked.tagged:
        return _output(checked.tagged(asked.bad), plan, changes, delays)
    rows = _output(checked.events(asked.bad), plan, changes, delays).rows()
    return with_sides(rows, lambda: rows, checked.bad, asked)


def _check_options(asked: LiveOptions) -> None:
    """Refuse options that have no effect on a changelog (§18.7)."""
    for name, given in (
        ("late", asked.late != "drop"),
        ("idle", asked.idle is not None),
        ("allowed_lateness", asked.lateness is not None),
    ):
        if given:
            why = "changes may come for any event that is not final, and rows follow at once"
            unused(name, why, "leave it out; `watermark` says when events are final")


def _output(frame: DataFrame, plan: Plan, changes: Changes, delays: Delays) -> LiveOutput:
    """Build the output of a plan: a changelog of rows, and bad changes."""
    spark = frame.sparkSession
    given = [name for name in frame.columns if name != BAD_COLUMN]
    wanted = changes.identity(given) if changes.id else given
    shown = [*names_of(plan, changes.attributes(given)), changes.op, *wanted, *changes.order]
    chosen = {name: path_of(frame, name) for name in dict.fromkeys(shown)}
    read = ReadColumns.select(frame, frame, chosen, whole=False)
    projected, schema = read.projected, read.schema
    events = pa.schema([schema.field(name) for name in changes.attributes(schema.names)])
    results = result_schema_of(plan, events)
    check_changelog(plan, results.names)
    results = changelog_schema(results)
    keys = bucket_keys(plan, changes, given)
    buckets = buckets_of(bucket_count(spark)) if keys else (0,)
    work = delays.work(plan, schema, results, len(buckets))
    if keys:
        hashed = sf.hash(*(canonical(projected, name) for name in keys))
        projected = projected.withColumn(BUCKET, sf.pmod(hashed, sf.lit(len(buckets))))
    elif bucket_count(spark) > 1:
        _tell_one_bucket(plan)
    notices = live_notices([plan])
    send = notices.watched(spark, send_changes(work, changes, buckets))
    sent = projected.mapInArrow(send, tasks.SENT_DDL)
    output = output_of_turns(
        sent, delays, tasks.turns_of(follow_turn(work, changes), work), results
    )
    output.decode.update(read.decode)
    return output._replace(finish=notices.finish)


def bucket_keys(plan: Plan, changes: Changes, given: list[str]) -> tuple[str, ...]:
    """Choose the columns that every change has and by which the query can be split."""
    known = changes.identity(given)
    splits = kind_of(plan).splits(plan)
    if splits.by_row:
        return tuple(known)
    return tuple(one.inputs[0] for one in splits.splits if one.inputs[0] in known)


def _tell_one_bucket(plan: Plan) -> None:
    names = [split.inputs[0] for split in kind_of(plan).splits(plan).splits]
    why = f"no key of the query ({', '.join(names)}) is in the id of changes"
    if not names:
        why = "the query has no key by which it could be split"
    warnings.warn(f"one task follows all changes: {why}", stacklevel=6)


def send_changes(
    work: Work, changes: Changes, buckets: tuple[int, ...]
) -> Callable[[Batches], Batches]:
    """Build the task that sends changes to buckets, with the latest time that one of them adds."""

    def run(batches: Batches) -> Batches:
        plan = work.planned()
        seq = partition_id() << 32
        for chunk in chunks(batches):
            table, wrong = tasks.without_bad(with_names(chunk, work.schema))
            if not len(table):
                yield tasks.only_bad(seq, wrong)
                continue
            place = np.zeros(len(table), np.int64)
            if BUCKET in table.column_names:
                place = table[BUCKET].to_numpy().astype(np.int64)
                table = table.drop_columns([BUCKET])
            notice_types(Columns(table), plan.type)
            latest = _latest(table, changes, plan.time)
            parts = dict(split(table, place, len(buckets)))
            stamp = 0 if latest == tasks.NOT_TOLD else in_microseconds(work, latest)
            yield tasks.sent_rows(buckets, seq, (latest, stamp), parts, (len(table), wrong))
            seq += 1

    return in_task(run)


def _latest(table: pa.Table, changes: Changes, time: str) -> int:
    """Return the latest time that a change adds."""
    op = read_ops(table[changes.op])
    adds = np.flatnonzero((op != DELETE) & (op != BEFORE))
    if not len(adds):
        return tasks.NOT_TOLD
    times = Columns(table.select([time]).take(adds)).ticks(time)
    return int(np.asarray(times.data, np.int64).max())


def follow_turn(work: Work, changes: Changes) -> tasks.Turn:
    """Build the function that applies the changes of a micro-batch to the table of a bucket."""

    def one(
        bucket: int, data: bytes | None, arrived: list[pa.Table], latest: int | None, _passed: int
    ) -> tuple[bytes, Outcome]:
        del bucket
        schema = work.schema
        events = pa.schema([schema.field(n) for n in changes.attributes(schema.names)])
        journal = Journal(lambda: Follower(work.planned(), events, changes), work.buckets, data)
        table = pa.concat_tables([schema.empty_table(), *arrived])
        rows = journal.take(table, lambda before: watermark_after(work, before, latest))
        follower = journal.follower
        lag = 0 if latest is None else max(latest - follower.until, 0)
        return journal.to_bytes(), Outcome(
            work.shown(rows),
            len(table),
            follower.counts.late,
            0,
            len(follower.ledger),
            0,
            in_microseconds(work, lag),
            events.empty_table(),
        )

    return one
