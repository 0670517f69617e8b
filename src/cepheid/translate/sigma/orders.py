"""The condition of an ordered correlation in, its alternatives out: who comes, and who does not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sigma import correlations as sigma

from cepheid.translate.translated import CannotTranslateError

_ALTERNATIVES_MAX = 32
"""A condition of more alternatives is refused: its query would be too long to read."""

Literals = frozenset[tuple[str, bool]]
"""Rules that find an event, or none."""


class Alternative(NamedTuple):
    """Rules that find events one after another, and rules that find none in the same span."""

    found: tuple[str, ...]
    absent: tuple[str, ...]


def alternatives_of(node: Any, rules: Sequence[str]) -> list[Alternative]:
    """Take a condition with `and`, `or` and `not` apart.

    Raises
    ------
    CannotTranslateError
        If an alternative asks for no event, or there are too many.
    """
    return _told(_either(node, wanted=True), rules)


def alternatives_of_count(holds: Callable[[int], bool], rules: Sequence[str]) -> list[Alternative]:
    """List which rules find events if their number is tested.

    Raises
    ------
    CannotTranslateError
        If no number meets the test, or there are too many alternatives.
    """
    sizes = [size for size in range(1, len(rules) + 1) if holds(size)]
    if not sizes:
        message = "no number of the rules meets the condition"
        raise CannotTranslateError(message)
    # More rules do no harm if every larger number meets the test, too.
    at_least = sizes == [*range(sizes[0], len(rules) + 1)]
    found: list[Literals] = []
    for size in sizes[:1] if at_least else sizes:
        for chosen in itertools.islice(itertools.combinations(rules, size), _ALTERNATIVES_MAX + 1):
            rest = () if at_least else (one for one in rules if one not in chosen)
            found.append(frozenset((*((o, True) for o in chosen), *((o, False) for o in rest))))
    return _told(found, rules)


def _told(found: Sequence[Literals], rules: Sequence[str]) -> list[Alternative]:
    if len(found) > _ALTERNATIVES_MAX:
        message = f"the condition has more than {_ALTERNATIVES_MAX} alternatives in order"
        raise CannotTranslateError(message)
    told = [
        Alternative(*(tuple(o for o in rules if (o, kind) in one) for kind in (True, False)))
        for one in found
    ]
    if not told or not all(one.found for one in told):
        message = "an order of no events has no counterpart: `not` needs an event beside it"
        raise CannotTranslateError(message)
    return told


def _either(node: Any, *, wanted: bool) -> list[Literals]:
    """Return alternatives, none of which follows from another one."""
    match node:
        case sigma.SigmaRuleReference(reference=reference):
            return [frozenset({(reference, wanted)})]
        case sigma.CorrelationConditionNOT(args=[operand]):
            return _either(operand, wanted=not wanted)
    parts = [_either(one, wanted=wanted) for one in node.args]
    if isinstance(node, sigma.CorrelationConditionAND) == wanted:
        return _least([frozenset().union(*one) for one in _products(parts)])
    return _least([one for part in parts for one in part])


def _products(parts: list[list[Literals]]) -> Iterator[tuple[Literals, ...]]:
    for count, one in enumerate(itertools.product(*parts)):
        if count > 1 << 12:
            message = f"the condition has more than {_ALTERNATIVES_MAX} alternatives in order"
            raise CannotTranslateError(message)
        yield one


def _least(found: list[Literals]) -> list[Literals]:
    possible = [one for one in dict.fromkeys(found) if not any((o, not k) in one for o, k in one)]
    return [one for one in possible if not any(other < one for other in possible)]
