"""Requirements of a query about situations for splitting it into tasks, with reasons."""

from __future__ import annotations

from cepheid.plans.needs import Needs, Strategy, StrategyChoice, needs_by_key, pane_length
from cepheid.plans.plan import SituationPlan

LIVE_PANES_MAX = 2048
"""Panes of a window of a live query: a situation that spans a window has as many stretches."""

LIVE_PANE_NS = 5_000_000
"""Nanoseconds of a pane, if that makes fewer of them: shorter ones have few events."""


def needs_of_situations(plan: SituationPlan) -> Needs:
    """Describe the requirements of situations."""
    if plan.situations.relative:
        name = plan.situations.definitions[plan.situations.relative[0].number].name
        return needs_by_key(plan.partition.attributes, f"`{name}` looks at the events before")
    by_time = detects_by_time(plan)
    files = "a task reads a range of time and sends only where a condition turns"
    if by_time:
        files = "a task reads a range of time, and a window before it, and owns what is certain "
        files += "in it"
    frames = "ranges of time are reduced, where they lie, to where a condition turns"
    keys = plan.partition.attributes
    no_panes = why_no_panes(plan)
    return Needs(
        files=StrategyChoice(Strategy.SCAN_SLICES, files),
        frames=StrategyChoice(Strategy.COMBINE, frames),
        one_window=not by_time,
        from_start=not by_time,
        reach=((plan.situations.within or 0) if by_time else 0, 0),
        leads_in=by_time,
        keys=keys,
        buckets=keys,
        live=_describe_live(plan, no_panes),
        not_composed="",  # By stretches without a change of any condition.
        not_by_time="the whole stream is one window",
        no_panes=no_panes,
        not_on_device="",
        pane=0 if no_panes else live_pane(plan),
    )


def _describe_live(plan: SituationPlan, no_panes: str) -> tuple[str, str]:
    """Describe how the state of a live query is partitioned, and why."""
    keys = plan.partition.attributes
    if keys:
        return f"buckets by {', '.join(keys)}", no_panes
    if no_panes:
        return "one bucket", f"{no_panes}; tasks before it filter and sort"
    reason = "tasks cut panes of time where a condition changes, side by side, and one pairs the "
    reason += "situations of a window; spark.cepheid.buckets is the number of buckets"
    return f"buckets by panes of {pane_length(live_pane(plan), plan.tick_ns)}", reason


def why_no_panes(plan: SituationPlan) -> str:
    """Explain why panes of a live query cannot be cut independently; empty if they can."""
    if plan.partition.attributes:
        return "a match has one partition"
    if live_reach(plan) is not None:
        return ""
    if plan.situations.listed:
        return "a situation without AT MOST in time may have begun at any time"
    return "without a window all situations are kept, in one place"


def live_reach(plan: SituationPlan) -> int | None:
    """Compute how long before a row the situations in it may have begun; None if at any time."""
    situations = plan.situations
    if not situations.listed:
        return situations.within
    lengths = [situations.definitions[number].at_most for number in situations.listed]
    bounds = [length for length in lengths if length is not None]
    return max(bounds) if len(bounds) == len(lengths) else None


def live_pane(plan: SituationPlan) -> int:
    """Choose the length of the panes that tasks of a live query cut, in ticks.

    They need not fit the window. A stretch ends with its pane, so a window has few of them.
    """
    reach = live_reach(plan) or 0
    return max(-(-reach // LIVE_PANES_MAX), LIVE_PANE_NS // plan.tick_ns, 1)


def detects_by_time(plan: SituationPlan) -> bool:
    """Check whether the matches of a time range depend only on it and one window before it.

    Situations that began before that window are in no match of the range, so their exact start does
    not matter. With several partitions, or with WHERE, the first event that is read need not be the
    first one of a situation that began within the window.
    """
    situations = plan.situations
    bounded = situations.within is not None and situations.where is None
    return bool(situations.constraints) and bounded and not plan.partition.attributes
