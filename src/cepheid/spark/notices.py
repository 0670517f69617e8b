"""Warn of odd events of a Spark run: its tasks notice what they read anyway, the driver judges.

An accumulator carries what tasks noticed. When the last task of a stage has ended, the driver knows
as much as a run in process, and warns before the action returns. Of a live query it judges after
every task what has come so far, and warns once. Spark Connect has no accumulators.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark import Accumulator, AccumulatorParam

from cepheid.arrays.noticing import Noticed, noticing
from cepheid.jobs.blobs import Batches
from cepheid.spark.batches import Task, partition_id
from cepheid.spark.versions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

Fact = tuple[list[str], tuple[int, int] | None, int]
"""The notices of a task: types, the range of times, and events."""

Facts = dict[int, Fact]
"""The notices of tasks, by partition."""

Judge = Callable[[Noticed], Iterable[str]]
LiveJudge = Callable[[Noticed, int, bool], dict[tuple[str, str], str]]
"""Say what is odd about the events so far, their number, and whether there will be more.

A warning has its code and the name that it is about as a key.
"""


_UNWATCHED: ContextVar[bool] = ContextVar("unwatched", default=False)


@contextmanager
def unwatched() -> Iterator[None]:
    """Let tasks that are built inside this block notice nothing: they read a part of the events."""
    token = _UNWATCHED.set(True)
    try:
        yield
    finally:
        _UNWATCHED.reset(token)


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
    if is_connect(spark) or _UNWATCHED.get():
        return task
    gathered = _Gathered(judge, frozenset(wanted))
    told = spark.sparkContext.accumulator({}, gathered)
    kept = frozenset(names)

    def run(batches: Batches) -> Batches:
        noticed = Noticed(kept)
        yield from _under_notice(noticed, task(batches))
        fact = (sorted(noticed.types), noticed.times, noticed.events)
        told.add({partition_id(): fact})

    return run


def _under_notice(noticed: Noticed, batches: Batches) -> Batches:
    rows = iter(batches)
    while True:
        with noticing(noticed):
            batch = next(rows, None)
        if batch is None:
            break
        yield batch


class LiveNotices:
    """The notices of the tasks of a live query so far, and the warnings that were issued.

    Parameters
    ----------
    names
        Types that must not be forgotten, however many others there are.
    judge
        Says what is odd.
    """

    def __init__(self, names: Iterable[str], judge: LiveJudge) -> None:
        self._names, self._judge = frozenset(names), judge
        self._noticed, self._events = Noticed(self._names), 0
        self._told: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def watched(self, spark: SparkSession, task: Task) -> Task:
        """Let a task of a micro-batch notice its events; one of Spark Connect stays as it is."""
        if is_connect(spark):
            return task
        tell = to_driver(spark, self.add)
        kept = self._names

        def run(batches: Batches) -> Batches:
            noticed, events = Noticed(kept), 0

            def counted() -> Batches:
                nonlocal events
                for batch in batches:
                    events += batch.num_rows
                    yield batch

            yield from _under_notice(noticed, task(counted()))
            if events:
                tell((sorted(noticed.types), noticed.times, events))

        return run

    def add(self, fact: Fact) -> None:
        """Add what a task noticed, and warn of what was not told before."""
        types, times, events = fact
        with self._lock:
            self._events += events
            self._noticed.add_types(types)
            if times is not None:
                self._noticed.add_times(*times, self._events)
            self._tell(ended=False)

    def finish(self) -> None:
        """Judge the events of a query that has ended, however few they are."""
        with self._lock:
            if self._events:
                self._tell(ended=True)

    def _tell(self, *, ended: bool) -> None:
        for key, message in self._judge(self._noticed, self._events, ended).items():
            if key not in self._told:
                self._told.add(key)
                _warn(message)


def to_driver(spark: SparkSession, hear: Callable[[Any], object]) -> Callable[[Any], None]:
    """Build a function by which tasks hand facts to the driver; over Spark Connect they are lost.

    A task that runs twice hands its facts over twice.
    """
    if is_connect(spark):
        return _lose
    told = spark.sparkContext.accumulator([], _Heard(hear))
    return partial(_tell, told)


def _tell(told: Accumulator[list[Any]], fact: Any) -> None:
    told.add([fact])


def _lose(fact: Any) -> None:
    del fact


class _Heard(AccumulatorParam[list[Any]]):
    """Hands facts to the driver; a task only collects them."""

    def __init__(self, hear: Callable[[Any], object] | None = None) -> None:
        self._hear = hear

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Heard, ())

    def zero(self, value: list[Any]) -> list[Any]:
        """Return no facts."""
        del value
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802  # Spark's name
        """Collect facts; the driver keeps none, as a live query may run for years."""
        if self._hear is None:
            return value1 + value2
        for fact in value2:
            self._hear(fact)
        return []
