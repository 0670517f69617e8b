"""Gather the different matches of the patterns that AND joins, in the order in which they end.

Every pattern lists its matches in this order (``enumerate.py``), a batch at a time. The batches of
all patterns are merged, so that only the matches of a portion of the events are in memory. A match
of several patterns comes once and tells which patterns it matches: its *signature*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns
from cepheid.events.temporal import FOREVER, LONG_AGO
from cepheid.kinds.trend.listing.enumerate import Lister
from cepheid.kinds.trend.listing.found import Found
from cepheid.kinds.trend.listing.global_predicates import check_built, keep_matches
from cepheid.plans.marks import variable_of

VARIABLES_MAX = 1 << 7
"""Variables have numbers of eight bits, with a sign."""
BINDING_BYTES = 64
"""The bytes that a binding of a match counts for, in the limit of a state."""

NOTHING, EVERYTHING = (LONG_AGO, LONG_AGO), (FOREVER, FOREVER)
"""The places before all matches and behind them."""


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


class Facts(NamedTuple):
    """Columns of facts about matches, one fact each.

    ``turn`` and ``last``, the row of the last event, are the order in which matches end. ``key``
    and ``window`` name the partition and the window, ``first`` is the row of the first event, and
    ``signature`` has a bit for each pattern. For the others see ``Listing``.
    """

    turn: NDArray[Any]
    last: NDArray[Any]
    key: NDArray[Any]
    window: NDArray[Any]
    first: NDArray[Any]
    start: NDArray[Any]
    least: NDArray[Any]
    wanted: NDArray[Any]
    signature: NDArray[Any]

    def take(self, at: NDArray[np.int64]) -> Facts:
        """Select some of the matches, in this order."""
        return Facts(*(column[at] for column in self))

    def before(self, turn: int, last: int) -> NDArray[np.bool_]:
        """Mark the matches that end before a place."""
        return np.asarray((self.turn < turn) | ((self.turn == turn) & (self.last < last)))


class Ended(NamedTuple):
    """Matches: what is known of them, and their bindings.

    Variables have the numbers of their names in ``names_of``.
    """

    facts: Facts
    bindings: Found

    @property
    def size(self) -> int:
        """Return the number of matches."""
        return len(self.facts.turn)

    def take(self, at: NDArray[np.int64]) -> Ended:
        """Select some of the matches, in this order."""
        return Ended(self.facts.take(at), self.bindings.reordered(at))

    def numbers(self) -> NDArray[np.int64]:
        """Assign a number to each sequence of bindings, in the order of §2.10."""
        code = self.bindings.rows * VARIABLES_MAX + self.bindings.variables
        begins, lengths = self.bindings.ptr[:-1], np.diff(self.bindings.ptr)
        number, known = np.zeros(self.size, np.int64), 0
        for length in np.unique(lengths).tolist():
            mine = np.flatnonzero(lengths == length)
            columns = code[begins[mine] + np.arange(length)[:, None]]
            order = np.lexsort(columns)
            new = np.ones(len(mine), np.int64)
            new[1:] = (columns[:, order[1:]] != columns[:, order[:-1]]).any(axis=0)
            number[mine[order]] = known + np.cumsum(new) - 1
            known += int(new.sum())
        return number


def names_of(variables: Sequence[str]) -> list[str]:
    """List the names of variables in order; marks tell events apart, not matches (§2.12)."""
    return sorted(set(map(variable_of, variables)))


def concatenate(parts: Sequence[Ended]) -> Ended:
    """Put the matches of some parts one after the other."""
    facts = Facts(*map(np.concatenate, zip(*(part.facts for part in parts), strict=True)))
    found = [part.bindings for part in parts]
    lengths = np.concatenate([np.diff(one.ptr) for one in found])
    bindings = Found(
        np.concatenate([one.segment for one in found]),
        np.concatenate([one.last for one in found]),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.concatenate([one.rows for one in found]),
        np.concatenate([one.variables for one in found]),
    )
    return Ended(facts, bindings)


def portions(
    listings: Sequence[Listing], variables: Sequence[str], columns: Columns, *, whole: bool
) -> Iterator[Ended]:
    """Gather the different matches of all patterns, a portion at a time, in their order.

    Parameters
    ----------
    whole
        Whether everything is one portion.

    Raises
    ------
    DataError
        E512 if too many matches wait for those of another pattern.
    """
    streams = [_matches(n, one, variables, columns) for n, one in enumerate(listings)]
    # How far each pattern has told; the one that lags is read next.
    ends = [NOTHING] * len(streams)
    waiting: list[Ended] = []
    told = NOTHING
    while told < EVERYTHING:
        lagging = ends.index(told)
        ends[lagging], batches = next(streams[lagging], (EVERYTHING, ()))
        waiting += batches
        check_kept(waiting)
        before, told = told, min(ends)
        if waiting and before < told and (told == EVERYTHING or not whole):
            held = concatenate(waiting)
            ended = held.facts.before(*told)
            waiting = [held.take(np.flatnonzero(~ended))]
            yield _distinct(held.take(np.flatnonzero(ended)))


def check_kept(parts: Sequence[Ended]) -> None:
    """Refuse to keep more matches than the limit of a state allows.

    Raises
    ------
    DataError
        E512
    """
    count = sum(part.size for part in parts)
    events = sum(len(part.bindings.rows) for part in parts)
    check_built(count, events, BINDING_BYTES, other="`RETURN COUNT(*)` builds no matches")


def _matches(
    number: int, listing: Listing, variables: Sequence[str], columns: Columns
) -> Iterator[tuple[tuple[int, int], Sequence[Ended]]]:
    """List the matches of a pattern; also tell the place where the last one of a batch ends."""
    names = names_of(variables)
    number_of = np.array([names.index(variable_of(name)) for name in variables], np.int8)
    segments = listing.lister.segments
    for batch in listing.lister.batches():
        end = int(listing.turn[batch.segment[-1]]), int(segments.rows[batch.last[-1]])
        found = keep_matches(listing.lister.rest, columns, variables, batch)
        segment, last = found.segment, found.last
        facts = Facts(
            listing.turn[segment], segments.rows[last], segments.key[segment],
            segments.window[segment], found.rows[found.ptr[:-1]], listing.start[last],
            listing.least[last], listing.wanted[last],
            np.full(len(found), 1 << number, np.int64),
        )  # fmt: skip
        bindings = Found(segment, last, found.ptr, found.rows, number_of[found.variables])
        yield end, [Ended(facts, bindings)]


def _distinct(matches: Ended) -> Ended:
    """Sort matches by their ends, and merge those that are the same (§2.2)."""
    number, facts = matches.numbers(), matches.facts
    order = np.lexsort((number, facts.window, facts.key, facts.last, facts.turn))
    number, window = number[order], facts.window[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (number[1:] != number[:-1]) | (window[1:] != window[:-1])
    if not new.any():
        return matches
    signature = np.bitwise_or.reduceat(facts.signature[order], np.flatnonzero(new))
    found = matches.take(order[new])
    return Ended(found.facts._replace(signature=signature), found.bindings)
