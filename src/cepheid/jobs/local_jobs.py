"""Queries over events that are all there: batches in the order of time in, one table out."""

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
    """A query over events that are all there."""

    @property
    def batch_rows(self) -> int:
        """Give how many events one step takes."""

    @property
    def in_order(self) -> bool:
        """Tell whether events must come in the order of time."""

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """Give the result over no events of a schema."""

    def answer(self, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
        """Run over batches, at least one."""

    def answer_table(self, table: pa.Table, rows: int) -> pa.Table:
        """Run over a table, in steps of about so many rows."""


def local_job(plan: Plan) -> LocalJob:
    """Make the job of a query.

    Raises
    ------
    UnsupportedError
        E404 if the query cannot be run.
    """
    return kind_of(plan).local_job(plan)


def slices_of(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """Yield a table in pieces of at most so many rows, at least one."""
    for offset in range(0, max(len(table), 1), rows):
        yield table.slice(offset, rows)
