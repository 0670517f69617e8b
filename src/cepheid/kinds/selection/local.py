"""SELECT over bounded input: rows, windowed aggregates, or pairs of two streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from cepheid.events.files import present
from cepheid.jobs.local_jobs import BATCH_ROWS, slices_of
from cepheid.jobs.ordering import sort_events
from cepheid.kinds.selection.aggregation import Aggregation
from cepheid.kinds.selection.join import join_tables
from cepheid.kinds.selection.many_join import join_many
from cepheid.kinds.selection.operators import ON_CPU, Operators, filter_rows
from cepheid.kinds.selection.ordering import order_rows
from cepheid.kinds.selection.pairs import following
from cepheid.plans.plan import SelectPlan
from cepheid.plans.selection import Extent, SelectKind, SelectStream


class LocalSelect(NamedTuple):
    """A SELECT. Rows keep the order of arrival; only the numbers of events follow time order."""

    plan: SelectPlan
    by: Operators = ON_CPU

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return BATCH_ROWS

    @property
    def in_order(self) -> bool:
        """Accept events in any order."""
        return False

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """Compute the result over no events of a schema."""
        return self.answer([], schema).slice(0, 0)

    def answer(self, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
        """Run over the batches of one stream."""
        select = self.plan.select
        tables = _at_least_one(batches, schema)
        if select.kind is SelectKind.FILTER:
            return order_rows(select, self._filtered(tables))
        aggregation = Aggregation(select, self.plan.time, self.by)
        if select.window.extent is Extent.EVENTS:
            whole = pa.concat_tables(tables, promote_options="permissive")
            tables = iter([sort_events(read_only(whole, select.streams[0]), self.plan)])
        for table in tables:
            aggregation.add(table)
        return order_rows(select, aggregation.result())

    def _filtered(self, tables: Iterable[pa.Table]) -> pa.Table:
        """Filter events; LIMIT without ORDER BY needs the first rows only."""
        select, found, count = self.plan.select, [], 0
        for table in tables:
            found.append(filter_rows(select, table, self.by))
            count += len(found[-1])
            if select.limit is not None and not select.order and count >= select.limit:
                break
        return pa.concat_tables(found, promote_options="permissive")

    def answer_table(self, table: pa.Table, rows: int) -> pa.Table:
        """Run over a table, in steps of about ``rows`` rows."""
        return self.answer(slices_of(table, rows), table.schema)

    def answer_streams(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Join two streams, or more."""
        select = self.plan.select
        pairs = zip(tables, select.streams, strict=True)
        ordered = [sort_events(read_only(table, stream), self.plan) for table, stream in pairs]
        if len(ordered) == 2:
            rows = join_tables(select, self.plan.time, ordered, by=self.by)
        else:
            rows = join_many(select, self.plan.time, ordered, by=self.by)
        if select.then is not None:
            return LocalSelect(following(self.plan), self.by).answer([rows], rows.schema)
        return order_rows(select, rows)


def _at_least_one(batches: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """Pass batches on; without any event, pass an empty table that carries the types of columns."""
    some = False
    for batch in batches:
        some = True
        yield batch
    if not some:
        yield schema.empty_table()


def read_only(table: pa.Table, stream: SelectStream) -> pa.Table:
    """Drop columns that are not read, so that they are neither sorted nor copied."""
    if stream.reads is None:
        return table
    return table.select(present(table.column_names, stream.reads))
