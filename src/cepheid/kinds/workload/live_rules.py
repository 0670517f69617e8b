"""Rules over a stream that goes on: rules come and go between batches, and others stay as they are.

Rules that come together form a *generation* with a job and a state of its own, so nothing that
other rules have counted changes when rules come. A rule sees the events that come after it. A rule
that goes takes its numbers with it, but for those that others share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

import pyarrow as pa

from cepheid.kinds.trend.windows.list_step import empty_matches
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
    """Rules that came together, with what they remember.

    Parameters
    ----------
    job, state
        Those of the rules that are still there.
    came, gone
        All rules that came, and the names of those that went, in this order.
    merge
        Whether rules were merged where they can be.
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
        """Return rules that come now and remember nothing."""
        job = WorkloadJob(shared)
        named = zip(shared.names, shared.plans, strict=True)
        came = tuple((name, plan.to_json()) for name, plan in named)
        return Generation(job, WorkloadState(job), came, [], merge=merge)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the rules."""
        return self.job.shared.names

    def remove(self, names: Set[str]) -> None:
        """Remove rules; the others keep what they have counted."""
        numbers = {n for n, name in enumerate(self.names) if name in names}
        self.gone += [self.names[n] for n in sorted(numbers)]
        self.job, self.state = without_queries(self.job, self.state, numbers)

    def tables(self, found: Found, schema: pa.Schema) -> Tables:
        """Return the rows that are complete."""
        tables = build_tables(self.job, self.state, found, schema)
        for n in self.job.listing:
            own = empty_matches(self.job.jobs[n], schema)
            tables[n] = pa.concat_tables([own, *found.matches[n]])
        return {name: tables[n] for n, name in enumerate(self.names)}


class RunningRules:
    """The rules of a stream and everything that they remember."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.generations: list[Generation] = []

    @property
    def names(self) -> list[str]:
        """Return the names of the rules, in the order in which they came."""
        return [name for generation in self.generations for name in generation.names]

    def add(self, shared: SharedPlan, *, merge: bool = True) -> None:
        """Add rules, which see the events of the batches that follow.

        Raises
        ------
        ValueError
            If there is a rule of such a name.
        """
        twice = set(self.names) & set(shared.names)
        if twice:
            message = f"there is a rule `{min(twice)}` already: remove it first"
            raise ValueError(message)
        self.generations.append(Generation.of(shared, merge=merge))

    def remove(self, name: str) -> None:
        """Remove a rule with what it remembers.

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
        self.generations = [g for g in self.generations if not set(g.names) <= names]
        for generation in self.generations:
            if not names.isdisjoint(generation.names):
                generation.remove(names)

    def feed(self, batch: pa.Table) -> Tables:
        """Process a batch, later than all before it; return the rows that are complete."""
        return self._collect(self.generations, lambda g: feed(g.job, g.state, batch))

    def finish(self) -> Tables:
        """Return the rows of all windows that are still open; the stream has ended."""
        return self._collect(self.generations, lambda g: finish_workload(g.job, g.state))

    def _collect(
        self, generations: Iterable[Generation], find: Callable[[Generation], Found]
    ) -> Tables:
        tables: Tables = {}
        for generation in generations:
            tables |= generation.tables(find(generation), self.schema)
        return tables
