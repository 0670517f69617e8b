"""Evaluate segments with prefix sums: check which qualify, and call the kernel.

See ``kernels/prefix.py``. Other segments are left to ``evaluate.py``.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from cepheid.kernels import prefix as kernel
from cepheid.kernels import prefix_plain as plain
from cepheid.kernels import prefix_wide as wide
from cepheid.kernels.moments import has_moments
from cepheid.kernels.prefix_arrays import are_usual
from cepheid.kernels.ranks import order_rows
from cepheid.kinds.trend.look_back.relations import Comparison, place_rows, rank_rows
from cepheid.language import tree
from cepheid.patterns.segments import Segments, take
from cepheid.plans.plan import Evaluator
from cepheid.plans.template import START, Edge, Final, Template

if TYPE_CHECKING:
    from cepheid.kinds.trend.look_back.question import Question

NO_VALUE = np.iinfo(np.int64).max
PLAIN_ROWS = 1_000
"""With fewer rows, the loop over them takes longer to interpret than ``prefix_arrays.py``."""


class PrefixTables(NamedTuple):
    """The plan of look-ups and insertions of states; see ``kernels/prefix.py``."""

    variable: NDArray[np.int64]
    begins: NDArray[np.bool_]
    ends: NDArray[np.bool_]
    edge_ptr: NDArray[np.int64]
    source: NDArray[np.int64]
    query_ptr: NDArray[np.int64]
    query: NDArray[np.int64]
    query_index: NDArray[np.int64]
    enter_ptr: NDArray[np.int64]
    enter: NDArray[np.int64]
    index_kind: NDArray[np.int64]


class _Data(NamedTuple):
    segment_ptr: NDArray[np.int64]
    order: NDArray[np.int64]
    bits: NDArray[np.int64]
    place: NDArray[np.int32]
    upto: NDArray[np.int32]
    weights: NDArray[Any]
    values: NDArray[np.int64]
    weight_of: NDArray[np.int32]
    value_of: NDArray[np.int32]
    barred: NDArray[np.bool_]
    others: NDArray[Any]
    negligible: NDArray[Any]


class Lookup(NamedTuple):
    """One prefix of one index: where rows are inserted, and how far they read."""

    kind: int
    place: NDArray[np.int32]
    upto: NDArray[np.int32]


def has_prefix_form(question: Question, template: Template) -> bool:
    """Check whether prefix sums can evaluate a template."""
    if question.semantics is not tree.Semantics.ANY_MATCH or has_moments(question.weight_of):
        return False
    guarded = [edge for edge in template.edges if edge.clear or edge.hit]
    if any(edge.source != START or edge.hit for edge in guarded):
        return False
    starts = [edge.target for edge in template.edges if edge.source == START]
    if len(set(starts)) < len(starts) or any(f.alternatives != ((),) for f in template.finals):
        return False
    if question.evaluator is Evaluator.PAIRWISE:
        return False
    return all(not r.rest and len(r.comparisons) == 1 for r in question.relations)


def lookups_of(
    comparison: Comparison,
    rows: NDArray[np.int64],
    segment_ptr: NDArray[np.int64],
    earlier: NDArray[np.bool_],
    later: NDArray[np.bool_],
) -> list[Lookup]:
    """Convert a predicate to prefixes of an index; <> needs two of them."""
    if comparison.operator != "<>":
        kind = kernel.EQUAL if comparison.operator == "=" else kernel.PREFIX
        return [Lookup(kind, *place_rows(comparison, rows, segment_ptr, earlier, later))]
    rank, first, last, ranks = rank_rows(comparison, rows, segment_ptr, earlier, later)
    back = np.where(rank < 0, -1, ranks - 1 - rank).astype(np.int32)
    above = np.where(first < 0, -1, ranks - last).astype(np.int32)
    return [Lookup(kernel.PREFIX, rank, first), Lookup(kernel.PREFIX, back, above)]


def build_tables(
    template: Template, variables: list[str], lookups: dict[tuple[str, str], list[int]]
) -> tuple[PrefixTables, list[tuple[int, int]]]:
    """Build the tables of a template, and the (state, lookup) pair of every index."""
    states = template.states
    indexes: dict[tuple[int, int], int] = {}
    sources: list[list[int]] = []
    queries: list[list[tuple[int, int]]] = []
    for q, state in enumerate(states):
        mine = [e.source for e in template.edges if e.target == q and e.source != START]
        sources.append(mine)
        for source in mine:
            asked = lookups.get((states[source].variable, state.variable), [])
            places = [(n, indexes.setdefault((source, n), len(indexes))) for n in asked]
            queries.append(places)
    enters = [[i for (source, _), i in indexes.items() if source == q] for q in range(len(states))]
    finals = {final.state for final in template.finals}
    starts = set(template.starts)
    tables = PrefixTables(
        _whole([variables.index(state.variable) for state in states]),
        np.array([q in starts for q in range(len(states))], np.bool_),
        np.array([q in finals for q in range(len(states))], np.bool_),
        _pointers(sources),
        _whole([source for found in sources for source in found]),
        _pointers(queries),
        _whole([n for found in queries for n, _ in found]),
        _whole([i for found in queries for _, i in found]),
        _pointers(enters),
        _whole([i for found in enters for i in found]),
        _whole([0] * len(indexes)),
    )
    return tables, list(indexes)


def _whole(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def _pointers(rows: list[Any]) -> NDArray[np.int64]:
    return np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)


def stacked(rows: list[NDArray[np.int32]], none: NDArray[np.int32]) -> NDArray[np.int32]:
    """Stack rows to one array, without a copy of a single one."""
    return rows[0][None, :] if len(rows) == 1 else np.stack(rows) if rows else none


def prepare(
    question: Question,
    template: Template,
    rows: NDArray[np.int64],
    segment_ptr: NDArray[np.int64],
    bits: NDArray[np.int64],
) -> tuple[PrefixTables, NDArray[np.int32], NDArray[np.int32]]:
    """Build the tables of a template, and the places and prefixes of all rows."""
    return _arranged(question, template, len(rows), *look_ups(question, rows, segment_ptr, bits))


def look_ups(
    question: Question,
    rows: NDArray[np.int64],
    segment_ptr: NDArray[np.int64],
    bits: NDArray[np.int64],
) -> tuple[list[Lookup], dict[tuple[str, str], list[int]]]:
    """Convert all predicates to prefixes of indexes, and list those of each pair of variables."""
    lookups: list[Lookup] = []
    numbers: dict[tuple[str, str], list[int]] = {}
    for relation in question.relations:
        names = [question.variables.index(name) for name in (relation.prev, relation.next)]
        earlier = bits >> names[0] & 1 == 1
        later = earlier if names[0] == names[1] else bits >> names[1] & 1 == 1
        found = lookups_of(relation.comparisons[0], rows, segment_ptr, earlier, later)
        first = len(lookups)
        lookups += found
        numbers[relation.prev, relation.next] = [first + n for n in range(len(found))]
    return lookups, numbers


def _arranged(
    question: Question,
    template: Template,
    count: int,
    lookups: list[Lookup],
    numbers: dict[tuple[str, str], list[int]],
) -> tuple[PrefixTables, NDArray[np.int32], NDArray[np.int32]]:
    """Build the tables of a template, and stack the places and prefixes that they name."""
    tables, indexes = build_tables(template, question.variables, numbers)
    none = np.zeros((0, count), np.int32)
    return (
        tables._replace(index_kind=_whole([lookups[n].kind for _, n in indexes])),
        stacked([lookups[n].place for _, n in indexes], none),
        stacked([lookup.upto for lookup in lookups], none),
    )


def _barred(template: Template, latest: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark where a leading NOT keeps a row from beginning a match in a state."""
    if not template.guards:
        return np.zeros((0, 0), np.bool_)
    barred = np.zeros((len(template.states), latest.shape[1]), np.bool_)
    for edge in template.edges:
        for guard in edge.clear:
            barred[edge.target] |= latest[guard] >= 0
    return barred


def is_chain(tables: PrefixTables, upto: NDArray[np.int32], bits: NDArray[np.int64]) -> bool:
    """Check whether all rows fit a pattern ``S+`` whose edge is one prefix."""
    one = len(tables.variable) == 1 and tables.begins.all() and tables.ends.all()
    only_prefix = len(upto) == 1 and tables.index_kind.tolist() == [kernel.PREFIX]
    return bool(one and only_prefix and (bits >> tables.variable[0] & 1).all())


def _turned(template: Template) -> Template:
    """Turn the edges of a template round: its matches are those of the template, backwards."""
    edges = [Edge(e.target, e.source) for e in template.edges if e.source != START]
    edges += [Edge(START, final.state) for final in template.finals]
    finals = tuple(Final(state) for state in template.starts)
    return msgspec.structs.replace(template, edges=tuple(edges), finals=finals, guards=())


class PrefixEvaluation:
    """Segments in prefix form, ready to run."""

    def __init__(
        self,
        question: Question,
        segments: Segments,
        template: Template,
        latest: NDArray[np.int64],
    ) -> None:
        """Rank the rows; ``latest`` holds for each guard the latest start before each row."""
        self._question, self._segments, self._template = question, segments, template
        rows, bits = segments.rows, segments.bits
        self._found = look_ups(question, rows, segments.ptr, bits)
        self._tables, place, upto = _arranged(question, template, len(rows), *self._found)
        self._chain = is_chain(self._tables, upto, bits) and not template.guards
        order = np.empty(len(rows), np.int64)
        times = take(question.arrays.ts, rows)
        self._widest = order_rows(segments.ptr, times, question.together, order)
        self._data = _Data(
            segments.ptr, order, bits, place, upto,
            take(question.arrays.weights, rows).astype(np.float64, copy=False),
            take(question.arrays.values, rows), question.weight_of, question.value_of,
            _barred(template, latest), np.zeros((0, 0), np.complex128),
            np.zeros(0, np.complex128),
        )  # fmt: skip

    def run(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Compute wide numbers and minima of every segment."""
        parts, mins = self._question.weight_of.shape[1], self._question.value_of.shape[1]
        count = len(self._segments.key)
        numbers = np.zeros((count, parts), np.complex128)
        values = np.full((count, mins), NO_VALUE, np.int64)
        # The counts of most windows fit plain doubles, which take half of the time.
        alone = parts == 1 and mins == 0
        first = self._count(numbers) if alone else self._add_plain(numbers, values)
        if first < count:
            self._aggregate(numbers, values, first, np.zeros((0, 0), np.complex128))
        return numbers, values

    def count_ending(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Count the matches that end with each row in each state, and those of each segment."""
        numbers = np.zeros((len(self._segments.key), 1), np.complex128)
        kept = np.zeros((len(self._segments.rows), len(self._tables.variable)), np.complex128)
        self._aggregate(numbers, np.zeros((len(numbers), 0), np.int64), 0, kept)
        return kept, numbers[:, 0]

    def count_going_on(self, counts: NDArray[Any], negligible: NDArray[Any]) -> NDArray[Any]:
        """Count the ways in which a match goes on from each row in each state, or ends there.

        ``negligible`` is empty, or has a number of matches for each segment: rows that fewer go
        through count as 0, given the ``counts`` of those that end with each row. Matches through
        any of them are then left out, which are fewer than this number for each row.

        A row is followed by those that look up its place, so backwards these enter where they
        looked up to, and it looks up to where it entered, both counted from the other end.
        """
        lookups, numbers = self._found
        ptr, data = self._segments.ptr, self._data
        lengths = np.diff(ptr)
        # All rows are turned round at once, and so the last segment comes first.
        size = np.repeat(lengths, lengths)[::-1].astype(np.int32)

        def turned(places: NDArray[np.int32], kind: int) -> NDArray[np.int32]:
            mine = places[::-1]
            other = mine if kind == kernel.EQUAL else size - mine
            return np.where(mine < 0, np.int32(-1), other)

        found = [Lookup(k, turned(upto, k), turned(place, k)) for k, place, upto in lookups]
        pairs = {(later, earlier): places for (earlier, later), places in numbers.items()}
        template = _turned(self._template)
        tables, place, upto = _arranged(self._question, template, len(size), found, pairs)
        bits = np.ascontiguousarray(data.bits[::-1])
        other = copy.copy(self)
        other._tables, other._chain = tables, is_chain(tables, upto, bits)
        other._data = data._replace(
            segment_ptr=ptr[-1] - ptr[::-1], order=np.ascontiguousarray(data.order[::-1]),
            bits=bits, place=place, upto=upto, barred=np.zeros((0, 0), np.bool_),
            others=np.ascontiguousarray(counts[::-1]),
            negligible=np.ascontiguousarray(negligible[::-1]),
        )  # fmt: skip
        return np.ascontiguousarray(other.count_ending()[0][::-1])

    def _count(self, numbers: NDArray[Any]) -> int:
        """Count segments while the planes suffice; return the number of counted segments."""
        states, indexes = len(self._tables.variable), len(self._tables.index_kind)
        room = kernel.room_of(self._segments.longest)
        sums = np.zeros((indexes, 1, room))
        total = np.zeros((states + 1, 1))
        held = np.zeros((self._widest, states))
        planes = np.zeros(held.shape, np.int64)
        segment = first = 0
        while True:
            segment, first = kernel.run_count(
                self._tables, self._data, self._chain, sums.reshape(-1), room, total, held, planes,
                segment, first, numbers,
            )  # fmt: skip
            if segment == len(numbers) or sums.shape[1] == kernel.PLANES_MAX:
                return int(segment)
            begin, end = self._segments.ptr[segment : segment + 2]
            if (first - begin) * kernel.PLANES_MAX < end - begin:
                # One more plane would not suffice either.
                return int(segment)
            sums = np.concatenate([sums, np.zeros((indexes, 1, room))], axis=1)
            total = np.concatenate([total, np.zeros((states + 1, 1))], axis=1)

    def _add_plain(self, numbers: NDArray[Any], values: NDArray[np.int64]) -> int:
        """Aggregate segments in plain doubles while these suffice; return how many."""
        data, parts, mins = self._data, numbers.shape[1], values.shape[1]
        if not self._chain or len(data.order) < PLAIN_ROWS or not are_usual(data.weights):
            return 0
        room = kernel.room_of(self._segments.longest)
        aggregated = plain.run_plain(
            data, self._tables.variable[0], np.zeros(parts * room),
            np.zeros(mins * room, np.int64), room, np.zeros(self._widest * parts),
            np.zeros(self._widest * mins, np.int64), numbers, values,
        )  # fmt: skip
        return int(aggregated)

    def _aggregate(
        self, numbers: NDArray[Any], values: NDArray[np.int64], first: int, kept: NDArray[Any]
    ) -> None:
        """Aggregate all segments from ``first`` on; ``kept`` gets the counts of rows."""
        states, indexes = len(self._tables.variable), len(self._tables.index_kind)
        room = kernel.room_of(self._segments.longest)
        parts, mins = numbers.shape[1], values.shape[1]
        wide.run_wide(
            self._tables, self._data, self._chain,
            np.zeros(indexes * parts * 2 * room), np.zeros(indexes * mins * room, np.int64), room,
            np.zeros((states + 1, parts, 2)), np.zeros((states + 1, mins), np.int64),
            np.zeros((self._widest, states, parts, 2)),
            np.zeros((self._widest, states, mins), np.int64), first, numbers, values, kept,
        )  # fmt: skip
