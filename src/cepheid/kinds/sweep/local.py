"""Run a sweep over bounded input, and put the rows of its queries together (§16.5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.expressions.evaluate import true_mask
from cepheid.expressions.vectors import Vector, vector_of
from cepheid.jobs.local_jobs import local_job, slices_of
from cepheid.kinds.pipeline.single import as_pipeline
from cepheid.kinds.sweep.edges import SameEvents
from cepheid.kinds.sweep.run import OnePass
from cepheid.kinds.sweep.same_events import same_events
from cepheid.kinds.sweep.values import with_values
from cepheid.kinds.workload.answer import answer_workload, batch_rows
from cepheid.kinds.workload.sharing import SharedPlan, share
from cepheid.language import tree
from cepheid.memory_limits import collect
from cepheid.plans.plan import TrendPlan
from cepheid.plans.sweep import Parameter, SweepPlan, ValuesKind, Way

TYPES: dict[ValuesKind, Any] = {
    ValuesKind.INTEGER: pa.int64(),
    ValuesKind.DOUBLE: pa.float64(),
    ValuesKind.TEXT: pa.string(),
    ValuesKind.DURATION: pa.duration("us"),
}


class Piece(NamedTuple):
    """Rows of a query, and for some parameters the number of the value that each row is of."""

    rows: pa.Table
    numbers: Mapping[int, NDArray[np.int64]]


class LocalSweep:
    """A sweep over bounded input."""

    in_order = True

    def __init__(self, plan: SweepPlan) -> None:
        self.plan = plan
        self._alone = not plan.thresholds and len(plan.plans) == 1
        self._groups = [] if plan.thresholds else same_events(plan.plans)
        rest = set(range(len(plan.plans))).difference(*self._groups)
        queries = bool(rest) and not self._alone and not plan.thresholds
        self._shared = shared_plan(plan, sorted(rest)) if queries else None

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return (
            local_job(self.plan.plans[0]).batch_rows
            if self._shared is None
            else batch_rows(self._shared)
        )

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """Compute the result over no events of a schema."""
        one = self.plan.plans[0]
        # A funnel has rows without events; the columns are those of its rows.
        rows = local_job(one).nothing(schema).slice(0, 0)
        return self.united([Piece(rows, {})], schema)

    def answer_table(self, table: pa.Table, rows: int) -> pa.Table:
        """Run over a sorted table, in steps of ``rows`` rows."""
        if not self._alone:
            return self.answer(slices_of(table, rows), table.schema)
        job = local_job(self.plan.plans[0])
        return self.united([Piece(job.answer_table(table, rows), {})], table.schema)

    def answer(self, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
        """Run over batches in time order."""
        return self.united(self._pieces(batches, schema), schema)

    def _pieces(self, batches: Iterable[pa.Table], schema: pa.Schema) -> Iterator[Piece]:
        plan = self.plan
        if self._alone:
            found = iter([Piece(local_job(plan.plans[0]).answer(batches, schema), {})])
        elif plan.thresholds:
            found = _in_one_pass(plan, batches, schema)
        else:
            tables = self._tables(batches, schema)
            found = (Piece(tables.pop(f"{number}"), {}) for number in range(len(plan.plans)))
        return self.with_each(found)

    def with_each(self, found: Iterator[Piece]) -> Iterator[Piece]:
        """Add the numbers of the values that have a plan each."""
        plan = self.plan
        each = [n for n, p in enumerate(plan.parameters) if p.way is Way.EACH]
        values = product(*(range(len(plan.parameters[n].values)) for n in each))
        for piece, combination in zip(found, values, strict=True):
            own = zip(each, combination, strict=True)
            numbers = {n: np.full(len(piece.rows), value) for n, value in own}
            yield Piece(piece.rows, {**piece.numbers, **numbers})

    def _tables(self, batches: Iterable[pa.Table], schema: pa.Schema) -> dict[str, pa.Table]:
        """Run a query for each value: those of the same events together, others as a workload."""
        plans = [TrendPlan.of(one) for one in self.plan.plans] if self._groups else []
        runs = [SameEvents([plans[n] for n in group]) for group in self._groups]

        def fed() -> Iterator[pa.Table]:
            for batch in batches:
                for run in runs:
                    run.feed(batch)
                yield batch

        tables: dict[str, pa.Table] = {}
        if self._shared is not None:
            tables |= answer_workload(self._shared, fed(), schema)
        else:
            for _ in fed():
                pass
        for group, run in zip(self._groups, runs, strict=True):
            tables |= zip((f"{n}" for n in group), run.finish(schema), strict=True)
        return tables

    def united(self, pieces: Iterable[Piece], schema: pa.Schema) -> pa.Table:
        """Filter rows by HAVING, put them in order, and add the columns of the parameters."""
        parameters = self.plan.parameters
        tables, numbers = [], []
        for piece in pieces:
            for kept in self._after(piece):
                tables.append(kept.rows)
                numbers.append(_combination(parameters, kept))
        rows = pa.concat_tables(collect(tables))
        combination = np.concatenate(numbers)
        if len(combination) and (np.diff(combination) < 0).any():
            order = np.argsort(combination, kind="stable")
            rows, combination = rows.take(order), combination[order]
        shown = rows.select([n for n in rows.column_names if n not in self.plan.hidden])
        columns = _columns(parameters, combination)
        return pa.table(columns | dict(zip(shown.column_names, shown.columns, strict=True)))

    def _after(self, piece: Piece) -> Iterator[Piece]:
        """Filter rows by HAVING, for every combination of the values in it."""
        plan = self.plan
        after = [n for n, p in enumerate(plan.parameters) if p.way is Way.AFTER]
        if plan.having is None:
            yield piece
            return

        def lookup(attribute: tree.Attribute) -> Vector:
            return vector_of(piece.rows.column(attribute.attribute.text))

        for values in product(*(range(len(plan.parameters[n].values)) for n in after)):
            combination = dict(zip(after, values, strict=True))
            having = with_values(plan.having, plan.parameters, combination)
            kept = np.flatnonzero(true_mask(having, lookup, len(piece.rows)))
            numbers = {n: found[kept] for n, found in piece.numbers.items()}
            numbers |= {n: np.full(len(kept), value) for n, value in combination.items()}
            yield Piece(piece.rows.take(kept), numbers)


def _in_one_pass(
    plan: SweepPlan, batches: Iterable[pa.Table], schema: pa.Schema
) -> Iterator[Piece]:
    """Answer all values of thresholds in one pass, for each of the plans."""
    runs = [OnePass(plan, TrendPlan.of(one)) for one in plan.plans]
    for batch in batches:
        for run in runs:
            run.feed(batch)
    for run in runs:
        yield Piece(*run.finish(schema))


def shared_plan(plan: SweepPlan, numbers: Sequence[int]) -> SharedPlan:
    """Plan some queries of a sweep as one workload; their names are their numbers."""
    chosen = {f"{n}": plan.plans[n] for n in numbers}
    trends = {
        name: one
        for name, one in chosen.items()
        if isinstance(one, TrendPlan) and one.shares_passes
    }
    others = {name: one for name, one in chosen.items() if name not in trends}
    beside = {name: as_pipeline(one) for name, one in others.items()}
    return share(tuple(trends), list(trends.values()), merge=True, beside=beside)


def _combination(parameters: tuple[Parameter, ...], piece: Piece) -> NDArray[np.int64]:
    """Compute the number of the combination of every row, in the order of §16.5."""
    total = np.zeros(len(piece.rows), np.int64)
    for number, parameter in enumerate(parameters):
        total *= len(parameter.values)
        if number in piece.numbers:
            total += piece.numbers[number]
    return total


def _columns(parameters: tuple[Parameter, ...], combination: NDArray[np.int64]) -> dict[str, Any]:
    """Build the columns of the parameters."""
    columns = {}
    stride = prod(len(parameter.values) for parameter in parameters)
    for parameter in parameters:
        stride //= len(parameter.values)
        values = pa.array(parameter.values, TYPES[parameter.kind])
        columns[parameter.name] = values.take(pa.array(combination // stride % len(values)))
    return columns
