"""Enumerate the matches of segments, a batch at a time: their events and variables.

Negation, predicates and event selection are evaluated on rows as for aggregates (``evaluate.py``);
matches are then built backwards from the events that can end them (``kernels/enumerate.py``).
However many matches there are, only one batch of them is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels import enumerate as kernel
from cepheid.kernels import links as linked
from cepheid.kernels import starts as forward
from cepheid.kinds.trend.listing.earlier_rows import (
    LISTS_MAX,
    list_by_earlier_rows,
    room_of_lists,
)
from cepheid.kinds.trend.listing.found import Found, Told
from cepheid.kinds.trend.listing.link_kinds import LinkRoom, split_by_link, tables_of
from cepheid.kinds.trend.listing.mask_blocks import MaskBlocks
from cepheid.kinds.trend.listing.pushed_predicates import Pushing, split_by_role
from cepheid.kinds.trend.look_back.evaluate import Evaluation
from cepheid.kinds.trend.look_back.question import Question
from cepheid.kinds.trend.look_back.relations import Relation
from cepheid.kinds.trend.look_back.sub_partitions import require_values, split_segments
from cepheid.language import tree
from cepheid.patterns.segments import Segments
from cepheid.plans.plan import GlobalPredicate
from cepheid.plans.template import START, Edge, Final, State, Template

MATCHES_ROOM = 1 << 16
"""Maximum number of matches of one batch."""
BINDINGS_ROOM = 1 << 18
"""Bindings of one batch, unless a single match has more."""
TRIAL, DENSE = 1 << 10, 4
"""After so many matches, lists of earlier rows are kept if so many end with each event: where few
do, making the lists takes longer than what they spare."""

_SEMANTICS = {
    tree.Semantics.ANY_MATCH: forward.ANY,
    tree.Semantics.NEXT_MATCH: forward.NEXT,
    tree.Semantics.CONTIGUOUS: forward.CONTIGUOUS,
    tree.Semantics.BY_LINK: forward.LINKS,
}

Places = Callable[[Segments], NDArray[Any]]
"""Computes a value for every row of segments."""


class _Arrays(NamedTuple):
    """The arrays of the listing kernels; see ``kernels/starts.py`` and ``enumerate.py``."""

    segment_of: NDArray[np.int64]
    bound: NDArray[np.int64]
    crowded: NDArray[np.bool_]
    choice: NDArray[np.int64]
    chosen: NDArray[np.int64]
    need: NDArray[np.int64]
    marks: NDArray[np.int64]
    way: NDArray[np.int64]
    starts: NDArray[np.int64]
    reach: NDArray[np.int64]
    until: NDArray[np.int64]
    equal: NDArray[np.int64]
    at_rank: NDArray[np.int32]
    block_of: NDArray[np.int64]
    block_at: NDArray[np.int64]
    block_first: NDArray[np.int64]
    block_base: NDArray[np.int64]
    mask: NDArray[np.bool_]
    member_ptr: NDArray[np.int64]
    member: NDArray[np.int64]
    member_key: NDArray[np.int64]
    trigger_row: NDArray[np.int64]
    trigger_state: NDArray[np.int64]
    close: NDArray[np.int64]
    edge_kind: NDArray[np.int64]
    kind_rule: NDArray[np.int64]
    before: NDArray[np.int32]
    begins: NDArray[np.bool_]


def _room_of_matches(count: int, longest: int) -> tuple[NDArray[Any], ...]:
    """Allocate what kernels write: for each match the row that ends it, and its bindings."""
    room = max(BINDINGS_ROOM, longest)
    ptr = np.zeros(count + 1, np.int64)
    return np.empty(count, np.int64), ptr, np.empty(room, np.int64), np.empty(room, np.int8)


class _Room(NamedTuple):
    """Buffers of the forward pass for the current segment."""

    member: NDArray[np.int64]
    members: NDArray[np.int64]
    latest: NDArray[np.int64]
    held: NDArray[np.int64]


class Lister(Evaluation):
    """Builds the matches of segments.

    Parameters
    ----------
    bound
        For every row the first row of its segment with which a match that ends there may begin.
    wanted
        The rows that may end a listed match.
    turn
        The order in which segments are processed; among segments of one turn, matches come in the
        order of their last events.
    judges
        Conditions on whole matches; those that the search itself checks are not in ``rest``.
    told
        What rows will tell about events, which the search may write at once.
    """

    def __init__(
        self, question: Question, template: Template, segments: Segments, bound: Places,
        wanted: Places, turn: Places, judges: Sequence[GlobalPredicate] = (),
        told: Told | None = None,
    ) -> None:  # fmt: skip
        template, pushed = split_by_role(template, judges)
        choices = [0] * len(template.states)
        seen = [1] * len(template.states)
        if question.listed:
            template, choices, seen = _all_choices(question, template)
            segments = _split(question, segments)
        edge_kind = np.zeros(0, np.int64)
        if question.links is not None:
            template, reached = split_by_link(template, question.links)
            choices, seen = [0] * len(template.states), [1] * len(template.states)
            self._links, edge_kind = tables_of(
                template, question.links, question.variables, reached
            )
        super().__init__(question, segments, template, seen)
        self.template = template
        self.data = self._data(np.complex128, 0)
        self.graph = self._graph
        self.semantics = _SEMANTICS[question.semantics]
        masked = [relation for relation in question.relations if relation.rest]
        places = bound(segments)
        pushing = Pushing(question, segments, template, judges, pushed)
        self.rest, self.pushed = pushing.rest, pushing.tables
        self.told = told or Told({}, np.zeros((len(question.variables), 0), np.uint8))
        self.judged = bool(judges)
        self._blocks_of_masks = MaskBlocks(
            segments.ptr, self.order, places, len(masked),
            lambda base, first, last: self._masks(masked, base, first, last),
        )  # fmt: skip
        self.arrays = self._prepare(places, choices)
        if question.links is not None:
            self.arrays = self._with_links(edge_kind)
        self._find_starts(masked=bool(masked))
        self.arrays = self._with_members(wanted(segments), turn(segments))

    def batches(self, most: int | None = None) -> Iterator[Found]:
        """Enumerate the matches, in the order of their last events in the input."""
        longest = self.segments.longest
        count = min(MATCHES_ROOM, most or MATCHES_ROOM)
        narrow = self._is_narrow()
        cursor = np.zeros(5, np.int64)
        frames = np.zeros((longest + 1, kernel.FRAME), np.int64)
        limits, dead, dead_limits = self._room_of_limits()
        status = kernel.FULL
        out = _room_of_matches(min(count, TRIAL) if narrow else count, longest)
        while status != kernel.DONE:
            status = kernel.list_matches(
                self.graph, self.data, self.arrays, self.pushed, self.semantics, cursor, frames,
                limits, dead, dead_limits, *out,
            )  # fmt: skip
            if status == kernel.MISSING:
                self.load_mask(int(cursor[kernel.WANTED]))
                continue
            matches, trigger = int(cursor[kernel.COUNT]), int(cursor[kernel.TRIGGER])
            cursor[kernel.COUNT] = cursor[kernel.BINDINGS] = 0
            if narrow and status == kernel.FULL and matches >= DENSE * trigger:
                # The matches of an unfinished trigger are listed again.
                matches = int(np.searchsorted(out[0][:matches], trigger))
                if matches:
                    yield self._found(matches, *out)
                yield from list_by_earlier_rows(self, count, trigger, self._room_of_limits())
                return
            narrow = False
            if matches:
                yield self._found(matches, *out)
                # Matches keep these arrays, so that nothing is copied.
                out = _room_of_matches(count, longest)

    def _found(
        self, matches: int, out_trigger: NDArray[np.int64], out_ptr: NDArray[np.int64],
        out_row: NDArray[np.int64], out_variable: NDArray[np.int8],
    ) -> Found:  # fmt: skip
        """Name what the kernel has written."""
        last, bindings = self.arrays.trigger_row[out_trigger[:matches]], int(out_ptr[matches])
        return Found(
            self.arrays.segment_of[last], last, out_ptr[: matches + 1],
            self.segments.rows[out_row[:bindings]], out_variable[:bindings],
        )  # fmt: skip

    def _is_narrow(self) -> bool:
        """Check whether the earlier rows that a row can follow can be kept, and follow from it."""
        if self.semantics != forward.ANY or any(r.rest for r in self.question.relations):
            return False
        return room_of_lists(self) <= LISTS_MAX

    def load_mask(self, row: int) -> None:
        """Compute the predicates that do not separate, for the block of a row."""
        self._blocks_of_masks.load(int(self.arrays.block_of[row]))

    def _room_of_limits(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Allocate buffers for conditions between distant events; see ``kernels/pushed.py``."""
        orders, states = len(self.pushed.outside), len(self.graph.variable)
        if not orders:
            none = np.zeros((0, 0, 0), np.int32)
            return none, np.zeros((0, 0), np.int64), none[None]
        behind = np.arange(len(self.order)) - self.arrays.bound
        widest = int(behind.max(initial=0)) + 1
        return (
            np.zeros((self.segments.longest + 1, orders, 2), np.int32),
            np.zeros((widest, states), np.int64),
            np.zeros((widest, states, orders, 2), np.int32),
        )

    # Before the first match ----------------------------------------------------------------------

    def _prepare(self, bound: NDArray[np.int64], choices: list[int]) -> _Arrays:
        segments, blocks = self.segments, self._blocks_of_masks
        rows, states = len(self.order), len(self.graph.variable)
        segment_of = np.repeat(np.arange(len(segments.key)), np.diff(segments.ptr))
        crowded = np.zeros(rows, np.bool_)
        alike = (self.order[1:] == self.order[:-1]) & (segment_of[1:] == segment_of[:-1])
        crowded[1:] |= alike
        crowded[:-1] |= alike
        waiting = rows if self.semantics == forward.NEXT else 0
        equal, at_rank = self._equal_predicates(segment_of)
        none = np.zeros(0, np.int64)
        return _Arrays(
            segment_of, bound, crowded, np.array(choices, np.int64), segments.chosen,
            self.pushed.need, self.pushed.marks, self._ways(),
            np.full((rows, states), -1, np.int64), np.full((rows, states), -1, np.int64),
            np.full((waiting, states), -1, np.int64), equal, at_rank, blocks.of_row, blocks.at,
            blocks.first, blocks.base, blocks.mask, none, none, none, none, none,
            np.zeros((0, 0, 0), np.int64), np.full(len(self.graph.source), -1, np.int64), none,
            np.zeros((0, 0), np.int32),
            kernel.find_first_states(
                self.graph.edge_ptr, self.graph.source, self.graph.guard_ptr
            ),
        )  # fmt: skip

    def _with_links(self, edge_kind: NDArray[np.int64]) -> _Arrays:
        """Allocate the times at which links close; see ``kernels/links.py``."""
        shape = (len(self.order), len(self.graph.variable), len(self._links.rule))
        return self.arrays._replace(
            close=np.full(shape, linked.NEVER), edge_kind=edge_kind, kind_rule=self._links.rule
        )

    def _ways(self) -> NDArray[np.int64]:
        """Mark the states that need no check of single earlier rows."""
        graph, plain = self.graph, self.semantics == forward.ANY
        ways = np.full(len(graph.variable), forward.SOMEHOW, np.int64)
        free = np.diff(graph.guard_ptr) == 0
        for state in range(len(ways)):
            edges = slice(graph.edge_ptr[state], graph.edge_ptr[state + 1])
            if (free[edges] & (graph.source[edges] < 0)).any():
                ways[state] = forward.BEGINS
            elif plain and (free[edges] & (graph.edge_pair[edges] < 0)).all():
                ways[state] = forward.SUMMED
        return ways

    def _equal_predicates(
        self, segment_of: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Find the equality predicate of each pair, and sort rows by its ranks.

        Rows of one value have consecutive ranks, in order; so few rows are checked.
        """
        ranks, pairs, _ = self._ranked
        # Contiguous matches check the previous row, whatever its value.
        contiguous = self.semantics == forward.CONTIGUOUS
        equalities = set() if contiguous else _numbers_of_equalities(self.question.relations)
        equal = np.full(len(pairs), -1, np.int64)
        at_rank = np.zeros((len(ranks.rank) if equalities else 0, len(self.order)), np.int32)
        for number, pair in enumerate(pairs):
            for predicate in (p for p in pair.predicates if p in equalities):
                equal[number] = predicate
                placed = np.flatnonzero(ranks.rank[predicate] >= 0)
                begin = self.segments.ptr[segment_of[placed]]
                at_rank[predicate, begin + ranks.rank[predicate, placed]] = placed
        return equal, at_rank

    def _find_starts(self, *, masked: bool) -> None:
        if self.semantics == forward.CONTIGUOUS and not masked and not self.template.guards:
            self._find_contiguous_starts()
            return
        if self.semantics == forward.LINKS:
            self._find_linked_starts(masked=masked)
            return
        states, longest = len(self.graph.variable), self.segments.longest
        room = _Room(
            np.zeros((states, longest), np.int64), np.zeros(states, np.int64),
            np.zeros(states, np.int64), np.zeros((longest, states), np.int64),
        )  # fmt: skip
        tables = (self.graph, self.data, self.arrays, room, self._taken(), self.semantics)
        if not masked:
            forward.find_all_starts(*tables)
            return
        for segment, first, last, opens in self._load_blocks():
            if opens:
                forward.open_segment(room)
            begin = int(self.segments.ptr[segment])
            forward.find_starts(*tables, segment, begin, first, last)

    def _find_linked_starts(self, *, masked: bool) -> None:
        shape = (len(self.graph.variable), len(self._links.rule))
        room = LinkRoom(
            np.zeros((*shape, self.segments.longest), np.int64), np.zeros(shape, np.int64)
        )
        tables = (self.graph, self.data, self.arrays, room, self._links)
        if not masked:
            linked.find_all_linked_starts(*tables)
            return
        for segment, first, last, opens in self._load_blocks():
            if opens:
                linked.open_linked_segment(room)
            linked.find_linked_starts(*tables, segment, first, last)

    def _load_blocks(self) -> Iterator[tuple[int, int, int, bool]]:
        """Load the blocks of masks in order: segment, rows, and whether a segment begins."""
        blocks = self._blocks_of_masks
        for block in range(len(blocks.at)):
            first, last = int(blocks.first[block]), int(blocks.first[block + 1])
            segment = int(self.arrays.segment_of[first])
            blocks.load(block)
            yield segment, first, last, first == int(self.segments.ptr[segment])

    def _find_contiguous_starts(self) -> None:
        graph, data, arrays = self.graph, self.data, self.arrays
        forward.find_contiguous_starts(
            data.segment_ptr, data.order, data.bits, arrays.chosen, arrays.choice, arrays.need,
            arrays.marks, graph.variable, graph.edge_ptr, graph.source, graph.edge_pair,
            graph.pair_ptr, graph.predicate, graph.outside, data.rank, data.first, data.last,
            arrays.starts, arrays.reach,
        )  # fmt: skip

    def _with_members(self, wanted: NDArray[np.bool_], turn: NDArray[np.int64]) -> _Arrays:
        """Collect the rows of every state, and those that end matches."""
        arrays, segments = self.arrays, self.segments
        states = len(self.graph.variable)
        ends = np.zeros((len(segments.key), states), np.int64)
        kernel.find_ends(self.graph, self.data, ends)
        finals = np.flatnonzero(np.diff(self.graph.way_ptr))
        ending = arrays.starts[:, finals] >= arrays.bound[:, None]
        ending &= wanted[:, None]
        ending &= self.order[:, None] >= ends[:, finals][arrays.segment_of]
        row, final = np.nonzero(ending)
        state = finals[final]
        segment = arrays.segment_of[row]
        # Rows are sorted by segment and state already; only the rest is sorted.
        last = segments.rows[row]
        place = np.argsort(last, kind="stable")
        if len(turn) and (turn != turn[0]).any():
            place = place[np.argsort(turn[segment][place], kind="stable")]
        ptr = np.zeros(len(segments.key) * states + 1, np.int64)
        member, key = np.zeros(0, np.int64), np.zeros(0, np.int64)
        before = np.zeros(
            (len(self.order) if self.semantics == forward.ANY else 0, states), np.int32
        )
        # Contiguous matches check only the directly preceding rows.
        if self.semantics == forward.LINKS:
            ptr, member, key = self._gather_linked()
        elif self.semantics != forward.CONTIGUOUS:
            held = arrays.reach >= 0
            if len(arrays.until):
                held &= arrays.until >= 0
            member, key = np.zeros((2, int(np.count_nonzero(held))), np.int64)
            kernel.gather_members(
                self.data, arrays.reach, arrays.until, self.semantics, ptr, member, key, before
            )
        return arrays._replace(
            member_ptr=ptr, member=member, member_key=key, trigger_row=row[place],
            trigger_state=state[place], before=before,
        )  # fmt: skip

    def _gather_linked(self) -> tuple[NDArray[np.int64], ...]:
        """Collect the rows of every state and kind of link."""
        arrays, segments = self.arrays, self.segments
        kinds = len(arrays.kind_rule)
        ptr = np.zeros(len(segments.key) * arrays.reach.shape[1] * kinds + 1, np.int64)
        room = int(np.count_nonzero(arrays.reach >= 0)) * kinds
        member, key = np.zeros((2, room), np.int64)
        linked.gather_linked_members(
            self.data, arrays.reach, arrays.close, arrays.kind_rule, ptr, member, key
        )
        return ptr, member, key


def _numbers_of_equalities(relations: list[Relation]) -> set[int]:
    """Collect the numbers of ranked equality predicates, as ``rank_relations`` assigns them."""
    found: set[int] = set()
    number = -1
    for relation in relations:
        places: dict[tree.Expression, int] = {}
        for comparison in relation.comparisons:
            known = places.get(comparison.prev)
            if known is None or comparison.operator == "<>":
                number += 1
                known = number
                if comparison.operator != "<>":
                    places[comparison.prev] = known
            if comparison.operator == "=":
                found.add(known)
    return found


# ---------------------------------------------------------------------------------------
# Partial equivalence: one template with a part for every choice of attributes (§4.3)


def _all_choices(question: Question, template: Template) -> tuple[Template, list[int], list[int]]:
    """Build a template whose parts each bind variables of exactly the chosen attributes.

    Also return the choice of every state, and the attributes that have a value in it.
    """
    states: list[State] = []
    edges: list[Edge] = []
    finals: list[Final] = []
    choices: list[int] = []
    seen: list[int] = []
    for chosen in range(1 << len(question.listed)):
        part, known = require_values(template, question.listed, chosen)
        base = len(states)
        states += part.states
        edges += [
            Edge(
                e.source if e.source == START else e.source + base, e.target + base, e.clear, e.hit
            )
            for e in part.edges
        ]
        finals += [Final(final.state + base, final.alternatives) for final in part.finals]
        choices += [chosen] * len(part.states)
        seen += known
    whole = Template(
        tuple(states), tuple(edges), tuple(finals), template.guards, template.text, template.span,
        template.determinised, template.shortest,
    )  # fmt: skip
    return whole, choices, seen


def _split(question: Question, segments: Segments) -> Segments:
    for number, listed in enumerate(question.listed_bits):
        apart = question.apart[number] if question.apart else None
        blocking = question.semantics is tree.Semantics.NEXT_MATCH
        codes = question.codes[number]
        segments = split_segments(
            segments, number, listed, question.aliases, codes, apart, blocking=blocking
        )
    return segments
