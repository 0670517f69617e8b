"""Rows of a SELECT as events of a derived stream (§15.3)."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from cepheid.errors import Span
from cepheid.jobs.derived import TIME, Derivation, Split, Splits, no_window, whole_answer
from cepheid.language import tree
from cepheid.plans.plan import SelectPlan
from cepheid.plans.selection import (
    Extent,
    SelectAggregate,
    SelectColumn,
    SelectFunction,
    Selection,
    SelectKind,
    SelectStream,
    plain_attribute,
    row_column,
)

_NOWHERE = Span(0, 0)


def derive_select(plan: SelectPlan) -> Derivation:
    """Plan a SELECT whose rows are events.

    Raises
    ------
    UnsupportedError
        E412 for aggregates without a window.
    """
    select = plan.select
    shown = select.then or select
    if shown.order or shown.limit is not None:
        whole_answer(plan)
    if select.then is not None:
        if select.then.window.extent is Extent.NONE:
            way_out = "add a window: `WINDOW 10 minutes`"
            no_window(plan, "without `WINDOW`, aggregates are known at the end", way_out)
        return Derivation(plan, ("window_end",))
    if select.kind is SelectKind.AGGREGATE:
        if select.window.extent is Extent.NONE:
            way_out = "add a window: `WINDOW 10 minutes`"
            no_window(plan, "without `WINDOW`, aggregates are known at the end", way_out)
        if select.window.extent is not Extent.EVENTS:
            return Derivation(plan, ("window_end",))
        stamp = _time_column(TIME, plan.time, select.streams[0].alias).expression
        last = SelectAggregate(TIME, SelectFunction.MAX, stamp)
        results = select.results
        if results is not None:
            results = (*results, SelectColumn(TIME, row_column(TIME, _NOWHERE)))
        timed = msgspec.structs.replace(
            select, aggregates=(*select.aggregates, last), results=results
        )
        return Derivation(_with(plan, timed), (TIME,), (TIME,), at_end=False)
    names = [f"{TIME}{n}" for n in range(len(select.streams))]
    times = tuple(
        [
            _time_column(name, plan.time, stream.alias)
            for name, stream in zip(names, select.streams, strict=True)
        ]
    )
    timed = msgspec.structs.replace(select, columns=_with_times(_Same(select.columns), times))
    return Derivation(_with(plan, timed), tuple(names), tuple(names))


@lru_cache(maxsize=256)
def _time_column(name: str, time: str, alias: str) -> SelectColumn:
    """Return a column of the time of events; the rules of a workload share it."""
    variable = tree.Name(span=_NOWHERE, text=alias)
    attribute = tree.Name(span=_NOWHERE, text=time)
    plain = tree.Attribute(span=_NOWHERE, variable=variable, attribute=attribute)
    return SelectColumn(name, plain)


class _Same:
    """The columns of several queries, which are the same if they are one object."""

    def __init__(self, columns: tuple[SelectColumn, ...]) -> None:
        self.columns = columns

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.columns is other.columns

    def __hash__(self) -> int:
        return id(self.columns)


@lru_cache(maxsize=256)
def _with_times(shown: _Same, times: tuple[SelectColumn, ...]) -> tuple[SelectColumn, ...]:
    """Add times to columns; rules that share all columns of a log share these, too."""
    return (*shown.columns, *times)


def _with(plan: SelectPlan, select: Selection) -> SelectPlan:
    """Read the time column, too."""
    streams = tuple(
        SelectStream(s.name, s.alias, _added(s.reads, plan.time)) for s in select.streams
    )
    columns = _added(plan.columns, plan.time)
    select = msgspec.structs.replace(select, streams=streams)
    return msgspec.structs.replace(plan, select=select, columns=columns)


def _added(names: tuple[str, ...] | None, name: str) -> tuple[str, ...] | None:
    return names if names is None or name in names else (*names, name)


def splits_of_select(plan: SelectPlan) -> Splits:
    """List the attributes by which a SELECT can be split: keys, equalities of ON, or any."""
    select = plan.select
    if select.kind is SelectKind.FILTER:
        shown: dict[str, list[str]] = {}
        for column in select.columns:
            name = plain_attribute(column.expression)
            if name is not None:
                shown.setdefault(name, []).append(column.name)
        return Splits(tuple(Split((n,), tuple(c)) for n, c in shown.items()), by_row=True)
    if select.kind is SelectKind.AGGREGATE:
        return Splits(tuple(Split((key.attribute,), (key.name,)) for key in select.keys))
    if select.window.extent is Extent.EVENTS or select.then is not None:
        # Windows count the events of all keys.
        return Splits(())
    aliases = [stream.alias for stream in select.streams]
    return Splits(tuple(_equal(select, aliases, pair) for pair in select.equal))


def _equal(select: Selection, aliases: list[str], pair: tuple[str, str]) -> Split:
    sides = dict(zip(aliases, pair, strict=True))
    outputs = [
        column.name
        for column in select.columns
        if isinstance(column.expression, tree.Attribute)
        and sides.get(column.expression.variable.text) == column.expression.attribute.text
    ]
    return Split(pair, tuple(outputs))
