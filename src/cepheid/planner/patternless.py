"""Plans of queries without a pattern: what the parts about patterns say then."""

from __future__ import annotations

from cepheid.language import tree
from cepheid.planner.bind import Source
from cepheid.planner.findings import Findings
from cepheid.planner.plan import (
    Choice,
    Output,
    OutputKind,
    Partition,
    Plan,
    WindowKind,
    WindowPlan,
)
from cepheid.planner.select_plan import SelectPlan
from cepheid.planner.situation_plan import SituationPlan


def plan_without_pattern(
    text: str,
    source: Source,
    partition: Partition,
    choice: Choice,
    columns: tuple[str, ...] | None,
    findings: Findings,
    *,
    tick_ns: int = 1000,
    situations: SituationPlan | None = None,
    select: SelectPlan | None = None,
) -> Plan:
    """Return the plan of a query about situations, or of a SELECT."""
    return Plan(
        text=text,
        time=source.time,
        type=None,
        tiebreak=source.tiebreak,
        semantics=tree.Semantics.CONTIGUOUS,
        ties=tree.Ties.ARRIVAL,
        numbers=tree.Numbers.DEFAULT,
        min_length=1,
        patterns=(),
        local=(),
        edges=(),
        globals=(),
        partition=partition,
        window=WindowPlan(WindowKind.NONE, tick_ns=tick_ns),
        output=Output(OutputKind.AGGREGATES, (), (), None, None),
        choice=choice,
        columns=columns,
        warnings=findings.warnings,
        situations=situations,
        select=select,
    )
