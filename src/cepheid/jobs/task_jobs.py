"""The jobs that Spark tasks run for a query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

import pyarrow as pa

from cepheid.jobs.blobs import Batches, Blob
from cepheid.jobs.kind import TaskKind
from cepheid.jobs.owned import Owned
from cepheid.jobs.work import Work


class TaskJob(Protocol):
    """A query inside a task, which has some of the events."""

    def rows(self, tables: Iterable[pa.Table], owned: Owned, number: int) -> Batches:
        """Compute the results of sorted events in the range that the task owns.

        ``number`` distinguishes the tasks of one query.
        """


@runtime_checkable
class Composes(Protocol):
    """A query whose stretches of events can be summarised independently."""

    def summarise(self, tables: Iterable[pa.Table], seq: int) -> Batches:
        """Summarise sorted events, as blobs for the tasks of their groups."""

    def compose(self, blobs: Iterable[Blob]) -> Batches:
        """Compute the results of summaries, which come in time order."""


@runtime_checkable
class Merges(Protocol):
    """A query whose groups may have partitions in several tasks."""

    @property
    def merges(self) -> bool:
        """Check whether a key shuffle spreads a group over several tasks."""

    def partial_rows(self, tables: Iterable[pa.Table]) -> Batches:
        """Compute partial rows of some partitions, as blobs for the tasks of their groups."""

    def merge(self, blobs: Iterable[Blob]) -> Batches:
        """Merge partial rows to results."""


def task_job(work: Work) -> TaskJob:
    """Create the job that tasks run for a query."""
    assert isinstance(work.kind, TaskKind), "Spark runs it with operators of its own"
    return work.kind.task_job(work)


def composing(work: Work) -> Composes:
    """Create the job of a query that is known to compose."""
    job = task_job(work)
    assert isinstance(job, Composes), "the strategy asks before"
    return job


def merging(work: Work) -> Merges:
    """Create the job of a query that is known to merge."""
    job = task_job(work)
    assert isinstance(job, Merges), "the strategy asks before"
    return job


def has_merge(work: Work) -> bool:
    """Check whether a key shuffle leaves partial rows that a later stage merges."""
    job = task_job(work)
    return isinstance(job, Merges) and job.merges
