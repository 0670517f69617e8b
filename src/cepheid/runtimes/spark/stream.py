"""Queries over streaming DataFrames: emit each row of a closed window exactly once.

    events --mapInArrow--> blobs by bucket --stateful operator--> blobs of rows --mapInArrow--> rows

Keys share a few buckets, because one state per key would cost one Python call per key. The operator
keeps its own watermark with the same delay as Spark's, because Spark's watermark lags by one
micro-batch and lets late rows pass.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupStateTimeout

from cepheid.arrays.noticing import Noticed
from cepheid.events.temporal import length_us
from cepheid.jobs.kind import needs_of, task_kind
from cepheid.jobs.marks import CARRIED, MARK_FIELD, Marks
from cepheid.jobs.room import telling
from cepheid.jobs.work import Work
from cepheid.kinds.trend.live_corrections import with_versions
from cepheid.options import (
    BAD,
    LATE,
    Held,
    LiveOptions,
    holder_of,
    one_of,
    refuse,
    texts,
    true_or_false,
    unused,
)
from cepheid.plans.plan import Plan
from cepheid.runtimes.checkpoints import BUCKETS_MAX, BUCKETS_SETTING
from cepheid.runtimes.notices import names_of as names_of_types
from cepheid.runtimes.notices import odd_so_far
from cepheid.runtimes.spark import stream_tasks as tasks
from cepheid.runtimes.spark.bad_records import Asked, Checked, events_schema, timed_records
from cepheid.runtimes.spark.carried import carrying, refuse_marks, rows_behind
from cepheid.runtimes.spark.decisions import Tell, Told, counting_of
from cepheid.runtimes.spark.folder_stream import FolderColumns
from cepheid.runtimes.spark.key_spread import canonical
from cepheid.runtimes.spark.live_output import (
    Decode,
    LiveOutput,
    bad_payloads,
    events_payloads,
    payloads,
)
from cepheid.runtimes.spark.shed_tasks import send_shed, take_shed_turns
from cepheid.runtimes.spark.shedding import SHED_FIELD, refuse_shedding, shed_of
from cepheid.runtimes.spark.split_tasks import send_split, take_split_turns
from cepheid.runtimes.spark.splitting import HASHES, refuse_splitting, split_of, split_rows
from cepheid.spark.batches import BUCKET, Task
from cepheid.spark.kernels import ship_kernels
from cepheid.spark.murmur import values_for_partitions
from cepheid.spark.notices import LiveNotices
from cepheid.spark.records import BAD as BAD_COLUMN
from cepheid.spark.records import MARKED, event_columns, quoted
from cepheid.spark.schema import (
    alias_of,
    arrow_schema_of,
    names_of,
    path_of,
    result_schema_of,
    spark_schema_of,
)
from cepheid.spark.session import STATE_SETTINGS
from cepheid.spark.size import SHUFFLE_PARTITIONS_DEFAULT

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from cepheid.runtimes.local import CompiledQueryLike

METRICS = "cepheid"
"""The name of the observed metrics in the progress of a query."""
SPARK_JOIN = "symmetricHashJoin"
"""Spark's operator of joins by time, which drops and counts late events itself."""


class Delays(NamedTuple):
    """The options of a live query, checked, with lengths of time in microseconds."""

    asked: LiveOptions
    delay: int
    ahead: int
    idle: int = 0
    lateness: int = 0

    @staticmethod
    def of(
        spark: SparkSession, asked: LiveOptions, *, marked: bool = False, sheds: bool = False
    ) -> Delays:
        """Parse the lengths of time; ``marked`` if the query can read and write marks.

        ``sheds`` if it is checked elsewhere whether the query may shed events.

        Raises
        ------
        OptionError
            E590 if one is not a length of time.
        """
        if not marked:
            refuse_marks(asked)
            refuse_splitting(asked)
        if not sheds:
            refuse_shedding(asked)
        delay = 0 if asked.watermark == CARRIED else delay_of(spark, asked.watermark)
        ahead = delay_of(spark, asked.max_ahead, name="max_ahead")
        idle = 0
        if asked.idle is not None:
            # Spark counts silence in milliseconds.
            idle = max(delay_of(spark, asked.idle, name="idle"), 1000)
        lateness = 0
        if asked.lateness is not None:
            lateness = max(delay_of(spark, asked.lateness, name="allowed_lateness"), 1)
        return Delays(asked, delay, ahead, idle, lateness)

    def work(self, plan: Plan, schema: pa.Schema, results: pa.Schema, buckets: int) -> Work:
        """Build the work of a plan over a stream."""
        more = {"delay": self.delay, "idle": self.idle, "lateness": self.lateness}
        return Work.of(plan, schema, results, buckets, **more)

    @property
    def watermark(self) -> str:
        """Return the delay of the watermark in a form that Spark parses."""
        return f"{self.delay} microseconds"


BUCKETS = 8
"""Buckets of a live query: enough for the cores of most machines, and cheap on one core."""


def stream_frame(compiled: CompiledQueryLike, frame: DataFrame, asked: LiveOptions) -> Any:
    """Build the closed-window rows of a stream and, if requested, its late and bad records.

    Raises
    ------
    ValueError
        If the DataFrame is no stream, or an option is unknown.
    UnsupportedError
        E405 if the windows of the query never close.
    """
    check_stream(frame, asked)
    if asked.watermark == CARRIED:
        frame = carrying(frame, asked)
    frame = timed_records(frame, compiled.times)
    plan = compiled.with_schema(events_schema(frame)).plan
    task_kind(plan).check_live(plan)
    if asked.late == "correct":
        task_kind(plan).check_corrections(plan)
    set_up(frame.sparkSession)
    delays = Delays.of(frame.sparkSession, asked, marked=True, sheds=True)
    checked = check_records(frame, [plan], delays)
    files = None
    if asked.late != "side":
        files = FolderColumns.of(frame, plan, checked.asked, needs_of(plan).buckets, asked.bad)
    if asked.tagged and files is not None:
        return rows_of(frame.sparkSession, files, plan, delays)
    if asked.tagged:
        return live_rows(checked.tagged(asked.bad), plan, delays, whole=asked.late == "side")
    events = checked.events(asked.bad)
    if files is not None:
        rows = rows_of(frame.sparkSession, files._replace(keeps_bad=False), plan, delays).rows()
    else:
        rows = live_rows(events, plan, delays).rows()
    return with_sides(rows, lambda: late_events(events, plan, delays), checked.bad, asked)


def check_records(frame: DataFrame, plans: Sequence[Plan], delays: Delays) -> Checked:
    """Check the records of a stream for queries that read it."""
    found = [name for plan in plans for name in names_of(plan, event_columns(frame))]
    reads = [name for name in dict.fromkeys(found) if name != plans[0].time]
    return Checked.of(frame, Asked.of(plans, reads, delays.ahead))


def with_sides(
    rows: DataFrame,
    late: Callable[[], DataFrame],
    bad: Callable[[], DataFrame],
    asked: LiveOptions,
) -> Any:
    """Return the rows, then late events, then bad records, of which those that were asked for."""
    sides = [late()] if asked.late == "side" else []
    sides += [bad()] if asked.bad == "side" else []
    return (rows, *sides) if sides else rows


def check_stream(frame: DataFrame, asked: LiveOptions) -> None:
    """Reject a DataFrame that is not a stream.

    Raises
    ------
    ValueError
        If the DataFrame is no stream, or an option is unknown.
    """
    one_of("late", asked.late, LATE)
    one_of("bad", asked.bad, BAD)
    true_or_false(marks=asked.marks)
    if asked.late == "correct" and asked.lateness is None:
        message = 'late="correct" needs an end: how long rows may change after the watermark'
        refuse("E592", message, 'add `allowed_lateness="1 hour"`')
    if asked.late != "correct" and asked.lateness is not None:
        unused("allowed_lateness", "late events change no row", 'add `late="correct"`')
    if holder_of(frame) is not Held.FRAME:
        refuse("E592", f"events are a streaming DataFrame of Spark, not {holder_of(frame)}")
    if not frame.isStreaming:
        refuse("E592", "this DataFrame is not a stream: use `run`")


def set_up(spark: SparkSession) -> None:
    """Set RocksDB as state store for queries that start from now on, unless the user chose one."""
    ship_kernels(spark)
    for name, (usual, better) in STATE_SETTINGS.items():
        if spark.conf.get(name, usual) == usual:
            spark.conf.set(name, better)
    if spark.conf.get("spark.sql.shuffle.partitions") == SHUFFLE_PARTITIONS_DEFAULT:
        message = "a micro-batch of 200 tasks takes seconds: set spark.sql.shuffle.partitions to "
        message += "the number of cores before the query starts; it stays with the checkpoint"
        warnings.warn(message, stacklevel=5)


def buckets_of(count: int, base: int = 0) -> tuple[int, ...]:
    """Choose bucket numbers from a base on, so that Spark spreads them evenly over tasks.

    So many tasks, or a half or a quarter of them, get equally many buckets. Consecutive numbers
    would hash some tasks to no bucket, and others to two.
    """
    return tuple(sorted(values_for_partitions(count, base)))


def delay_of(spark: SparkSession, watermark: str, *, name: str = "watermark") -> int:
    """Parse the delay of a watermark in microseconds: our units, or all that Spark understands.

    Raises
    ------
    OptionError
        E590 if it is not a length of time.
    """
    texts(**{name: watermark})
    length = length_us(watermark)
    if length is not None:
        return length
    zero = sf.timestamp_seconds(sf.lit(0))
    later = sf.unix_micros(zero + sf.lit(watermark).try_cast("interval"))
    (row,) = spark.range(1).select(later).collect()
    if row[0] is None or row[0] < 0:
        message = f"{name} is a length of time such as '10 seconds', not {watermark!r}"
        refuse("E590", message, "write a number and a unit: seconds, minutes, hours or days")
    return int(row[0])


def bucket_count(spark: SparkSession) -> int:
    """Count the buckets of a live query, which stay with its checkpoint.

    The number does not depend on the number of tasks, so that this one may change.

    Raises
    ------
    OptionError
        E590 if the setting is no number from 1 to 1000.
    """
    wanted = spark.conf.get(BUCKETS_SETTING, str(BUCKETS)) or str(BUCKETS)
    if not wanted.isdecimal() or not 1 <= int(wanted) <= BUCKETS_MAX:
        refuse("E590", f"{BUCKETS_SETTING} is a number from 1 to {BUCKETS_MAX}, not {wanted!r}")
    return int(wanted)


def live_rows(frame: DataFrame, plan: Plan, delays: Delays, *, whole: bool = False) -> LiveOutput:
    """Build the output of a plan that may be live: rows, late events, bad records.

    A frame of ``Checked.marked`` has bad records too. ``whole`` keeps all columns of events, so
    that late ones have them.
    """
    return rows_of(frame.sparkSession, ReadColumns.of(frame, plan, whole=whole), plan, delays)


def rows_of(
    spark: SparkSession, read: ReadColumns | FolderColumns, plan: Plan, delays: Delays
) -> LiveOutput:
    """Build the same output from columns that were chosen."""
    schema = read.schema
    results = result_schema_of(plan, schema)
    if delays.lateness:
        results = with_versions(results)
    needs = needs_of(plan)
    names = needs.buckets
    count = bucket_count(spark)
    by_panes = count > 1 and not needs.no_panes and not delays.lateness
    buckets = buckets_of(count) if names or by_panes else (0,)
    work = delays.work(plan, schema, results, len(buckets))
    if delays.asked.marks:
        work = msgspec.structs.replace(work, marks=Marks(buckets[0], rows_behind(plan, schema)))
        results = results.append(MARK_FIELD)
    by = split_of(plan, delays.asked, len(buckets))
    shed = shed_of(plan, delays.asked, results, partial(delay_of, spark, name="shed"))
    if shed is not None:
        send = send_shed(work, buckets, shed, Told().teller(spark))
        turns = take_shed_turns(work, shed, buckets[0])
        results = results.append(SHED_FIELD)
    elif by is not None:
        send = send_split(work, buckets, by, Told().teller(spark))
        turns = take_split_turns(work, by)
    elif by_panes:
        send = tasks.send_stream(work, buckets, pane=needs.pane)
        turns = tasks.take_pane_turns(work, buckets)
    else:
        splits = not needs.not_split and delays.asked.late != "correct"
        counting = counting_of(spark, names, len(buckets), splits=splits)
        send = tasks.send_stream(work, buckets, counting=counting)
        turns = tasks.take_turns(work)
    notices = live_notices([plan])
    hashes = len(buckets) if by is None else len(buckets) * HASHES
    sent = read.sent(notices.watched(spark, send), names, hashes)
    # Rows of open windows take the place of those that left before.
    mode = "update" if plan.emits_early else "append"
    output = output_of_turns(sent, delays, turns, results, mode)
    if by_panes:
        output.decode[tasks.ROWS] = _composed(work, results)
    if by is not None:
        output.decode[tasks.ROWS] = split_rows(work, by, results)
    output.decode.update(read.decode)
    return output._replace(finish=notices.finish)


def live_notices(plans: Sequence[Plan]) -> LiveNotices:
    """Prepare the warnings of a live query about odd events."""

    def judge(noticed: Noticed, events: int, ended: bool) -> dict[tuple[str, str], str]:  # noqa: FBT001  # a callback
        found = odd_so_far(plans, noticed, events, ended=ended)
        return {(odd.code, odd.about): odd.text for odd in found}

    return LiveNotices(names_of_types(plans), judge)


class ReadColumns(NamedTuple):
    """The columns of a stream that go to tasks, and the late events that come back."""

    projected: DataFrame
    schema: pa.Schema
    decode: dict[str, Decode]

    @staticmethod
    def of(frame: DataFrame, plan: Plan, *, whole: bool) -> ReadColumns:
        """Choose the columns that a plan reads or, for late events, all of them."""
        given = [name for name in frame.columns if name not in (BAD_COLUMN, MARKED)]
        events = frame.select(*map(quoted, given))
        names = dict.fromkeys(names_of(plan, given))
        if whole:
            names |= dict.fromkeys(given)
        chosen = {name: path_of(frame, name) for name in names}
        return ReadColumns.select(frame, events, chosen, whole=whole)

    @staticmethod
    def select(
        frame: DataFrame, events: DataFrame, chosen: dict[str, Column], *, whole: bool
    ) -> ReadColumns:
        """Project columns of a frame, whose events have columns of their own."""
        columns = [column.alias(alias_of(name)) for name, column in chosen.items()]
        columns += [sf.col(name) for name in (MARKED, BAD_COLUMN) if name in frame.columns]
        projected = frame.select(*columns)
        decode = {tasks.BAD: bad_payloads()}
        if whole:
            shown = arrow_schema_of(events, events.columns)
            decode[tasks.LATE] = events_payloads(shown, events.schema)
        return ReadColumns(projected, arrow_schema_of(projected, chosen), decode)

    def sent(self, task: Task, names: tuple[str, ...], count: int) -> DataFrame:
        """Send events to buckets, by the hash of some columns if there are any."""
        projected = self.projected
        if names:
            keys = [canonical(projected, name) for name in names]
            number = sf.pmod(sf.hash(*keys), sf.lit(count))
            projected = projected.withColumn(BUCKET, number)
        return projected.mapInArrow(task, tasks.SENT_DDL)


def _composed(work: Work, results: pa.Schema) -> Decode:
    def decode(frame: DataFrame) -> DataFrame:
        # By a shuffle: a smaller number of partitions alone would take the buckets one by one.
        ours = frame.select("payload").repartition(1)
        return ours.mapInArrow(tasks.compose_panes(work), spark_schema_of(results))

    return decode


def output_of_turns(
    sent: DataFrame, delays: Delays, turns: tasks.Turns, results: pa.Schema, mode: str = "append"
) -> LiveOutput:
    """Run the stateful operator and return its output, with its counters as metrics."""
    blobs = sent.withWatermark("latest", delays.watermark)
    return output_of_watched(blobs, turns, results, mode, idle=delays.idle)


def output_of_watched(
    blobs: DataFrame,
    turns: tasks.Turns,
    results: pa.Schema,
    mode: str = "append",
    *,
    idle: int = 0,
) -> LiveOutput:
    """Do the same for blobs that have their watermark already."""
    turned = _stateful(blobs, turns, mode, idle)
    counts = [sf.sum(name).alias(name) for name in tasks.SUMS]
    counts += [sf.max(name).alias(name) for name in tasks.MAXIMA]
    told = turned.observe(METRICS, *counts)
    kept = told.where(sf.col("payload").isNotNull()).select("part", "payload")
    return LiveOutput(kept, {tasks.ROWS: payloads(results)}, mode)


def late_in_joins(operators: Iterable[Any]) -> int:
    """Count the events behind the watermark that Spark's joins dropped in a micro-batch."""
    joins = [one for one in operators if one.operatorName == SPARK_JOIN]
    return sum(one.numRowsDroppedByWatermark for one in joins)


def late_events(frame: DataFrame, plan: Plan, delays: Delays) -> DataFrame:
    """Collect late events with all columns, by a query that reads only their times."""
    schema: pa.Schema = arrow_schema_of(frame, frame.columns)
    work = delays.work(plan, schema, schema, 1)
    sent = frame.mapInArrow(tasks.send_stream(work, (0,), drop=False), tasks.SENT_DDL)
    blobs = sent.withWatermark("latest", delays.watermark)
    found = _stateful(blobs, tasks.find_late(work), "append", delays.idle)
    rows = found.where(sf.col("payload").isNotNull()).select("payload")
    return rows.mapInArrow(tasks.unpack(schema), frame.schema)


def _stateful(blobs: DataFrame, function: Any, mode: str, idle: int) -> DataFrame:
    # Only a later event moves the watermark, so nothing happens while none comes, unless time goes
    # on: then Spark runs micro-batches without events too.
    state = tasks.CLOCKED_DDL if idle else tasks.STATE_DDL
    tell = Told().teller(blobs.sparkSession)
    timeout = GroupStateTimeout.ProcessingTimeTimeout if idle else GroupStateTimeout.NoTimeout
    return blobs.groupBy("bucket").applyInPandasWithState(
        telling_turns(function, tell), tasks.TURNED_DDL, state, mode, timeout
    )


def telling_turns(turns: tasks.Turns, tell: Tell) -> tasks.Turns:
    """Let the turns of buckets tell the driver of limits that have grown."""

    def run(key: Any, frames: Any, state: Any) -> tasks.Frames:
        with telling(tell):
            yield from turns(key, frames, state)

    return run
