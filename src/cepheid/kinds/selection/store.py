"""SELECT over event stores: choose the part to read, and answer aggregates from the index."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns, read_times
from cepheid.jobs.sources import EventSource
from cepheid.kinds.selection.explain import why_not_indexed
from cepheid.kinds.selection.finishing import finish_rows
from cepheid.kinds.selection.ordering import order_rows
from cepheid.kinds.selection.rows import holds, lookup_in
from cepheid.language import tree
from cepheid.plans.plan import SelectPlan
from cepheid.plans.selection import Extent, SelectFunction, SelectKind, aliases_in, plain_attribute
from cepheid.store.aggregates import Aggregate, WindowSpec
from cepheid.store.aggregation import (
    AggregatePlan,
    attributes_of,
    plan_aggregate,
    run_aggregate,
)
from cepheid.store.blocks import is_summed
from cepheid.store.filter_plan import FilterPlan, plan_filter
from cepheid.store.replay_intervals import common, merged
from cepheid.store.replay_plan import ReplayPlan, count_groups
from cepheid.store.slices import Windows
from cepheid.store.snapshot import Cover, Interval, Snapshot


class IndexPlan(NamedTuple):
    """Aggregates that blocks can answer: the request, and how it is computed."""

    spec: WindowSpec
    aggregates: list[Aggregate]
    plan: AggregatePlan
    interval: Interval


def conditions_of(plan: SelectPlan, place: int) -> list[tree.Expression]:
    """Collect the conditions that refer to one stream alone."""
    alias = plan.select.streams[place].alias
    return [part for part in plan.select.condition if aliases_in(part) == {alias}]


# ---------------------------------------------------------------------------------------
# What is read


def limit_sources(
    plan: SelectPlan, sources: list[EventSource], method: str
) -> tuple[list[EventSource], list[FilterPlan | None]]:
    """Restrict sources to the part of stores that a query needs, with the reasons."""
    select = plan.select
    counted = select.kind is not SelectKind.FILTER and select.window.extent is Extent.EVENTS
    plans: list[FilterPlan | None] = []
    limited = []
    for place, source in enumerate(sources):
        found = None
        # The events of a join are counted before conditions are evaluated.
        if isinstance(source.events, Snapshot):
            whole = counted and select.kind is SelectKind.JOIN
            conditions = [] if whole else conditions_of(plan, place)
            found = plan_filter(source.events, conditions, plan.time, method)
        plans.append(found)
        limited.append(source if found is None else source._replace(cover=found.cover))
    if len(sources) == 2 and not counted and method != "replay":
        limited = _near(plan, limited)
    return limited, plans


def limit_stores(plan: SelectPlan, inputs: list[Any], method: str) -> list[Any]:
    """Restrict stores to the events that meet the conditions on their own stream."""
    places = [place for place, one in enumerate(inputs) if isinstance(one, EventSource)]
    found = list(inputs)
    counted = plan.select.window.extent is Extent.EVENTS
    if counted and plan.select.kind is SelectKind.JOIN:
        return found
    for place in places:
        own = plan_filter(inputs[place].events, conditions_of(plan, place), plan.time, method)
        found[place] = inputs[place]._replace(cover=own.cover)
    return found


def _near(plan: SelectPlan, sources: list[EventSource]) -> list[EventSource]:
    """Drop events of each stream that are too far from the other one."""
    found = list(sources)
    for place in (0, 1):
        source = found[place]
        events = source.events
        if not isinstance(events, Snapshot) or events.manifest.time != plan.time:
            continue
        other = _times(plan, found[1 - place], 1 - place)
        if other is None:
            continue
        # An event waits for later ones of the other stream, and the other's for it.
        own, others = (plan.select.window.lengths[side] - 1 for side in (place, 1 - place))
        near = merged(other.begins - own, other.ends + others)
        cover = near if source.cover is None else common(source.cover, near)
        found[place] = source._replace(cover=cover)
    return found


def _times(plan: SelectPlan, source: EventSource, place: int) -> Cover | None:
    """Find the times of a stream's events that meet its own conditions; None for all times."""
    if isinstance(source.events, Snapshot):
        manifest = source.events.manifest
        if manifest.time != plan.time or not manifest.segments:
            return None
        first = min(segment.first for segment in manifest.segments)
        last = max(segment.last for segment in manifest.segments)
        whole = Cover(np.array([first]), np.array([last + 1]))
        return whole if source.cover is None else common(source.cover, whole)
    if not isinstance(source.events, pa.Table):
        return None
    columns = Columns(source.events)
    times = read_times(columns, plan.time)
    mask = holds(conditions_of(plan, place), lookup_in(columns), len(times))
    kept = np.unique(times if mask is None else times[mask])
    return merged(kept, kept + 1)


# ---------------------------------------------------------------------------------------
# Aggregates from the index


def plan_index(plan: SelectPlan, source: EventSource, method: str) -> IndexPlan | str:
    """Plan how blocks answer the aggregates of a query, or explain why they cannot."""
    select, snapshot = plan.select, source.events
    assert isinstance(snapshot, Snapshot), "a store"
    manifest = snapshot.manifest
    found = plan_filter(snapshot, conditions_of(plan, 0), plan.time, method)
    own = len(conditions_of(plan, 0)) == len(select.condition)
    why = why_not_indexed(select, only_time=own and not found.rest)
    if why:
        return why
    if plan.tiebreak and select.window.extent is Extent.EVENTS:
        return "a store keeps events of one time in the order of arrival"
    if plan.time != manifest.time:
        return f"the store is in the order of `{manifest.time}`"
    for aggregate in select.aggregates:
        name = plain_attribute(aggregate.argument)
        if name is not None and not _is_known(manifest.schema, name, aggregate.function):
            return f"blocks know no {aggregate.function.value} of `{name}`"
    windows = Windows(select.window.within, select.window.slide)
    if select.window.extent is Extent.NONE:
        if not manifest.rows:
            return "there are no events"
        # One window over all events.
        windows = Windows(manifest.rows, manifest.rows)
    spec = WindowSpec(windows, select.window.extent is not Extent.TIME)
    wanted = [
        Aggregate(a.name, a.function.value, plain_attribute(a.argument)) for a in select.aggregates
    ]
    chosen = plan_aggregate(snapshot, spec, found.interval, attributes_of(wanted), method)
    if select.window.extent is Extent.NONE and chosen.method == "replay":
        return chosen.reason
    return IndexPlan(spec, wanted, chosen, found.interval)


def _is_known(schema: pa.Schema, name: str, function: SelectFunction) -> bool:
    if name not in schema.names:
        return False
    kind = schema.field(name).type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    summed = function in (SelectFunction.SUM, SelectFunction.AVG)
    return is_summed(kind) and (number or not summed)


def answer_from_index(plan: SelectPlan, snapshot: Snapshot, method: str) -> pa.Table | None:
    """Answer aggregates from blocks; None if events must be read."""
    if plan.select.kind is not SelectKind.AGGREGATE:
        return None
    source = EventSource(snapshot.manifest.schema, snapshot)
    index = plan_index(plan, source, method)
    return run_index(plan, source, index) if isinstance(index, IndexPlan) else None


def plan_reading(plan: SelectPlan, snapshot: Snapshot, method: str) -> ReplayPlan:
    """Plan which part of a store the conditions of a query select."""
    found = plan_filter(snapshot, conditions_of(plan, 0), plan.time, method)
    return ReplayPlan(found.cover, found.reason, groups=found.groups, total=found.total)


def run_index(plan: SelectPlan, source: EventSource, found: IndexPlan) -> pa.Table:
    """Compute aggregates of windows, from the index or by a replay, as ``store.aggregate`` does."""
    select, snapshot = plan.select, source.events
    table = run_aggregate(snapshot, found.spec, found.interval, found.aggregates, found.plan)
    if select.window.extent is Extent.NONE:
        table = table.drop_columns(["window_start", "window_end"])
    for aggregate in found.aggregates:
        table = _with_days(table, aggregate, snapshot.manifest.schema)
    return order_rows(select, finish_rows(select, table))


def _with_days(table: pa.Table, aggregate: Aggregate, schema: pa.Schema) -> pa.Table:
    """Convert ticks back to dates: blocks keep ticks of time."""
    place = table.column_names.index(aggregate.name)
    column: Any = table.column(place)
    kind = None if aggregate.attribute is None else schema.field(aggregate.attribute).type
    if kind is None or not pa.types.is_date(kind) or not pa.types.is_timestamp(column.type):
        return table
    return table.set_column(place, aggregate.name, column.cast(pa.date32()))


# ---------------------------------------------------------------------------------------
# In words


def explain_sources(
    plan: SelectPlan,
    plans: list[FilterPlan | None],
    index: IndexPlan | str | None,
    limited: list[EventSource],
) -> list[str]:
    """Describe which part of stores is read, and why."""
    select = plan.select
    if isinstance(index, IndexPlan):
        how = "from the index" if index.plan.method == "index" else "by a replay"
        groups = f"planned {index.plan.groups:,} of {index.plan.total:,}"
        return [
            f"store  windowed aggregation {how}",
            f"  because {index.plan.reason}",
            f"  row groups  {groups}",
        ]
    lines = [f"store  {select.kind.value} by a replay"]
    lines += [f"  and not from the index: {index}"] if index else []
    for stream, found, source in zip(select.streams, plans, limited, strict=True):
        if found is None:
            continue
        planned, reason = found.groups, found.reason
        if source.cover is not None and source.cover is not found.cover:
            planned = count_groups(source.events, source.cover)
            near = "only what the other stream is near to"
            reason = f"{reason}; {near}" if found.cover is not None else near
        lines.append(f"  {stream.alias}  row groups  planned {planned:,} of {found.total:,}")
        lines.append(f"    because {reason}")
    return lines
