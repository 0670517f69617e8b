"""Queries over bounded input: batches in time order in, one table out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import pyarrow as pa

from cepheid.jobs.kind import kind_of
from cepheid.plans.plan import Plan

BATCH_ROWS = 1 << 18
"""Events of one step: large enough to hide the cost of a step, small enough for the caches."""

LOOK_BACK_ROWS = 1 << 22
"""The same for queries that keep the events of open windows, which each step reads again."""

SITUATION_ROWS = 1 << 20
"""The same for situations, whose steps touch every situation of the window."""


class LocalJob(Protocol):
    """A query over bounded input."""

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""

    @property
    def in_order(self) -> bool:
        """Check whether events must come in time order."""

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """Compute the result over no events of a schema."""

    def answer(self, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
        """Run over batches, at least one."""

    def answer_table(self, table: pa.Table, rows: int) -> pa.Table:
        """Run over a table, in steps of about ``rows`` rows."""


def local_job(plan: Plan) -> LocalJob:
    """Create the job of a query.

    Raises
    ------
    UnsupportedError
        E404 if the query cannot be run.
    """
    return kind_of(plan).local_job(plan)


def slices_of(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """Slice a table into at least one piece of at most ``rows`` rows."""
    for offset in range(0, max(len(table), 1), rows):
        yield table.slice(offset, rows)
