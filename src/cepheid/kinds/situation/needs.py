"""Requirements of a query about situations for splitting it into tasks, with reasons."""

from __future__ import annotations

from cepheid.plans.needs import Needs, Strategy, StrategyChoice
from cepheid.plans.plan import SituationPlan


def needs_of_situations(plan: SituationPlan) -> Needs:
    """Describe the requirements of situations."""
    by_time = detects_by_time(plan)
    files = "a task reads a range of time and sends only where a condition turns"
    if by_time:
        files = "a task reads a range of time, and a window before it, and owns what is certain "
        files += "in it"
    frames = "ranges of time are reduced, where they lie, to where a condition turns"
    keys = plan.partition.attributes
    panes = "a situation is a run of events in their order"
    live = (f"buckets by {', '.join(keys)}", "a match has one partition")
    return Needs(
        files=StrategyChoice(Strategy.SCAN_SLICES, files),
        frames=StrategyChoice(Strategy.COMBINE, frames),
        one_window=not by_time,
        from_start=not by_time,
        reach=((plan.situations.within or 0) if by_time else 0, 0),
        leads_in=by_time,
        keys=keys,
        buckets=keys,
        live=live if keys else ("one bucket", f"{panes}; tasks before it filter and sort"),
        not_composed="",  # By stretches without a change of any condition.
        not_by_time="the whole stream is one window",
        no_panes=panes,
        not_on_device="only aggregates of matches run on a GPU",
    )


def detects_by_time(plan: SituationPlan) -> bool:
    """Check whether the matches of a time range depend only on it and one window before it.

    Situations that began before that window are in no match of the range, so their exact start does
    not matter. With several partitions, or with WHERE, the first event that is read need not be the
    first one of a situation that began within the window.
    """
    situations = plan.situations
    bounded = situations.within is not None and situations.where is None
    return bool(situations.constraints) and bounded and not plan.partition.attributes
