"""Listing of matches inside Spark tasks: events in, numbered matches out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cepheid.jobs.blobs import Batches
from cepheid.jobs.owned import Owned
from cepheid.jobs.work import Work
from cepheid.kinds.trend.local import list_batches
from cepheid.kinds.trend.program.job import Job, job_of
from cepheid.kinds.trend.windows.match_tables import MATCH_ID
from cepheid.plans.plan import WindowKind

LISTING_ROWS = 1 << 20
"""Events of one step that lists matches; each step reads the events of open windows again."""

ID_BITS = 40
"""Bits of a match number within a task; the task number is above them."""


class MatchTasks(NamedTuple):
    """The job of tasks for listed matches."""

    work: Work
    job: Job

    @staticmethod
    def of(work: Work) -> MatchTasks:
        """Create the tasks of a plan."""
        return MatchTasks(work, job_of(work.plan))

    def rows(self, tables: Iterable[pa.Table], owned: Owned, number: int) -> Batches:
        """List matches as they are found, with numbers that are unique across tasks."""
        for table in list_batches(self.job, _gathered(self.job, tables), owned):
            yield from self.work.shown(number_matches(table, number)).to_batches()


def number_matches(table: pa.Table, number: int) -> pa.Table:
    """Assign numbers to matches that no other task uses."""
    if MATCH_ID not in table.column_names or not number:
        return table
    place = table.column_names.index(MATCH_ID)
    ids = pc.add(table.column(place), number << ID_BITS)
    return table.set_column(place, MATCH_ID, ids)


def _gathered(job: Job, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Concatenate tables, because every step reads the open events again.

    Without a window everything stays open, and steps of doubling size keep the work linear.
    """
    doubling = job.plan.window.kind is WindowKind.NONE
    waiting: list[pa.Table] = []
    rows = total = 0
    for table in tables:
        waiting.append(table)
        rows += len(table)
        if rows >= max(LISTING_ROWS, total if doubling else 0):
            yield pa.concat_tables(waiting)
            total += rows
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting)
