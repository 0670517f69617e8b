"""Count segments for many values of a bound between neighbours at once (``kernels/sweep_edges``).

One comparison differs from query to query. Its keys on either side are computed as each query
would, so that every value has exactly the rows of its own run. The order of earlier events is that
of the first value; if another value turns it round, its queries run one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.prefix import PREFIX
from cepheid.kernels.ranks import order_rows
from cepheid.kernels.sweep_edges import count_lanes, find_bounds
from cepheid.kinds.trend.look_back.evaluate import answer_segments
from cepheid.kinds.trend.look_back.prefix_sums import PrefixTables, has_prefix_form, prepare
from cepheid.kinds.trend.look_back.question import Question
from cepheid.kinds.trend.look_back.relations import Comparison, read_relations
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.patterns.segments import Segments, take
from cepheid.plans.plan import EdgePredicate

Numbers = NDArray[np.int64]

LANES_MAX = 32
"""Values that are counted at once: their trees are to stay in the processor's cache."""

NUMBERS_MAX = 1 << 24
"""Numbers of trees, and bounds, that are in memory at once."""


class _Order(NamedTuple):
    """Rows of segments by the keys of the first value, and where each segment begins."""

    rows: Numbers
    ptr: Numbers

    @staticmethod
    def of(segments: Segments, chosen: NDArray[np.bool_], keys: Numbers) -> _Order:
        """Sort some rows of every segment."""
        count = len(segments.key)
        some = np.flatnonzero(chosen)
        segment = np.repeat(np.arange(count), np.diff(segments.ptr))[some]
        order = np.lexsort((keys[segments.rows[some]], segment))
        ends = np.cumsum(np.bincount(segment, minlength=count))
        return _Order(some[order], np.concatenate([[0], ends]).astype(np.int64))


class EdgeLanes:
    """Queries that count, and differ in one comparison."""

    def __init__(self, jobs: Sequence[Job], edge: int) -> None:
        self.jobs, self._edge = jobs, edge

    @staticmethod
    def of(jobs: Sequence[Job]) -> EdgeLanes | None:
        """Create the lanes of queries; None if they do more than count, or differ in more."""
        first = jobs[0]
        counts_only = len(first.parts) == 1 and not first.extremes and not first.moduli
        if len(first.templates) > 1 or not counts_only or first.plan.partition.partial:
            return None
        if first.templates[0].guards:
            return None
        edges = [job.plan.edges for job in jobs]
        if any(len(own) != len(edges[0]) for own in edges):
            return None
        differ = [n for n, own in enumerate(zip(*edges, strict=True)) if len(set(own)) > 1]
        if len(differ) != 1:
            return None
        return EdgeLanes(jobs, differ[0])

    def rows(self, question: Question, segments: Segments) -> Iterator[list[Rows]]:
        """Compute the rows of segments, for one query after the other."""
        (template,) = self.jobs[0].templates
        asked = question._replace(
            relations=read_relations(self.jobs[0].plan.edges, question.columns)
        )
        swept = self._swept(asked)
        if swept is None or not len(segments.rows) or not has_prefix_form(asked, template):
            yield from (self._alone(question, job, segments) for job in self.jobs)
            return
        pass_ = _Pass(self, asked, segments, swept)
        width = int(min(LANES_MAX, max(NUMBERS_MAX // pass_.size, 1)))
        for begin in range(0, len(self.jobs), width):
            jobs = self.jobs[begin : begin + width]
            found = pass_.count([job.plan.edges[self._edge] for job in jobs])
            if found is None:
                yield from (self._alone(question, job, segments) for job in jobs)
                continue
            numbers, lost = found
            if lost.any():
                self._replace_lost(question, segments, jobs, numbers, np.flatnonzero(lost))
            for lane in range(len(jobs)):
                yield [_rows(segments, numbers[:, lane, None])]

    def _swept(self, question: Question) -> int | None:
        """Return the number of the relation that differs, if it is one comparison by order."""
        edge = self.jobs[0].plan.edges[self._edge]
        names = (edge.prev_variable, edge.next_variable)
        for number, relation in enumerate(question.relations):
            if (relation.prev, relation.next) == names:
                ordered = len(relation.comparisons) == 1 and not relation.rest
                if ordered and relation.comparisons[0].operator in ("<", "<=", ">", ">="):
                    return number
        return None

    def _alone(self, question: Question, job: Job, segments: Segments) -> list[Rows]:
        numbers = self._answer(question, job, segments)
        return [_rows(segments, numbers)]

    @staticmethod
    def _answer(question: Question, job: Job, segments: Segments) -> NDArray[Any]:
        asked = question._replace(
            relations=read_relations(job.plan.edges, question.columns),
            evaluator=job.plan.choice.evaluator,
        )
        return answer_segments(asked, job.templates[0], segments, ())[0].numbers

    def _replace_lost(
        self, question: Question, segments: Segments, jobs: Sequence[Job], numbers: NDArray[Any],
        lost: Numbers,
    ) -> None:  # fmt: skip
        """Count segments whose numbers are beyond doubles as each query does."""
        some = segments.take(lost)
        for lane, job in enumerate(jobs):
            numbers[lost, lane] = self._answer(question, job, some)[:, 0]


class _Pass:
    """Segments with all that values have in common."""

    def __init__(
        self, lanes: EdgeLanes, question: Question, segments: Segments, relation: int
    ) -> None:
        self._question, self._segments = question, segments
        (template,) = lanes.jobs[0].templates
        rows, bits = segments.rows, segments.bits
        self._tables, place, self._upto = prepare(question, template, rows, segments.ptr, bits)
        self._order = np.empty(len(rows), np.int64)
        times = take(question.arrays.ts, rows)
        self._widest = order_rows(segments.ptr, times, question.together, self._order)
        own = question.relations[relation]
        # `<>` has two look-ups.
        self._query = sum(
            1 + (r.comparisons[0].operator == "<>") for r in question.relations[:relation]
        )
        first, second = (question.variables.index(name) for name in (own.prev, own.next))
        self._earlier, self._later = (bits >> number & 1 == 1 for number in (first, second))
        self._comparison: Comparison = own.comparisons[0]
        self._earlier = self._known(self._earlier, self._comparison.prev_valid)
        self._sorted = _Order.of(segments, self._earlier, self._comparison.prev_keys)
        self._asking = _Order.of(segments, self._later, self._comparison.next_keys)
        self._place = place.copy()
        self._place[self._swept_indexes(self._tables)] = self._places()

    @property
    def size(self) -> int:
        """Count the numbers of one lane."""
        trees = max(len(self._tables.index_kind), 1)
        return (self._segments.longest + 1) * trees + len(self._segments.rows)

    def _swept_indexes(self, tables: PrefixTables) -> Numbers:
        found = tables.query_index[tables.query == self._query]
        assert (tables.index_kind[found] == PREFIX).all(), "it compares by order"
        return np.unique(found)

    @property
    def _backwards(self) -> bool:
        return self._comparison.operator in (">", ">=")

    def _known(self, rows: NDArray[np.bool_], valid: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        return rows if valid is None else rows & valid[self._segments.rows]

    def _places(self) -> NDArray[np.int32]:
        """Count the earlier rows of each segment in their order, or against it."""
        rows, ptr = self._sorted
        counts = np.diff(ptr)
        number = np.arange(len(rows)) - np.repeat(ptr[:-1], counts)
        if self._backwards:
            number = np.repeat(counts, counts) - 1 - number
        place = np.full(len(self._segments.rows), -1, np.int32)
        place[rows] = number
        return place

    def count(
        self, edges: Sequence[EdgePredicate]
    ) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
        """Count the matches of all segments for some values; None if one turns the order round.

        The second array marks segments whose counts are too large.
        """
        bounds = self._bounds(edges)
        if bounds is None:
            return None
        segments, tables, lanes = self._segments, self._tables, len(edges)
        states, room = len(tables.variable), segments.longest + 1
        numbers = np.zeros((len(segments.key), lanes), np.complex128)
        lost = np.zeros(len(segments.key), np.bool_)
        count_lanes(
            tables, segments.ptr, self._order, segments.bits, self._place, self._upto,
            self._query, bounds, room, lanes,
            np.zeros(max(len(tables.index_kind), 1) * room * lanes),
            np.zeros((states + 1) * lanes), np.zeros(self._widest * states * lanes), numbers, lost,
        )  # fmt: skip
        return numbers, lost

    def _bounds(self, edges: Sequence[EdgePredicate]) -> NDArray[np.int32] | None:
        rows, lanes, comparison = self._segments.rows, len(edges), self._comparison
        (order, ptr), (asking, asking_ptr) = self._sorted, self._asking
        bounds = np.full(len(rows) * lanes, -1, np.int32)
        # Segments meet where an order need not go on.
        meets = np.zeros(max(len(order) - 1, 0), np.bool_)
        meets[ptr[(ptr > 0) & (ptr < len(order))] - 1] = True
        earlier, later = rows[order], rows[asking]
        for lane, edge in enumerate(edges):
            (relation,) = read_relations([edge], self._question.columns)
            if relation.rest or len(relation.comparisons) != 1:
                return None
            own = relation.comparisons[0]
            same = own.operator == comparison.operator
            if not same or not _same_mask(own.prev_valid, comparison.prev_valid):
                return None
            prev_keys = own.prev_keys[earlier]
            if not (meets | (prev_keys[1:] >= prev_keys[:-1])).all():
                return None
            find_bounds(
                ptr, asking_ptr, asking, prev_keys, own.next_keys[later],
                own.operator in ("<", ">="), self._backwards, lane, lanes, bounds,
            )  # fmt: skip
            if own.next_valid is not None:
                bounds.reshape(-1, lanes)[~own.next_valid[rows], lane] = -1
        return bounds


def _same_mask(one: NDArray[np.bool_] | None, two: NDArray[np.bool_] | None) -> bool:
    if one is None or two is None:
        return one is two
    return bool(np.array_equal(one, two))


def _rows(segments: Segments, numbers: NDArray[Any]) -> Rows:
    some = np.flatnonzero(numbers[:, 0].real > 0)
    values = np.zeros((len(some), 0), np.int64)
    return Rows(segments.key[some], segments.window[some], numbers[some], values)
