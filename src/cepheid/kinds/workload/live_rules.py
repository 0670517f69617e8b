"""A live workload: rules can be added and removed between batches, and the others are unaffected.

Rules that are added together form a *generation* with its own job and state, so adding rules
changes no counts of other rules. A rule sees the events that come after it was added. Removing a
rule drops its counts, except those that others share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

import pyarrow as pa

from cepheid.arrays.sharing import sharing_columns
from cepheid.kinds.trend.windows.list_step import empty_matches
from cepheid.kinds.workload.beside import Beside
from cepheid.kinds.workload.drop_queries import without_queries
from cepheid.kinds.workload.sharing import SharedPlan
from cepheid.kinds.workload.step import (
    Found,
    WorkloadJob,
    WorkloadState,
    build_tables,
    feed,
    finish_workload,
)

Tables = dict[str, pa.Table]

Rules = tuple[tuple[str, bytes], ...]
"""The names of rules, and their plans as JSON."""


class Generation:
    """Rules that were added together, with their state.

    Parameters
    ----------
    job, state
        Those of the remaining rules.
    came, gone
        All rules that were added, and the names of those that were removed, in order.
    merge
        Whether rules were merged where possible.
    """

    def __init__(
        self,
        job: WorkloadJob,
        state: WorkloadState,
        came: Rules,
        gone: list[str],
        *,
        merge: bool,
    ) -> None:
        self.job, self.state = job, state
        self.came, self.gone, self.merge = came, gone, merge

    @staticmethod
    def of(shared: SharedPlan, *, merge: bool) -> Generation:
        """Create a generation of new rules with an empty state."""
        job = WorkloadJob(shared)
        named = zip(shared.names, shared.plans, strict=True)
        came = tuple((name, plan.to_json()) for name, plan in named)
        return Generation(job, WorkloadState(job), came, [], merge=merge)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the rules."""
        return self.job.shared.names

    def remove(self, names: Set[str]) -> None:
        """Remove rules; the others keep their counts."""
        numbers = {n for n, name in enumerate(self.names) if name in names}
        self.gone += [self.names[n] for n in sorted(numbers)]
        self.job, self.state = without_queries(self.job, self.state, numbers)

    def tables_with_rows(self, found: Found, schema: pa.Schema) -> Tables:
        """Build the tables of rules that may have complete rows; most have none in a step."""
        full = {n for n, rows in enumerate(found.rows) if any(rows)}
        tables = build_tables(self.job, self.state, found, schema, full)
        return {self.names[n]: table for n, table in tables.items()}

    def tables(self, found: Found, schema: pa.Schema) -> Tables:
        """Build the tables of complete rows."""
        tables = build_tables(self.job, self.state, found, schema)
        for n in self.job.listing:
            own = empty_matches(self.job.jobs[n], schema)
            tables[n] = pa.concat_tables([own, *found.matches[n]])
        return {name: tables[n] for n, name in enumerate(self.names)}


class RunningRules:
    """The rules of a stream and their state."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.generations: list[Generation] = []
        self.beside = Beside({}, schema)

    @property
    def names(self) -> list[str]:
        """Return the names of the rules, in the order in which they were added."""
        shared = [name for generation in self.generations for name in generation.names]
        return [*shared, *self.beside.rules]

    def add(self, shared: SharedPlan, *, merge: bool = True) -> None:
        """Add rules, which see the events of the following batches.

        Raises
        ------
        ValueError
            If there is a rule of the same name.
        """
        twice = set(self.names) & {*shared.names, *shared.beside}
        if twice:
            message = f"there is a rule `{min(twice)}` already: remove it first"
            raise ValueError(message)
        if shared.names:
            self.generations.append(Generation.of(shared, merge=merge))
        self.beside.rules |= Beside(shared.beside, self.schema).rules

    def remove(self, name: str) -> None:
        """Remove a rule and its state.

        Raises
        ------
        KeyError
            If there is no such rule.
        """
        if name not in self.names:
            raise KeyError(name)
        self.remove_all({name})

    def remove_all(self, names: Set[str]) -> None:
        """Remove the rules that have one of these names."""
        self.beside.remove(names)
        self.generations = [g for g in self.generations if not set(g.names) <= names]
        for generation in self.generations:
            if not names.isdisjoint(generation.names):
                generation.remove(names)

    def feed(self, batch: pa.Table) -> Tables:
        """Process a batch, later than all earlier ones; return the complete rows."""
        with sharing_columns():
            shared = self._collect(self.generations, lambda g: feed(g.job, g.state, batch))
            return shared | self.beside.feed(batch)

    def finish(self) -> Tables:
        """Return the rows of all open windows; the stream has ended."""
        shared = self._collect(self.generations, lambda g: finish_workload(g.job, g.state))
        return shared | self.beside.finish()

    def _collect(
        self, generations: Iterable[Generation], find: Callable[[Generation], Found]
    ) -> Tables:
        tables: Tables = {}
        for generation in generations:
            tables |= generation.tables(find(generation), self.schema)
        return tables
