"""List matches by a walk over the events in time order, where no earlier event is looked up.

This is so under skip-till-next-match and skip-till-any-match without edge predicates
(``kernels/walk.py``, ``kernels/paths.py``), and under contiguous where no two events of a key have
one time (``kernels/neighbours.py``); and where a match is one event, by a filter. Nothing is sorted
by key. The matches and their order are those of ``Lister``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels import neighbour_sets, neighbours, paths, walk
from cepheid.kinds.trend.listing.enumerate import BINDINGS_ROOM, MATCHES_ROOM
from cepheid.kinds.trend.listing.found import Aligned, Found
from cepheid.kinds.trend.listing.neighbour_sets import set_tables
from cepheid.kinds.trend.look_back.question import Question
from cepheid.kinds.trend.look_back.relations import COMPARE, Relation
from cepheid.language import tree
from cepheid.plans.template import START, Template

PAIRS_MAX = 62
"""Pairs of variables with conditions; each has a bit, and the next one is always set."""
RECORDS_MAX = 1 << 31
"""Numbers of all records together, which are of 32 bits."""
COUNTED_MAX = 16
"""Variables of which each set has a number of its own."""
TABLED_MAX = 8
"""Variables of which all sets are in tables, whether or not events have them."""
ROOM_MAX = 1 << 24
"""So many numbers get room without being counted: memory that nobody writes to costs nothing."""
_FREE = (tree.Semantics.NEXT_MATCH, tree.Semantics.ANY_MATCH)
"""Semantics under which the place of an event among all others does not matter."""
FRAME = 4
"""Numbers of a frame, of either kind."""

Read = Callable[..., int]
"""Writes matches into buffers; see ``kernels/walk.py``."""


class _Tables(NamedTuple):
    """The states and edges of a template; see ``kernels/walk.py`` and ``neighbours.py``."""

    variable: NDArray[np.int64]
    allowed: NDArray[np.int64]
    edge_ptr: NDArray[np.int64]
    source: NDArray[np.int64]
    pair: NDArray[np.int64]
    list_count: NDArray[np.int64]
    final: NDArray[np.bool_]


class _Sets(NamedTuple):
    """The sets of variables that events fit: that of each event, and for each set some lists.

    ``states`` are the states of its variables, ``takes`` those whose partial matches an event of
    the set takes away from later ones: where the list of each set begins, and all lists.
    """

    kind: NDArray[np.int64]
    states: tuple[NDArray[np.int64], NDArray[np.int64]]
    takes: tuple[NDArray[np.int64], NDArray[np.int64]]


def is_walked(question: Question, template: Template) -> bool:
    """Check whether a walk can list the matches of a template, unless events have one time."""
    if template.guards or question.listed or question.links is not None:
        return False
    if is_one_event(template):
        return True
    if question.semantics in _FREE:
        return not question.relations
    if question.semantics is not tree.Semantics.CONTIGUOUS:
        return False
    return len(question.relations) <= PAIRS_MAX and not any(r.rest for r in question.relations)


def is_one_event(template: Template) -> bool:
    """Check whether every match is one event of one variable; NOT has variants of it (§2.12)."""
    return template.single and len(template.finals) == 1


class Walker:
    """Lists the matches of events in time order.

    Parameters
    ----------
    stamp, low
        The time or number of each event, and the least one of the first event of its match.
    windowed
        Whether that is a bound.

    Attributes
    ----------
    fits
        Whether these events can be walked.
    """

    def __init__(
        self, question: Question, template: Template, stamp: NDArray[np.int64],
        low: NDArray[np.int64], *, windowed: bool,
    ) -> None:  # fmt: skip
        self.question, self.template, self._windowed = question, template, windowed
        self.stamp, self.low = stamp, low
        self.fits = self._single = is_one_event(template)
        if self._single:
            return
        self.tables = _tables(question, template)
        self.key = _dense(question.arrays.key)
        self.key_count = int(self.key.max(initial=-1)) + 1
        self._previous = np.zeros(0, np.int64)
        if question.semantics is tree.Semantics.CONTIGUOUS:
            self._previous = np.empty(len(self.key), np.int64)
            tied = neighbours.find_previous(
                self.key, question.arrays.ts, np.full(self.key_count, -1), self._previous
            )
            self.fits = not (question.together and tied)
        else:
            self.fits = self._count_numbers() < RECORDS_MAX

    def _count_numbers(self) -> int:
        """Compute the numbers of all records, if every event is in every state that it fits."""
        sizes = walk.LISTS + self.tables.list_count
        return int((self._count_in_states() * sizes).sum())

    def _count_records(self) -> int:
        """Compute the maximum number of records."""
        return int(self._count_in_states().sum())

    @cached_property
    def _is_roomy(self) -> bool:
        """Check whether there is room for every event in every state."""
        sizes = walk.LISTS + self.tables.list_count
        return len(self.key) * int(sizes.sum()) <= ROOM_MAX

    def _count_in_states(self) -> NDArray[np.int64]:
        """Count the events that may fit the variable of each state."""
        variables = self.tables.variable.tolist()
        if self._is_roomy:
            return np.full(len(variables), len(self.key))
        fitting = {v: self._count_fitting(1 << v) for v in set(variables)}
        return np.array([fitting[v] for v in variables], np.int64)

    def _count_fitting(self, mask: int) -> int:
        """Count the events that may bind one of some variables."""
        kinds, counts = self._kinds
        return int(counts[kinds & mask != 0].sum())

    @cached_property
    def _kinds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count the events of each set of variables: a pass for each variable takes longer."""
        bits = self.question.arrays.bits
        if len(self.question.variables) > COUNTED_MAX:
            return np.unique(bits, return_counts=True)
        counts = np.bincount(bits)
        some = np.flatnonzero(counts)
        return some, counts[some]

    def batches(
        self, wanted: NDArray[np.bool_], most: int | None = None
    ) -> Iterator[Found | Aligned]:
        """List the matches that end with a wanted event, in the order of their last events."""
        assert self.fits, "some events need a Lister"
        room = min(MATCHES_ROOM, most or MATCHES_ROOM)
        if self._single:
            return self._filter(wanted, room)
        if self.question.semantics is tree.Semantics.CONTIGUOUS:
            return self._fill(self._walk_neighbours(wanted), room)
        path = _path(self.template)
        if path is not None:
            return self._walk_path(path, wanted, room)
        return self._fill(self._walk_lists(wanted), room)

    def _filter(self, wanted: NDArray[np.bool_], room: int) -> Iterator[Found]:
        """List the events that are matches by themselves."""
        (final,) = self.template.finals
        variable = self.question.variables.index(self.template.states[final.state].variable)
        every = np.flatnonzero(wanted & (self.question.arrays.bits & (1 << variable) != 0))
        for begin in range(0, len(every), room):
            rows = every[begin : begin + room]
            none, names = np.zeros(len(rows), np.int64), np.full(len(rows), variable, np.int8)
            yield Found(none, rows, np.arange(len(rows) + 1), rows, names)

    def _walk_lists(self, wanted: NDArray[np.bool_]) -> Read:
        arrays, tables = self.question.arrays, self.tables
        sets = self._sets(tables.variable, tables.allowed)
        record = np.empty(self._count_numbers(), np.int32)
        trigger = np.empty(self._count_ends(), np.int32)
        count = walk.walk_events(
            self.key, arrays.ts, sets.kind, self.question.together, *sets.states, *sets.takes,
            tables.edge_ptr, tables.source, tables.allowed != 0, tables.list_count, tables.final,
            self.stamp, self.low, wanted,
            np.full((self.key_count * len(tables.variable), walk.WAITING), -1, np.int32),
            record, trigger,
        )  # fmt: skip
        return partial(
            walk.read_matches, tables.variable, tables.edge_ptr, tables.source, tables.list_count,
            record, trigger[:count], self.stamp, self.low,
        )  # fmt: skip

    def _walk_path(
        self, path: list[int], wanted: NDArray[np.bool_], room: int
    ) -> Iterator[Aligned]:
        """List matches that all pass the same states, which lie one after another."""
        arrays, states = self.question.arrays, len(path)
        variables, allowed = self.tables.variable[path], self.tables.allowed[path]
        sets = self._sets(variables, allowed)
        record = np.empty(paths.RECORD * (self._count_records() + 1), np.int32)
        trigger = np.empty(self._count_ends() + 1, np.int32)
        count = paths.walk_paths(
            self.key, arrays.ts, sets.kind, self.question.together, states, *sets.states,
            *sets.takes, *_only(sets, states), self.stamp, self.low, wanted,
            np.full((self.key_count * (states + 1), walk.WAITING), -1, np.int32), record, trigger,
        )  # fmt: skip
        cursor, status = np.zeros(4, np.int64), walk.FULL
        cursor[walk.DEPTH] = states - 1
        at, rows = np.zeros((2, states), np.int64)
        while status != walk.DONE:
            out = np.empty((states, room), np.int32)
            status = paths.read_paths(
                record, trigger[:count], self.stamp, self.low, cursor, at, rows, out
            )
            if cursor[walk.COUNT]:
                yield Aligned(out[:, : cursor[walk.COUNT]], variables.astype(np.int8))

    def _sets(self, variable: NDArray[np.int64], allowed: NDArray[np.int64]) -> _Sets:
        """Assign numbers to the sets of variables that events fit.

        Under skip-till-any-match an event takes nothing away from later ones.
        """
        kind, variables = self.question.arrays.bits, len(self.question.variables)
        if variables <= TABLED_MAX:
            sets = np.arange(1 << variables)
        else:
            sets, _ = self._kinds
            kind = np.searchsorted(sets, kind)
        takes = sets[:, None] & allowed
        if self.question.semantics is tree.Semantics.ANY_MATCH:
            takes = np.zeros_like(takes)
        return _Sets(kind, _listed(sets[:, None] >> variable & 1), _listed(takes))

    def _walk_neighbours(self, wanted: NDArray[np.bool_]) -> Read:
        tables = self.tables
        states = (tables.variable, tables.edge_ptr, tables.source, tables.pair)
        held = _held_bits(self.question.relations, self._previous)
        found = None
        if not self._windowed:
            counts = len(self.question.variables), len(self.question.relations)
            found = set_tables(*states, tables.final, variables=counts[0], pairs=counts[1])
        if found is not None:
            sets = np.empty(len(self.key) + 1, np.uint8)
            trigger = np.empty(self._count_ends(), np.int64)
            count = neighbour_sets.find_sets(
                self.question.arrays.bits, self._previous, held, found.fitting, found.follows,
                found.begins, found.final, wanted, sets, trigger,
            )  # fmt: skip
            return partial(
                neighbour_sets.read_sets, self._previous, held, tables.variable, found.sources,
                found.begins, sets, trigger[:count],
            )  # fmt: skip
        latest = np.empty((len(self.key) + 1) * len(tables.variable), np.int32)
        latest[: len(tables.variable)] = -1
        trigger = np.empty(self._count_ends(), np.int64)
        count = neighbours.find_latest(
            self.question.arrays.bits, self._previous, held, *states, tables.final, self.stamp,
            self.low, wanted, latest, trigger,
        )  # fmt: skip
        return partial(
            neighbours.read_neighbours, self._previous, held, *states, latest, trigger[:count],
            self.stamp, self.low,
        )  # fmt: skip

    def _count_ends(self) -> int:
        """Compute the maximum number of events and states that end matches."""
        tables = self.tables
        finals = int(np.count_nonzero(tables.final))
        if self._is_roomy:
            return len(self.key) * finals
        bits = sum(1 << v for v in set(tables.variable[tables.final].tolist()))
        return self._count_fitting(bits) * finals

    def _fill(self, read: Read, most: int) -> Iterator[Found]:
        longest, status = self._longest(), walk.FULL
        cursor = np.zeros(4, np.int64)
        frames = np.zeros((longest + 1, FRAME), np.int64)
        while status != walk.DONE:
            # Matches keep these arrays, so that nothing is copied.
            last, ptr = np.empty(most, np.int64), np.zeros(most + 1, np.int64)
            rows = np.empty(max(BINDINGS_ROOM, longest), np.int64)
            variables = np.empty(len(rows), np.int8)
            status = read(cursor, frames, last, ptr, rows, variables)
            count, bindings = int(cursor[walk.COUNT]), int(cursor[walk.BINDINGS])
            cursor[walk.COUNT] = cursor[walk.BINDINGS] = 0
            if count:
                segment = np.zeros(count, np.int64)
                yield Found(
                    segment, last[:count], ptr[: count + 1], rows[:bindings], variables[:bindings]
                )

    def _longest(self) -> int:
        """Compute the maximum number of events of a match."""
        if not self.template.recursive:
            return len(self.template.states)
        return int(np.bincount(self.key).max(initial=0))


def _tables(question: Question, template: Template) -> _Tables:
    number = {name: n for n, name in enumerate(question.variables)}
    pairs = {(r.prev, r.next): n for n, r in enumerate(question.relations)}
    states = template.states
    edges = [[e for e in template.edges if e.target == q] for q in range(len(states))]
    names = [state.variable for state in states]
    flat = [edge for group in edges for edge in group]
    asked = [pairs.get((names[e.source], names[e.target]), len(pairs)) for e in flat]
    final = np.zeros(len(states), np.bool_)
    final[[f.state for f in template.finals]] = True
    return _Tables(
        np.array([number[name] for name in names], np.int64),
        np.array([sum(1 << number[v] for v in state.allowed) for state in states], np.int64),
        np.cumsum([0, *map(len, edges)], dtype=np.int64),
        np.array([e.source for e in flat], np.int64),
        np.array(asked, np.int64),
        np.array([sum(e.source != START for e in group) for group in edges], np.int64),
        final,
    )


def _path(template: Template) -> list[int] | None:
    """Return the states of all matches, in order, if every match has one event of each of them."""
    sources = {edge.target: edge.source for edge in template.edges}
    if len(sources) < len(template.edges) or len(template.finals) > 1:
        return None
    path = [template.finals[0].state]
    while (source := sources[path[-1]]) != START:
        path.append(source)
    return path[::-1]


def _only(sets: _Sets, states: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find for each set its only state and list, as ``kernels/paths.py`` numbers these."""
    (ptr, state), (take_ptr, take) = sets.states, sets.takes
    few = (np.diff(ptr) == 1) & (np.diff(take_ptr) <= 1)
    only, takes = np.full(len(few), -1), np.full(len(few), states)
    only[few] = state[ptr[:-1][few]]
    some = few & (np.diff(take_ptr) == 1)
    takes[some] = take[take_ptr[:-1][some]] + 1
    return only, takes


def _listed(chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """List the columns that are not 0 in each row: where each list begins, and all lists."""
    rows, columns = np.nonzero(chosen)
    # Kernels are compiled for numbers that lie one after another.
    return np.searchsorted(rows, np.arange(len(chosen) + 1)), np.ascontiguousarray(columns)


def _dense(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Renumber keys where most of them have no event, because each of them takes memory."""
    if int(key.max(initial=0)) < 2 * len(key):
        return key
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


def _held_bits(relations: list[Relation], previous: NDArray[np.int64]) -> NDArray[np.int64]:
    """Check all relations between each event and the one before: a bit each, and one that is 1."""
    known: dict[int, NDArray[Any]] = {}

    def earlier(values: NDArray[Any]) -> NDArray[Any]:
        # An event without a previous one reads any other; nothing waits for it.
        if id(values) not in known:
            known[id(values)] = values[previous]
        return known[id(values)]

    narrow = len(relations) < 8
    kind: type[np.integer[Any]] = np.uint8 if narrow else np.int64
    bits = np.full(len(previous), 1 << len(relations), kind)
    for number, relation in enumerate(relations):
        held = np.ones(len(previous), np.bool_)
        for comparison in relation.comparisons:
            keys = (earlier(comparison.prev_keys), comparison.next_keys)
            held &= COMPARE[comparison.operator](*keys)
            if comparison.prev_valid is not None:
                held &= earlier(comparison.prev_valid)
            if comparison.next_valid is not None:
                held &= comparison.next_valid
        bits |= np.left_shift(held, number, dtype=kind)
    return bits.astype(np.int64)
