"""Tasks of Spark's Python workers for a stream: micro-batches in, blobs or results out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.arrays.columns import Columns, notice_types, read_times
from cepheid.errors import CepheidError
from cepheid.jobs.blobs import Batches, split
from cepheid.jobs.bucket import Arrived, Outcome, is_late, read_bucket, write_bucket
from cepheid.jobs.kind import TaskKind
from cepheid.jobs.marks import with_mark, without_marks
from cepheid.jobs.microbatch import turn
from cepheid.jobs.ordering import ordered
from cepheid.jobs.panes import place_panes
from cepheid.jobs.room import check_value, roomy
from cepheid.jobs.tables import table_from_bytes, table_to_bytes
from cepheid.jobs.watermarks import MILLISECOND, in_microseconds, in_ticks, watermark_after
from cepheid.jobs.work import Work
from cepheid.kinds.trend.match_tasks import number_matches
from cepheid.plans.plan import Plan
from cepheid.runtimes.spark.decisions import Counting
from cepheid.spark.batches import BUCKET, REPORT_ROWS, chunks, in_task, partition_id, with_names
from cepheid.spark.records import BAD as BAD_COLUMN
from cepheid.spark.records import MARKED
from cepheid.spark.worker import begin_task

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupState

SENT_DDL = (
    "bucket int, seq long, latest timestamp, told long, payload binary, seen long, wrong binary"
)
_SENT_FIELDS: list[tuple[str, pa.DataType]] = [
    ("bucket", pa.int32()),
    ("seq", pa.int64()),
    ("latest", pa.timestamp("us", "UTC")),
    ("told", pa.int64()),
    ("payload", pa.binary()),
    ("seen", pa.int64()),
    ("wrong", pa.binary()),
]
SENT = pa.schema(_SENT_FIELDS)

SIDE_BITS = 60
"""Where the number of a stream stands in the number of a blob."""

NOT_TOLD = -(1 << 63)
"""In place of the latest time where no event is sent."""

SUMS = ("seen", "events", "late", "buffered", "partitions", "state_bytes", "shed")
MAXIMA = ("open_windows", "lag_ms")
COUNTS = (*SUMS, *MAXIMA)
"""Counters of a turn; the progress of the query shows their sums or maxima over all buckets."""

STAMP_MAX = ((1 << 63) - 1) // 1000 - 86_400_000_000
"""Microseconds from 1970 to 2262, where pandas ends; so does the watermark that Spark shows.

A day is left for the zone of the session, in which pandas gets these times. Buckets have the
latest time as a number, and a watermark of their own.
"""

NO_BUCKET = -1
"""Where bad records go if no event is sent with them: no state is kept for it."""

STATE_DDL = "data binary"
CLOCKED_DDL = "data binary, latest long, arrived long"
"""The state of a bucket that lets time go on: also the latest time, and when it came."""

TURNED_DDL = ", ".join(f"{name} long" for name in COUNTS) + ", part string, payload binary"

PAYLOAD_ROWS = 1_000_000
"""Rows of one value that leaves a bucket; a value of Spark has at most 2 GB."""

ROWS, LATE, BAD, SUPPRESSED, PANES = "rows", "late", "bad", "suppressed", "panes"
"""Parts of the output of a live query: rows, late events, bad records, counts of other rows, and
panes of hot keys, of which rows are made."""

Frames = Iterator["pd.DataFrame"]
Turns = Callable[[Any, Iterable["pd.DataFrame"], "GroupState"], Frames]
Turn = Callable[[int, bytes | None, list[pa.Table], int | None, int], tuple[bytes, Outcome]]
"""A bucket, its state, the new events, the latest time, and Spark's watermark in microseconds."""
TurnOfStreams = Callable[
    [int, bytes | None, list[list[pa.Table]], list[int | None], int], tuple[bytes, Outcome]
]
"""The same for several streams, with what arrived of each."""

TurnOfSides = Callable[
    [int, bytes | None, list[list[pa.Table]], int | None, int], tuple[bytes, Outcome]
]
"""The same for one stream of which a bucket gets several kinds of tables."""

TurnOfRules = Callable[
    [int, bytes | None, tuple[list[pa.Table], list[bytes]], int | None, int],
    tuple[bytes, Outcome],
]
"""The same for a stream and the lines of a rules log."""


def send_stream(
    work: Work,
    buckets: tuple[int, ...],
    *,
    drop: bool = True,
    pane: int = 0,
    side: int = 0,
    arriving: pa.Schema | None = None,
    counting: Counting | None = None,
) -> Callable[[Batches], Batches]:
    """Build the task that sends events to buckets, with the latest time of all of them.

    Events that cannot affect the result are dropped here and not by Spark, because they also
    advance the watermark. With a length of panes, each bucket gets panes of its own. ``side`` is
    the number of a stream that meets another one in the bucket. ``arriving`` are the columns that
    come, if buckets get fewer of them. ``counting`` counts the events of each bucket of keys.
    """

    def run(batches: Batches) -> Batches:
        plan = Plan.from_json(work.plan)
        counter = None if counting is None else counting.start()
        keeps = work.kind.keeps(plan) if drop else None
        seq = (side << SIDE_BITS) + (partition_id() << 32)
        schema = work.schema
        for chunk in chunks(batches):
            table, wrong = without_bad(with_names(chunk, arriving or schema))
            table, latest = latest_of(work, plan, table)
            if not len(table) and latest is None:
                yield only_bad(seq, wrong)
                continue
            columns = Columns(table)
            notice_types(columns, plan.type)
            kept = kept_events(work, plan, keeps, table) if drop else table
            if arriving is not None:
                kept = kept.select([n for n in kept.column_names if n in (*schema.names, BUCKET)])
            kept = ordered(kept, plan)
            place = np.zeros(len(kept), np.int64)
            if BUCKET in kept.column_names:
                place = kept[BUCKET].to_numpy().astype(np.int64)
                kept = kept.drop_columns([BUCKET])
                if counter is not None:
                    counter.add(kept, place)
            elif pane:
                place = place_panes(read_times(Columns(kept), work.time), pane, len(buckets))
            parts = split(kept, place, len(buckets))
            told = None if latest is None else (latest, in_microseconds(work, latest))
            yield sent_rows(buckets, seq, told, dict(parts), (len(table), wrong))
            seq += 1
        if counting is not None and counter is not None:
            counting.end(counter)

    return in_task(run)


def latest_of(work: Work, plan: Plan, table: pa.Table) -> tuple[pa.Table, int | None]:
    """Return the events and the latest time: of an event or, of a stream that has marks, of one."""
    if MARKED in table.column_names:
        events, mark_us = without_marks(table, MARKED)
        return events, None if mark_us is None else in_ticks(work, mark_us)
    if not len(table):
        return table, None
    return table, int(read_times(Columns(table), plan.time).max())


def without_bad(table: pa.Table) -> tuple[pa.Table, bytes | None]:
    """Take bad records out of a table, if it has a column for them; they become bytes."""
    if BAD_COLUMN not in table.column_names:
        return table, None
    about = table[BAD_COLUMN].combine_chunks()
    events = table.drop_columns([BAD_COLUMN])
    wrong = pc.is_valid(about)
    if not pc.any(wrong).as_py():
        return events, None
    bad: Any = about.filter(wrong)
    columns = pa.Table.from_arrays(bad.flatten(), names=[field.name for field in bad.type])
    return events.filter(pc.invert(wrong)), table_to_bytes(columns)


def only_bad(seq: int, wrong: bytes | None) -> pa.RecordBatch:
    """Build the row of records of which none is an event; it has no time."""
    values = [NO_BUCKET, seq, None, NOT_TOLD, None, 0, wrong]
    return pa.RecordBatch.from_arrays(
        [pa.array([v], field.type) for v, field in zip(values, SENT, strict=True)], schema=SENT
    )


def sent_rows(
    buckets: tuple[int, ...],
    seq: int,
    told: tuple[int, int] | None,
    parts: dict[int, pa.Table],
    records: tuple[int, bytes | None],
) -> pa.RecordBatch:
    """Build one row per bucket with the latest time, and one row for Spark's watermark.

    ``told`` is the latest time in ticks and in microseconds, if one is known.
    ``records`` are the number of all events, relevant or not, and the bad records; the first bucket
    passes them on.

    Spark drops rows that are behind the watermark, and would drop a whole blob for a single late
    event. So blobs have no time, and Spark can only drop the row that has one.
    """
    count = len(buckets)
    latest, shown = NOT_TOLD, None
    if told is not None:
        latest, shown = told[0], min(max(told[1], -STAMP_MAX), STAMP_MAX)
    stamps = pa.array([shown, *(None for _ in buckets)], pa.int64())
    payloads = [table_to_bytes(parts[n]) if n in parts else None for n in range(count)]
    columns: list[Any] = [
        pa.array([buckets[0], *buckets], pa.int32()),
        pa.array([seq] * (count + 1), pa.int64()),
        stamps.cast(SENT.field("latest").type),
        pa.array([latest] * (count + 1), pa.int64()),
        pa.array([None, *payloads], pa.binary()),
        pa.array([0, records[0], *(0 for _ in buckets[1:])], pa.int64()),
        pa.array([None, records[1], *(None for _ in buckets[1:])], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SENT)


def kept_events(
    work: Work, plan: Plan, keeps: Callable[[Columns], Any] | None, table: pa.Table
) -> pa.Table:
    """Keep events that have a partition and, if only these matter, match a variable."""
    columns = Columns(table)
    kept = np.ones(len(table), np.bool_)
    for name in () if work.kind.null_is_key else plan.partition.attributes:
        values = columns.arrow(name)
        if values.null_count:
            kept &= np.asarray(pc.is_valid(values))
    if keeps is not None:
        kept &= roomy(keeps)(columns)
    return table if kept.all() else table.filter(pa.array(kept))


def take_turns(work: Work) -> Turns:
    """Build the stateful operator of a query."""

    def one(
        bucket: int, data: bytes | None, arrived: list[pa.Table], latest: int | None, _passed: int
    ) -> tuple[bytes, Outcome]:
        saved, outcome = turn(work.kind.live_job(work), work, data, arrived, latest)
        results, lag = number_matches(outcome.results, bucket), in_microseconds(work, outcome.lag)
        if work.marks is not None:
            results = with_mark(results, _mark_of(work, bucket, outcome.since))
        return saved, outcome._replace(results=results, lag=lag)

    return turns_of(one, work)


def _mark_of(work: Work, bucket: int, since: int | None) -> int | None:
    """Return the mark that a bucket adds to its rows, in microseconds.

    It is the watermark before the micro-batch, so that readers may get the rows of one micro-batch
    in any order.
    """
    if work.marks is None or since is None or bucket != work.marks.bucket:
        return None
    return in_microseconds(work, since - work.marks.behind)


def take_pane_turns(work: Work, buckets: tuple[int, ...]) -> Turns:
    """Build the stateful operator of a query whose buckets have panes of their own."""

    def one(
        bucket: int, data: bytes | None, arrived: list[pa.Table], latest: int | None, _passed: int
    ) -> tuple[bytes, Outcome]:
        saved, outcome = turn(_in_tasks(work).pane_job(work), work, data, arrived, latest)
        lag = in_microseconds(work, outcome.lag)
        # All of them together have one partition.
        return saved, outcome._replace(partitions=int(bucket == buckets[0]), lag=lag)

    return turns_of(one, work)


def _in_tasks(work: Work) -> TaskKind:
    assert isinstance(work.kind, TaskKind), "only such kinds have panes"
    return work.kind


def turns_of(one: Turn, work: Work) -> Turns:
    """Build a stateful operator; the state of a bucket is one value of bytes."""

    def read(sent: list[pd.DataFrame], state: GroupState) -> tuple[Any, ...]:
        tables, latest = _arrived(sent)
        told, clock = time_goes_on(work, state, latest)
        return clock, tables, told

    return turns_by(one, read, work)


def turns_of_rules(one: TurnOfRules, work: Work) -> Turns:
    """Build a stateful operator whose second stream is that of a rules log."""

    def read(sent: list[pd.DataFrame], state: GroupState) -> tuple[Any, ...]:
        tables, latest = _arrived(_of_side(sent, 0))
        told, clock = time_goes_on(work, state, latest)
        lines = [bytes(line) for part in _of_side(sent, 1) for line in part["payload"]]
        return clock, (tables, lines), told

    return turns_by(one, read, work)


def turns_of_streams(one: TurnOfStreams, count: int) -> Turns:
    """Build a stateful operator that joins so many streams."""
    return turns_by(one, lambda sent, _state: ((), *arrived_of_streams(sent, count)))


def time_goes_on(work: Work, state: GroupState, latest: int | None) -> tuple[int | None, Any]:
    """Advance the latest time with the clock while the source is silent, if that was asked for.

    The clock is the timestamp of the micro-batch, which is the same if it is repeated. All buckets
    have events in the same micro-batches, so all of them advance alike.

    Returns
    -------
    tuple
        The latest time of this micro-batch, and what the state holds besides its bytes.
    """
    if not work.idle:
        return latest, ()
    now = state.getCurrentProcessingTimeMs()
    known, arrived = state.get[1:] if state.exists else (NOT_TOLD, now)
    if latest is not None:
        return latest, (max(known, latest), now)
    silent = (now - arrived) * MILLISECOND
    if known == NOT_TOLD or silent <= work.idle:
        return None, (known, arrived)
    return known + in_ticks(work, silent), (known, arrived)


def keep_state(state: GroupState, saved: bytes, clock: Any, *, work: Work | None = None) -> None:
    """Write the state of a bucket, and ask to be called again when its source is silent."""
    check_value(len(saved))
    state.update((saved, *clock))
    if clock and work is not None:
        # Spark calls again in the first micro-batch after this time.
        now = state.getCurrentProcessingTimeMs()
        state.setTimeoutDuration(max(clock[1] + work.idle // MILLISECOND - now, 1))


def turns_of_sides(one: TurnOfSides, work: Work, count: int) -> Turns:
    """Build a stateful operator of one stream that sends so many kinds of tables."""

    def read(sent: list[pd.DataFrame], state: GroupState) -> tuple[Any, ...]:
        tables, latest = arrived_of_streams(sent, count)
        told = max((time for time in latest if time is not None), default=None)
        told, clock = time_goes_on(work, state, told)
        return clock, tables, told

    return turns_by(one, read, work)


def turns_by(
    one: Callable[..., tuple[bytes, Outcome]],
    read: Callable[[list[pd.DataFrame], GroupState], Any],
    work: Work | None = None,
) -> Turns:
    """Build a stateful operator; ``read`` returns a clock, and what else is handed to ``one``."""

    def run(key: Any, frames: Iterable[pd.DataFrame], state: GroupState) -> Frames:
        begin_task()
        bucket, sent = int(key[0]), list(frames)
        nothing = tuple(0 for _ in COUNTS)
        found: list[tuple[Any, ...]] = []
        rest: Iterator[bytes | None] = iter(())
        for frame in sent:
            found += [(*nothing, BAD, wrong) for wrong in frame["wrong"] if wrong is not None]
        if bucket != NO_BUCKET:
            data = bytes(state.get[0]) if state.exists else None
            try:
                passed = state.getCurrentWatermarkMs() * MILLISECOND
                clock, *arrived = read(sent, state)
                saved, outcome = roomy(one)(bucket, data, *arrived, passed)
            except CepheidError as error:
                raise type(error)(error.diagnostics, error.text) from None
            keep_state(state, saved, clock, work=work)
            seen = sum(int(frame["seen"].sum()) for frame in sent)
            sums = (seen, outcome.events, outcome.late, outcome.buffered, outcome.partitions)
            size, lag = len(saved), outcome.lag // MILLISECOND
            counts = (*sums, size, outcome.shed, outcome.open_windows, lag)
            rest = payloads_of(outcome.results)
            first = next(rest)
            found.append((*counts, ROWS, first))
            if len(outcome.late_events):
                found.append((*nothing, LATE, table_to_bytes(outcome.late_events)))
            if outcome.suppressed is not None:
                found.append((*nothing, SUPPRESSED, table_to_bytes(outcome.suppressed)))
            if outcome.panes is not None and len(outcome.panes):
                found.append((*nothing, PANES, table_to_bytes(outcome.panes)))
        yield _frame(found)
        for part in rest:
            yield _frame([(*nothing, ROWS, part)])

    return run


def payloads_of(rows: pa.Table) -> Iterator[bytes | None]:
    """Serialize rows, at least one value, and as many as none becomes too large."""
    yield table_to_bytes(rows.slice(0, PAYLOAD_ROWS)) if len(rows) else None
    for begin in range(PAYLOAD_ROWS, len(rows), PAYLOAD_ROWS):
        yield table_to_bytes(rows.slice(begin, PAYLOAD_ROWS))


def find_late(work: Work) -> Turns:
    """Build the operator that keeps only late events; its state is a watermark."""

    def run(_key: Any, frames: Iterable[pd.DataFrame], state: GroupState) -> Frames:
        data = bytes(state.get[0]) if state.exists else None
        tables, latest = _arrived(frames)
        latest, clock = time_goes_on(work, state, latest)
        until = read_bucket(work, data, "late events").until
        nothing = work.schema.empty_table()
        after = watermark_after(work, until, latest)
        told = Arrived(0, nothing, after, nothing, nothing, 0, nothing)
        keep_state(state, write_bucket(work, "late events", told, b""), clock, work=work)
        if until is None or not tables:
            return
        table = pa.concat_tables(tables)
        late = table.filter(pa.array(is_late(work, table, until)))
        if len(late):
            row = (*(0 for _ in COUNTS), ROWS, table_to_bytes(late))
            yield _frame([row])

    return run


def _frame(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    import pandas as pd  # An extra; queries of other kinds do without it.

    return pd.DataFrame(rows, columns=[*COUNTS, "part", "payload"])


def _arrived(frames: Iterable[pd.DataFrame]) -> tuple[list[pa.Table], int | None]:
    """Collect the events of a micro-batch in order of arrival, and the latest time.

    The latest time includes the events of all other buckets.
    """
    blobs: list[tuple[int, bytes]] = []
    latest: list[int] = []
    for frame in frames:
        if not len(frame):
            continue
        latest += [time for time in [int(frame["told"].max())] if time != NOT_TOLD]
        rows = zip(frame["seq"], frame["payload"], strict=True)
        blobs += [(seq, payload) for seq, payload in rows if payload is not None]
    tables = [table_from_bytes(payload) for _, payload in sorted(blobs, key=lambda b: b[0])]
    return tables, max(latest, default=None)


def compose_panes(work: Work) -> Callable[[Batches], Batches]:
    """Build the task that merges the panes of all buckets in a micro-batch to rows."""

    def run(batches: Batches) -> Batches:
        closed = [table_from_bytes(data.as_py()) for batch in batches for data in batch.column(0)]
        if closed:
            rows = roomy(_in_tasks(work).rows_of_panes)(work, closed)
            yield from rows.combine_chunks().to_batches(REPORT_ROWS)

    return in_task(run)


def arrived_of_streams(
    frames: Iterable[pd.DataFrame], count: int
) -> tuple[list[list[pa.Table]], list[int | None]]:
    """Collect the same for each of several streams."""
    parts = list(frames)
    found = [_arrived(_of_side(parts, side)) for side in range(count)]
    return [tables for tables, _ in found], [latest for _, latest in found]


def _of_side(parts: list[pd.DataFrame], side: int) -> Frames:
    for part in parts:
        own = part.loc[np.asarray(part["seq"]) >> SIDE_BITS == side]
        if len(own):
            yield own


def unpack(schema: pa.Schema | None) -> Callable[[Batches], Batches]:
    """Build the task that decodes blobs to rows of a schema; without one, as they are."""
    promised = None if schema is None else schema.serialize().to_pybytes()

    def run(batches: Batches) -> Batches:
        kinds = None if promised is None else pa.ipc.read_schema(pa.py_buffer(promised))
        for batch in batches:
            for payload in batch.column(0):
                table = table_from_bytes(payload.as_py())
                if kinds is not None:
                    table = table.select(kinds.names).cast(kinds)
                yield from table.combine_chunks().to_batches(REPORT_ROWS)

    return in_task(run)
