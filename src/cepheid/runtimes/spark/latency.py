"""Hold a latency goal of a live query: the limit of its source follows what micro-batches take.

``latency=`` changes the limit while the query runs (``RunningSource``). A listener of the session
hears what each micro-batch took, and finds the goal by an observed metric of the query. Where Spark
does not let go of the limit, ``hold_latency`` starts the query again with another one.
"""

from __future__ import annotations

import itertools
import logging
import threading
import weakref
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf
from pyspark.sql.streaming.listener import StreamingQueryListener

from cepheid.events.temporal import length_us
from cepheid.jobs.latency_goal import Change, LatencyGoal, judge, log_in, micro_batch
from cepheid.options import refuse, texts, unused, whole
from cepheid.runtimes.spark.decisions import decide
from cepheid.runtimes.spark.live_output import LiveOutput
from cepheid.runtimes.spark.stream import bucket_count, delay_of
from cepheid.spark.running import FILES, RECORDS, RunningSource
from cepheid.spark.versions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("cepheid")

LOOK_S = 0.5
"""Seconds between two looks at the progress."""
OBSERVED = "cepheid_latency"
"""The observed metric of a query with a goal: its milliseconds, and its number in this process."""

RESTARTS = "`cepheid.metrics.hold_latency` starts the query again with another limit"
NO_LIMIT = (
    "the latency goal changes nothing: the source takes no limit, there is more than one, or this "
    "version of Spark keeps it"
)


def with_goal(output: Any, latency: str | None) -> Any:
    """Let the queries of what ``stream`` returns hold a latency goal, if there is one.

    Raises
    ------
    OptionError
        E590 if it is no length of time, or 0; E591 over Spark Connect.
    """
    if latency is None:
        return output
    if isinstance(output, LiveOutput):
        return output._replace(frame=_holding(output.frame, latency))
    if isinstance(output, tuple):
        return tuple(_holding(frame, latency) for frame in output)
    return _holding(output, latency)


def goal_seconds(spark: SparkSession, latency: str) -> float:
    """Parse a goal: a length of time that is not 0."""
    seconds = delay_of(spark, latency, name="latency") / 1e6
    if not seconds:
        refuse("E590", "a latency goal is longer than 0 seconds", "write, for example, '2 seconds'")
    return seconds


def _holding(frame: DataFrame, latency: str) -> DataFrame:
    spark = frame.sparkSession
    if is_connect(spark):
        unused("latency", "Spark Connect has no way to a query that runs", RESTARTS)
    seconds = goal_seconds(spark, latency)
    number = sf.lit(_goals_of(spark).add(seconds))
    length = sf.lit(round(seconds * 1000))
    # Observed metrics are aggregates; those of no rows would be NULL.
    return frame.observe(
        OBSERVED,
        sf.coalesce(sf.max(length), length).alias("goal_ms"),
        sf.coalesce(sf.max(number), number).alias("number"),
    )


_GOALS: weakref.WeakKeyDictionary[SparkSession, _Goals] = weakref.WeakKeyDictionary()
_NUMBERS = itertools.count(1)
_LOCK = threading.Lock()


def _goals_of(spark: SparkSession) -> _Goals:
    with _LOCK:
        found = _GOALS.get(spark)
        if found is None:
            found = _GOALS[spark] = _Goals(spark)
            spark.streams.addListener(found)
        return found


class _Goals(StreamingQueryListener):
    """Hears the progress of a session's queries, and holds those that have a goal to it."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = weakref.ref(spark)
        self._seconds: dict[int, float] = {}
        self._held: dict[str, HeldQuery | None] = {}
        """Queries that run; None if the limit of one cannot be changed."""

    def add(self, seconds: float) -> int:
        """Add a goal; return its number."""
        number = next(_NUMBERS)
        self._seconds[number] = seconds
        return number

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Wait for the first micro-batch, which tells whether there is a goal."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Judge a micro-batch."""
        progress = event.progress
        row, spark = progress.observedMetrics.get(OBSERVED), self._spark()
        if row is None or spark is None or row["number"] not in self._seconds:
            return
        run = str(progress.runId)
        if run not in self._held:
            self._held[run] = _begin(spark, str(progress.id), self._seconds[row["number"]])
        held = self._held[run]
        if held is not None:
            held.judge(progress)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Forget a query; its goal stays for the next start."""
        self._held.pop(str(event.runId), None)


def _begin(spark: SparkSession, query: str, seconds: float) -> HeldQuery | None:
    live = spark.streams.get(query)
    source = None if live is None else RunningSource.of(live)
    if source is None:
        decide(query, NO_LIMIT)
        return None
    return HeldQuery(spark, query, source, seconds)


class HeldQuery:
    """A query that runs, its source, and the goal that it is held to."""

    def __init__(
        self, spark: SparkSession, query: str, source: RunningSource, seconds: float
    ) -> None:
        self._spark, self._query, self._source = spark, query, source
        self._tasks = 0
        self._goal = LatencyGoal(seconds, source.limit, source.unit, self._tell_idle)

    def judge(self, progress: Mapping[str, Any]) -> None:
        """Take a micro-batch into account, and change the limit if it has to be."""
        self._tasks = _tasks_of(progress)
        read = self._source.log_of_files if self._source.unit == FILES else None
        change = self._goal.observe(micro_batch(progress, read))
        if change is None or change.limit is None:
            return
        if self._source.take_at_most(change.limit):
            decide(self._query, change.reason, limit=change.limit)

    def _tell_idle(self) -> None:
        """Tell of cores that have nothing to do: a query that runs keeps its number of tasks."""
        cores = int(self._spark.sparkContext.defaultParallelism)
        most = min(cores, bucket_count(self._spark))
        if 0 < self._tasks < most:
            text = f"{self._tasks} tasks keep the state, and {cores} cores could work on {most}: "
            decide(self._query, text + "`cepheid stream --latency` moves buckets to more tasks")
            self._tasks = 0


def _tasks_of(progress: Mapping[str, Any]) -> int:
    """Read the number of tasks that keep the state; 0 without one."""
    operators = progress["stateOperators"]
    return int(operators[0]["numShufflePartitions"]) if operators else 0


def hold_latency(
    start: Callable[[int | None], StreamingQuery],
    goal: str,
    *,
    limit: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
) -> list[Change]:
    """Run a live query until it ends, and start it again with another limit to hold a goal.

    ``q.stream(..., latency=goal)`` needs no restarts; this is for Spark Connect.

    Parameters
    ----------
    start
        Starts the query with a limit for its source, or without one, and returns it. It is called
        again with another limit after the query was stopped, and goes on from its checkpoint.
    goal
        How long a row may wait, such as ``"2 seconds"``: a micro-batch may take half of it.
    limit
        The limit to begin with, in records of the source or, with a checkpoint, in files.
    checkpoint
        The local folder of the checkpoint, if the source is a folder whose limit is
        ``maxFilesPerTrigger``: the files of a micro-batch are counted there.

    Returns
    -------
    list
        The changes, each with its limit and reason; the logger ``cepheid`` tells them too.
    """
    texts(goal=goal)
    length = length_us(goal)
    if not length:
        refuse("E590", f"goal is a length of time such as '2 seconds', not {goal!r}")
    unit = RECORDS if checkpoint is None else FILES
    held = LatencyGoal(length / 1e6, whole("limit", limit), unit)
    read = None if checkpoint is None else log_in(Path(checkpoint))
    changes: list[Change] = []
    last = -1
    while True:
        live = start(held.limit)
        try:
            change, last = _watch(live, held, last, read)
        except KeyboardInterrupt:
            live.stop()
            return changes
        if change is None:
            return changes
        log.info("%s", change.reason)
        changes.append(change)
        live.stop()


def _watch(
    live: Any, held: LatencyGoal, last: int, read: Callable[[int], str] | None
) -> tuple[Change | None, int]:
    """Wait for the end of a query, or for a change; return also the last micro-batch judged."""
    while True:
        ended = live.awaitTermination(LOOK_S)
        change, last = judge(held, live.recentProgress, last, read)
        if ended:
            return None, last
        if change is not None:
            return change, last
