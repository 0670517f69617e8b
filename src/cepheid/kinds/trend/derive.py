"""Rows of a pattern query as events of a derived stream (§15.3): aggregates and matches."""

from __future__ import annotations

import msgspec

from cepheid.jobs.derived import (
    MATCH_ID,
    TIME,
    Derivation,
    Split,
    Splits,
    early_rows,
    limited_rows,
    no_window,
    untimed_rows,
)
from cepheid.kinds.trend.planning.needs import judged_by_window, live_attributes, needs_no_window
from cepheid.kinds.trend.planning.variants import reach_of
from cepheid.patterns.required import is_required
from cepheid.plans.plan import LAST_EVENT, OutputKind, ResultColumn, TrendPlan, WindowKind
from cepheid.plans.template import UNLIMITED

WINDOW = "add a window: `WITHIN 10 minutes SLIDE 1 minute`"


def derive_trends(plan: TrendPlan) -> Derivation:
    """Plan a query whose rows are events.

    Raises
    ------
    UnsupportedError
        E412 without a window, E413 for EMIT EARLY, E414 for LIMIT, E415 for windows of events that
        have no time.
    """
    window = plan.window
    if plan.limit is not None:
        limited_rows(plan)
    if plan.emits_early:
        early_rows(plan)
    if window.kind is WindowKind.NONE and not needs_no_window(plan):
        no_window(plan, "the whole stream is one window", WINDOW)
    _, delay = reach_of(plan)
    if delay >= UNLIMITED:
        what = "`NOT NEXT` asks for the next event of a partition, whenever it comes"
        no_window(plan, what, "say how long it matters: `NOT NEXT B b WITHIN 10 minutes`")
    by_window = not plan.lists_matches or judged_by_window(plan)
    if by_window and window.kind is WindowKind.COUNT:
        what = "aggregates over windows counted in events tell no time, so they feed no stream"
        untimed_rows(plan, what, "use a window of time, or `SELECT ... WINDOW n EVENTS`")
    if by_window:
        return Derivation(plan, ("window_end",), delay=delay)
    last = ResultColumn(TIME, variable=LAST_EVENT, attribute=plan.time)
    columns = (*plan.output.columns, last)
    output = msgspec.structs.replace(plan.output, columns=columns)
    timed = msgspec.structs.replace(plan, output=output)
    return Derivation(timed, (TIME,), (MATCH_ID, TIME), delay=delay)


def splits_of_trends(plan: TrendPlan) -> Splits:
    """List the attributes that all events of a row have in common, with the columns that show them.

    An aggregate is about a group, a match about a partition.
    """
    shown = {name: [name] for name in plan.partition.group_by}
    for column in plan.output.columns:
        name = column.attribute
        if name in plan.partition.attributes and column.variable is None:
            shown.setdefault(name, []).append(column.name)
    keys = live_attributes(plan)
    return Splits(tuple(Split((name,), tuple(shown.get(name, ()))) for name in keys))


def shown_by_trends(plan: TrendPlan) -> frozenset[str]:
    """Name the attributes that all rows show; a window shows the time.

    A variable that a match may leave out shows nothing: its values are NULL there.
    """
    if plan.output.kind is OutputKind.MATCHES:
        return frozenset({plan.time, *plan.partition.attributes})
    shown = set(plan.partition.group_by)
    if plan.window.kind is not WindowKind.NONE:
        shown.add(plan.time)
    for column in plan.output.columns:
        if column.attribute is None or column.aggregate is not None:
            continue
        name = column.variable
        if not name or all(is_required(pattern, {name}) for pattern in plan.patterns):
            shown.add(column.attribute)
    return frozenset(shown)
