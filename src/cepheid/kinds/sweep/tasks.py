"""Sweeps inside Spark tasks: a task has all events of its groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from cepheid.jobs.owned import Owned
from cepheid.jobs.steps import REPORT_ROWS
from cepheid.jobs.work import Work
from cepheid.kinds.sweep.local import LocalSweep
from cepheid.plans.sweep import SweepPlan


class SweepTasks(NamedTuple):
    """A sweep inside a task that owns all of its events."""

    work: Work

    def rows(
        self, tables: Iterable[pa.Table], owned: Owned, number: int
    ) -> Iterator[pa.RecordBatch]:
        """Compute the rows of events in time order."""
        del owned, number
        job = LocalSweep(SweepPlan.of(self.work.planned()))
        rows = job.answer(tables, self.work.schema)
        yield from self.work.shown(rows).combine_chunks().to_batches(REPORT_ROWS)
