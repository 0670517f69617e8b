"""Many filters over the same events: conditions on one column are computed for distinct values.

A condition that reads a single column is evaluated once for each distinct value of the column in a
batch, and NULL; of texts, only for those that have in them what it asks for (``needles.py``). In
logs these are few, and most conditions hold for none of them: then no event is looked at. Filters
that begin with the same conditions read only the events for which these hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns
from cepheid.errors import Span
from cepheid.events.schema import ValueKind
from cepheid.expressions.evaluate import evaluate_vector, true_mask
from cepheid.expressions.vectors import Vector, vector_of
from cepheid.garbage import without_collections
from cepheid.kinds.selection.rows import project_rows, take_vector
from cepheid.kinds.workload.filter_tests import ALWAYS, LOWERED, ConditionTable, Test
from cepheid.kinds.workload.needles import Found, Needles
from cepheid.language import tree
from cepheid.memory_limits import check_rows
from cepheid.plans.plan import Plan, SelectPlan
from cepheid.plans.selection import SelectKind

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
    """Filters by name, which take batches of events in order and collect rows."""

    def __init__(self, plans: Mapping[str, SelectPlan], schema: pa.Schema) -> None:
        self._plans, self._schema = plans, schema
        self._rows, self._bytes = 0, 0
        self._found: dict[str, list[pa.Table]] = {name: [] for name in plans}
        self._empty: dict[int, pa.Table] = {}
        members = ((name, plan.select.condition) for name, plan in plans.items())
        self._group = _Group(members, ConditionTable())

    def add(self, batch: pa.Table) -> None:
        """Filter a batch."""
        if not len(batch):
            return
        group = self._group.open()
        found = group.find(_Batch(batch, group.needles))
        if not found:
            return
        # Rows have all columns of the events, hundreds in logs, so they are taken once for all.
        places = np.unique(np.concatenate([*found.values()]))
        chosen = np.zeros(len(batch), np.bool_)
        chosen[places] = True
        kept = batch.filter(pa.array(chosen)).combine_chunks()
        for name, rows in found.items():
            same = len(rows) == len(kept)
            self._keep(name, kept if same else kept.take(np.searchsorted(places, rows)))

    def _keep(self, name: str, events: pa.Table) -> None:
        rows = project_rows(self._plans[name].select, events)
        self._rows, self._bytes = self._rows + len(rows), self._bytes + rows.nbytes
        check_rows(self._rows, self._bytes / self._rows)
        self._found[name].append(rows)

    def end(self) -> dict[str, pa.Table]:
        """Return the rows of all filters."""
        return {
            name: pa.concat_tables([self._nothing(name), *tables])
            if tables
            else self._nothing(name)
            for name, tables in self._found.items()
        }

    def _nothing(self, name: str) -> pa.Table:
        """Build a result without rows; filters that share their columns have the same one."""
        select = self._plans[name].select
        shared = id(select.columns)  # The plan keeps them, so no others get this number.
        if shared not in self._empty:
            self._empty[shared] = project_rows(select, self._schema.empty_table())
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
            if len(some) > 1 and number != ALWAYS.number:
                rest = ((name, conditions[1:]) for name, conditions in some)
                self._groups.append((first[number], _Group(rest, tests)))
            else:
                alone += [(name, [tests.of(one) for one in asked]) for name, asked in some]
        wanted: dict[str, set[bytes]] = {}
        for found in [*(one for _, one in alone), [test for test, _ in self._groups]]:
            _collect(found, wanted)
        self.needles = {column: Needles(some) for column, some in wanted.items()}
        return alone

    def find(self, part: _Batch) -> dict[str, NDArray[np.int64]]:
        """Find the rows of each filter that has any."""
        assert self._alone is not None, "the conditions are taken apart"
        found = {}
        for name, tests in self._alone:
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
    """A batch, or some of its events; what was computed of it is remembered."""

    def __init__(
        self,
        table: pa.Table,
        needles: Mapping[str, Needles],
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        self._table, self._rows, self._needles = table, rows, needles
        self._whole = Columns(table)
        self._size = len(table) if rows is None else len(rows)
        self._chosen: pa.Array[Any] | None = None
        self._distinct: dict[str, _Distinct | None] = {}
        self._candidates: dict[str, Found | None] = {}
        self._vectors: dict[str, Vector] = {}
        self._masks: dict[int, Mask] = {}

    def rows_of(self, mask: Mask) -> NDArray[np.int64]:
        """Return the rows of a mask in the whole batch."""
        chosen = np.arange(self._size) if mask is ALL else np.flatnonzero(mask)
        return chosen if self._rows is None else self._rows[chosen]

    def part_of(self, mask: Mask, needles: Mapping[str, Needles]) -> _Batch:
        """Return the events of a mask, in which other needles are looked for."""
        rows = self._rows if mask is ALL else self.rows_of(mask)
        return _Batch(self._table, needles, rows)

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
        if test.column not in self._distinct:
            self._distinct[test.column] = _distinct(self._arrow(test.column))
        known = self._distinct[test.column]
        if known is None:
            return _plain(true_mask(test.expression, self._vector, self._size))
        found = self._found_in(test.searched, known) if test.needles else None
        if found is None:
            mask = _plain(true_mask(test.expression, known.vector, known.count))
        else:
            places = found.places_of(test.needles)
            mask = known.among(places, test.expression) if len(places) else NONE
        return mask if mask is NONE or mask is ALL else _plain(mask[known.codes])

    def _found_in(self, searched: str, known: _Distinct) -> Found | None:
        """Look for all needles of a column at once; None if it is no text."""
        if searched not in self._candidates:
            texts = known.named(searched)
            is_text = texts.kind is ValueKind.TEXT
            self._candidates[searched] = (
                self._needles[searched].find(texts.texts) if is_text else None
            )
        return self._candidates[searched]

    def _arrow(self, name: str) -> pa.ChunkedArray[Any]:
        column = self._whole.arrow(name)
        if self._rows is None:
            return column
        if self._chosen is None:
            chosen = np.zeros(len(self._table), np.bool_)
            chosen[self._rows] = True
            self._chosen = pa.array(chosen)
        # To take rows of several chunks would copy all of them first.
        return column.filter(self._chosen)

    def _vector(self, attribute: tree.Attribute) -> Vector:
        """Return the values of all events."""
        name = attribute.attribute.text
        if name not in self._vectors:
            plain = name.removeprefix(LOWERED)
            values = vector_of(self._arrow(plain), name=plain)
            self._vectors[name] = values if plain == name else _lower(values, self._size)
        return self._vectors[name]


class _Distinct:
    """The distinct values of a column, NULL among them, and the place of every event's value."""

    def __init__(self, values: pa.Array[Any], codes: NDArray[np.int64]) -> None:
        self.count, self.codes = len(values), codes
        self._plain = vector_of(values)
        self._lowered: Vector | None = None

    def vector(self, attribute: tree.Attribute) -> Vector:
        """Return the values, in lower case if that is asked for."""
        return self.named(attribute.attribute.text)

    def among(self, places: NDArray[np.int64], condition: tree.Expression) -> Mask:
        """Evaluate a condition for some values; it is true of no other."""
        held = true_mask(condition, lambda a: take_vector(self.vector(a), places), len(places))
        mask = np.zeros(self.count, np.bool_)
        mask[places[held]] = True
        return _plain(mask)

    def named(self, name: str) -> Vector:
        """Return the values by the name of a column, which may be one in lower case."""
        if not name.startswith(LOWERED):
            return self._plain
        if self._lowered is None:
            self._lowered = _lower(self._plain, self.count)
        return self._lowered


def _distinct(column: pa.ChunkedArray[Any]) -> _Distinct | None:
    """Find the distinct values of a column; None for structures and lists, or without events."""
    if pa.types.is_nested(column.type) or not len(column):
        return None
    if pa.types.is_null(column.type):
        return _Distinct(pa.nulls(1), np.zeros(len(column), np.int64))
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded: Any = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    values, codes = encoded.dictionary, encoded.indices
    if codes.null_count:
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        codes = codes.fill_null(len(values) - 1)
    return _Distinct(values, codes.to_numpy().astype(np.int64))


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
