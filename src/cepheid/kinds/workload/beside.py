"""Queries of a workload that are no trends: each runs beside the others, over the same events.

Situations, SELECT, funnels and pipelines have a step function each (``kinds/pipeline/``), with a
state of its own, so that a rule comes and goes without touching the others. What they read of the
events they compute once (``arrays/sharing.py``), and rules of the same plan that came together are
*twins*: one step function and one state for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cepheid.arrays.sharing import sharing_columns
from cepheid.jobs.steps import take_until
from cepheid.kinds.pipeline.steps import PipelineSteps
from cepheid.plans.plan import PipelinePlan, SelectPlan
from cepheid.plans.selection import Extent, SelectKind

Tables = dict[str, pa.Table]


class BesideRule:
    """A query with its state."""

    def __init__(self, plan: PipelinePlan, schema: pa.Schema) -> None:
        self.plan = plan
        self.steps = PipelineSteps.of(plan, schema)
        self.state: Any = self.steps.start()

    def take(self, found: tuple[Any, Any]) -> Any:
        """Keep a new state, and return the rows."""
        self.state, rows = found
        return rows


class Beside:
    """All such queries of a stream."""

    def __init__(self, plans: Mapping[str, PipelinePlan], schema: pa.Schema) -> None:
        known: dict[bytes, BesideRule] = {}
        self.rules: dict[str, BesideRule] = {}
        """The queries by name; those of twins are one object."""
        for name, plan in plans.items():
            text = plan.to_json()
            if text not in known:
                known[text] = BesideRule(plan, schema)
            self.rules[name] = known[text]

    def together(self) -> list[tuple[BesideRule, list[str]]]:
        """List every query once, with the names of all its twins."""
        found: dict[int, tuple[BesideRule, list[str]]] = {}
        for name, rule in self.rules.items():
            found.setdefault(id(rule), (rule, []))[1].append(name)
        return list(found.values())

    def feed(self, batch: pa.Table) -> Tables:
        """Process a batch; return the rows that are final."""
        return self._each(lambda rule: rule.take(rule.steps.step(rule.state, batch)))

    def finish(self) -> Tables:
        """Return the rows of all open windows; the stream has ended."""
        return self._each(lambda rule: rule.take(rule.steps.finish(rule.state)))

    def advance(self, events: pa.Table, until: int) -> Tables:
        """Process events before a time; return the rows that are final at it."""
        return self._each(
            lambda rule: pa.concat_tables(
                rule.take(take_until(rule.steps, rule.state, events, until))
            )
        )

    def forget(self, until: int) -> None:
        """Drop state that no event at or after a time can need."""
        for rule, _ in self.together():
            rule.state = rule.steps.forget(rule.state, until)

    def remove(self, names: Set[str]) -> None:
        """Remove queries and their states."""
        self.rules = {name: rule for name, rule in self.rules.items() if name not in names}

    def _each(self, run: Callable[[BesideRule], pa.Table]) -> Tables:
        with sharing_columns():
            found: Tables = {}
            for rule, names in self.together():
                found |= dict.fromkeys(names, run(rule))
        return {name: found[name] for name in self.rules}


def run_beside(
    plans: Mapping[str, PipelinePlan], schema: pa.Schema
) -> tuple[Callable[[pa.Table], None], Callable[[], Tables]]:
    """Run queries over bounded input: a function for every batch, and one for the end."""
    beside = Beside(plans, schema)
    found = {name: [rule.steps.nothing()] for name, rule in beside.rules.items()}

    def add(tables: Tables) -> None:
        for name, table in tables.items():
            found[name].append(table)

    def end() -> Tables:
        add(beside.finish())
        return {n: in_order(plans[n], pa.concat_tables(tables)) for n, tables in found.items()}

    return lambda batch: add(beside.feed(batch)), end


def in_order(plan: PipelinePlan, rows: pa.Table) -> pa.Table:
    """Sort windows of events and sessions, which end in no common order (§10.5, §10.9)."""
    last = plan.stages[-1].plan
    if not isinstance(last, SelectPlan) or last.select.kind is not SelectKind.AGGREGATE:
        return rows
    if last.select.window.extent not in (Extent.EVENTS, Extent.SESSION):
        return rows
    names = ["window_start", *(key.name for key in last.select.keys)]
    by: Any = [(name, "ascending") for name in names]
    return rows.take(pc.sort_indices(rows, sort_keys=by))
