"""Estimate how many steps a relaxed query takes, before it runs."""

from __future__ import annotations

from cepheid.jobs.why_patterns import EventCounts
from cepheid.kinds.trend.why.queries import Target
from cepheid.language import tree
from cepheid.plans.plan import Evaluator, TrendPlan

COMPARING = (Evaluator.PAIRWISE, Evaluator.ENUMERATE, Evaluator.PREVIOUS)


def steps_of(plan: TrendPlan, target: Target, keys: tuple[str, ...], counts: EventCounts) -> float:
    """Estimate the steps of a query that compares events; 0 for others, which are linear.

    Each event takes as many steps as its window has events of its partition; windows with SLIDE and
    an index share what they know of events. Times and keys are taken to be spread evenly.
    """
    window, evaluator = target.window, plan.choice.evaluator
    trailing = window is not None and window.slide is None
    if evaluator not in COMPARING and not (evaluator is Evaluator.INDEXED and trailing):
        return 0.0
    events = counts.events
    seen = float(events) if target.keys != keys else events / max(1, counts.partitions)
    if window is not None and isinstance(window.within, tree.Duration):
        span = counts.time_span
        seen *= min(1.0, window.within.microseconds / span) if span else 1.0
    elif window is not None and isinstance(window.within, tree.EventCount):
        seen = min(seen, window.within.count)
    return events * seen
