"""Funnels inside Spark tasks: each collects the levels of its keys, and one counts them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from cepheid.jobs.blobs import ROWS, Batches, Blob, blobs_to_batch
from cepheid.jobs.owned import Owned
from cepheid.jobs.steps import REPORT_ROWS, Steps
from cepheid.jobs.tables import table_from_bytes, table_to_bytes
from cepheid.jobs.work import Work
from cepheid.kinds.funnel.results import rows_of
from cepheid.plans.plan import FunnelPlan


class FunnelSteps(Steps[Any], Protocol):
    """A step function whose levels can be collected before they are counted."""

    def reach(self, state: Any, events: pa.Table) -> tuple[Any, pa.Table | None]:
        """Process events; return the levels that are final."""

    def reach_at_end(self, state: Any) -> tuple[Any, pa.Table | None]:
        """Return the other levels: no more events come."""


class FunnelTasks(NamedTuple):
    """The job of tasks for a funnel."""

    work: Work
    plan: FunnelPlan
    job: FunnelSteps

    @property
    def merges(self) -> bool:
        """Spread the keys of one table over several tasks."""
        return True

    def rows(self, tables: Iterable[pa.Table], owned: Owned, number: int) -> Batches:
        """Compute the rows of sorted events of all keys."""
        del owned, number
        return self._report(self._levels(tables))

    def partial_rows(self, tables: Iterable[pa.Table]) -> Batches:
        """Collect the levels of some keys; one task counts them."""
        levels = self._levels(tables)
        payload = b"" if levels is None else table_to_bytes(levels)
        yield blobs_to_batch([Blob(0, 0, 0, ROWS, payload)])

    def merge(self, blobs: Iterable[Blob]) -> Batches:
        """Count the keys of all tasks."""
        payloads = [blob.payload for blob in blobs]
        if payloads:
            tables = [table_from_bytes(payload) for payload in payloads if payload]
            yield from self._report(pa.concat_tables(tables) if tables else None)

    def _levels(self, tables: Iterable[pa.Table]) -> pa.Table | None:
        state, found = self.job.start(), []
        for table in tables:
            state, levels = self.job.reach(state, table)
            found.append(levels)
        found.append(self.job.reach_at_end(state)[1])
        known = [levels for levels in found if levels is not None]
        return pa.concat_tables(known) if known else None

    def _report(self, levels: pa.Table | None) -> Batches:
        rows = rows_of(self.plan, self.work.schema, levels)
        yield from self.work.shown(rows).combine_chunks().to_batches(REPORT_ROWS)
