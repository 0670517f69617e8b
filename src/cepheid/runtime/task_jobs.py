"""What tasks of Spark do for a query: by the kind of its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

import pyarrow as pa

from cepheid.engine.listing import Owned
from cepheid.planner.plan import Plan, SituationPlan, TrendPlan
from cepheid.runtime.blobs import Blob
from cepheid.runtime.spark_io import Batches
from cepheid.runtime.spark_matches import MatchTasks
from cepheid.runtime.spark_situations import SituationTasks
from cepheid.runtime.spark_trends import TrendTasks
from cepheid.runtime.work import Work


class TaskJob(Protocol):
    """A query inside a task, which has some of the events."""

    def rows(self, tables: Iterable[pa.Table], owned: Owned, number: int) -> Batches:
        """Yield the results of events in order, of what a task owns.

        ``number`` tells the tasks of one query apart.
        """


@runtime_checkable
class Composes(Protocol):
    """A query whose stretches of events can be summarised apart."""

    def summarise(self, tables: Iterable[pa.Table], seq: int) -> Batches:
        """Yield summaries of events in order, as blobs for the tasks of their groups."""

    def compose(self, blobs: Iterable[Blob]) -> Batches:
        """Yield the results of summaries, which come in the order of time."""


@runtime_checkable
class Merges(Protocol):
    """A query whose groups may have partitions in several tasks."""

    @property
    def merges(self) -> bool:
        """Return whether they have, in a key shuffle."""

    def partial_rows(self, tables: Iterable[pa.Table]) -> Batches:
        """Yield rows of some partitions, as blobs for the tasks of their groups."""

    def merge(self, blobs: Iterable[Blob]) -> Batches:
        """Yield the results of partial rows."""


def _of_events(work: Work) -> TaskJob:
    return MatchTasks.of(work) if work.planned().lists_matches else TrendTasks.of(work)


JOBS: dict[type[Plan], Callable[[Work], TaskJob]] = {
    TrendPlan: _of_events,
    SituationPlan: SituationTasks.of,
}


def task_job(work: Work) -> TaskJob:
    """Return what tasks do for a query."""
    return JOBS[type(work.planned())](work)


def composing(work: Work) -> Composes:
    """Return what tasks do for a query that was found to compose."""
    job = task_job(work)
    assert isinstance(job, Composes), "the strategy asks before"
    return job


def merging(work: Work) -> Merges:
    """Return what tasks do for a query that was found to merge."""
    job = task_job(work)
    assert isinstance(job, Merges), "the strategy asks before"
    return job


def has_merge(work: Work) -> bool:
    """Return whether a key shuffle leaves rows that are added up later."""
    job = task_job(work)
    return isinstance(job, Merges) and job.merges
