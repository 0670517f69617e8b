"""Words that the descriptions of all groups of a workload share."""

from __future__ import annotations

from collections.abc import Sequence

from cepheid.events.temporal import format_duration
from cepheid.expressions.format import format_expression
from cepheid.kinds.workload.member_shapes import ExtremeShape, PartShape
from cepheid.language import tree
from cepheid.patterns.symbols import Symbol
from cepheid.plans.plan import TrendPlan, WindowKind

NAMES_MAX = 8


def list_names(names: Sequence[str]) -> str:
    """List names of queries; of many, the first ones and how many more there are."""
    shown = ", ".join(names[:NAMES_MAX])
    return shown if len(names) <= NAMES_MAX else f"{shown} and {len(names) - NAMES_MAX:,} more"


def where_and_what(
    plan: TrendPlan, parts: Sequence[PartShape], extremes: Sequence[ExtremeShape]
) -> str:
    """Describe the partitions, windows, semantics and aggregates that members have in common."""
    by = ", ".join(plan.partition.attributes)
    keys = f"by {by}" if by else "the whole stream"
    computed = [p.what if not p.attribute else f"{p.what} of {p.attribute}" for p in parts]
    computed += [f"{'max' if e.largest else 'min'} of {e.attribute}" for e in extremes]
    exact = "; exact numbers" if plan.numbers is tree.Numbers.EXACT else ""
    found = f"{keys}; {describe_window(plan)}; {plan.semantics.value}; {', '.join(computed)}"
    return found + exact


def describe_window(plan: TrendPlan) -> str:
    """Describe a window."""
    window = plan.window
    match window.kind:
        case WindowKind.NONE:
            return "no window"
        case WindowKind.TUMBLING:
            return f"{format_duration(window.within)}, tumbling"
        case WindowKind.TRAILING:
            return f"the last {format_duration(window.within)}"
        case _:
            slide = format_duration(window.slide)
            return f"{format_duration(window.within)}, sliding by {slide}"


def name_symbol(symbol: Symbol) -> str:
    """Describe a symbol: a type and local predicates."""
    name = symbol.event_type or "event"
    conditions = sorted(format_expression(c).replace("_.", "") for c in symbol.conditions)
    return f"{name}[{' AND '.join(conditions)}]" if conditions else name
