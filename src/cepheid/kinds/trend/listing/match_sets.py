"""List the sets of matches of patterns that AND joins (§2.10).

A set is built from the match that ends last, its *leader*: the others end no later, and begin in
the window that reports the leader. So a set is found once, when its leader is.

Which signatures make a set is known beforehand (``combinations_of``), so the others are chosen from
*pools*: the matches of one partition, window and signature. No choice leads to a dead end, and at
most a block of sets is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns
from cepheid.kinds.trend.listing.ended_matches import (
    Ended,
    Listing,
    check_kept,
    concatenate,
    names_of,
    portions,
)
from cepheid.kinds.trend.listing.enumerate import BINDINGS_ROOM, MATCHES_ROOM
from cepheid.kinds.trend.listing.found import Found
from cepheid.kinds.trend.program.conjunction import combinations_of
from cepheid.plans.marks import variable_of

Sets = NDArray[np.int64]
"""A row for each set: the number of its leader, then those of its other matches."""


def sets_of(
    listings: Sequence[Listing], variables: Sequence[str], columns: Columns, *, repeats: bool
) -> Iterator[tuple[Found, NDArray[np.int64]]]:
    """List the sets of matches of some patterns, in the order of their last events.

    Parameters
    ----------
    repeats
        Whether a set may be in several windows, of which the first one reports it.

    Yields
    ------
    tuple
        Sets as matches of all their bindings, and the start of the window of each.

    Raises
    ------
    DataError
        E512 if a window has more matches than the limit of a state allows.
    """
    written = list(map(variable_of, variables))
    number_of = np.array([written.index(name) for name in names_of(variables)], np.int8)
    kept: Ended | None = None
    for portion in portions(listings, variables, columns, whole=repeats):
        matches = portion if kept is None else concatenate([kept, portion])
        fresh = np.arange(matches.size - portion.size, matches.size)
        pools = _Pools(matches, len(listings))
        earlier = _EarlierSets(matches, len(listings)) if repeats else None
        for sets in pools.sets(fresh[portion.facts.wanted]):
            found = sets if earlier is None else sets[~earlier.has(sets)]
            for built, start in _together(matches, found):
                yield Found(*built[:4], number_of[built.variables], built.part), start
        kept = pools.needed_later()
        check_kept([kept])


class _Pools:
    """Matches, those of one partition, window and signature together."""

    def __init__(self, matches: Ended, patterns: int) -> None:
        self._matches, self._patterns = matches, patterns
        self._facts = facts = matches.facts
        pairs = np.stack([facts.key, facts.window])
        group: NDArray[np.int64] = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)
        self._group = group
        # Number and last row of a match behind the number of its pool: both are in order.
        self._choices = _choices(patterns, frozenset(facts.signature.tolist()))
        pool = self._pool(np.arange(matches.size), facts.signature)
        self._member = np.argsort(pool, kind="stable")
        self._rows = int(facts.last.max(initial=0)) + 1
        self._by_number = pool[self._member] * matches.size + self._member
        self._by_last = pool[self._member] * self._rows + facts.last[self._member]

    def sets(self, leaders: NDArray[np.int64]) -> Iterator[Sets]:
        """Build the sets of some leaders, in their order."""
        for some in np.array_split(leaders, max(len(leaders) // MATCHES_ROOM, 1)):
            for block in self._blocks(some):
                found = self._sets_of(block)
                if len(block) > 1:
                    sets = np.concatenate([*found, np.zeros((0, self._patterns), np.int64)])
                    yield sets[np.argsort(sets[:, 0], kind="stable")]
                else:
                    yield from found

    def needed_later(self) -> Ended:
        """Select the matches that may be in a set of later leaders: windows only move on."""
        least = np.zeros(int(self._group.max(initial=-1)) + 1, np.int64)
        np.maximum.at(least, self._group, self._facts.least)
        return self._matches.take(np.flatnonzero(self._facts.first >= least[self._group]))

    def _pool(self, match: NDArray[np.int64], signature: NDArray[np.int64] | int) -> Sets:
        return (self._group[match] << self._patterns) + signature

    def _range(
        self, leader: NDArray[np.int64], before: NDArray[np.int64], signature: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the matches of a signature that end in the window of a leader, before a match."""
        pool = self._pool(leader, signature)
        low = np.searchsorted(self._by_last, pool * self._rows + self._facts.least[leader])
        high = np.searchsorted(self._by_number, pool * self._matches.size + before)
        return low, np.maximum(high - low, 0)

    def _blocks(self, leaders: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Split leaders into blocks that have at most MATCHES_ROOM sets, or are one leader."""
        sizes = {
            signature: self._range(leaders, leaders, signature)[1].astype(np.float64)
            for signature in self._choices
        }
        most = np.zeros(len(leaders))
        for mine, choices in self._choices.items():
            led = self._facts.signature[leaders] == mine
            for others in choices:
                most[led] += np.prod([sizes[s][led] for s in others], axis=0)
        for share in _shares(np.maximum(most, 1), MATCHES_ROOM):
            yield leaders[share]

    def _sets_of(self, leaders: NDArray[np.int64]) -> Iterator[Sets]:
        signatures = self._facts.signature[leaders]
        for signature in np.unique(signatures).tolist():
            mine = leaders[signatures == signature]
            for others in self._choices[signature]:
                yield from self._extended(mine[:, None], others)

    def _extended(self, sets: Sets, others: tuple[int, ...]) -> Iterator[Sets]:
        """Extend incomplete sets with matches of some signatures, a share at a time."""
        if not others:
            yield sets
            return
        leader, place = sets[:, 0], sets.shape[1]
        # Matches of one signature are chosen in one order, so that a set is built once.
        again = place > 1 and (self._facts.signature[sets[:1, -1]] == others[0]).all()
        low, counts = self._range(leader, sets[:, -1] if again else leader, others[0])
        for share in _shares(counts, MATCHES_ROOM):
            sizes = counts[share]
            longer = np.repeat(sets[share], sizes, axis=0)
            offset = np.repeat(low[share] - (np.cumsum(sizes) - sizes), sizes)
            chosen = self._member[offset + np.arange(len(longer))]
            inside = self._facts.first[chosen] >= self._facts.least[longer[:, 0]]
            longer = np.column_stack([longer, chosen])[inside]
            if len(longer):
                yield from self._extended(longer, others[1:])


class _EarlierSets:
    """The sets of earlier windows, where negation makes matches depend on the window (§7.2)."""

    def __init__(self, matches: Ended, patterns: int) -> None:
        self._signature = matches.facts.signature
        windows, self._window = np.unique(matches.facts.window, return_inverse=True)
        self._number, self._windows = matches.numbers(), len(windows)
        name = self._number * self._windows + self._window
        self._order = np.argsort(name)
        self._names = name[self._order]
        self._place = np.empty_like(self._order)
        self._place[self._order] = np.arange(len(self._order))
        self._makes_set = np.zeros((1 << patterns,) * patterns, np.bool_)
        for signature, choices in _choices(patterns, frozenset(range(1, 1 << patterns))).items():
            for others in choices:
                self._makes_set[tuple(sorted((signature, *others)))] = True

    def has(self, sets: Sets) -> NDArray[np.bool_]:
        """Mark the sets that are sets of an earlier window, too."""
        found = np.zeros(len(sets), np.bool_)
        place = self._place[sets[:, 0]]
        open_ = np.arange(len(sets))
        # The windows that have the leader are asked one after the other, back in time.
        while len(open_):
            place = place - 1
            leader = self._order[np.maximum(place, 0)]
            more = (place >= 0) & (self._number[leader] == self._number[sets[open_, 0]])
            open_, place, leader = open_[more], place[more], leader[more]
            name = self._number[sets[open_]] * self._windows + self._window[leader][:, None]
            at = np.minimum(np.searchsorted(self._names, name), len(self._names) - 1)
            signature = np.where(self._names[at] == name, self._signature[self._order[at]], 0)
            found[open_] |= self._makes_set[tuple(np.sort(signature, axis=1).T)]
        return found


@cache
def _choices(patterns: int, known: frozenset[int]) -> dict[int, list[tuple[int, ...]]]:
    """List for each known signature those, of the known ones, that make a set together with it."""
    found: dict[int, list[tuple[int, ...]]] = {signature: [] for signature in known}
    for combination in combinations_of(patterns):
        if known.issuperset(signature for signature, _ in combination):
            whole = [signature for signature, count in combination for _ in range(count)]
            for mine, _ in combination:
                others = whole.copy()
                others.remove(mine)
                found[mine].append(tuple(others))
    return found


def _together(matches: Ended, sets: Sets) -> Iterator[tuple[Found, NDArray[np.int64]]]:
    """Build sets as matches that have all bindings, one match after the other.

    A part has at most BINDINGS_ROOM bindings, or is one set.
    """
    lengths, width = np.diff(matches.bindings.ptr), sets.shape[1]
    for share in _shares(lengths[sets].sum(axis=1), BINDINGS_ROOM):
        some = sets[share]
        # Numbers of matches are in the order in which they end.
        found = matches.bindings.reordered(np.sort(some, axis=1).reshape(-1))
        part = np.repeat(np.tile(np.arange(1, width + 1), len(some)), np.diff(found.ptr))
        none = np.zeros(len(some), np.int64)
        whole = Found(none, none, found.ptr[::width], found.rows, found.variables, part)
        yield whole, matches.facts.start[some[:, 0]]


def _shares(sizes: NDArray[Any], room: int) -> Iterator[slice]:
    """Split items into shares of a total size of at most ``room``, or of one item."""
    ends, begin = np.cumsum(sizes), 0
    while begin < len(ends):
        done = ends[begin - 1] if begin else 0
        end = max(int(np.searchsorted(ends, done + room, side="right")), begin + 1)
        yield slice(begin, end)
        begin = end
