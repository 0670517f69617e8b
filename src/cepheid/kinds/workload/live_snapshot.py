"""Serialize RunningRules: every generation with the rules that it began with.

Shared work is recomputed from the plans: first of all rules that were added together, then without
the removed ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec
import pyarrow as pa

from cepheid.jobs.misfits import misfit
from cepheid.jobs.state_format import Format, read_state, write_state
from cepheid.kinds.workload.beside import BesideRule
from cepheid.kinds.workload.drop_queries import narrower
from cepheid.kinds.workload.live_rules import Generation, Rules, RunningRules
from cepheid.kinds.workload.sharing import SharedPlan, Shares, share
from cepheid.kinds.workload.snapshot import (
    OtherGroupsError,
    workload_from_bytes,
    workload_to_bytes,
)
from cepheid.kinds.workload.step import WorkloadJob
from cepheid.plans.plan import PipelinePlan, Plan, TrendPlan

FORMAT = Format("rules", 2, "rules")


_CHANGES: tuple[frozenset[Shares], ...] = (
    frozenset({Shares.EXPIRIES_OF_COUNTS, Shares.NEGATED_EDGES}),
    frozenset({Shares.EXPIRIES}),
    frozenset({Shares.NEGATED_SEQUENCES}),
    frozenset({Shares.NEGATED_CONTIGUOUS, Shares.EXACT}),
    frozenset({Shares.EDGES}),
    frozenset({Shares.TRAILING}),
)
"""Shapes that each version has begun to share, the last version first."""

_FORMER = tuple(frozenset[Shares]().union(*_CHANGES[:n]) for n in range(len(_CHANGES) + 1))
"""Sharing of this and earlier versions: queries that ran alone in a state go on so."""


class _Generation(msgspec.Struct, array_like=True):
    """Rules that were added together, those removed since, and the state of the others."""

    came: Rules
    gone: tuple[str, ...]
    merge: bool
    state: bytes


def rules_to_bytes(rules: RunningRules) -> bytes:
    """Serialize running rules."""
    found = [
        _Generation(
            g.came,
            tuple(g.gone),
            g.merge,
            workload_to_bytes(g.job, g.state),
        )
        for g in rules.generations
    ]
    for rule, names in rules.beside.together():
        plan = rule.plan.to_json()
        came = tuple((name, plan) for name in names)
        found.append(_Generation(came, (), merge=False, state=rule.steps.write(rule.state)))
    return write_state(FORMAT, found)


def rules_from_bytes(
    data: bytes, schema: pa.Schema, keeps: Callable[[str, Plan], bool] = lambda *_: True
) -> RunningRules:
    """Deserialize rules that ``rules_to_bytes`` wrote, for events of a schema.

    Raises
    ------
    DataError
        E524 if the bytes hold no rules, or those of another version; E546 if they are damaged.
    """
    found = read_state(FORMAT, data, list[_Generation])
    rules = RunningRules(schema)
    for one in found:
        try:
            if (beside := _beside_of(one.came)) is not None:
                names = [name for name, _ in one.came if keeps(name, beside)]
                if not names:
                    # The events may lack columns that only these rules read.
                    continue
                rule = BesideRule(beside, schema)
                rule.state = rule.steps.read(one.state)
                rules.beside.rules |= dict.fromkeys(names, rule)
                continue
            plan_of(one.came, one.gone, merge=one.merge)
        except ValueError as error:
            why = "its rules were planned by another version of Cepheid"
            raise misfit(why) from error
        rules.generations.append(generation_of(one.came, one.gone, one.state, merge=one.merge))
    return rules


def generation_of(came: Rules, gone: tuple[str, ...], data: bytes, *, merge: bool) -> Generation:
    """Restore rules that were added together."""
    *newer, oldest = _FORMER
    for former in newer:
        job = WorkloadJob(plan_of(came, gone, merge=merge, without=former))
        try:
            state = workload_from_bytes(job, data)
        except OtherGroupsError:
            continue
        return Generation(job, state, came, list(gone), merge=merge)
    job = WorkloadJob(plan_of(came, gone, merge=merge, without=oldest))
    return Generation(job, workload_from_bytes(job, data), came, list(gone), merge=merge)


@lru_cache(maxsize=4096)
def _beside_of(came: Rules) -> PipelinePlan | None:
    """Return the plan of twins that run beside the others; None of rules that share."""
    plan = Plan.from_json(came[0][1])
    return plan if isinstance(plan, PipelinePlan) else None


@lru_cache(maxsize=64)
def plan_of(
    came: Rules,
    gone: tuple[str, ...],
    *,
    merge: bool,
    without: frozenset[Shares] = frozenset(),
) -> SharedPlan:
    """Build the plan of rules that were added together, without the removed ones.

    ``without`` is that of ``share``.
    """
    plans = [TrendPlan.from_json(plan) for _, plan in came]
    names = [name for name, _ in came]
    shared = share(names, plans, merge=merge, without=without)
    return narrower(shared, {shared.names.index(name) for name in gone}) if gone else shared
