"""Collect the events of a match and those between them, and say why each was taken or skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.arrays.columns import Columns as EventColumns
from cepheid.arrays.columns import read_times
from cepheid.errors import CepheidError
from cepheid.expressions.evaluate import true_mask
from cepheid.interfaces.data_sets import STORE
from cepheid.interfaces.plain_values import plain_value
from cepheid.interfaces.reading import batches_of, open_store
from cepheid.interfaces.web.requests import MatchTask
from cepheid.interfaces.web.run_task import compiled
from cepheid.jobs.kind import kind_of
from cepheid.jobs.picture import Condition, Graph
from cepheid.kinds.trend.windows.match_tables import PART, VARIABLE
from cepheid.language import tree

EVENTS_MAX = 500
"""Events that are shown of a match."""


class _Taken(NamedTuple):
    """An event of a match: its variable and its attributes.

    ``part`` is the number of the match in a set of matches, else 0.
    """

    variable: str
    event: dict[str, Any]
    part: int


def explain_match(task: MatchTask) -> dict[str, Any]:
    """List the events from the first to the last of a match, each with a reason."""
    with pa.memory_map(str(Path(task.result)), "rb") as source:
        row = pa.ipc.open_file(source).read_all().slice(task.row, 1).to_pylist()[0]
    taken = [_taken(event, task.columns.time) for event in row["events"]]
    between = _between(task, taken)
    plan = compiled(task.text, task.columns, between.schema).plan
    names = [name for name in plan.partition.attributes if name in between.column_names]
    for name in names:
        wanted = taken[0].event.get(name)
        if wanted is not None:
            scalar = pa.scalar(wanted, between.schema.field(name).type)
            between = between.filter(pc.equal(between.column(name), scalar))
    shown = between.slice(0, EVENTS_MAX)
    judge = _Judge(kind_of(plan).graphs(plan), shown, taken, task.columns.type)
    events = [{"event": plain_value(event), **told} for event, told in judge.judged()]
    return {
        "events": events,
        "key": {name: plain_value(taken[0].event.get(name)) for name in names},
        "left_out": len(between) - len(shown),
    }


def _taken(event: dict[str, Any], time: str) -> _Taken:
    """Split an event of a match into what the query adds and its own attributes."""
    own = dict(event)
    variable = own.pop(VARIABLE)
    # Of a set, the number of the match comes before the time, which comes first otherwise.
    part = own.pop(PART) if next(iter(own)) != time else 0
    return _Taken(variable, {_own_name(name, event): own[name] for name in own}, part)


def _own_name(name: str, event: dict[str, Any]) -> str:
    """Return the name of an attribute of an event, which one of the query may have replaced."""
    bare = name.removeprefix("event_")
    return bare if bare in (VARIABLE, PART) and bare in event else name


def _between(task: MatchTask, taken: list[_Taken]) -> pa.Table:
    """Read all events from the time of the first to that of the last."""
    time = task.columns.time
    times = [one.event[time] for one in taken]
    first, last = min(times), max(times)
    if task.data.kind == STORE:
        batches: Iterator[pa.Table] = iter([open_store(task.data, task.columns).scan().read_all()])
    else:
        batches = batches_of(task.data, task.columns)
    found: list[pa.Table] = []
    for batch in batches:
        kind = batch.schema.field(time).type
        low, high = pa.scalar(first, kind), pa.scalar(last, kind)
        column = batch.column(time)
        kept = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))
        found.append(batch.filter(kept))
    table = pa.concat_tables(found, promote_options="permissive")
    order = np.argsort(read_times(EventColumns(table), time), kind="stable")
    return table.take(order)


class _Judge:
    """Says of each event why it is in a match or not, by the conditions of the automata."""

    def __init__(
        self, graphs: tuple[Graph, ...], events: pa.Table, taken: list[_Taken], type_: str
    ) -> None:
        self._graphs = graphs
        self._events = events
        self._rows = events.to_pylist()
        self._left = list(taken)
        self._type = type_

    def judged(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Yield every event, and whether and why it was taken."""
        before: int | None = None
        last = ""
        ends: dict[int, tuple[int, str]] = {}
        for place, event in enumerate(self._rows):
            found = {one.part: one for one in reversed(self._left) if _same(one.event, event)}
            if not found:
                yield event, self._told("", self._why_skipped(place, before, last))
                continue
            why: list[str] = []
            for part, one in sorted(found.items()):
                self._left.remove(one)
                before, last = ends.get(part, (None, ""))
                why += self._held(place, one.variable, before, last)
                ends[part] = before, last = place, one.variable
            names = ", ".join(found[part].variable for part in sorted(found))
            yield event, self._told(names, " and ".join(dict.fromkeys(why)) or "its type fits")

    def _told(self, variable: str, why: str) -> dict[str, Any]:
        return {"taken": bool(variable), "variable": variable, "why": why}

    def _nodes(self, place: int) -> Iterator[tuple[Graph, int]]:
        """Yield the states that take events of this type."""
        kind = self._rows[place].get(self._type)
        for graph in self._graphs:
            for number, wanted in enumerate(graph.types):
                if wanted and (kind is None or wanted in (kind, tree.ANY_TYPE)):
                    yield graph, number

    def _held(self, place: int, variable: str, before: int | None, last: str) -> list[str]:
        """List the conditions that a taken event satisfies, alone and after the one before."""
        for graph, number in self._nodes(place):
            if graph.nodes[number] == variable:
                own = [one.text for one in graph.conditions[number]]
                if before is not None:
                    own += [one.text for one in _between_two(graph, last, number)]
                return own
        return []

    def _why_skipped(self, place: int, before: int | None, last: str) -> str:
        fits = False
        failed: list[str] = []
        known = False
        for graph, number in self._nodes(place):
            known = True
            name = graph.nodes[number]
            wrong = [c for c in graph.conditions[number] if not self._holds(c, place, place)]
            if before is not None and not wrong:
                linked = _between_two(graph, last, number)
                wrong = [one for one in linked if not self._holds(one, before, place)]
            fits = fits or not wrong
            failed += [f"as {name}, {condition.text} does not hold" for condition in wrong]
        if not known:
            return "no variable takes its type"
        if fits:
            return "it fits, and this match goes on without it"
        return "; ".join(dict.fromkeys(failed))

    def _holds(self, condition: Condition, prev: int, later: int) -> bool:
        """Evaluate a condition for one event, or for two that follow each other."""

        def lookup(attribute: tree.Attribute) -> Any:
            row = later if attribute.anchor is tree.Anchor.NEXT else prev
            return EventColumns(self._events.slice(row, 1)).vector(attribute.attribute.text)

        try:
            return bool(true_mask(condition.expression, lookup, 1)[0])
        except CepheidError:
            return False


def _between_two(graph: Graph, last: str, number: int) -> list[Condition]:
    """List the conditions between an event of a variable and the next, of a state."""
    links = [link for link in graph.links if link.target == number]
    return [one for link in links if graph.nodes[link.source] == last for one in link.conditions]


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Check whether two events are equal; NaN is equal to everything."""
    return all(other.get(name) == value or value != value for name, value in one.items())
