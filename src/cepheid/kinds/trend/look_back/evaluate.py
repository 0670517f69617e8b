"""Aggregate segments of queries in which an event looks up the events before it.

First every negated pattern runs, the innermost one first. For each row it finds the latest start of
an occurrence: events before that start cannot be followed. Then the pattern itself runs, as
GRETA's graph does, but with trees of sums instead of edges (``kernels/graph.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels import bits as bit_sets
from cepheid.kernels import contiguous, next_match, occurrences
from cepheid.kernels import graph as kernel
from cepheid.kernels.compose import add_rows
from cepheid.kernels.moments import fill_elapsed
from cepheid.kernels.ranks import order_rows
from cepheid.kernels.ring import MERSENNE
from cepheid.kinds.trend.look_back.graph import GraphBuilder, GraphTables
from cepheid.kinds.trend.look_back.next_stack import answer_by_stack
from cepheid.kinds.trend.look_back.planes import run_any_match
from cepheid.kinds.trend.look_back.prefix_sums import PrefixEvaluation, has_prefix_form
from cepheid.kinds.trend.look_back.question import Question
from cepheid.kinds.trend.look_back.relations import (
    MASK_CELLS,
    Relation,
    mask_block,
    rank_neighbours,
    rank_relations,
)
from cepheid.kinds.trend.look_back.sub_partitions import require_values, split_segments
from cepheid.kinds.trend.program.wide import numbers_of
from cepheid.language import tree
from cepheid.patterns.segments import Segments, gather_segments
from cepheid.plans.template import Place, Template

NO_VALUE = np.iinfo(np.int64).max


class Answer(NamedTuple):
    """Aggregates of segments, in order.

    ``ended`` are the matches that end at the time that names a segment's window.
    """

    numbers: NDArray[Any]
    values: NDArray[np.int64]
    ended: NDArray[Any]


class _Data(NamedTuple):
    """The input arrays of the kernels; see ``kernels/graph.py``."""

    segment_ptr: NDArray[np.int64]
    window: NDArray[np.int64]
    ts: NDArray[np.int64]
    order: NDArray[np.int64]
    bits: NDArray[np.int64]
    block: NDArray[np.int64]
    weights: NDArray[Any]
    values: NDArray[np.int64]
    weight_of: NDArray[np.int32]
    value_of: NDArray[np.int32]
    rank: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    ranks: NDArray[np.int32]
    latest: NDArray[np.int64]
    latest_of_all: NDArray[np.int64]
    mask: NDArray[np.bool_]
    salt: NDArray[Any]


class _Room(NamedTuple):
    """The output buffers of the kernels; see ``kernels/graph.py``."""

    V: NDArray[Any]
    M: NDArray[np.int64]
    begins: NDArray[np.bool_]
    member: NDArray[np.int32]
    members: NDArray[np.int64]
    total: NDArray[Any]
    total_least: NDArray[np.int64]
    tree: NDArray[Any]
    tree_least: NDArray[np.int64]
    at: NDArray[np.int32]
    entered: NDArray[np.int64]
    left: NDArray[np.int64]
    end_bound: NDArray[np.int64]
    sets: NDArray[np.uint64]
    levels: NDArray[np.int64]


def answer_segments(
    question: Question, template: Template, segments: Segments, moduli: tuple[int, ...]
) -> list[Answer]:
    """Compute the aggregates of segments: in wide numbers, then modulo each prime."""
    everything = (0, *moduli)
    if not question.listed:
        return _answer_part(question, template, segments, [1] * len(template.states), everything)
    answers = [_nothing(question, len(segments.key), modulus) for modulus in everything]
    for part, required, seen in split_by_value(question, template, segments):
        parts = _answer_part(question, required, part, seen, everything)
        for total, found, modulus in zip(answers, parts, everything, strict=True):
            add_rows(found.numbers, found.values, part.base, *total[:2], np.uint64(modulus))
            ended = (found.ended[:, None], found.values[:, :0])
            room = (total.ended[:, None], total.values[:, :0])
            add_rows(*ended, part.base, *room, np.uint64(modulus))
    return answers


def _answer_part(
    question: Question,
    template: Template,
    segments: Segments,
    seen: list[int],
    moduli: tuple[int, ...],
) -> list[Answer]:
    """Evaluate what the fast kernels support, and the rest with the general one."""
    if has_prefix_form(question, template) and not question.ending and len(moduli) == 1:
        found = open_prefix(question, template, segments).run()
        return [Answer(*found, np.zeros(len(segments.key), np.complex128))]
    stacked = answer_by_stack(question, template, segments) if len(moduli) == 1 else None
    if stacked is not None:
        return [Answer(*stacked, np.zeros(len(segments.key), np.complex128))]
    evaluation = Evaluation(question, segments, template, seen)
    return [evaluation.run(modulus) for modulus in moduli]


def open_prefix(question: Question, template: Template, segments: Segments) -> PrefixEvaluation:
    """Rank the rows of segments for a template in prefix form."""
    latest = latest_of_guards(question, template, segments)
    return PrefixEvaluation(question, segments, template, latest)


def latest_of_guards(
    question: Question, template: Template, segments: Segments
) -> NDArray[np.int64]:
    """Evaluate the guards of a template on rows, without ranks that only the template needs."""
    if not template.guards:
        return np.zeros((0, 0), np.int64)
    names = frozenset[str]().union(*(_all_variables(g.template) for g in template.guards))
    mine = [relation for relation in question.relations if relation.prev in names]
    inner = Evaluation(question._replace(relations=mine), segments, _without_guards(template), [])
    return inner.guards_of(template)[0]


def find_occurrences(
    question: Question, template: Template, segments: Segments
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find, for each row, its order and the latest start of an occurrence that ends with it."""
    inner = Evaluation(question, segments, _without_guards(template), [])
    return inner.order, inner.occurrences_of(template)


def fingerprint_segments(
    question: Question, template: Template, segments: Segments, *, power: int = 1
) -> NDArray[np.uint64]:
    """Compute fingerprints of segments: equal for equal sets of matches, and else almost never."""
    if not question.listed:
        seen = [1] * len(template.states)
        return Evaluation(question, segments, template, seen).fingerprint(power)
    total = np.zeros((len(segments.key), 1), np.uint64)
    least = np.zeros((len(segments.key), 0), np.int64)
    for part, required, seen in split_by_value(question, template, segments):
        found = Evaluation(question, part, required, seen).fingerprint(power)[:, None]
        add_rows(found, least[part.base], part.base, total, least, np.uint64(MERSENNE))
    return total[:, 0]


def split_by_value(
    question: Question, template: Template, segments: Segments
) -> Iterator[tuple[Segments, Template, list[int]]]:
    """Split segments by every choice of values, with the template of each choice."""
    for number, listed in enumerate(question.listed_bits):
        apart = question.apart[number] if question.apart else None
        blocking = question.semantics is tree.Semantics.NEXT_MATCH
        segments = split_segments(
            segments, number, listed, question.aliases, question.codes[number], apart,
            blocking=blocking,
        )  # fmt: skip
    for chosen in range(1 << len(question.listed)):
        required, seen = require_values(template, question.listed, chosen)
        mine = np.flatnonzero(segments.chosen == chosen)
        if required.finals and len(mine):
            yield segments.take(mine), required, seen


def _nothing(question: Question, count: int, modulus: int) -> Answer:
    dtype: Any = np.uint64 if modulus else np.complex128
    return Answer(
        np.zeros((count, question.weight_of.shape[1]), dtype),
        np.full((count, question.value_of.shape[1]), NO_VALUE, np.int64),
        np.zeros(count, dtype),
    )


class Evaluation:
    """Segments with everything that does not depend on the number format."""

    def __init__(
        self, question: Question, segments: Segments, template: Template, seen: list[int]
    ) -> None:
        self.question = question
        self.segments = segments
        self.order = np.empty(len(segments.rows), np.int64)
        times = question.arrays.ts[segments.rows]
        widest = order_rows(segments.ptr, times, question.together, self.order)
        contiguous = question.semantics is tree.Semantics.CONTIGUOUS
        # Negated patterns are not contiguous, and tied events follow all events of the time before.
        if contiguous and widest == 1 and template.states and not template.guards:
            self._ranked = rank_neighbours(question.relations, segments.rows)
        else:
            self._ranked = rank_relations(
                question.relations, segments.rows, segments.ptr, self._bound_or_blocked,
                question.variables,
            )  # fmt: skip
        self._graph = self._tables(template, question.semantics, seen)
        # Negated patterns run before any guard is known.
        self._latest = self._latest_of_all = np.zeros((0, 0), np.int64)
        self._latest, self._latest_of_all = self.guards_of(template)

    def run(self, modulus: int = 0, *, salt: int = 0) -> Answer:
        """Aggregate all segments, in wide numbers or modulo a prime."""
        question, count = self.question, len(self.segments.key)
        dtype: Any = np.uint64 if modulus else np.complex128
        parts = 1 if salt else question.weight_of.shape[1]
        mins = 0 if salt else question.value_of.shape[1]
        data = self._data(dtype, modulus, power=salt)
        room = self._room(dtype, parts, mins)
        numbers = np.zeros((count, parts), dtype)
        values = np.full((count, mins), NO_VALUE, np.int64)
        ended = np.zeros(count, dtype)
        last = (dtype(1), dtype(0), np.uint64(modulus), numbers, values, ended)
        masked = [r for r in question.relations if r.rest]
        if masked:
            self._run_masked(data, room, masked, last)
        elif question.semantics is tree.Semantics.NEXT_MATCH:
            taken = self._taken()
            next_match.run_next_segments(self._graph, data, room, taken, *last)
        elif question.semantics is tree.Semantics.CONTIGUOUS:
            contiguous.run_contiguous_segments(self._graph, data, room, *last)
        else:
            run_any_match(self._graph, self._ranked[0], self.segments, data, room, *last)
        return Answer(numbers, values, ended)

    @property
    def tables(self) -> GraphTables:
        """Return the graph of the template."""
        return self._graph

    def counted_rows(self) -> _Data:
        """Build the arrays of the rows, for kernels that count matches."""
        return self._data(np.complex128, 0)

    def count_ending(self, data: _Data) -> tuple[NDArray[Any], NDArray[Any]]:
        """Count the matches that end with each row in each state, and those of each segment."""
        assert self.question.semantics is tree.Semantics.ANY_MATCH, "others forget counts"
        room, count = self._room(np.complex128, 1, 0), len(self.segments.key)
        numbers = np.zeros((count, 1), np.complex128)
        values, ended = np.zeros((count, 0), np.int64), np.zeros(count, np.complex128)
        numbers_of_kernel = (np.complex128(1), np.complex128(0), np.uint64(0))
        kernel.run_segments(self._graph, data, room, *numbers_of_kernel, numbers, values, ended)
        return room.V, numbers[:, 0]

    def fingerprint(self, power: int) -> NDArray[np.uint64]:
        """Compute fingerprints of sets of matches: the sum of a random product for every match.

        With power 2, the sum of the squares of these products.
        """
        return self.run(MERSENNE, salt=power).numbers[:, 0]

    # Negation ------------------------------------------------------------------------------------

    def guards_of(self, template: Template) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Evaluate every guard of a template on rows and segments."""
        count = len(template.guards)
        latest = np.full((count, len(self.order)), -1, np.int64)
        latest_of_all = np.full((count, len(self.segments.key)), -1, np.int64)
        for number, guard in enumerate(template.guards):
            if guard.place is Place.LOOP:
                continue
            found = self.occurrences_of(guard.template)
            occurrences.spread_latest(
                self.order, self.segments.ptr, found, latest[number], latest_of_all[number]
            )
        return latest, latest_of_all

    def occurrences_of(self, template: Template, first: int = 0) -> NDArray[np.int64]:
        """Find for each row the latest start of a forbidden occurrence that ends there.

        Values are tried of the attributes from ``first`` on.
        """
        found = np.full(len(self.order), -1, np.int64)
        self._find(template, self, found)
        # If a match has no value of an attribute, an occurrence may have any single value (§2.9).
        for attribute, names in enumerate(self.question.listed):
            if attribute >= first and names & _all_variables(template):
                self._find_by_value(template, attribute, found)
        return found

    def _find(self, template: Template, where: Evaluation, found: NDArray[np.int64]) -> None:
        graph = where._tables(template, tree.Semantics.ANY_MATCH, [0] * len(template.states))
        guards = where.guards_of(template)
        data = where._data(np.complex128, 0)._replace(latest=guards[0], latest_of_all=guards[1])
        states, rows = len(template.states), len(where.order)
        room = where._room(np.complex128, 1, 1, states=states, graph=graph)
        masked = [r for r in where.question.relations if r.rest]
        if not masked:
            occurrences.run_latest(graph, data, room, found)
            return
        for segment, begin, end, first, last in where._blocks(rows, masked):
            if first == begin:
                occurrences.open_latest(graph, data, room, segment, begin, end)
            block = data._replace(mask=where._masks(masked, begin, first, last))
            occurrences.find_latest(graph, block, room, segment, begin, end, first, last, found)

    def _find_by_value(self, template: Template, attribute: int, found: NDArray[np.int64]) -> None:
        """Find occurrences that bind an event of some value, in the segments without a value.

        Those that bind none agree with negated patterns of any value inside of them.
        """
        template, _ = require_values(template, [self.question.listed[attribute]], 1)
        if not template.finals:
            return
        segments, listed = self.segments, self.question.listed_bits[attribute]
        owner = np.repeat(np.arange(len(segments.key)), np.diff(segments.ptr))
        open_ = np.flatnonzero(segments.chosen[owner] >> attribute & 1 == 0)
        aliases = self.question.aliases
        full = aliases.agree(segments.bits | segments.blocked, attribute)
        everything = (1 << len(self.question.variables)) - 1
        codes = self.question.codes[attribute][segments.rows]
        asked = listed | aliases.of(listed)
        concerned = open_[(full[open_] & asked != 0) & (codes[open_] >= 0)]
        pairs = np.unique(np.stack([owner[concerned], codes[concerned]]), axis=1)
        for segment, code in pairs.T:
            begin, end = segments.ptr[segment], segments.ptr[segment + 1]
            mine = np.arange(begin, end)
            held = segments.bits[mine] | segments.blocked[mine]
            bits = np.where(codes[mine] == code, full[mine], held)
            part = gather_segments(
                np.zeros(len(mine), np.int64), np.zeros(len(mine), np.int64),
                np.arange(len(mine)), bits & everything,
            )  # fmt: skip
            chosen = segments.chosen[segment : segment + 1] | 1 << attribute
            part = part._replace(
                rows=segments.rows[mine], blocked=bits & ~everything, chosen=chosen
            )
            inner = Evaluation(self.question, part, _without_guards(template), [])
            here = inner.occurrences_of(template, attribute + 1)
            found[begin:end] = np.maximum(found[begin:end], here)

    # Arrays --------------------------------------------------------------------------------------

    @cached_property
    def _bound_or_blocked(self) -> NDArray[np.int64]:
        """Collect the variables that rows may bind or, in other segments, could."""
        bits, blocked = self.segments.bits, self.segments.blocked
        return bits | self.question.aliases.variables_of(blocked) if self.question.listed else bits

    def _tables(
        self, template: Template, semantics: tree.Semantics, seen: list[int]
    ) -> GraphTables:
        question = self.question
        _, pairs, outside = self._ranked
        return GraphBuilder(
            template, question.variables, pairs, outside, semantics, question.evaluator,
            question.aliases.all, seen,
        ).build()  # fmt: skip

    def _data(self, dtype: Any, modulus: int, *, power: int = 0) -> _Data:
        question, segments = self.question, self.segments
        arrays, ranks = question.arrays, self._ranked[0]
        # Fingerprints only count; doubles could not be converted to residues.
        weights = np.take(arrays.weights[: 0 if power else None], segments.rows, axis=1)
        times = arrays.ts[segments.rows]
        if not power:
            fill_elapsed(weights, question.weight_of, segments.ptr, times)
        salt: NDArray[Any] = np.zeros((0, 0), np.uint64 if modulus else np.complex128)
        if power:
            generator = np.random.default_rng(2**31 - 1)
            shape = (len(question.variables), len(arrays.ts))
            drawn = generator.integers(1, MERSENNE, shape, np.uint64)[:, segments.rows]
            powers = [[pow(int(x), power, MERSENNE) for x in row] for row in drawn]
            salt = np.array(powers, np.uint64).reshape(drawn.shape)
        return _Data(
            segments.ptr, segments.window, times, self.order, segments.bits,
            segments.blocked,
            numbers_of(weights, np.dtype(dtype), modulus),
            np.take(arrays.values, segments.rows, axis=1),
            question.weight_of, question.value_of, *ranks,
            self._latest, self._latest_of_all,
            np.zeros((0, 0, 0), np.bool_), salt,
        )  # fmt: skip

    def _room(
        self, dtype: Any, parts: int, mins: int, *, states: int = 0,
        graph: GraphTables | None = None,
    ) -> _Room:  # fmt: skip
        graph = graph if graph is not None else self._graph
        states = states or len(graph.variable)
        rows, longest, indexes = len(self.order), self.segments.longest, len(graph.index_source)
        summed = indexes if graph.index_summed.any() else 0
        levels = bit_sets.levels_of(longest)
        waiting = indexes if self.question.semantics is tree.Semantics.NEXT_MATCH else 0
        return _Room(
            np.zeros((rows, states, parts), dtype),
            np.full((rows, states, mins), NO_VALUE, np.int64),
            np.zeros((rows, states), np.bool_),
            np.zeros((states, longest), np.int32),
            np.zeros(states, np.int64),
            np.zeros((states, parts), dtype),
            np.zeros((states, mins), np.int64),
            np.zeros((summed, 2 * longest, parts), dtype),
            np.zeros((summed, 2 * longest, mins), np.int64),
            np.zeros((indexes, longest), np.int32),
            np.zeros(indexes, np.int64),
            np.zeros(indexes, np.int64),
            np.zeros(states, np.int64),
            np.zeros((waiting, levels[-1]), np.uint64),
            levels,
        )

    def _taken(self) -> NDArray[np.int64]:
        return np.zeros((self.segments.longest * len(self._graph.variable) + 1, 2), np.int64)

    # Predicates that do not separate -------------------------------------------------------------

    def _run_masked(self, data: _Data, room: _Room, masked: list[Relation], last: Any) -> None:
        graph, semantics = self._graph, self.question.semantics
        taken = self._taken()
        for segment, begin, end, first, upto in self._blocks(len(self.order), masked):
            if first == begin:
                kernel.open_segment(graph, data, room, segment, begin, end, last[1])
                room.sets[:] = 0
            block = data._replace(mask=self._masks(masked, begin, first, upto))
            place = (segment, begin, end, first, upto)
            if semantics is tree.Semantics.NEXT_MATCH:
                next_match.run_next(graph, block, room, taken, *place, *last)
            elif semantics is tree.Semantics.CONTIGUOUS:
                contiguous.run_contiguous(graph, block, room, *place, *last)
            else:
                kernel.run_any(graph, block, room, *place, *last)

    def _blocks(self, rows: int, masked: list[Relation]) -> Any:
        """Split rows into blocks whose masks of earlier rows fit into memory; keep ties whole."""
        ptr, order = self.segments.ptr, self.order
        for segment in range(len(ptr) - 1):
            begin, end = int(ptr[segment]), int(ptr[segment + 1])
            first = begin
            while first < end:
                upto = min(first + max(MASK_CELLS // (first - begin + 1024), 1), end)
                while upto < end and order[upto] == order[upto - 1]:
                    upto += 1
                yield segment, begin, end, first, upto
                first = upto

    def _masks(
        self, masked: list[Relation], begin: int, first: int, upto: int
    ) -> NDArray[np.bool_]:
        question, segments = self.question, self.segments
        mask = np.zeros((len(masked), upto - first, upto - begin), np.bool_)
        neighbours = question.semantics is tree.Semantics.CONTIGUOUS
        for number, relation in enumerate(masked):
            earlier, later = (
                np.arange(low, upto)[
                    self._bound_or_blocked[low:upto] >> question.variables.index(name) & 1 == 1
                ]
                for low, name in ((begin, relation.prev), (first, relation.next))
            )
            if neighbours:
                # Only events of earlier times can be followed.
                earlier = earlier[self.order[earlier] >= self.order[first] - 1]
            held = mask_block(
                relation, question.columns, segments.rows[earlier], segments.rows[later]
            )
            mask[number, (later - first)[:, None], (earlier - begin)[None, :]] = held
        return mask


def _all_variables(template: Template) -> frozenset[str]:
    names = frozenset(state.variable for state in template.states)
    return names.union(*(_all_variables(guard.template) for guard in template.guards))


def _without_guards(template: Template) -> Template:
    """Build an empty template: its evaluation only carries segments and ranks."""
    return Template((), (), (), (), template.text, template.span, False, 0)
