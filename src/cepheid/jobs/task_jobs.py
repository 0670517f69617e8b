"""What tasks of Spark do for a query."""

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


def task_job(work: Work) -> TaskJob:
    """Make what tasks do for a query."""
    assert isinstance(work.kind, TaskKind), "Spark runs it with operators of its own"
    return work.kind.task_job(work)


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
