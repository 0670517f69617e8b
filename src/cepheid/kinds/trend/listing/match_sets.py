"""List the sets of matches of patterns that AND joins (§2.10).

The matches of every pattern are listed, and those of one partition and window are put together. A
set is built from the match that ends last, its *leader*: the others end no later, and begin in the
window that reports the leader. So a set is found once, when its leader is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns
from cepheid.kinds.trend.listing.enumerate import MATCHES_ROOM, Found, Lister
from cepheid.kinds.trend.listing.global_predicates import check_built, keep_matches
from cepheid.kinds.trend.program.conjunction import combinations_of
from cepheid.plans.marks import variable_of

Bindings = tuple[tuple[str, int, int], ...]
"""The name of a variable, the row of its event, and the number of the variable."""


class Listing(NamedTuple):
    """A pattern whose matches are listed, and what is known of the sets that its matches lead.

    For each row that ends a match: ``start`` is the start of the window that reports the set,
    ``least`` the first row that it may have, and ``wanted`` whether it is reported now. ``turn``
    is the order of segments.
    """

    lister: Lister
    turn: NDArray[np.int64]
    start: NDArray[np.int64]
    least: NDArray[np.int64]
    wanted: NDArray[np.bool_]


class _Match(NamedTuple):
    """A match; its order is that in which matches end."""

    turn: int
    last: int
    group: tuple[int, int]
    bindings: Bindings
    first: int
    start: int
    least: int
    wanted: bool


class _Group:
    """The matches of a partition and window that end before the one at hand."""

    def __init__(self) -> None:
        self.matches: list[_Match] = []
        self._known = np.zeros((2, 16), np.int64)
        """The first rows of matches, and the patterns that they match; it doubles when full."""

    def add(self, match: _Match, signature: int) -> None:
        """Add the match that ends next."""
        count = len(self.matches)
        if count == self._known.shape[1]:
            self._known = np.concatenate([self._known, self._known], axis=1)
        self._known[:, count] = match.first, signature
        self.matches.append(match)

    def sets(self, leader: _Match, signature: int, patterns: int) -> Iterator[tuple[int, ...]]:
        """Choose the other matches of all sets that a match leads."""
        first, signatures = self._known[:, : len(self.matches)]
        near = np.flatnonzero(first >= leader.least)
        yield from _choose(near, signatures, (signature,), patterns)


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
    """
    groups: dict[tuple[int, int], _Group] = {}
    seen: set[tuple[int, tuple[Bindings, ...]]] = set()
    waiting: list[tuple[_Match, ...]] = []
    for leader, signature in _gathered(listings, variables, columns):
        group = groups.setdefault(leader.group, _Group())
        sets = group.sets(leader, signature, len(listings)) if leader.wanted or repeats else ()
        for others in sets:
            chosen = (*(group.matches[n] for n in sorted(others)), leader)
            if repeats:
                name = (leader.group[0], tuple(match.bindings for match in chosen))
                is_new = leader.wanted and name not in seen
                seen.add(name)
                if not is_new:
                    continue
            waiting.append(chosen)
            if len(waiting) == MATCHES_ROOM:
                yield _together(waiting)
                waiting = []
        group.add(leader, signature)
    if waiting:
        yield _together(waiting)


def _gathered(
    listings: Sequence[Listing], variables: Sequence[str], columns: Columns
) -> list[tuple[_Match, int]]:
    """List all matches in the order in which they end, each with the patterns that it matches."""
    found: dict[tuple[tuple[int, int], Bindings], tuple[_Match, int]] = {}
    built = events = 0
    for number, listing in enumerate(listings):
        for batch in listing.lister.batches():
            built, events = built + len(batch), events + len(batch.rows)
            check_built(built, events)
            kept = keep_matches(listing.lister.rest, columns, variables, batch)
            for match in _matches(listing, kept, variables):
                name = (match.group, match.bindings)
                known = found.get(name, (match, 0))[1]
                found[name] = (match, known | 1 << number)
    return sorted(found.values())


def _matches(listing: Listing, found: Found, variables: Sequence[str]) -> Iterator[_Match]:
    """Convert matches to tuples."""
    segments = listing.lister.segments
    names = list(map(variable_of, variables))
    rows, numbers, ptr = found.rows.tolist(), found.variables.tolist(), found.ptr.tolist()
    for n, (segment, last) in enumerate(
        zip(found.segment.tolist(), found.last.tolist(), strict=True)
    ):
        mine = range(ptr[n], ptr[n + 1])
        bindings = tuple((names[numbers[b]], rows[b], numbers[b]) for b in mine)
        yield _Match(
            int(listing.turn[segment]), max(row for _, row, _ in bindings),
            (int(segments.key[segment]), int(segments.window[segment])), bindings,
            min(row for _, row, _ in bindings), int(listing.start[last]), int(listing.least[last]),
            bool(listing.wanted[last]),
        )  # fmt: skip


def _choose(
    near: NDArray[np.int64], signatures: NDArray[np.int64], chain: tuple[int, ...], patterns: int
) -> Iterator[tuple[int, ...]]:
    """Choose matches that make a set of those of some signatures."""
    if len(chain) + 1 == patterns:
        fits = _completing(patterns, tuple(sorted(chain)))
        for n in near[fits[signatures[near]]].tolist():
            yield (n,)
        return
    for place, n in enumerate(near.tolist()):
        for others in _choose(near[:place], signatures, (*chain, int(signatures[n])), patterns):
            yield (n, *others)


@cache
def _completing(patterns: int, chain: tuple[int, ...]) -> NDArray[np.bool_]:
    """Mark the signatures that make a set of some others."""
    fits = np.zeros(1 << patterns, np.bool_)
    for combination in combinations_of(patterns):
        whole = sorted(s for signature, count in combination for s in [signature] * count)
        for signature in set(whole):
            rest = whole.copy()
            rest.remove(signature)
            fits[signature] |= tuple(rest) == chain
    return fits


def _together(sets: Sequence[tuple[_Match, ...]]) -> tuple[Found, NDArray[np.int64]]:
    """Build sets as matches that have all bindings, one match after the other."""
    lengths = [sum(len(match.bindings) for match in some) for some in sets]
    bindings = [
        (row, variable, number)
        for some in sets
        for number, match in enumerate(some, 1)
        for _, row, variable in match.bindings
    ]
    rows, variables, parts = np.array(bindings, np.int64).reshape(-1, 3).T
    none = np.zeros(len(sets), np.int64)
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    found = Found(none, none, ptr, rows.copy(), variables.astype(np.int8), parts.copy())
    return found, np.array([some[-1].start for some in sets], np.int64)
