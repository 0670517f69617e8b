"""``cepheid stream``: run a live query from files, Kafka or Spark's rate source to a sink."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table

from cepheid import metrics, runtimes
from cepheid.api import CompiledQuery
from cepheid.errors import visible
from cepheid.interfaces.alert_formats import FORMATS
from cepheid.interfaces.colours import cell
from cepheid.interfaces.console import complain
from cepheid.interfaces.stream_moves import more_tasks, move_buckets
from cepheid.interfaces.stream_options import (
    EVERY,
    FILE_FORMATS,
    KAFKA,
    RATE,
    Options,
)
from cepheid.interfaces.stream_restart import (
    begun,
    cut_off,
    following,
    note_query,
    wrong_restart,
)
from cepheid.interfaces.stream_sinks import can_update, sinks_of, wrong_sink
from cepheid.interfaces.stream_sources import sources_of, wrong_sources
from cepheid.jobs.derived import FeedsStreams
from cepheid.jobs.kind import TaskKind, kind_of, needs_of
from cepheid.jobs.latency_goal import Change, LatencyGoal, judge, log_in
from cepheid.options import BAD, LATE
from cepheid.runtimes.checkpoints import (
    BUCKETS_MAX,
    clear_unplanned,
    is_unfinished,
    read_note,
)
from cepheid.runtimes.notices import NOTICES
from cepheid.runtimes.spark.bad_records import COUNTS as RECORD_COUNTS
from cepheid.runtimes.spark.bad_records import RECORDS
from cepheid.runtimes.spark.decisions import decide
from cepheid.runtimes.spark.kafka.source import LIMITS
from cepheid.runtimes.spark.latency import goal_seconds
from cepheid.runtimes.spark.live_output import LiveOutput
from cepheid.runtimes.spark.shedding import why_not_shed
from cepheid.runtimes.spark.sinks.calls import Write
from cepheid.runtimes.spark.sinks.parts import parts_sink
from cepheid.runtimes.spark.stream import METRICS, delay_of, late_in_joins
from cepheid.runtimes.spark.stream_tasks import COUNTS, ROWS
from cepheid.spark import session as spark_session
from cepheid.spark.failures import FAILURES, clear_error, clear_failures
from cepheid.spark.running import RunningSource
from cepheid.store.event_store import EventStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Counted = Callable[[Write], Write]
"""Let a sink count the rows that it writes."""

PORTS = 1 << 16
FIRST_FILES, FIRST_ROWS = 4, 50_000
"""What a micro-batch of a query with a latency goal takes at first, where no limit is given."""


def wrong_use(compiled: CompiledQuery | None, options: Options) -> str:
    """Check the options before Spark starts, and describe the mistake; empty if there is none."""
    for name, value, choices in (("late", options.late, LATE), ("bad", options.bad, BAD)):
        if value not in choices:
            return f"--{name} is one of {', '.join(choices)}, not {value}"
    if (options.late == "correct") != (options.lateness is not None):
        return "--late correct and --allowed-lateness need each other"
    if options.metrics is not None and not 0 < options.metrics < PORTS:
        return f"--metrics is a port, 1 to {PORTS - 1}, not {options.metrics}"
    if options.buckets is not None and not 1 <= options.buckets <= BUCKETS_MAX:
        return f"--buckets is a number from 1 to {BUCKETS_MAX}, not {options.buckets}"
    if options.alerts is not None and (compiled is not None or options.alerts not in FORMATS):
        known = ", ".join(FORMATS)
        return f"--alerts is one of {known}, and of rules: --rules names a folder of them"
    if wrong := _wrong_latency(compiled, options):
        return wrong
    if options.hot_keys and (why := _why_no_hot_keys(compiled)):
        return f"--hot-keys has no effect here: {why}"
    if options.shed is not None and (why := _why_no_shedding(compiled)):
        return f"--shed has no effect here: {why}"
    if options.keys and compiled is not None:
        return "--keys has no effect here: a query alone knows its keys"
    if options.marks and not (compiled and isinstance(kind_of(compiled.plan), FeedsStreams)):
        return "--marks is for a pipeline, whose rows have a time: end it with SELECT * FROM stream"
    if wrong := _wrong_changes(compiled, options):
        return wrong
    if options.once and options.every is not None:
        return "--every has no effect here: --once runs until the source is empty"
    if options.once and options.idle is not None:
        return "--idle has no effect here: --once stops when the source is silent"
    restart = wrong_restart(options, rules=compiled is None)
    if wrong := wrong_sources(options) or wrong_sink(options) or restart:
        return wrong
    if compiled is not None and compiled.plan.emits_early and not can_update(options.sink):
        message = "rows of `EMIT EARLY` change until their window closes, but files and tables "
        return message + "cannot be updated: use --sink -, Kafka or a webhook"
    return ""


def _why_no_hot_keys(compiled: CompiledQuery | None) -> str:
    if compiled is None:
        return "rules share the state of a key"
    if not isinstance(kind_of(compiled.plan), TaskKind):
        return "only aggregates of trends are split"
    return needs_of(compiled.plan).not_split


def _why_no_shedding(compiled: CompiledQuery | None) -> str:
    if compiled is None:
        return "a rule that lacks events would tell less, or what is not so"
    return why_not_shed(compiled.plan)


def _wrong_changes(compiled: CompiledQuery | None, options: Options) -> str:
    """Describe what cannot be combined with a changelog."""
    if options.changes is None:
        return ""
    if compiled is None:
        return "--changes is for a single query: rules read events"
    given = {
        "late": options.late != "drop",
        "idle": options.idle is not None,
        "backfill": options.backfill is not None,
    }
    found = [name for name, is_given in given.items() if is_given]
    return f"--{found[0]} has no effect here: rows follow changes at once" if found else ""


def stream_query(compiled: CompiledQuery, options: Options) -> None:
    """Run a live query until it is stopped or, with ``once``, until its source is empty.

    Raises
    ------
    DataError
        The error of a task about the events, or E523 if Spark itself failed.
    """
    light = tasks_read(compiled, options)
    # Matches are many rows.
    with live_session(
        options, light=light, blobs=light and not compiled.plan.lists_matches
    ) as spark:
        stream_in(spark, compiled, options)


def _show_odd(message: Warning | str, *_: object, **__: object) -> None:
    """Print warnings about odd events as they come; others concern nobody here."""
    if str(message).endswith(NOTICES):
        complain(f"notice: {visible(str(message))}")


class _Notices(logging.Handler):
    """Prints what a live query decides."""

    def emit(self, record: logging.LogRecord) -> None:
        complain(f"notice: {visible(record.getMessage())}")


@contextmanager
def _decisions_shown() -> Iterator[None]:
    """Print the decisions of live queries while the body runs."""
    decisions, notices = logging.getLogger("cepheid.live"), _Notices()
    level = decisions.level
    decisions.addHandler(notices)
    decisions.setLevel(logging.INFO)
    try:
        yield
    finally:
        decisions.removeHandler(notices)
        decisions.setLevel(level)


@contextmanager
def live_session(
    options: Options, *, light: bool = False, blobs: bool = False
) -> Iterator[SparkSession]:
    """Start a session with as many tasks per micro-batch as there are cores.

    In a ``light`` one no event goes through the JVM, in one for ``blobs`` few rows do.
    """
    with (
        warnings.catch_warnings(),
        _decisions_shown(),
        spark_session.session(
            options.master, packages=options.packages, live=True, light=light, blobs=blobs
        ) as spark,
    ):
        warnings.showwarning = _show_odd
        spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
        spark_session.keep_checkpoints_local(spark, str(options.checkpoint))
        yield spark


def stream_in(spark: SparkSession, compiled: CompiledQuery, options: Options) -> None:
    """Run a live query in a session."""
    with clear_failures(), numbers_shown(spark, options) as numbers:
        counted = numbers.counted
        if earlier := cut_off(compiled, options):
            finish(spark, *earlier, counted)
        options = beginning(options)
        goal = None if options.latency is None else goal_of(spark, options)
        change: Change | None = None
        while True:
            output = output_in(spark, compiled, options)
            note_query(compiled, options)
            change = _watch(start(output, options, counted), Console(stderr=True), options, goal)
            if change is None:
                break
            complain(f"notice: {change.reason}")
            options = limited(options, change.limit)
            if change.tasks is not None:
                if is_unfinished(options.checkpoint):
                    finish(spark, compiled, options, counted)
                move_buckets(spark, options.checkpoint, change.tasks)
        if options.once:
            output.finish()


def beginning(options: Options) -> Options:
    """Let a query with a goal begin with a limit: all that waits would be one micro-batch."""
    if options.latency is None or (options.files or options.rows) is not None:
        return options
    if is_folder(options):
        return msgspec.structs.replace(options, files=FIRST_FILES)
    return msgspec.structs.replace(options, rows=FIRST_ROWS if LIMITS else None)


def goal_of(spark: SparkSession, options: Options) -> LatencyGoal:
    """Create the goal of a query, which begins with the limit that was asked for."""
    assert options.latency is not None, "the caller has asked"
    seconds = goal_seconds(spark, options.latency)
    limit, unit = (options.files, "files") if is_folder(options) else (options.rows, "messages")
    tasks = functools.partial(more_tasks, spark, options.checkpoint)
    return LatencyGoal(seconds, limit, unit, tasks)


def limited(options: Options, limit: int | None) -> Options:
    """Change the limit of micro-batches of a query that goes on."""
    going_on = msgspec.structs.replace(options, restart_from=None, backfill=None)
    if is_folder(options):
        return msgspec.structs.replace(going_on, files=limit)
    return msgspec.structs.replace(going_on, rows=limit)


def tasks_read(compiled: CompiledQuery, options: Options) -> bool:
    """Check whether tasks of Python read the events of a single query, and send them as blobs.

    Of other kinds, such as most SELECTs, Spark's own operators take the events.
    """
    kind = kind_of(compiled.plan)
    if not isinstance(kind, TaskKind) and not kind.lives_as_stage(compiled.plan):
        return False
    plain = options.late != "side" and options.bad != "fail" and options.changes is None
    folder = isinstance(options.source, str) and is_folder(options)
    return plain and folder and (options.format or FILE_FORMATS[0]) == "parquet"


def is_folder(options: Options) -> bool:
    """Check whether the source is a folder of files."""
    return not any(source.startswith((KAFKA, RATE)) for source in options.sources)


def _wrong_latency(compiled: CompiledQuery | None, options: Options) -> str:
    if options.latency is None:
        return ""
    one = isinstance(options.source, str) and not options.source.startswith(RATE)
    if compiled is None or not one:
        return "--latency is for one query over one folder or topics of Kafka"
    if options.once:
        return "--latency has no effect here: --once runs until the source is empty"
    return ""


def finish(spark: SparkSession, before: CompiledQuery, asked: Options, counted: Counted) -> None:
    """Let the query that began a micro-batch finish it.

    A query that the checkpoint does not fit (E524) has written no row, so nothing is left to do.
    """
    try:
        start(output_in(spark, before, asked), asked, counted, single=True).awaitTermination()
    except FAILURES as error:
        if clear_error(error).diagnostics[0].code != "E524":
            raise


def output_in(spark: SparkSession, compiled: CompiledQuery, options: Options) -> LiveOutput:
    """Build the output of a live query that starts, or goes on, in a session."""
    with begun(spark, options, compiled.plan.tick_ns) as note:
        store = None if note.backfill is None else EventStore(note.backfill)
        past = runtimes.Past(store, note.since, options.changes)
        events = runtimes.with_past(compiled, sources_of(spark, options), past)
        output: LiveOutput = runtimes.stream(compiled, events, options.live)
    return output


class Numbers:
    """The counters of rows in sinks, and of suppressed and refused alerts of rules.

    Without a server that shows them, nothing is counted.
    """

    def __init__(self, served: metrics.Metrics | None = None) -> None:
        self._served = served

    def counted(self, write: Write) -> Write:
        """Let a sink count the rows that it writes."""
        return write if self._served is None else self._served.counted(write)

    def suppressed(self, rule: str, why: str, count: int) -> None:
        """Count rows of a rule that are no alerts."""
        if self._served is not None:
            self._served.suppressed(rule, why, count)

    def refused(self, counts: Mapping[str, int]) -> None:
        """Show how often rules were refused."""
        if self._served is not None:
            self._served.refused(counts)


@contextmanager
def numbers_shown(spark: SparkSession, options: Options) -> Iterator[Numbers]:
    """Show the numbers of the query while the body runs; yield what counts them."""
    if options.metrics is None:
        yield Numbers()
        return
    with metrics.serve(spark, options.metrics) as served:
        yield Numbers(served)


def start(
    output: LiveOutput,
    options: Options,
    counted: Counted,
    *,
    single: bool = False,
    more: Mapping[str, Write] | None = None,
) -> Any:
    """Start a live query that writes rows to the sink, or let it run a single micro-batch.

    Late and bad records go beside the sink, ``more`` parts to sinks of their own.
    """
    clear_unplanned(options.checkpoint)
    note = read_note(options.checkpoint)
    first = 0 if note is None else note.first_batch
    writer = output.frame.writeStream.outputMode(output.mode)
    writer = writer.option("checkpointLocation", str(options.checkpoint))
    if single:
        writer = writer.trigger(once=True)
    elif options.once:
        writer = writer.trigger(availableNow=True)
    else:
        every = options.every or (EVERY if options.latency is None else "0 seconds")
        delay_of(output.frame.sparkSession, every, name="every")  # Says what is wrong with it.
        writer = writer.trigger(processingTime=every)
    sinks = sinks_of(options)
    sinks[ROWS] = counted(sinks[ROWS])
    sinks = {part: following(write, first) for part, write in sinks.items()} | dict(more or {})
    return writer.foreachBatch(parts_sink(output, sinks)).start()


def _watch(
    live: Any, console: Console, options: Options, goal: LatencyGoal | None = None
) -> Change | None:
    """Wait for the end, and show the progress of the query on a terminal.

    A query is stopped for a change that it needs another start for, and the change returned.
    """
    found: Change | None = None
    read = log_in(options.checkpoint) if is_folder(options) else None
    with showing(console) as show:

        def look() -> None:
            nonlocal found
            last = -1
            while found is None and not live.awaitTermination(1):
                show(live)
                if goal is not None:
                    change, last = judge(goal, live.recentProgress, last, read)
                    found = None if change is None or _changes(live, change) else change
            if found is not None:
                live.stop()

        _wait(live, look)
    return found


def _changes(live: Any, change: Change) -> bool:
    """Change the limit of a query while it runs, if that is all and Spark lets go of it."""
    source = RunningSource.of(live)
    if source is None or change.tasks is not None or change.limit is None:
        return False
    if not source.take_at_most(change.limit):
        return False
    decide(str(live.id), change.reason, limit=change.limit)
    return True


@contextmanager
def showing(console: Console) -> Iterator[Callable[[Any], None]]:
    """Create the progress display of a live query; it shows nothing without a terminal."""
    if not console.is_terminal:
        yield lambda _: None
        return
    with Live(console=console, transient=True, auto_refresh=False) as view:
        yield lambda live: view.update(progress_table(live.lastProgress), refresh=True)


def _wait(live: Any, wait: Callable[[], object]) -> None:
    try:
        wait()
    except KeyboardInterrupt:
        live.stop()


def progress_table(progress: Any) -> Table:
    """Format the numbers of the latest micro-batch: rates, lateness, state."""
    table = Table(show_header=False)
    if progress is None:
        table.add_row("waiting for the first micro-batch", "")
        return table
    observed = progress["observedMetrics"]
    counts, records = observed.get(METRICS), observed.get(RECORDS)
    dropped = {"late": late_in_joins(progress["stateOperators"])}
    table.add_row("micro-batch", f"{progress['batchId']:,}")
    table.add_row("events a second", f"{progress['processedRowsPerSecond']:,.0f}")
    table.add_row("watermark", cell(progress["eventTime"].get("watermark", "")))
    for name in RECORD_COUNTS[:2]:
        table.add_row(name, f"{(records[name] if records else 0) or 0:,}")
    for name in COUNTS:
        count = ((counts[name] if counts else 0) or 0) + dropped.get(name, 0)
        table.add_row(name.replace("_", " "), f"{count:,}")
    return table
