"""Progress of a negated pattern: a small automaton over symbols.

A partial match that waits behind ``NOT SEQ(C, D)`` is in one of two places: no C has come since,
or one has. An event of C moves it from the first to the second, and one of D ends it there. So a
negated pattern of several events is a few more counts, which take their matches from each other.

Counts move at all events of one time at once (§1), so two of them must not move matches from one
place, unless both end them, and what they do together must be what the one that moves does alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, combinations
from typing import NamedTuple

from cepheid.kinds.trend.program.gaps import Items, Letter, Machine, letter_of
from cepheid.language import tree
from cepheid.patterns.symbols import Symbol
from cepheid.plans.template import State, Template

PLACES_MAX = 8
"""Places of a negated pattern; a sequence of n events has n."""

SYMBOLS_MAX = 6
"""Kinds of events of a negated pattern; all sets of them are tried."""

FOUND = -1
"""In place of a place: the negated pattern has been found."""


class Progress(NamedTuple):
    """For every place, where events of a symbol move matches from there; they begin in the first.

    Events of other symbols leave them where they are.
    """

    moves: tuple[dict[Symbol, int], ...]


def progress_of(template: Template, symbols: dict[str, Symbol], ties: tree.Ties) -> Progress | str:
    """Build the places of a negated pattern, or explain why they cannot be counts."""
    machine = Machine(template)
    if machine.looks_back:
        return "a negated pattern that looks back to the window's start"
    own = {state.variable: symbols[state.variable] for state in _all_states(template)}
    letters: dict[Symbol, frozenset[str]] = {}
    for name, symbol in own.items():
        letters[symbol] = letters.get(symbol, frozenset()) | {name}
    types = [symbol.event_type for symbol in letters]
    if len(set(types)) < len(types) or tree.ANY_TYPE in types:
        return "a negated pattern with several conditions on one type"
    if len(letters) > SYMBOLS_MAX:
        return f"a negated pattern of more than {SYMBOLS_MAX} types"
    places = [machine.opening()]
    moves: list[dict[Symbol, int]] = []
    for here in places:
        left: dict[Symbol, int] = {}
        for symbol, names in letters.items():
            after = machine.step_items(here, letter_of([names]))
            if after == here:
                continue
            if after is not None and any(item.finished for item in after):
                return "a negated pattern that ends with NOT"
            if after is not None and after not in places:
                places.append(after)
            left[symbol] = FOUND if after is None else places.index(after)
        moves.append(left)
        if len(places) > PLACES_MAX:
            return "a negated pattern with many ways"
        if ties is tree.Ties.STRICT and not _moves_once(machine, here, letters, left, places):
            return "a negated pattern that events of one time advance together"
    return Progress(tuple(moves))


def _moves_once(
    machine: Machine,
    here: Items,
    letters: dict[Symbol, frozenset[str]],
    left: dict[Symbol, int],
    places: list[Items],
) -> bool:
    """Check that events of one time move matches as the only one that moves them does."""
    for letter, own in _together(letters):
        to = [left[symbol] for symbol in own if symbol in left] or [places.index(here)]
        if len(to) > 1 and set(to) != {FOUND}:
            return False
        if machine.step_items(here, letter) != (None if to[0] == FOUND else places[to[0]]):
            return False
    return True


def _together(
    letters: dict[Symbol, frozenset[str]],
) -> Iterator[tuple[Letter, tuple[Symbol, ...]]]:
    """Yield all sets of two and more kinds of events."""
    sets: Iterable[tuple[Symbol, ...]] = chain.from_iterable(
        combinations(letters, size) for size in range(2, len(letters) + 1)
    )
    for own in sets:
        yield letter_of(letters[symbol] for symbol in own), own


def _all_states(template: Template) -> Iterator[State]:
    yield from template.states
    for guard in template.guards:
        yield from _all_states(guard.template)
