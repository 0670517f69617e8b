"""Mark events: a table of events in time order in, the same table with columns of marks out.

A mark says of an event whether a forbidden pattern occurs within a deadline (``variants.py``). It
depends on the events of its partition that lie within the deadline, and on nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, EventArrays, KeyTable, read_bits, read_times
from cepheid.events.temporal import FOREVER, LONG_AGO
from cepheid.kernels import deadlines as kernel
from cepheid.kinds.trend.look_back.evaluate import find_occurrences
from cepheid.kinds.trend.look_back.question import Question
from cepheid.kinds.trend.look_back.relations import read_relations
from cepheid.kinds.trend.planning.variants import Mark, Marked, with_predicates_of
from cepheid.language import tree
from cepheid.patterns.segments import tumbling_segments
from cepheid.patterns.symbols import types_of
from cepheid.plans.marks import is_mark
from cepheid.plans.plan import TrendPlan
from cepheid.plans.template import Template


class Marker:
    """The marks of a plan; ``horizon`` and ``past`` are how far they look after and before."""

    def __init__(self, marked: Marked) -> None:
        self._plan = marked.plan
        self._finders = [_Finder(marked.whole, mark) for mark in marked.marks]
        self.horizon = max(mark.horizon for mark in marked.marks)
        self.past = max(mark.past for mark in marked.marks)
        self.names = tuple(mark.name for mark in marked.marks)

    def mark(
        self, events: pa.Table, before: pa.Table | None = None, after: pa.Table | None = None
    ) -> pa.Table:
        """Add the marks of events, given those before and after them that may matter."""
        parts = [table for table in (before, events, after) if table is not None]
        whole = pa.concat_tables([self.narrow(table) for table in parts])
        first = 0 if before is None else len(before)
        for name, marks in zip(self.names, self._find(whole), strict=True):
            column: Any = pa.array(marks[first : first + len(events)])
            events = events.append_column(name, column)
        return events

    def marked_schema(self, schema: pa.Schema) -> pa.Schema:
        """Add the columns of marks to a schema."""
        return pa.schema([*schema, *(pa.field(name, pa.bool_()) for name in self.names)])

    def narrow(self, events: pa.Table) -> pa.Table:
        """Select the columns that marks depend on."""
        plan = self._plan
        names = {plan.time, *plan.partition.attributes, *([plan.type] if plan.type else [])}
        for finder in self._finders:
            names |= finder.attributes()
        tops = names | {name.partition(".")[0] for name in names if name not in events.column_names}
        return events.select([name for name in events.column_names if name in tops])

    def _find(self, events: pa.Table) -> list[NDArray[np.bool_]]:
        columns = Columns(events)
        keys = KeyTable(self._plan.partition.attributes)
        key, ts = columns.numbers(keys), read_times(columns, self._plan.time)
        found = []
        for finder in self._finders:
            marks = finder.find(columns, key, ts, len(keys))
            found.append(marks)
            columns.append(finder.name, pa.array(marks))  # The next ones may depend on it.
        return found


class _Finder:
    """Finds one mark of every event."""

    def __init__(self, plan: TrendPlan, mark: Mark) -> None:
        self.name, self._mark = mark.name, mark
        types = types_of((mark.template,))
        self._variables, self._types = list(types), list(types.values())
        self._plan = with_predicates_of(plan, (mark.template,))
        self._together = plan.ties is tree.Ties.STRICT

    def attributes(self) -> set[str]:
        """Collect the columns of the events that the mark depends on, without other marks."""
        kept = [p.expression for p in self._plan.local] + [e.expression for e in self._plan.edges]
        nodes = (node for expression in kept for node in tree.walk(expression))
        names = {node.attribute.text for node in nodes if isinstance(node, tree.Attribute)}
        return {name for name in names if not is_mark(name)}

    def find(
        self, columns: Columns, key: NDArray[np.int64], ts: NDArray[np.int64], keys: int
    ) -> NDArray[np.bool_]:
        """Find the marks of events in time order; events without a key have none (§4.2)."""
        bits = read_bits(columns, self._plan, self._variables, self._types)
        if self._mark.next:
            return self._find_beside(key, ts, bits != 0, keys)
        if not _is_simple(self._mark.template):
            return self._find_occurrences(columns, key, ts, bits.astype(np.int64))
        template = self._mark.template
        names = {template.states[state].variable for state in template.starts}
        starts = sum(1 << self._variables.index(name) for name in names)
        marked = np.zeros(len(ts), np.bool_)
        unknown = FOREVER if self._mark.ahead else LONG_AGO
        nearest, second = np.full(keys, unknown, np.int64), np.full(keys, unknown, np.int64)
        run = kernel.mark_next if self._mark.ahead else kernel.mark_last
        occurs = (bits & bits.dtype.type(starts)) != 0
        run(ts, key, occurs, self._mark.within, self._together, nearest, second, marked)
        return marked

    def _find_beside(
        self, key: NDArray[np.int64], ts: NDArray[np.int64], occurs: Any, keys: int
    ) -> NDArray[np.bool_]:
        """Find marks by the events directly beside others; what lies ahead is read backwards."""
        if self._mark.ahead:
            key, ts = np.ascontiguousarray(key[::-1]), np.ascontiguousarray(-ts[::-1])
            occurs = np.ascontiguousarray(occurs[::-1])
        marked = np.zeros(len(ts), np.bool_)
        last, before = np.full((2, keys), LONG_AGO, np.int64)
        here = np.zeros(keys, np.bool_)
        room = (last, here, before, marked)
        kernel.mark_beside(ts, key, occurs, self._mark.within, self._together, *room)
        return np.ascontiguousarray(marked[::-1]) if self._mark.ahead else marked

    def _find_occurrences(
        self, columns: Columns, key: NDArray[np.int64], ts: NDArray[np.int64], bits: Any
    ) -> NDArray[np.bool_]:
        """Find marks by occurrences of several events, or with conditions between them."""
        marked = np.zeros(len(ts), np.bool_)
        inside = np.flatnonzero(key >= 0)
        none = np.zeros((0, len(ts)), np.int64)
        variables = len(self._variables)
        question = Question(
            EventArrays(ts, key, bits, none.astype(np.float64), none),
            columns,
            read_relations(self._plan.edges, columns),
            self._variables,
            tree.Semantics.ANY_MATCH,
            self._plan.choice.evaluator,
            self._together,
            False,
            np.full((variables, 1), -1, np.int32),
            np.full((variables, 0), -1, np.int32),
            (),
            (),
            (),
        )
        segments = tumbling_segments(key[inside], ts[inside], bits[inside], 0)
        segments = segments._replace(rows=inside[segments.rows])
        order, found = find_occurrences(question, self._mark.template, segments)
        times, within = ts[segments.rows], self._mark.within
        room = np.zeros(len(times), np.bool_)
        if self._mark.ahead:
            kernel.mark_ahead(segments.ptr, times, order, found, within, room)
        else:
            time_of = np.zeros(segments.longest + 1, np.int64)
            kernel.mark_before(segments.ptr, times, order, found, within, time_of, room)
        marked[segments.rows] = room
        return marked


def _is_simple(template: Template) -> bool:
    """Check whether the first event of every occurrence is one by itself, so it decides alone."""
    finals = {final.state for final in template.finals if () in final.alternatives}
    return not template.guards and set(template.starts) <= finals
