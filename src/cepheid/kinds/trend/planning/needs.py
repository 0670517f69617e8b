"""Requirements of a pattern query for a runtime that splits it into tasks, with reasons."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cepheid.kinds.trend.planning.variants import reach_of
from cepheid.language import tree
from cepheid.plans.needs import (
    LIVE_ON_DEVICE,
    Needs,
    Strategy,
    StrategyChoice,
    pane_length,
)
from cepheid.plans.plan import Evaluator, OutputKind, TrendPlan, WindowKind, WindowPlan
from cepheid.plans.template import UNLIMITED, Place, Template

CLASSES_MAX = 256
MATRIX_NUMBERS_MAX = 4096
"""Entries of one matrix; beyond, summaries would be larger than events."""

LIVE_PANES_MAX = 2048
"""Panes of a window of a live query: all of them are sent when it closes."""

SPLIT_PANES = 256
"""Panes of a window of a hot key: each of them has fewer events than one of all keys."""

LIVE_PANES_MIN = 128
LIVE_BYTES = 1 << 22
"""Bytes of the matrices of a window, if it has more panes than the minimum."""

PLACE = "__place"
"""A column that has the number of every event in its partition."""

NOT_LISTED = "a GPU lists matches of bounded length under skip-till-any-match, without NOT"
"""Other matches are searched one after the other."""

NOT_TRAILING = (
    "without SLIDE, a GPU runs one pattern with a group for each key, without edges or expiries"
)
"""Other windows without SLIDE add up partitions, or look back, at every time."""

LIVE_PANE_NS = 5_000_000
"""Nanoseconds of such a pane, if the window has longer ones: shorter ones have few events."""


def needs_of_trends(plan: TrendPlan) -> Needs:
    """Describe the requirements of a pattern query."""
    kind = plan.window.kind
    no_panes, not_split = why_no_panes(plan), why_not_split(plan)
    return Needs(
        files=_for_files(plan),
        frames=_for_frames(plan),
        one_window=kind is WindowKind.NONE,
        from_start=kind in (WindowKind.NONE, WindowKind.COUNT) or plan.skip is not None,
        reach=_reach(plan),
        leads_in=False,
        keys=shuffle_attributes(plan),
        buckets=live_attributes(plan),
        live=_describe_live(plan),
        not_composed=why_not_composed(plan),
        not_by_time=why_not_by_time(plan),
        no_panes=no_panes,
        not_on_device=why_not_on_device(plan),
        pane=0 if no_panes and not_split else live_pane(plan),
        within=plan.window.within,
        not_split=not_split,
    )


def _reach(plan: TrendPlan) -> tuple[int, int]:
    """Compute how far a task reads beyond its range: the windows, and then the deadlines."""
    window = plan.window
    if window.kind in (WindowKind.NONE, WindowKind.COUNT) or plan.skip is not None:
        return 0, 0
    past, horizon = reach_of(plan)
    if window.kind is WindowKind.TRAILING:
        return window.within + past, horizon
    if plan.lists_matches and judged_by_window(plan):
        # Only the earlier window itself knows whether it has had a match (§7.2).
        return (window.overlap - 1) * window.slide + past, window.within + horizon
    return past, window.within + horizon


def distance_of(plan: TrendPlan) -> int | None:
    """Compute how far apart events may be that decide a row together; None if any distance.

    The first window that has a match depends on the windows before it (§7.2).
    """
    if why_not_by_time(plan):
        return None
    past, horizon = reach_of(plan)
    return 2 * plan.window.within + past + horizon


def why_not_composed(plan: TrendPlan) -> str:
    """Explain why stretches of events cannot be summarised; empty if they can."""
    if plan.has_deadlines:
        return "the deadline of a NOT looks at later events"
    if plan.skip is not None:
        return "the choice of a match depends on those before it"
    if plan.choice.evaluator is not Evaluator.LINEAR:
        return f"the {plan.choice.evaluator.value} evaluator keeps events"
    if plan.window.kind is WindowKind.COUNT:
        return "windows counted in events begin where the stream begins"
    if plan.window.kind is WindowKind.TRAILING:
        return "a window without SLIDE moves with every event"
    if plan.partition.partial:
        return "some variables only have an equivalence"
    if plan.ties is tree.Ties.STRICT and any(template.guards for template in plan.patterns):
        return "with NOT and UNTIL, events of one time must be seen together"
    if plan.ties is tree.Ties.STRICT and plan.links is not None:
        return "events of one time close links together"
    variables = {name: kind for t in plan.patterns for name, kind in _variables(t)}
    if _matrix_numbers(plan) > MATRIX_NUMBERS_MAX:
        states = sum(len(template.states) for template in plan.patterns)
        return f"a matrix of {states} states is larger than the events that it stands for"
    if _classes(plan, variables) > CLASSES_MAX:
        return "the local predicates make too many classes of events"
    return ""


def why_not_repaired(plan: TrendPlan) -> str:
    """Explain why rows are not repaired but computed anew; empty if they are repaired."""
    if plan.output.kind is not OutputKind.AGGREGATES:
        return "matches are listed from the events of a window"
    if plan.tiebreak and plan.ties is tree.Ties.ARRIVAL:
        return "tie-breakers order events of one time"
    return why_not_composed(plan)


def _matrix_numbers(plan: TrendPlan) -> int:
    """Estimate the maximum number of entries of a matrix."""
    states = sum(len(template.states) for template in plan.patterns)
    return (
        2
        * states
        * (2 * states + 1)
        * (1 + 2 * len(plan.output.aggregates) + 3 * len(plan.output.spreads))
    )


def sees_ties_together(plan: TrendPlan) -> bool:
    """Check whether a plan that could be composed must see the events of one time together."""
    untied = msgspec.structs.replace(plan, ties=tree.Ties.ARRIVAL)
    return bool(why_not_composed(plan)) and not why_not_composed(untied)


def why_not_on_device(plan: TrendPlan, *, ties: bool = True) -> str:
    """Explain why a plan cannot run on a GPU; empty if it can.

    Without ``ties``, somebody looks whether events have the same time, and turns to the CPU then.
    """
    if plan.output.kind is not OutputKind.AGGREGATES:
        return "only aggregates of matches run on a GPU"
    if not ties:
        plan = msgspec.structs.replace(plan, ties=tree.Ties.ARRIVAL)
    return why_not_composed(plan)


def why_not_live_on_device(plan: TrendPlan) -> str:
    """Explain why a live query cannot use a GPU in this process; empty if it can."""
    windows = (WindowKind.TUMBLING, WindowKind.SLIDING)
    if plan.output.kind is not OutputKind.AGGREGATES or plan.window.kind not in windows:
        return LIVE_ON_DEVICE
    # Micro-batches in which events of a key have one time run on the CPU.
    return why_not_on_device(plan, ties=False)


def why_no_trends_on_device(plan: TrendPlan) -> str:
    """Explain why a plan with edge predicates cannot run on a GPU; empty if it can.

    It can if the pattern is one variable under Kleene plus, with comparisons of adjacent events.
    """
    if plan.lists_matches:
        return _why_not_listed(plan)
    if plan.window.kind is WindowKind.COUNT:
        plan = by_places(plan)
    if plan.choice.evaluator is not Evaluator.INDEXED or plan.has_deadlines:
        trailing = plan.window.kind is WindowKind.TRAILING
        return _why_not_trailing(plan) if trailing else why_not_on_device(plan, ties=False)
    pattern = plan.patterns[0]
    asked = {
        "only one variable under Kleene plus, and comparisons of it": len(plan.patterns) == 1
        and len(pattern.states) == 1
        and len(pattern.edges) == 2
        and not pattern.guards
        and all(edge.has_ranges for edge in plan.edges)
        and not plan.globals
        and not plan.partition.partial,
        "only skip-till-any-match": plan.semantics is tree.Semantics.ANY_MATCH,
        "only aggregates in default numbers": plan.numbers is not tree.Numbers.EXACT
        and plan.output.kind is OutputKind.AGGREGATES
        and not plan.output.squares_matches,
        "only matches of any length": plan.min_length <= 1,
    }
    why = [text for text, fits in asked.items() if not fits]
    if why:
        return f"with edge predicates, a GPU runs {why[0]}"
    return NOT_TRAILING if plan.window.kind is WindowKind.TRAILING else ""


def _why_not_listed(plan: TrendPlan) -> str:
    """Explain why a GPU cannot list the matches of a plan; empty if it can."""
    pattern = plan.patterns[0]
    fits = (
        len(plan.patterns) == 1
        and not pattern.recursive
        and not pattern.guards
        and plan.semantics is tree.Semantics.ANY_MATCH
        and plan.skip is None
        and not plan.partition.partial
    )
    return "" if fits else NOT_LISTED


def _why_not_trailing(plan: TrendPlan) -> str:
    """Explain why a GPU cannot run a plan with a window that has no SLIDE; empty if it can."""
    whole = msgspec.structs.replace(plan, window=WindowPlan(WindowKind.NONE))
    why = why_not_on_device(whole, ties=False)
    groups = set(plan.partition.group_by) == set(plan.partition.attributes)
    if not why and (plan.window.emit_on_expiry or len(plan.patterns) > 1 or not groups):
        return NOT_TRAILING
    return why


def by_places(plan: TrendPlan) -> TrendPlan:
    """Plan windows counted in events as windows of time, where the time is an event's number."""
    window = plan.window
    kind = WindowKind.TUMBLING if window.within == window.slide else WindowKind.SLIDING
    columns = None if plan.columns is None else (*plan.columns, PLACE)
    return msgspec.structs.replace(
        plan, time=PLACE, tiebreak=(), columns=columns, ties=tree.Ties.ARRIVAL,
        window=msgspec.structs.replace(window, kind=kind),
    )  # fmt: skip


def _variables(template: Template) -> list[tuple[str, str]]:
    names = [(state.variable, state.event_type) for state in template.states]
    for guard in template.guards:
        names += _variables(guard.template)
    return names


def _classes(plan: TrendPlan, variables: dict[str, str]) -> int:
    """Estimate the maximum number of sets of variables that an event may fit."""
    conditional = {p.variable for p in plan.local}
    total = 1
    for kind in set(variables.values()) if plan.type is not None else {None}:
        mine = [name for name, own in variables.items() if kind in (None, own) or not own]
        free = sum(name in conditional or None in conditional for name in mine)
        total += 1 << min(free, 9)
    return total


def _for_files(plan: TrendPlan) -> StrategyChoice:
    """Choose the strategy for files whose events are in time order."""
    if plan.window.kind is WindowKind.COUNT or plan.skip is not None:
        return _shuffle(plan, why_not_by_time(plan))
    if plan.window.kind is not WindowKind.NONE:
        reason = "a task reads a range of time and owns the windows that start in it"
        return StrategyChoice(Strategy.SCAN_SLICES, reason)
    why = why_not_composed(plan)
    if not why:
        reason = "a task reads a range of time and summarises it; summaries are multiplied"
        return StrategyChoice(Strategy.SCAN_SLICES, reason)
    return _shuffle(plan, f"the whole stream is one window, and {why}")


def _for_frames(plan: TrendPlan) -> StrategyChoice:
    """Choose the strategy for any DataFrame whose partitioning is unknown."""
    why = why_not_composed(plan)
    if not why:
        reason = "no event looks at another one, so stretches of time are summarised where they lie"
        return StrategyChoice(Strategy.COMBINE, reason)
    if not shuffle_attributes(plan) and not why_not_by_time(plan):
        reason = f"{why}; a task gets a range of time and owns the windows that start in it"
        return StrategyChoice(Strategy.TIME_SHUFFLE, reason)
    return _shuffle(plan, why)


def why_not_by_time(plan: TrendPlan) -> str:
    """Explain why a query cannot be split by time; empty if it can."""
    if plan.skip is not None:
        return "which matches `AFTER MATCH SKIP` drops depends on all that were chosen before"
    if plan.window.kind is WindowKind.NONE:
        return "the whole stream is one window"
    if plan.window.kind is WindowKind.COUNT:
        return "windows counted in events do not begin at a time"
    if max(reach_of(plan)) >= UNLIMITED:
        return "`NOT NEXT` without WITHIN looks at the next event, whenever it comes"
    return ""


def _shuffle(plan: TrendPlan, why: str) -> StrategyChoice:
    names = shuffle_attributes(plan)
    if names:
        return StrategyChoice(Strategy.KEY_SHUFFLE, f"{why}; events go by {', '.join(names)}")
    whole = "a window without SLIDE adds up the partitions of a group at every time"
    if plan.output.survey is not None:
        whole = "a survey tells about all partitions of a group together"
    unpartitioned = "the query has no equivalence predicate and no GROUP-BY"
    cause = whole if plan.partition.attributes else unpartitioned
    return StrategyChoice(Strategy.ONE_TASK, f"{why}; {cause}")


def shuffle_attributes(plan: TrendPlan) -> tuple[str, ...]:
    """Choose the attributes by which events are shuffled.

    Partitions of one group may be in different tasks and are merged later, except for windows
    without SLIDE and surveys, whose rows depend on all partitions of a group. A match depends on
    its own partition only.
    """
    if plan.lists_matches:
        return plan.partition.attributes
    trailing = plan.window.kind is WindowKind.TRAILING
    whole = trailing or plan.output.survey is not None
    return plan.partition.group_by if whole else plan.partition.attributes


def live_attributes(plan: TrendPlan) -> tuple[str, ...]:
    """Choose the attributes by which the events of a live query are assigned to buckets.

    Rows of a group are merged inside its bucket, so all its partitions share a bucket.
    A match has one partition.
    """
    return plan.partition.attributes if plan.lists_matches else plan.partition.group_by


def _describe_live(plan: TrendPlan) -> tuple[str, str]:
    """Describe how the state of a live query is partitioned, and why."""
    if plan.window.kind is WindowKind.NONE and not needs_no_window(plan):
        return "not as it is", "without a window there is no result before the end"
    names = live_attributes(plan)
    if names:
        reason = "rows of a group are added up where they are made"
        if plan.lists_matches:
            reason = "a match has one partition"
        elif not why_not_split(plan):
            reason += "; hot_keys= splits a key with many events by panes"
        return f"buckets by {', '.join(names)}", reason
    why = why_no_panes(plan)
    if not why:
        reason = "tasks summarise panes of time side by side, and one multiplies what they made "
        reason += "when a window closes; spark.cepheid.buckets is the number of buckets"
        return f"buckets by panes of {pane_length(live_pane(plan), plan.tick_ns)}", reason
    return "one bucket", f"{why}; tasks before it filter and sort"


def why_no_panes(plan: TrendPlan) -> str:
    """Explain why panes of a live query cannot be summarised independently; empty if they can."""
    if plan.partition.attributes:
        return "rows of a group are added up where they are made, and there is one group"
    return _why_not_by_panes(plan)


def why_not_split(plan: TrendPlan) -> str:
    """Explain why hot keys of a live query cannot be split by panes; empty if they can."""
    if not live_attributes(plan):
        return "the query has no GROUP-BY"
    return _why_not_by_panes(plan)


def _why_not_by_panes(plan: TrendPlan) -> str:
    if plan.output.kind is not OutputKind.AGGREGATES:
        return "matches are listed from the events of a window"
    why = why_not_composed(plan)
    if why:
        return why
    if plan.window.kind is WindowKind.NONE:
        return "the whole stream is one window"
    if plan.window.emit_early:
        return "EMIT EARLY tells of open windows in every micro-batch"
    panes = plan.window.within // plan.window.pane if plan.window.pane else 1
    if panes > LIVE_PANES_MAX:
        return f"a window has {panes:,} panes, more than are worth being sent when it closes"
    return ""


def live_pane(plan: TrendPlan) -> int:
    """Choose the length of the panes that tasks of a live query summarise, in ticks.

    Panes of windows are split further, so that all tasks have some of every micro-batch, but only
    into as many as are cheap to multiply: large matrices allow few.
    """
    most = LIVE_BYTES // (16 * _matrix_numbers(plan))
    limit = SPLIT_PANES if plan.partition.attributes else LIVE_PANES_MAX
    return cut_panes(plan, min(max(most, LIVE_PANES_MIN), limit))


def cut_panes(plan: TrendPlan, most: int) -> int:
    """Split a pane into equal parts, at most ``most`` per window; return their length.

    A window that has more panes than that keeps them as they are.
    """
    window = plan.window
    whole = window.pane if window.kind is WindowKind.SLIDING else window.within
    least = max(-(-window.within // most), LIVE_PANE_NS // plan.tick_ns, 1)
    parts = max(whole // least, 1)
    while whole % parts:
        parts -= 1
    return whole // parts


def judged_by_window(plan: TrendPlan) -> bool:
    """Check whether the same events can be a match in one window and none in another (§7.2).

    This includes negated patterns with edge predicates, which long segments would make slow.
    Matches are chosen over the whole stream, whatever their windows (§14).
    """
    if plan.skip is not None:
        return False
    pairs = {(edge.prev_variable, edge.next_variable) for edge in plan.edges}
    return any(_looks_at_window(t, pairs) for t in plan.patterns)


def _looks_at_window(template: Template, pairs: set[tuple[str, str]]) -> bool:
    # A deadline looks at the stream, and between two events it is a NOT without one (§2.12).
    return any(
        guard.place in (Place.LEADING, Place.TRAILING)
        or bool(guard.template.adjacent() & pairs)
        or _looks_at_window(guard.template, pairs)
        for guard in template.guards
        if not guard.within or guard.place is Place.BETWEEN
    )


def bounds_span(patterns: Sequence[Template]) -> bool:
    """Check whether a match is decided by one event and its deadlines, without any window.

    The matches of a set can be any time apart (§2.10).
    """
    return len(patterns) == 1 and all(
        template.single
        and not any(
            not guard.within and guard.place in (Place.LEADING, Place.TRAILING)
            for guard in template.guards
        )
        for template in patterns
    )


def needs_no_window(plan: TrendPlan) -> bool:
    """Check whether matches are listed that single events decide: a stream needs no window."""
    return plan.lists_matches and bounds_span(plan.patterns)


def drops_events(plan: TrendPlan) -> bool:
    """Check whether events that fit no variable may be dropped (§3.3, §6.6)."""
    contiguous = plan.semantics is tree.Semantics.CONTIGUOUS
    contiguous |= plan.links is not None and plan.links.has_contiguous
    contiguous |= plan.sees_neighbours
    return not contiguous and plan.window.kind is not WindowKind.COUNT
