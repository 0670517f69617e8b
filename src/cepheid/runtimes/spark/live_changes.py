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

from cepheid.arrays.columns import Columns, notice_types
from cepheid.jobs.blobs import Batches, split
from cepheid.jobs.bucket import Outcome
from cepheid.jobs.changes.asked import ADDED, Changes, check_changelog
from cepheid.jobs.changes.follow import Follower
from cepheid.jobs.changes.journal import Journal
from cepheid.jobs.changes.near import near
from cepheid.jobs.changes.ops import BEFORE, DELETE, read_ops
from cepheid.jobs.changes.rows import changelog_schema
from cepheid.jobs.kind import kind_of
from cepheid.jobs.watermarks import in_microseconds, watermark_after
from cepheid.jobs.work import Work
from cepheid.options import LiveOptions, unused
from cepheid.plans.plan import Plan
from cepheid.runtimes.spark import stream_tasks as tasks
from cepheid.runtimes.spark.bad_records import Asked, Checked, events_schema, timed_records
from cepheid.runtimes.spark.folder_stream import FolderColumns
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
    from pyspark.sql import DataFrame, SparkSession

    from cepheid.runtimes.local import CompiledQueryLike


def stream_changes(compiled: CompiledQueryLike, frame: DataFrame, asked: LiveOptions) -> Any:
    """Build the changelog of rows of a stream of changes and, if requested, bad changes.

    Without a changelog, late events are what changes the table (§13.5).

    Raises
    ------
    OptionError
        E591 for options that have no effect here.
    UnsupportedError
        E433 if the rows cannot follow changes.
    """
    changes = Changes.of(asked.changes) or ADDED
    check_stream(frame, asked)
    _check_options(asked, changes)
    frame = timed_records(frame, compiled.times)
    fields = events_schema(frame)
    changes.check_columns(fields.names)
    names = changes.attributes(fields.names)
    plan = compiled.with_schema(frame.select(*(path_of(frame, n) for n in names)).schema).plan
    set_up(frame.sparkSession)
    delays = Delays.of(frame.sparkSession, asked)
    # A row may change until no event is accepted any more.
    delays = delays._replace(delay=delays.delay + delays.lateness, lateness=0)
    reads = tuple(n for n in names_of(plan, names) if n != plan.time)
    checked = Checked.of(frame, _judged(plan, reads, delays.ahead, changes))
    given = [field.name for field in fields]
    keys = bucket_keys(plan, changes, given)
    if not keys and bucket_count(frame.sparkSession) > 1:
        _tell_one_bucket(plan)
    files = FolderColumns.reading(
        frame, _shown(plan, changes, given), checked.asked, keys, asked.bad
    )
    if asked.tagged and files is not None:
        return _output_of(frame.sparkSession, files, plan, changes, delays, keys)
    if asked.tagged:
        return _output(checked.tagged(asked.bad), plan, changes, delays, keys)
    if files is not None:
        files = files._replace(keeps_bad=False)
        rows = _output_of(frame.sparkSession, files, plan, changes, delays, keys).rows()
    else:
        rows = _output(checked.events(asked.bad), plan, changes, delays, keys).rows()
    return with_sides(rows, lambda: rows, checked.bad, asked)


def _judged(plan: Plan, reads: tuple[str, ...], ahead_us: int, changes: Changes) -> Asked:
    """Collect what a record has to be: an event that the query can place, or a change."""
    if changes.only_adds:
        return Asked.of([plan], reads, ahead_us)
    return Asked(plan.time, plan.tick_ns, None, (), reads, ahead_us, changes)


def _check_options(asked: LiveOptions, changes: Changes) -> None:
    """Refuse options that have no effect on a changelog (§18.7)."""
    late = not changes.only_adds
    for name, given in (
        ("late", late and asked.late != "drop"),
        ("idle", asked.idle is not None),
        ("allowed_lateness", late and asked.lateness is not None),
    ):
        if given:
            why = "changes may come for any event that is not final, and rows follow at once"
            unused(name, why, "leave it out; `watermark` says when events are final")


def _output(
    frame: DataFrame, plan: Plan, changes: Changes, delays: Delays, keys: tuple[str, ...]
) -> LiveOutput:
    """Build the output of a plan: a changelog of rows, and bad changes."""
    given = [name for name in frame.columns if name != BAD_COLUMN]
    chosen = {name: path_of(frame, name) for name in _shown(plan, changes, given)}
    read = ReadColumns.select(frame, frame, chosen, whole=False)
    return _output_of(frame.sparkSession, read, plan, changes, delays, keys)


def _shown(plan: Plan, changes: Changes, given: list[str]) -> list[str]:
    """List the columns that go to buckets."""
    if changes.only_adds:
        return [*names_of(plan, given)]
    wanted = changes.identity(given) if changes.id else given
    shown = [*names_of(plan, changes.attributes(given)), changes.op, *wanted, *changes.order]
    return list(dict.fromkeys(shown))


def _output_of(
    spark: SparkSession,
    read: ReadColumns | FolderColumns,
    plan: Plan,
    changes: Changes,
    delays: Delays,
    keys: tuple[str, ...],
) -> LiveOutput:
    """Build the same output from columns that were chosen."""
    schema = read.schema
    events = pa.schema([schema.field(name) for name in changes.attributes(schema.names)])
    results = result_schema_of(plan, events)
    check_changelog(plan, results.names)
    results = changelog_schema(results)
    buckets = buckets_of(bucket_count(spark)) if keys else (0,)
    work = delays.work(plan, schema, results, len(buckets))
    notices = live_notices([plan])
    send = notices.watched(spark, send_changes(work, changes, buckets))
    sent = read.sent(send, keys, len(buckets))
    output = output_of_turns(
        sent, delays, tasks.turns_of(follow_turn(work, changes), work), results
    )
    output.decode.update(read.decode)
    return output._replace(finish=notices.finish)


def bucket_keys(plan: Plan, changes: Changes, given: list[str]) -> tuple[str, ...]:
    """Choose the columns that every change has and by which the query can be split."""
    splits = kind_of(plan).splits(plan)
    # Of events that only come, no change has to find one again.
    known = given if changes.only_adds else changes.identity(given)
    if splits.by_row:
        # Equal rows have to meet.
        shown = kind_of(plan).shows(plan)
        return tuple(name for name in known if name in shown)
    keys = near(plan).keys
    return tuple(name for name in keys if changes.only_adds or name in known)


def _tell_one_bucket(plan: Plan) -> None:
    names = [split.inputs[0] for split in kind_of(plan).splits(plan).splits]
    why = f"no key of the query ({', '.join(names)}) is in the id of changes, or rows lack it"
    if not names:
        why = "the query has no key by which it could be split"
    warnings.warn(f"one task follows all changes: {why}", stacklevel=5)


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
    adds = np.arange(len(table))
    if not changes.only_adds:
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
        told = journal.take(table, lambda before: watermark_after(work, before, latest))
        lag = 0 if latest is None else max(latest - journal.until, 0)
        return journal.to_bytes(), Outcome(
            work.shown(told.rows),
            len(table),
            told.counts.late,
            0,
            told.events,
            0,
            in_microseconds(work, lag),
            events.empty_table(),
        )

    return one
