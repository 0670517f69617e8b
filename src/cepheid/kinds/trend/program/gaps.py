"""Configurations of a template: the memory of partial matches about negated patterns.

A partial match in a state remembers, for every guard that still matters to it, how far the negated
pattern has advanced since the guard became active. That is itself a set of partial matches, of the
negated template, and so on inwards. All of it is a finite immutable value, so a pattern with any
negation is a finite automaton over *letters*; a letter is the set of classes of the events of one
time, and a class is the set of variables that an event may take.

    Item      one (partial or finished) match: its state and its slots
    slot      (kind, guard) -> Items of the guard's template
    kinds     W  since the window's start, for leading guards          (§2.5 leading, §2.8)
              V  the same, for the leading guards inside a guard that begins to watch later
              B  since the item's last event, for guards between       (§2.5 between)
              P  since the item's last event, for guards trailing      (§2.5 trailing)
              M  an obligation: this trailing guard must stay clear    (trailing inside a loop)
              Z  an obligation: what was found must be withdrawn later (NOT inside NOT, trailing)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cepheid.kinds.trend.program.open_links import NOTHING, Closed, OpenLinks
from cepheid.plans.links import Links
from cepheid.plans.template import START, Edge, Place, Template

Class = frozenset[str]
"""The variables that an event may take."""
Letter = frozenset[Class]
"""The classes of all events of one time."""
SlotKey = tuple[str, int]


class Item(NamedTuple):
    """A match of a template: its state, whether it is finished, and its memory of guards.

    ``closed`` are the variables that it may no longer take, where links close (``open_links.py``).
    """

    state: int
    finished: bool
    slots: tuple[tuple[SlotKey, Items], ...]
    closed: Closed = NOTHING


Items = frozenset[Item] | None
"""The matches of a negated template; None stands for a final one: the guard is hit."""

HIT: None = None


class UndecidedGuardError(Exception):
    """A guard decides between derivations before its own outcome is known."""


class Machine:
    """A template with machines for its guards; steps items by letters."""

    def __init__(self, template: Template, links: Links | None = None) -> None:
        self.template = template
        self.links = None if links is None else OpenLinks(template, links)
        self.guards = [Machine(guard.template) for guard in template.guards]
        self.places = [guard.place for guard in template.guards]
        self.edges: dict[int, list[Edge]] = {}
        for edge in template.edges:
            self.edges.setdefault(edge.source, []).append(edge)
        self.finals = {final.state: final.alternatives for final in template.finals}
        states = [START, *range(len(template.states))]
        self.between = {s: self._watched(s, Place.BETWEEN) for s in states}
        self.trailing = {s: self._watched(s, Place.TRAILING) for s in states}
        self.leading = self._needed(states, {s: self._watched(s, Place.LEADING) for s in states})
        self.looks_back: bool
        # Guards that look back to the window's start although they become active later.
        backward = frozenset(g for g, inner in enumerate(self.guards) if inner.looks_back)
        opened = {s: (self.between[s] | self.trailing[s]) & backward for s in states}
        self.views = self._needed(
            states,
            {
                s: frozenset[int]().union(*(opened[e.target] for e in self.edges.get(s, ())))
                for s in states
            },
        )
        self.looks_back = bool(self.leading[START] or self.views[START])

    # What a state watches ------------------------------------------------------------------------

    def _watched(self, state: int, place: Place) -> frozenset[int]:
        """Collect the guards of a kind that paths from a state require."""
        asked = {g for e in self.edges.get(state, ()) for g in (*e.clear, *e.hit)}
        if place is Place.TRAILING:
            asked |= {g for way in self.finals.get(state, ()) for g in way}
        return frozenset(g for g in asked if self.places[g] is place)

    def _needed(
        self, states: list[int], own: dict[int, frozenset[int]]
    ) -> dict[int, frozenset[int]]:
        """Collect for each state the guards that it or a later state requires."""
        needed = dict(own)
        changed = True
        while changed:
            changed = False
            for s in states:
                wider = needed[s].union(*(needed[e.target] for e in self.edges.get(s, ())))
                if wider != needed[s]:
                    needed[s], changed = wider, True
        return needed

    # Items ---------------------------------------------------------------------------------------

    def opening(self) -> Items:
        """Create the items with which a guard becomes active: only the empty match."""
        return frozenset({self.start()})

    def start(self) -> Item:
        """Create the empty match at the start of a window."""
        slots = {("W", g): self.guards[g].opening() for g in self.leading[START]}
        slots |= {("V", g): self.guards[g].opening() for g in self.views[START]}
        return Item(START, False, _sorted(slots))

    def look_back(self, items: Items, letter: Letter) -> Items:
        """Advance a guard before it becomes active: only its empty match."""
        assert items is not None, "the empty match is no match"
        evolved = [self.evolve(item, letter) for item in items]
        return frozenset(item for item in evolved if item is not None)

    def step_items(self, items: Items, letter: Letter) -> Items:
        """Advance items by the events of one time; HIT once a match is final."""
        if items is None:
            return HIT
        found: set[Item] = set()
        for item in items:
            evolved = self.evolve(item, letter)
            if evolved is not None:
                found.add(evolved)
            if item.finished:
                continue
            for taken in letter:
                for new in self.extend(item, taken, letter):
                    if not new.finished:
                        found.add(new)
                        continue
                    if not new.slots:
                        return HIT
                    found.add(new)
        return frozenset(found)

    def evolve(self, item: Item, letter: Letter) -> Item | None:
        """Advance an item by events that it skips; None if it can no longer count."""
        slots: dict[SlotKey, Items] = {}
        for (kind, guard), items in item.slots:
            inner = self.guards[guard]
            after = (inner.look_back if kind == "V" else inner.step_items)(items, letter)
            if after is None and kind == "M":
                return None
            slots[kind, guard] = after
        closed = item.closed
        if self.links is not None and not item.finished:
            closed = self.links.after(item.state, closed, letter)
        if self._dead(item.state, slots, closed, finished=item.finished):
            return None
        return Item(item.state, item.finished, _sorted(slots), closed)

    def extend(self, item: Item, taken: Class, letter: Letter) -> list[Item]:
        """Extend an item by an event of a class; return unfinished and finished items."""
        new = []
        for edge in self.edges.get(item.state, ()):
            target = self.template.states[edge.target]
            if target.variable not in taken or target.variable in item.closed:
                continue
            closed = NOTHING
            if self.links is not None:
                if not self.links.takes(target.variable, taken):
                    continue
                closed = self.links.at_first(edge.source, edge.target, letter)
            slots = self._slots_after(item, edge, letter)
            if slots is None:
                continue
            if not self._dead(edge.target, slots, closed, finished=False):
                new.append(Item(edge.target, False, _sorted(slots), closed))
            new += self.finish(Item(edge.target, False, _sorted(slots)))
        return new

    def finish(self, item: Item) -> list[Item]:
        """Finish a match that may end here, as items with their obligations."""
        ways = self.finals.get(item.state)
        if ways is None:
            return []
        if () in ways:
            ways = ((),)
        watched = {g for way in ways for g in way}
        slots = {
            key: items
            for key, items in item.slots
            if key[0] in "MZ" or (key[0] == "P" and key[1] in watched)
        }
        return (
            []
            if self._dead(item.state, slots, NOTHING, finished=True)
            else [Item(item.state, True, _sorted(slots))]
        )

    def _slots_after(self, item: Item, edge: Edge, letter: Letter) -> dict[SlotKey, Items] | None:
        """Compute the slots of a match that takes an edge; None if a guard forbids it."""
        before = dict(item.slots)
        slots: dict[SlotKey, Items] = {}
        for (kind, guard), items in before.items():
            if kind in "MZ":
                slots[kind, guard] = self.guards[guard].step_items(items, letter)
        for guard in edge.clear:
            place = self.places[guard]
            if place is Place.TRAILING:
                # The oldest obligation watches longest, so it covers all later ones.
                owed = before.get(("M", guard), before["P", guard])
                slots["M", guard] = self.guards[guard].step_items(owed, letter)
                continue
            items = before["W" if place is Place.LEADING else "B", guard]
            if items is None:
                return None
            pending = frozenset(i for i in items if i.finished)
            if pending:
                after = self.guards[guard].step_items(pending, letter)
                known = slots.get(("Z", guard), frozenset())
                if after is None or known is None:
                    return None
                slots["Z", guard] = known | after
        for guard in edge.hit:
            place = self.places[guard]
            if place is Place.TRAILING:
                raise UndecidedGuardError
            items = before["W" if place is Place.LEADING else "B", guard]
            if items is not None:
                if any(i.finished for i in items):
                    raise UndecidedGuardError
                return None
        if any(kind == "M" and items is None for (kind, _), items in slots.items()):
            return None
        for guard in self.leading[edge.target]:
            slots["W", guard] = self.guards[guard].step_items(before["W", guard], letter)
        for guard in self.views[edge.target]:
            slots["V", guard] = self.guards[guard].look_back(before["V", guard], letter)
        for kind, watched in (("B", self.between), ("P", self.trailing)):
            for guard in watched[edge.target]:
                inner = self.guards[guard]
                known = before.get(("V", guard))
                slots[kind, guard] = (
                    inner.look_back(known, letter) if known is not None else inner.opening()
                )
        return slots

    # Ends ----------------------------------------------------------------------------------------

    def holds(self, item: Item) -> bool:
        """Check whether a finished match counts when the window ends now."""
        slots = dict(item.slots)
        for (kind, guard), items in slots.items():
            if kind in "MZ" and not self.guards[guard].clear(items):
                return False
        ways = self.finals[item.state]
        return any(all(self.guards[g].clear(slots["P", g]) for g in way) for way in ways)

    def clear(self, items: Items) -> bool:
        """Check that no match of a negated pattern counts when the window ends now."""
        if items is None:
            return False
        return not any(item.finished and self.holds(item) for item in items)

    def _dead(
        self, state: int, slots: dict[SlotKey, Items], closed: Closed, *, finished: bool
    ) -> bool:
        """Check whether an item can neither continue nor count, whatever comes."""
        if any(kind == "M" and items is None for (kind, _), items in slots.items()):
            return True
        ways = self.finals.get(state, ())
        countable = any(all(slots.get(("P", g), ()) is not None for g in way) for way in ways)
        if finished:
            return not countable
        return not countable and not any(
            self.template.states[edge.target].variable not in closed and self._open(edge, slots)
            for edge in self.edges.get(state, ())
        )

    def _open(self, edge: Edge, slots: dict[SlotKey, Items]) -> bool:
        """Check whether an edge can still be taken: no guard that must be clear was hit."""
        for guard in edge.clear:
            if self.places[guard] is Place.TRAILING:
                hit = slots.get(("P", guard), ()) is None
            else:
                kind = "W" if self.places[guard] is Place.LEADING else "B"
                hit = slots.get((kind, guard), ()) is None
            if hit:
                return False
        return True


def _sorted(slots: dict[SlotKey, Items]) -> tuple[tuple[SlotKey, Items], ...]:
    return tuple(sorted(slots.items(), key=lambda slot: slot[0]))


def letter_of(classes: Iterable[Class]) -> Letter:
    """Build the letter of events of one time; empty classes are ignored."""
    return frozenset(c for c in classes if c)
