"""Warn of odd events of a Spark run: its tasks notice what they read anyway, the driver judges.

An accumulator carries what tasks noticed. When the last task of a stage has ended, the driver knows
as much as a run in process, and warns before the action returns. Spark Connect has no accumulators.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pyspark import AccumulatorParam

from cepheid.arrays.noticing import Noticed, noticing
from cepheid.jobs.blobs import Batches
from cepheid.spark.batches import Task, partition_id
from cepheid.spark.versions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

Facts = dict[int, tuple[list[str], tuple[int, int] | None, int]]
"""The notices of tasks, by partition: types, the range of times, and events."""

Judge = Callable[[Noticed], Iterable[str]]


class _Gathered(AccumulatorParam[Facts]):
    """Unites facts; on the driver, judges them when the last task has sent its own."""

    def __init__(self, judge: Judge | None = None, wanted: frozenset[int] = frozenset()) -> None:
        self._judge = judge
        self._wanted = wanted

    def __reduce__(self) -> tuple[Any, ...]:
        # Tasks gather, and only the driver judges.
        return (_Gathered, ())

    def zero(self, value: Facts) -> Facts:
        """Return no facts."""
        del value
        return {}

    def addInPlace(self, value1: Facts, value2: Facts) -> Facts:  # noqa: N802  # Spark's name
        """Unite facts of different tasks."""
        value1.update(value2)
        if self._judge is not None and value1.keys() >= self._wanted:
            judge, self._judge = self._judge, None
            noticed = Noticed()
            for types, times, events in value1.values():
                noticed.add_types(types)
                if times is not None:
                    # Every task has events of its own.
                    noticed.add_times(*times, noticed.events + events)
            for message in judge(noticed):
                _warn(message)
        return value1


def _warn(message: str) -> None:
    """Issue a warning of Python; where warnings are errors, one would end Spark's own thread."""
    try:
        warnings.warn(message, stacklevel=3)
    except UserWarning:
        log.warning(message)


def noticing_task(
    spark: SparkSession, task: Task, wanted: Iterable[int], names: Iterable[str], judge: Judge
) -> Task:
    """Let a task notice its events; warn when the tasks of all wanted partitions have ended.

    Parameters
    ----------
    spark
        The session; a task of Spark Connect stays as it is.
    task
        The task, which reads the events.
    wanted
        The partitions that read all events; an action that runs fewer of them tells nothing.
    names
        Types that must not be forgotten, however many others there are.
    judge
        Says what is odd.
    """
    if is_connect(spark):
        return task
    gathered = _Gathered(judge, frozenset(wanted))
    told = spark.sparkContext.accumulator({}, gathered)
    kept = frozenset(names)

    def run(batches: Batches) -> Batches:
        noticed, rows = Noticed(kept), iter(task(batches))
        while True:
            with noticing(noticed):
                batch = next(rows, None)
            if batch is None:
                break
            yield batch
        fact = (sorted(noticed.types), noticed.times, noticed.events)
        told.add({partition_id(): fact})

    return run
