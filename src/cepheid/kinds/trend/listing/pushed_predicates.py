"""Push global predicates into the search for matches (§4.5).

A predicate on one event of a match is a condition on the rows of some states; one that compares two
becomes ranges of ranks, one *order* for each way in which the two can follow each other
(``kernels/pushed.py``). Predicates that cannot be pushed, or only in part, are checked on finished
matches (``global_predicates.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns
from cepheid.errors import DataError
from cepheid.events.comparisons import MIRRORED
from cepheid.expressions.evaluate import true_mask
from cepheid.kinds.trend.listing.first_last_states import (
    RoleState,
    followers,
    is_always_bound,
    tell_roles,
)
from cepheid.kinds.trend.look_back.question import Question
from cepheid.kinds.trend.look_back.relations import Comparison, rank_rows, read_relations
from cepheid.language import tree
from cepheid.patterns.segments import Segments
from cepheid.plans.plan import EdgePredicate, GlobalPredicate, PlacedEvent
from cepheid.plans.template import Template

MARKS_MAX = 60
"""Conditions on single rows, each a bit of an integer."""

_Rows = NDArray[np.bool_]
_FAR = frozenset({tree.Anchor.FIRST, tree.Anchor.LAST})


class PushedTables(NamedTuple):
    """The arrays that the kernels read.

    ``need`` are the conditions on single rows that a state requires, ``marks`` those that a row
    meets, as bits; the orders in which a state holds the earlier event are ``earlier_ptr[state]``
    to ``earlier_ptr[state + 1]`` of ``earlier``, likewise for the later one; the others are
    (order, row).
    """

    need: NDArray[np.int64]
    marks: NDArray[np.int64]
    earlier_ptr: NDArray[np.int64]
    earlier: NDArray[np.int64]
    later_ptr: NDArray[np.int64]
    later: NDArray[np.int64]
    rank: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    outside: NDArray[np.bool_]


class _Order(NamedTuple):
    """A comparison of an earlier event with a later one, and the states that hold them."""

    comparison: Comparison
    earlier: list[int]
    later: list[int]


class _Wish(NamedTuple):
    """The pushed form of one predicate: conditions on rows of states, and orders."""

    states: list[int]
    held: _Rows
    orders: list[_Order]


def split_by_role(
    template: Template, judges: Sequence[GlobalPredicate]
) -> tuple[Template, tuple[GlobalPredicate, ...]]:
    """Split the states of a template by the roles that predicates need; return these predicates."""
    pushed = tuple(judge for judge in judges if judge.events)
    if not pushed:
        return template, ()
    told = tell_roles(template, [event for judge in pushed for event in judge.events])
    return (template, ()) if told is None else (told, pushed)


class Pushing:
    """The global predicates of a search, checked as soon as their events are bound.

    Parameters
    ----------
    template
        Its states record their roles, if there is anything to push.
    pushed
        The predicates to push, as far as possible.
    """

    def __init__(
        self, question: Question, segments: Segments, template: Template,
        judges: Sequence[GlobalPredicate], pushed: Sequence[GlobalPredicate],
    ) -> None:  # fmt: skip
        self._question = question
        self._segments = segments
        self._template = template
        self._follow = followers(template) if pushed else []
        wishes: list[_Wish] = []
        done: list[GlobalPredicate] = []
        for judge in pushed:
            wish = self._wish(judge)
            if wish is None or len(wishes) >= MARKS_MAX:
                continue
            wishes.append(wish)
            far = [event for event in judge.events if event.anchor in _FAR]
            if all(is_always_bound(template, event.variable) for event in far):
                done.append(judge)
        self.rest = tuple(judge for judge in judges if judge not in done)
        self.tables = self._tables(wishes)

    def _wish(self, judge: GlobalPredicate) -> _Wish | None:
        """Convert a predicate to its pushed form; None if it must wait for finished matches."""
        columns = self._question.columns
        try:
            held = true_mask(judge.expression, _lookup(columns), len(columns.batch))
            if judge.separation is None:
                return _Wish(self._playing(judge.events[0]), held, [])
            one, other = judge.events
            edge = EdgePredicate(
                judge.expression, one.variable, other.variable, judge.separation, judge.reason
            )
            (relation,) = read_relations([edge], columns)
        except DataError:
            # The value of some event overflows, but that event need not be in any match.
            return None
        if relation.rest:
            return None
        (comparison,) = relation.comparisons
        orders = self._orders(comparison, self._playing(one), self._playing(other))
        if orders is None:
            return None
        both = sorted(set(self._playing(one)) & set(self._playing(other)))
        return _Wish(both, held, orders)

    def _playing(self, event: PlacedEvent) -> list[int]:
        states = self._template.states
        return [
            q
            for q, state in enumerate(states)
            if isinstance(state, RoleState) and state.plays(event)
        ]

    def _orders(
        self, comparison: Comparison, one: list[int], other: list[int]
    ) -> list[_Order] | None:
        mirrored = Comparison(
            MIRRORED[comparison.operator], comparison.prev, comparison.next_keys,
            comparison.next_valid, comparison.prev_keys, comparison.prev_valid,
        )  # fmt: skip
        orders = []
        for order in (_Order(comparison, one, other), _Order(mirrored, other, one)):
            if not self._can_follow(order.earlier, order.later):
                continue
            if comparison.operator == "<>" and self._can_follow(order.later, order.later):
                # For several events, `<>` leaves no single range.
                return None
            orders.append(order)
        return orders

    def _can_follow(self, earlier: list[int], later: list[int]) -> bool:
        return any(self._follow[q] & set(later) for q in earlier)

    def _tables(self, wishes: list[_Wish]) -> PushedTables:
        states, rows = len(self._template.states), self._segments.rows
        asking = [wish for wish in wishes if wish.states]
        need = np.zeros(states, np.int64)
        marks = np.zeros(len(rows) if asking else 0, np.int64)
        for number, wish in enumerate(asking):
            need[wish.states] |= 1 << number
            marks |= wish.held[rows].astype(np.int64) << number
        orders = [order for wish in wishes for order in wish.orders]
        ranked = [self._ranked(order) for order in orders]
        none = np.zeros((0, 0), np.int32)
        columns: list[Any] = [np.stack(c) for c in zip(*ranked, strict=True)] or [none] * 3
        rank, first, last = columns
        earlier_ptr, earlier = _by_state([order.earlier for order in orders], states)
        later_ptr, later = _by_state([order.later for order in orders], states)
        outside = np.array([order.comparison.operator == "<>" for order in orders], np.bool_)
        return PushedTables(
            need, marks, earlier_ptr, earlier, later_ptr, later, rank, first, last, outside
        )

    def _variables(self, states: list[int]) -> set[str]:
        """Collect the variables of states: one, or its variants (§2.12)."""
        return {self._template.states[state].variable for state in states}

    def _ranked(self, order: _Order) -> tuple[NDArray[np.int32], ...]:
        segments, names = self._segments, self._question.variables
        bound = [
            segments.bits & sum(1 << names.index(name) for name in self._variables(states)) != 0
            for states in (order.earlier, order.later)
        ]
        return rank_rows(order.comparison, segments.rows, segments.ptr, bound[0], bound[1])[:3]


def _lookup(columns: Columns) -> Any:
    return lambda attribute: columns.vector(attribute.attribute.text)


def _by_state(orders: list[list[int]], states: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Concatenate the orders of every state, with pointers."""
    mine = [[n for n, members in enumerate(orders) if q in members] for q in range(states)]
    ptr = np.cumsum([0, *(len(found) for found in mine)]).astype(np.int64)
    return ptr, np.array([n for found in mine for n in found], np.int64)
