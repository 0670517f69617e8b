"""The events of a stream, and what the query says about one of them, two, or a finished match.

A transcription of docs/semantics.md §1 (order and types), §4 (predicates) and §5 (aggregates).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from cepheid.language import tree
from cepheid.testing.oracle_expressions import Leaf, Value, compute, evaluate_expression, order
from cepheid.testing.oracle_patterns import Edge, Predicates, variable_types

Event = Mapping[str, object]
Binding = tuple[str, int]
"""A variable and the number of its event in the stream."""

Match = tuple[Binding, ...]


class Stream:
    """The events of a stream, and what the query says about one of them or two."""

    def __init__(self, query: tree.Query, events: Sequence[Event], time: str, type_: str) -> None:
        self.events = events
        self.times = [int(str(event[time])) for event in events]
        assert all(a <= b for a, b in itertools.pairwise(self.times)), "events come in time order"
        kinds = [event.get(type_) for event in events]
        # Without a type column every event has every type (§1.2).
        self.event_types = kinds if any(kind is not None for kind in kinds) else None
        self.by_arrival = query.ties is not None and query.ties.ties == tree.Ties.ARRIVAL
        self.predicates = Predicates(query)
        self.variable_types = variable_types(query.pattern)

    def value(self, event_idx: int, attribute: str) -> Value:
        """Return an attribute of an event; one that the event does not have is NULL."""
        value = self.events[event_idx].get(attribute)
        assert value is None or isinstance(value, bool | int | float | str), "values are plain"
        return value

    def keys(self, event_idx: int, attributes: Iterable[str]) -> tuple[Value, ...]:
        """Return attributes such that what is equal (§4.6) is equal in Python too."""
        return tuple(_key(self.value(event_idx, attribute)) for attribute in attributes)

    def before(self, first: int, second: int) -> bool:
        """Return whether one event comes before another (§1.3, §1.4)."""
        return first < second if self.by_arrival else self.times[first] < self.times[second]

    def has_type_of(self, event_idx: int, variable: str) -> bool:
        """Return whether an event has the type of a variable (§1.2)."""
        kinds = self.event_types
        return kinds is None or kinds[event_idx] == self.variable_types[variable]

    def can_bind(self, variable: str, event_idx: int) -> bool:
        """Return whether type and local predicates of a variable fit an event (§2.4, §4.1)."""
        return self.has_type_of(event_idx, variable) and all(
            self.holds(predicate, lambda leaf: self.value(event_idx, leaf.attribute.text))
            for name, predicate in self.predicates.local
            if name == variable
        )

    def may_neighbour(self, prev: Binding, next_: Binding) -> bool:
        """Return whether all edge predicates hold between two bindings (§4.4)."""
        return all(
            self._edge_holds(edge, prev[1], next_[1])
            for edge in self.predicates.edge
            if (edge.prev, edge.next) == (prev[0], next_[0])
        )

    def _edge_holds(self, edge: Edge, prev: int, next_: int) -> bool:
        def lookup(leaf: tree.Attribute) -> Value:
            return self.value(next_ if edge.speaks_of_next(leaf) else prev, leaf.attribute.text)

        return self.holds(edge.expression, lookup)

    def agree(self, bindings: Match) -> bool:
        """Return whether bindings satisfy all equivalence predicates (§4.2, §4.3)."""
        full = [(attribute, None) for attribute in self.predicates.equal]
        for attribute, variables in [*full, *self.predicates.partly_equal.items()]:
            values = [
                self.value(event_idx, attribute)
                for variable, event_idx in bindings
                if variables is None or variable in variables
            ]
            if not all(compute("=", value, values[0]) for value in values):
                return False
        return True

    def holds(
        self,
        predicate: tree.Expression,
        attribute: Callable[[tree.Attribute], Value],
        aggregate: Callable[[tree.Aggregate], Value] | None = None,
    ) -> bool:
        """Return whether a predicate is true: neither false nor NULL (§4.6)."""

        def lookup(leaf: Leaf) -> Value:
            match leaf:
                case tree.Word(text=text):
                    return text  # §4.7
                case tree.Attribute():
                    return attribute(leaf)
            assert aggregate is not None, "only global predicates have aggregates"
            return aggregate(leaf)

        return evaluate_expression(predicate, lookup) is True

    def holds_globally(self, predicate: tree.Expression, match: Match) -> bool:
        """Return whether a predicate over a finished match is true (§4.5)."""
        leaves = [a for a in tree.walk(predicate) if isinstance(a, tree.Attribute)]
        plain = sorted({a.variable.text for a in leaves if a.anchor == tree.Anchor.EACH})
        choices = itertools.product(*(events_of(match, variable) for variable in plain))
        return all(self._chosen_holds(predicate, match, plain, choice) for choice in choices)

    def _chosen_holds(
        self, predicate: tree.Expression, match: Match, plain: list[str], choice: Sequence[int]
    ) -> bool:
        """Return whether a predicate is true if the plain variables mean the chosen events."""

        def lookup(leaf: tree.Attribute) -> Value:
            if leaf.anchor == tree.Anchor.EACH:
                chosen = choice[plain.index(leaf.variable.text)]
                return self.value(chosen, leaf.attribute.text)
            return self.anchored_value(leaf, match)

        return self.holds(predicate, lookup, lambda leaf: self.aggregate_value(leaf, [match]))

    def anchored_value(self, leaf: tree.Attribute, match: Match) -> Value:
        """Return an attribute of the first or the last event of a variable, NULL if it has none."""
        events = events_of(match, leaf.variable.text)
        if not events:
            return None
        event_idx = events[0] if leaf.anchor == tree.Anchor.FIRST else events[-1]
        return self.value(event_idx, leaf.attribute.text)

    def aggregate_value(self, aggregate: tree.Aggregate, matches: Iterable[Match]) -> Value:
        """Return an aggregate over all bindings of a variable in all matches (§5.1, §5.2)."""
        assert aggregate.variable is not None, "COUNT(*) needs no bindings"
        events = [i for match in matches for i in events_of(match, aggregate.variable.text)]
        if aggregate.attribute is None:
            return len(events)
        every = [self.value(i, aggregate.attribute.text) for i in events]
        values = [value for value in every if value is not None]
        match aggregate.function:
            case tree.AggregateFunction.COUNT:
                return len(values)
            case tree.AggregateFunction.MIN:
                return min(values, key=order, default=None)
            case tree.AggregateFunction.MAX:
                return max(values, key=order, default=None)
            case tree.AggregateFunction.SUM:
                return total(values) if values else None
            case tree.AggregateFunction.AVG:
                return compute("/", total(values), len(values)) if values else None


def events_of(match: Match, variable: str) -> list[int]:
    """Return the events bound to a variable, in order."""
    return [event_idx for name, event_idx in match if name == variable]


def total(values: Sequence[Value]) -> int | float:
    """Return a sum: exact for whole numbers, correctly rounded for doubles."""
    numbers = [value for value in values if isinstance(value, int | float)]
    assert len(numbers) == len(values), "only numbers have a sum"
    if all(isinstance(number, int) for number in numbers):
        return sum(numbers)
    return math.fsum(numbers) if all(map(math.isfinite, numbers)) else sum(numbers)


def _key(value: Value) -> Value:
    """Return one NaN for all NaNs and one zero for both; Python tells NaNs apart by identity."""
    if not isinstance(value, float):
        return value
    return math.nan if math.isnan(value) else value + 0.0
