"""Many filters over the same events: conditions on one column are computed for distinct values.

A condition that reads a single column is evaluated once for each distinct value of the column in a
batch, and NULL; of texts, only for those that have in them what it asks for (``needles.py``). In
logs these are few, and most conditions hold for none of them: then no event is looked at. Filters
that begin with the same conditions read only the events for which these hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.event_parts import EventPart
from cepheid.errors import Span
from cepheid.events.schema import ValueKind
from cepheid.expressions.evaluate import evaluate_vector, true_mask
from cepheid.expressions.vectors import Vector, vector_of
from cepheid.garbage import without_collections
from cepheid.jobs.ordering import order_of
from cepheid.kinds.selection.rows import project_rows, take_vector
from cepheid.kinds.workload.filter_tests import ALWAYS, LOWERED, ConditionTable, Test, guards_of
from cepheid.kinds.workload.needles import Found, Needles
from cepheid.language import tree
from cepheid.memory_limits import check_rows
from cepheid.plans.plan import Plan, SelectPlan
from cepheid.plans.selection import SelectKind

FEW = 64
"""Values that take no longer to look at than to find."""

Mask = NDArray[np.bool_]
NONE, ALL = np.zeros(1, np.bool_), np.ones(1, np.bool_)
"""Masks of no event, and of all of them."""


def is_filter(plan: Plan) -> bool:
    """Check whether a query filters events and does nothing else."""
    if not isinstance(plan, SelectPlan) or plan.functions:
        return False
    select = plan.select
    plain = select.kind is SelectKind.FILTER and not select.order and select.limit is None
    return plain and len(select.streams) == 1


Member = tuple[str, tuple[tree.Expression, ...]]
"""A filter, and what it asks for beyond the conditions that it shares with others."""


class Filters:
    """Filters by name, which take parts of events and collect rows.

    Rows of several filters are kept once, with all columns of the events: in logs, hundreds.
    """

    def __init__(self, plans: Mapping[str, SelectPlan], schema: pa.Schema) -> None:
        self._plans = plans
        self._kept: list[pa.Table] = []
        self._found: dict[str, list[NDArray[np.int64]]] = {}
        self._count, self._rows, self._bytes = 0, 0, 0.0
        self._empty: dict[int, pa.Table] = {}
        self._no_events = schema.empty_table()
        members = ((name, plan.select.condition) for name, plan in plans.items())
        self._group = _Group(members, ConditionTable())

    def add(self, part: EventPart) -> None:
        """Filter a part."""
        if not len(part):
            return
        group = self._group.open()
        found = group.find(_Batch(part, group.needles))
        if not found:
            return
        places = np.unique(np.concatenate([*found.values()]))
        kept = part.take(places)
        row_bytes = kept.nbytes / len(kept)
        for name, rows in found.items():
            self._rows += len(rows)
            self._bytes += len(rows) * row_bytes
            check_rows(self._rows, self._bytes / self._rows)
            held = np.searchsorted(places, rows) + self._count
            self._found.setdefault(name, []).append(held)
        self._kept.append(kept)
        self._count += len(kept)

    def end(self, by: Plan | None = None) -> dict[str, pa.Table]:
        """Return the rows of all filters, in the order of a plan's events or as they came."""
        if not self._kept:
            return {name: self._nothing(name) for name in self._plans}
        whole = pa.concat_tables(self._kept, promote_options="permissive").combine_chunks()
        order = None if by is None else order_of(whole, by)
        rank = np.arange(len(whole))
        if order is not None:
            whole, rank[order] = whole.take(order), np.arange(len(whole))
        alike: dict[int, list[str]] = {}
        for name in self._found:
            alike.setdefault(id(self._plans[name].select.columns), []).append(name)
        answers = {name: self._nothing(name) for name in self._plans if name not in self._found}
        for names in alike.values():
            answers |= self._project(names, whole, rank)
        return answers

    def _project(
        self, names: list[str], whole: pa.Table, rank: NDArray[np.int64]
    ) -> dict[str, pa.Table]:
        """Build the rows of filters with the same columns together: to take rows has its costs."""
        rows = [np.sort(rank[np.concatenate(self._found[name])]) for name in names]
        taken = whole.take(np.concatenate(rows))
        projected = project_rows(self._plans[names[0]].select, taken)
        ends = np.cumsum([len(one) for one in rows]).tolist()
        return {
            name: projected.slice(end - len(one), len(one))
            for name, one, end in zip(names, rows, ends, strict=True)
        }

    def _nothing(self, name: str) -> pa.Table:
        """Build a result without rows; filters that share their columns have the same one."""
        select = self._plans[name].select
        shared = id(select.columns)  # The plan keeps them, so no others get this number.
        if shared not in self._empty:
            self._empty[shared] = project_rows(select, self._no_events)
        return self._empty[shared]


class _Group:
    """Filters over the same events, and groups of those that begin with the same condition.

    Conditions are taken apart when the first event comes to them: most groups of the rules for a
    whole system wait for events that a log has not.
    """

    def __init__(self, members: Iterable[Member], tests: ConditionTable) -> None:
        self._members, self._tests = tuple(members), tests
        self._alone: list[tuple[str, list[Test]]] | None = None
        self._groups: list[tuple[Test, _Group]] = []
        self._guards: dict[str, dict[bytes, list[int]]] = {}
        self._owners: list[int] = []
        self._asked = np.zeros(0, np.int64)
        self.needles: dict[str, Needles] = {}

    def open(self) -> _Group:
        """Take the conditions apart, once."""
        if self._alone is None:
            with without_collections():
                self._alone = self._take_apart()
        return self

    def _take_apart(self) -> list[tuple[str, list[Test]]]:
        tests = self._tests
        leading: dict[int, list[Member]] = {}
        first: dict[int, Test] = {}
        for member in self._members:
            conditions = member[1]
            test = tests.of(conditions[0]) if conditions else ALWAYS
            first[test.number] = test
            leading.setdefault(test.number, []).append(member)
        alone = []
        for number, some in leading.items():
            longest = max(len(conditions) for _, conditions in some)
            if longest > 1 or (len(some) > 1 and longest):
                rest = ((name, conditions[1:]) for name, conditions in some)
                self._groups.append((first[number], _Group(rest, tests)))
            else:
                alone += [(name, [tests.of(one) for one in asked]) for name, asked in some]
        wanted: dict[str, set[bytes]] = {}
        for found in [*(one for _, one in alone), [test for test, _ in self._groups]]:
            _collect(found, wanted)
        self.needles = {column: Needles(some) for column, some in wanted.items()}
        for place, (_, asked) in enumerate(alone):
            for guard in guards_of(asked):
                for column, needle in guard:
                    ways = self._guards.setdefault(column, {})
                    ways.setdefault(needle, []).append(len(self._owners))
                self._owners.append(place)
        self._asked = np.bincount(self._owners, minlength=len(alone))
        return alone

    def find(self, part: _Batch) -> dict[str, NDArray[np.int64]]:
        """Find the rows of each filter that has any.

        Most filters ask for a text that no event has, and are not looked at.
        """
        assert self._alone is not None, "the conditions are taken apart"
        found = {}
        seen: set[int] = set()
        for column, guards in self._guards.items():
            seen.update(chain.from_iterable(part.seen(column, guards)))
        met = np.bincount([self._owners[one] for one in seen], minlength=len(self._alone))
        for place in np.flatnonzero(met == self._asked).tolist():
            name, tests = self._alone[place]
            held = part.all_of(tests)
            if held is not NONE:
                found[name] = part.rows_of(held)
        for test, group in self._groups:
            mask = part.holds(test)
            if mask is not NONE:
                found |= group.find(part.part_of(mask, group.open().needles))
        return found


def _collect(tests: Iterable[Test], wanted: dict[str, set[bytes]]) -> None:
    for test in tests:
        if test.needles:
            wanted.setdefault(test.searched, set()).update(test.needles)
        if test.operands:
            _collect(test.operands, wanted)


class _Batch:
    """A part of the events, or some of it; what was computed of it is remembered."""

    def __init__(
        self,
        part: EventPart,
        needles: Mapping[str, Needles],
        rows: NDArray[np.int64] | None = None,
        within: tuple[_Batch, NDArray[np.int64]] | None = None,
    ) -> None:
        """Take a part, or some of its rows; ``within`` tells where they are in another batch."""
        self._part, self._rows, self._needles, self._within = part, rows, needles, within
        self._size = len(part) if rows is None else len(rows)
        self._present: set[str] | None = None
        self._distinct: dict[str, _Distinct | None] = {}
        self._candidates: dict[str, Found | None] = {}
        self._hits: dict[str, frozenset[bytes]] = {}
        self._vectors: dict[str, Vector] = {}
        self._masks: dict[int, Mask] = {}

    def rows_of(self, mask: Mask) -> NDArray[np.int64]:
        """Return the rows of a mask in the whole batch."""
        chosen = np.arange(self._size) if mask is ALL else np.flatnonzero(mask)
        return chosen if self._rows is None else self._rows[chosen]

    def part_of(self, mask: Mask, needles: Mapping[str, Needles]) -> _Batch:
        """Return the events of a mask, in which other needles are looked for."""
        if mask is ALL:
            return _Batch(self._part, needles, self._rows, (self, np.arange(self._size)))
        places = np.flatnonzero(mask)
        rows = places if self._rows is None else self._rows[places]
        return _Batch(self._part, needles, rows, (self, places))

    def seen(self, searched: str, guards: Mapping[bytes, list[int]]) -> Iterable[list[int]]:
        """Return what needles of a column stand for, of those that some text may have in it."""
        if not self._is_present(searched.removeprefix(LOWERED)):
            return ()
        known = self._known(searched.removeprefix(LOWERED))
        if known is not None and known.count == 1:
            return ()  # NULL meets no condition that asks for a text.
        found = None if known is None else self._found_in(searched, known)
        if found is None:
            return guards.values()
        return [guards[one] for one in found.hits if one in guards]

    def _is_present(self, column: str) -> bool:
        if self._present is None:
            self._present = self._part.present(self._rows)
        return self._present is None or column in self._present or "." in column

    def all_of(self, tests: Iterable[Test]) -> Mask:
        """Mark the events for which all conditions are true."""
        return self._combined(tests, np.logical_and, neutral=ALL, final=NONE)

    def _combined(
        self,
        tests: Iterable[Test],
        combine: Callable[[Mask, Mask], Mask],
        *,
        neutral: Mask,
        final: Mask,
    ) -> Mask:
        found = neutral
        for test in tests:
            mask = self.holds(test)
            if mask is final:
                return final
            if mask is not neutral:
                found = mask if found is neutral else _plain(combine(found, mask))
                if found is final:
                    return final
        return found

    def holds(self, test: Test) -> Mask:
        """Mark the events for which a condition is true."""
        if test.number in self._masks:
            return self._masks[test.number]
        if test.operator == "AND":
            mask = self.all_of(test.operands)
        elif test.operator == "OR":
            mask = self._combined(test.operands, np.logical_or, neutral=NONE, final=ALL)
        elif test.operator == "NOT":
            inner = self.holds(test.operands[0])
            mask = NONE if inner is ALL else ALL if inner is NONE else ~inner
        elif test.column:
            mask = self._by_value(test)
        else:
            mask = _plain(true_mask(test.expression, self._vector, self._size))
        self._masks[test.number] = mask
        return mask

    def _by_value(self, test: Test) -> Mask:
        """Evaluate a condition on one column for its distinct values, and look up the events'."""
        searched = test.searched
        if (
            test.needles
            and searched in self._hits
            and test.needles.isdisjoint(self._hits[searched])
        ):
            return NONE  # So it is most often.
        known = self._known(test.column)
        if known is None:
            return _plain(true_mask(test.expression, self._vector, self._size))
        found = self._found_in(searched, known) if test.needles else None
        if found is None:
            mask = _plain(true_mask(test.expression, known.vector, known.count))
        elif test.place >= 0:
            mask = known.at(found.places_of(test.needles, test.place))
        else:
            places = found.places_of(test.needles)
            mask = known.among(places, test.expression) if len(places) else NONE
        return mask if mask is NONE or mask is ALL else _plain(mask[known.codes])

    def _known(self, column: str) -> _Distinct | None:
        if column not in self._distinct:
            known = self._inherited(column)
            if known is None:
                found = self._part.distinct(column, self._rows)
                known = None if found is None else _Distinct(*found)
            self._distinct[column] = known
        return self._distinct[column]

    def _inherited(self, column: str) -> _Distinct | None:
        """Return what is known of more events, unless they have many more values."""
        if self._within is None:
            return None
        batch, places = self._within
        known = batch._distinct.get(column)
        if known is None or known.count > 2 * self._size + FEW:
            return None
        return known.some(places)

    def _found_in(self, searched: str, known: _Distinct) -> Found | None:
        """Look for all needles of a column at once; None if it is no text."""
        if searched not in self._candidates:
            texts = known.named(searched)
            found = None
            if texts.kind is ValueKind.TEXT:
                found = self._needles[searched].find(texts.texts)
                self._hits[searched] = found.hits
            self._candidates[searched] = found
        return self._candidates[searched]

    def _vector(self, attribute: tree.Attribute) -> Vector:
        """Return the values of all events."""
        name = attribute.attribute.text
        if name not in self._vectors:
            plain = name.removeprefix(LOWERED)
            values = vector_of(self._part.arrow(plain, self._rows), name=plain)
            self._vectors[name] = values if plain == name else _lower(values, self._size)
        return self._vectors[name]


class _Distinct:
    """The distinct values of a column, NULL among them, and the place of every event's value."""

    def __init__(self, values: pa.Array[Any], codes: NDArray[np.int64]) -> None:
        # The last one is NULL, which codes of -1 mean.
        self.count, self.codes = len(values) + 1, codes
        self._plain = vector_of(pa.concat_arrays([values, pa.nulls(1, values.type)]))
        self._lowered: Vector | None = None

    def some(self, places: NDArray[np.int64]) -> _Distinct:
        """Return the same values for some of the events."""
        other = copy(self)
        other.codes = self.codes[places]
        return other

    def vector(self, attribute: tree.Attribute) -> Vector:
        """Return the values, in lower case if that is asked for."""
        return self.named(attribute.attribute.text)

    def at(self, places: NDArray[np.int64]) -> Mask:
        """Mark the values of some places."""
        if not len(places):
            return NONE
        mask = np.zeros(self.count, np.bool_)
        mask[places] = True
        return _plain(mask)

    def among(self, places: NDArray[np.int64], condition: tree.Expression) -> Mask:
        """Evaluate a condition for some values; it is true of no other."""
        held = true_mask(condition, lambda a: take_vector(self.vector(a), places), len(places))
        return self.at(places[held])

    def named(self, name: str) -> Vector:
        """Return the values by the name of a column, which may be one in lower case."""
        if not name.startswith(LOWERED):
            return self._plain
        if self._lowered is None:
            self._lowered = _lower(self._plain, self.count)
        return self._lowered


def _lower(values: Vector, count: int) -> Vector:
    return evaluate_vector(_LOWER, lambda _: values, count)


def _plain(mask: Mask) -> Mask:
    """Return the mask of all or of no event as such."""
    if not mask.any():
        return NONE
    return ALL if mask.all() else mask


_NAME = tree.Name(span=Span(0, 0), text="_")
_LOWER = tree.Call(
    span=Span(0, 0),
    function="LOWER",
    arguments=(tree.Attribute(span=Span(0, 0), variable=_NAME, attribute=_NAME),),
)
