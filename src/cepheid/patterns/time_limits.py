"""Compute how far apart in time the events of a match can be, from what a query says of it.

Körber's thesis (section 3.4.4) shortens replay intervals by the least and the largest time between
two adjacent symbols. Here they come from the conditions on times (``NEXT(A).ts <= A.ts + 5``), from
the window and from the order of the pattern. All of them are differences with bounds, and so are
what follows from them: the shortest paths of a simple temporal network.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import permutations
from typing import NamedTuple

from cepheid.language import tree
from cepheid.patterns.required import comes_before, is_required
from cepheid.plans.plan import TrendPlan, WindowKind
from cepheid.plans.template import START, Template

UNBOUNDED = 1 << 61
"""More ticks than lie between any two times."""

FIRST, LAST = 0, 1
"""The first and the last event of a match; those of the n-th symbol are 2n + 2 and 2n + 3."""

_DOUBLE_EXACT = 2.0**53
_NANOSECONDS = 1000

Pair = tuple[str, str]
_Event = tuple[str, tree.Anchor]


class Limits(NamedTuple):
    """The least and the largest time from one event to another."""

    least: int
    most: int


class Reach(NamedTuple):
    """The distances between the events of a match, in ticks.

    Attributes
    ----------
    most
        The largest time from one event to another, by their numbers. Negative: it comes earlier.
    possible
        Whether any times satisfy all conditions.
    conditions
        The conditions on times that were used.
    """

    most: tuple[tuple[int, ...], ...]
    possible: bool
    conditions: tuple[tree.Expression, ...]

    def between(self, earlier: int, later: int) -> Limits:
        """Compute the least and the largest time from one event to another."""
        return Limits(-self.most[later][earlier], self.most[earlier][later])


def reach_of_symbols(plan: TrendPlan, symbols: Sequence[Collection[str]]) -> Reach:
    """Compute the distances between the first and last events of a match and of its symbols.

    Parameters
    ----------
    symbols
        Sets of variables; every match binds one of each, in this order.
    """
    template = plan.patterns[0]
    strict = int(plan.ties is tree.Ties.STRICT)
    links, used = _links_of(plan, strict)
    names = [frozenset(symbol) for symbol in symbols]
    known = {name for symbol in names for name in symbol}
    # Conditions on a whole match may be about other variables that it has.
    others = [name for name in template.variables() if name not in known]
    names += [frozenset([name]) for name in others if is_required(template, {name})]
    network = _Network(len(names))
    longest = plan.window.within - 1 if plan.window.kind in _TIMED else UNBOUNDED
    network.limit(FIRST, LAST, Limits(0, longest))
    for number, own in enumerate(names):
        _place(network, template, links, number, own)
    for one, other in permutations(range(len(names)), 2):
        if comes_before(template, names[one], names[other]):
            _order(network, template, links, strict, (one, names[one]), (other, names[other]))
    used += _whole_match(plan, network, names)
    most, possible = network.closed()
    return Reach(most, possible, tuple(used))


_TIMED = (WindowKind.TUMBLING, WindowKind.SLIDING, WindowKind.TRAILING)


class _Network:
    """A simple temporal network: bounds of the differences of times."""

    def __init__(self, symbols: int) -> None:
        size = 2 + 2 * symbols
        self._most = [[0 if a == b else UNBOUNDED for b in range(size)] for a in range(size)]

    def at_most(self, earlier: int, later: int, most: int) -> None:
        """Bound the time from one event to another."""
        self._most[earlier][later] = min(self._most[earlier][later], most)

    def limit(self, earlier: int, later: int, limits: Limits) -> None:
        """Bound the time from one event to another on both sides."""
        self.at_most(earlier, later, limits.most)
        self.at_most(later, earlier, -limits.least)

    def closed(self) -> tuple[tuple[tuple[int, ...], ...], bool]:
        """Compute all bounds that follow, and whether any times satisfy them."""
        most = [row.copy() for row in self._most]
        for middle in range(len(most)):
            for row in most:
                if row[middle] >= UNBOUNDED:
                    continue
                for end, step in enumerate(most[middle]):
                    if step < UNBOUNDED:
                        row[end] = min(row[end], row[middle] + step)
        possible = all(most[n][n] >= 0 for n in range(len(most)))
        return tuple(map(tuple, most)), possible


def _place(
    network: _Network,
    template: Template,
    links: Mapping[Pair, Limits],
    number: int,
    names: frozenset[str],
) -> None:
    """Bound the times from the first event of a match to a symbol, and from it to the last one."""
    first, last = 2 + 2 * number, 3 + 2 * number
    states = _states(template, names)
    finals = frozenset(final.state for final in template.finals)
    starts = frozenset(template.starts)
    network.limit(FIRST, first, _path(template, links, starts, states, states))
    network.limit(last, LAST, _path(template, links, states, finals, states, leaves=True))
    repeats = bool(_reached(template, states, frozenset()) & states)
    network.limit(first, last, Limits(0, UNBOUNDED if repeats else 0))
    network.limit(FIRST, last, Limits(0, UNBOUNDED))
    network.limit(first, LAST, Limits(0, UNBOUNDED))


def _order(
    network: _Network,
    template: Template,
    links: Mapping[Pair, Limits],
    strict: int,
    one: tuple[int, frozenset[str]],
    other: tuple[int, frozenset[str]],
) -> None:
    """Bound the time from one symbol to one that no match has before it."""
    sources, targets = _states(template, one[1]), _states(template, other[1])
    first = Limits(strict, UNBOUNDED)
    network.limit(2 + 2 * one[0], 2 + 2 * other[0], first)
    if not _reached(template, targets, frozenset()) & sources:
        # Its last event is before the first one of the other, too.
        stops = sources | targets
        found = _path(template, links, sources, targets, stops, leaves=True)
        network.limit(3 + 2 * one[0], 2 + 2 * other[0], found)


# ---------------------------------------------------------------------------------------
# Paths


def _states(template: Template, names: Collection[str]) -> frozenset[int]:
    return frozenset(n for n, state in enumerate(template.states) if state.variable in names)


def _reached(template: Template, sources: frozenset[int], stops: frozenset[int]) -> frozenset[int]:
    """Collect the states that edges lead to, from some states on, up to those that stop."""
    found: set[int] = set()
    waiting = list(sources)
    while waiting:
        source = waiting.pop()
        for edge in template.edges:
            if edge.source == source and edge.target not in found:
                found.add(edge.target)
                if edge.target not in stops:
                    waiting.append(edge.target)
    return frozenset(found)


def _path(
    template: Template,
    links: Mapping[Pair, Limits],
    sources: frozenset[int],
    targets: frozenset[int],
    stops: frozenset[int],
    *,
    leaves: bool = False,
) -> Limits:
    """Bound the time along all paths between some states that enter none of some others before.

    Parameters
    ----------
    leaves
        A path begins with the edge that leaves a source, which may be a state that stops.
    """
    least = dict.fromkeys(sources, 0)
    most = dict(least)
    names = [state.variable for state in template.states]
    inner = [edge for edge in template.edges if edge.source != START]
    useful = _leading_to(template, targets, stops)
    for turn in range(2 * len(names) + 1):
        changed = False
        for edge in inner:
            source, target = edge.source, edge.target
            blocked = source in stops and not (leaves and source in sources)
            if source not in most or blocked or (target not in useful and target not in targets):
                continue
            if leaves and target in sources and target in stops:
                continue  # Behind its last event, a symbol does not come again.
            link = links[names[source], names[target]]
            low = least[source] + link.least
            high = min(most[source] + link.most, UNBOUNDED)
            if turn > len(names) and high > most.get(target, -1):
                high = UNBOUNDED  # A loop.
            if low < least.get(target, UNBOUNDED) or high > most.get(target, -1):
                least[target] = min(low, least.get(target, UNBOUNDED))
                most[target] = max(high, most.get(target, -1))
                changed = True
        if not changed:
            break
    ends = [state for state in targets if state in most]
    if not ends:
        return Limits(0, UNBOUNDED)
    return Limits(min(least[state] for state in ends), max(most[state] for state in ends))


def _leading_to(
    template: Template, targets: frozenset[int], stops: frozenset[int]
) -> frozenset[int]:
    """Collect the states from which some states can be reached, past none that stops."""
    found = set(targets)
    grown = True
    while grown:
        more = {
            edge.source
            for edge in template.edges
            if edge.target in found and edge.source not in stops and edge.source != START
        }
        grown = not more <= found
        found |= more
    return frozenset(found)


# ---------------------------------------------------------------------------------------
# Conditions


def _links_of(plan: TrendPlan, strict: int) -> tuple[dict[Pair, Limits], list[tree.Expression]]:
    """Bound the time from one event of a match to the next one, by their variables."""
    names = plan.patterns[0].variables()
    links = {(one, other): Limits(strict, UNBOUNDED) for one in names for other in names}
    used = []
    for edge in plan.edges:
        pair = edge.prev_variable, edge.next_variable
        if pair not in links:
            continue  # In a NOT.
        earlier, later = (pair[0], tree.Anchor.EACH), (pair[1], tree.Anchor.NEXT)
        for one, other, most in differences(edge.expression, plan):
            least, largest = links[pair]
            if (one, other) == (earlier, later):
                links[pair] = Limits(least, max(min(largest, most), -1))
            elif (one, other) == (later, earlier):
                links[pair] = Limits(max(least, min(-most, UNBOUNDED - 1)), largest)
            else:
                continue
            used.append(edge.expression)
    return links, used


def _whole_match(
    plan: TrendPlan, network: _Network, names: Sequence[frozenset[str]]
) -> list[tree.Expression]:
    """Add the conditions on whole matches: the first and the last events of variables."""
    numbers = {next(iter(own)): n for n, own in enumerate(names) if len(own) == 1}

    def events(event: _Event) -> list[int]:
        variable, anchor = event
        if variable not in numbers:
            return []
        first, last = 2 + 2 * numbers[variable], 3 + 2 * numbers[variable]
        ends = {tree.Anchor.FIRST: [first], tree.Anchor.LAST: [last]}
        # A plain attribute stands for every event of the variable in turn (§4.5).
        return ends.get(anchor, [first, last] if anchor is tree.Anchor.EACH else [])

    used = []
    for condition in plan.globals:
        for earlier, later, most in differences(condition.expression, plan):
            pairs = [(a, b) for a in events(earlier) for b in events(later)]
            for one, other in pairs:
                network.at_most(one, other, most)
            if pairs:
                used.append(condition.expression)
    return used


def differences(
    condition: tree.Expression, plan: TrendPlan
) -> Iterator[tuple[_Event, _Event, int]]:
    """Read a condition as bounds of the time between two events: earlier, later, at most.

    Only exact readings count; of any other condition there is none.
    """
    if not isinstance(condition, tree.Binary):
        return
    operator, left, right = condition.operator, condition.left, condition.right
    if isinstance(left, tree.Call) and left.function == "ABS" and operator in ("<", "<="):
        inner = _linear(left.arguments[0], plan)
        bound = _linear(right, plan)
        if inner is not None and bound is not None and not bound[0]:
            yield from _bounded(inner, bound, operator)
            yield from _bounded(_scaled(inner, -1), bound, operator)
        return
    one, other = _linear(left, plan), _linear(right, plan)
    if one is None or other is None:
        return
    if operator in ("<", "<=", "="):
        yield from _bounded(one, other, operator)
    if operator in (">", ">=", "="):
        yield from _bounded(other, one, operator.replace(">", "<"))


_Linear = tuple[dict[_Event, int], Fraction]
"""A sum of times, each with a factor, and a constant."""


def _bounded(small: _Linear, large: _Linear, operator: str) -> Iterator[tuple[_Event, _Event, int]]:
    """Read ``small operator large`` as the bound of a difference of two times."""
    terms, constant = _plus(small, _scaled(large, -1))
    later = [event for event, factor in terms.items() if factor == 1]
    earlier = [event for event, factor in terms.items() if factor == -1]
    if len(terms) != 2 or len(later) != 1 or len(earlier) != 1:
        return
    most = math.ceil(-constant) - 1 if operator == "<" else math.floor(-constant)
    if abs(most) < UNBOUNDED // 4:
        yield earlier[0], later[0], most


def _linear(expression: tree.Expression, plan: TrendPlan) -> _Linear | None:
    """Read an expression as a sum of times of events and a constant, in ticks."""
    match expression:
        case tree.Attribute(variable=variable, attribute=attribute, anchor=anchor):
            if attribute.text != plan.time:
                return None
            return {(variable.text, anchor): 1}, Fraction(0)
        case tree.Duration(microseconds=length):
            return {}, Fraction(length * _NANOSECONDS, plan.tick_ns)
        case tree.Literal(value=int() as value) if not isinstance(value, bool):
            return {}, Fraction(value)
        case tree.Literal(value=float() as value) if abs(value) < _DOUBLE_EXACT:
            return {}, Fraction(value)
        case tree.Unary(operator="-", operand=operand):
            found = _linear(operand, plan)
            return None if found is None else _scaled(found, -1)
        case tree.Binary(operator=("+" | "-") as operator, left=left, right=right):
            one, other = _linear(left, plan), _linear(right, plan)
            if one is None or other is None:
                return None
            if any(part[1].denominator != 1 for part in (one, other)):
                return None  # A sum with a double is rounded.
            return _plus(one, other if operator == "+" else _scaled(other, -1))
    return None


def _plus(one: _Linear, other: _Linear) -> _Linear:
    terms = dict(one[0])
    for event, factor in other[0].items():
        terms[event] = terms.get(event, 0) + factor
    return {event: factor for event, factor in terms.items() if factor}, one[1] + other[1]


def _scaled(part: _Linear, factor: int) -> _Linear:
    return {event: own * factor for event, own in part[0].items()}, part[1] * factor
