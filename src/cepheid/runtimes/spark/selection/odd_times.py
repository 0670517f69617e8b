"""Warn of times in another unit (W208) where Spark's own operators run a SELECT.

No task of Cepheid sees these events. Of a DataFrame the first events are read in advance, only if
their times are whole microseconds and windows are times. Of a stream Spark observes the range of
times, and a listener judges it after the first micro-batches.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf
from pyspark.sql.streaming.listener import StreamingQueryListener

from cepheid.arrays.noticing import Noticed
from cepheid.events.schema import ValueKind
from cepheid.plans.plan import SelectPlan
from cepheid.plans.selection import Extent
from cepheid.runtimes.notices import TICK_OF_MICROSECONDS, notice_store, oddities, warn_of
from cepheid.runtimes.spark.selection.rows import stream_of
from cepheid.store.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST_EVENTS = 1000
"""So many events of a DataFrame are looked at."""

TIMES = "cepheid_times"
"""The prefix of the names of observed ranges of times."""


def warn_of_first_times(plan: SelectPlan, frames: Sequence[DataFrame]) -> None:
    """Look at the first times of DataFrames, and warn if they look like another unit."""
    for alias, frame in zip([s.alias for s in plan.select.streams], frames, strict=True):
        if _is_suspect(plan, frame):
            time = stream_of(alias, frame).typed(plan.time).column.cast("long").alias("time")
            found = frame.select(time).limit(FIRST_EVENTS)
            row = found.agg(sf.min("time"), sf.max("time"), sf.count("time")).first()
            assert row is not None, "an aggregate of all events has a row"
            if row[2]:
                warn_of(_judged(plan, *row))


def warn_of_stored_times(plan: SelectPlan, snapshot: Snapshot) -> None:
    """Warn if the times of a store, which its manifest knows, look like another unit."""
    noticed = Noticed()
    notice_store(plan, snapshot, noticed)
    warn_of(oddities([plan], noticed))


def observed_times(plan: SelectPlan, frames: Sequence[DataFrame]) -> list[DataFrame]:
    """Let Spark observe the times of streams, and warn while they run."""
    watched = []
    for alias, frame in zip([s.alias for s in plan.select.streams], frames, strict=True):
        if not _is_suspect(plan, frame):
            watched.append(frame)
            continue
        name = f"{TIMES}_{alias}_{_LISTENER.added(plan)}"
        time = stream_of(alias, frame).typed(plan.time).column.cast("long")
        range_of = sf.min(time).alias("least"), sf.max(time).alias("largest")
        watched.append(frame.observe(name, *range_of, sf.count(time).alias("count")))
        _LISTENER.listen(frame.sparkSession)
    return watched


def _is_suspect(plan: SelectPlan, frame: DataFrame) -> bool:
    """Check whether times are whole microseconds, and the result depends on their unit."""
    if plan.tick_ns != TICK_OF_MICROSECONDS or plan.select.window.extent is not Extent.TIME:
        return False
    return stream_of("", frame).typed(plan.time).kind is ValueKind.INTEGER


def _judged(plan: SelectPlan, least: int, largest: int, events: int) -> list[str]:
    noticed = Noticed()
    noticed.add_times(least, largest, events)
    return oddities([plan], noticed)


class _Listener(StreamingQueryListener):
    """Judges the times of live queries; each range that Spark observes is judged once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: dict[str, SelectPlan] = {}
        self._next = 0
        self._sessions: weakref.WeakSet[SparkSession] = weakref.WeakSet()

    def added(self, plan: SelectPlan) -> str:
        """Keep a plan until its first events were judged; return its number."""
        with self._lock:
            self._next += 1
            self._plans[str(self._next)] = plan
            return str(self._next)

    def listen(self, spark: SparkSession) -> None:
        """Listen to the queries of a session, once."""
        with self._lock:
            if spark not in self._sessions:
                self._sessions.add(spark)
                spark.streams.addListener(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's name
        """Do nothing: there are no events yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  # Spark's name
        """Judge the events of a micro-batch, if they are the first ones."""
        for name, row in event.progress.observedMetrics.items():
            if not name.startswith(TIMES) or row is None or not row["count"]:
                continue
            with self._lock:
                plan = self._plans.pop(name.rpartition("_")[2], None)
            if plan is not None:
                for message in _judged(plan, row["least"], row["largest"], row["count"]):
                    warnings.warn(message, stacklevel=2)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  # Spark's name
        """Do nothing: what there was is told."""


_LISTENER = _Listener()
