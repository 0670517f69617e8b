"""Compute replay intervals from candidates: the only times at which a query can have results.

Every match binds one event of each required set of variables, in their order (a *chain*), and lies
in one window. So a window without a chain has no match, whatever else it holds. Every window
with a chain is replayed completely, so that negation, contiguity and window boundaries see every
event that they would see in a full replay. Events of other windows may be skipped, because without
a chain they yield no match.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.plans.plan import WindowKind, WindowPlan
from cepheid.store.candidates import Stretches
from cepheid.store.snapshot import Cover
from cepheid.store.times import Times


class Chains(NamedTuple):
    """For every last candidate: its earliest time, and the latest start of a chain ending there."""

    low: Times
    start: Times


def chains_of(symbols: Sequence[Stretches], *, strict: bool) -> Chains:
    """Find the chains of candidates: one of each symbol, in order.

    Among all chains that end in a candidate, the one that starts last lies in the most windows. One
    pass for each symbol finds it, since the best start never moves back from candidate to
    candidate. ``strict`` requires increasing times (§1.4): otherwise one event could form a chain
    by itself.
    """
    low, start = symbols[0].low, symbols[0].high
    for symbol in symbols[1:]:
        order = np.argsort(low, kind="stable")
        best = np.maximum.accumulate(start[order])
        place = np.searchsorted(low[order], symbol.high, side="left" if strict else "right") - 1
        kept = place >= 0
        start = np.minimum(best[place[kept]], symbol.high[kept])
        low = symbol.low[kept]
    return Chains(low, start)


class Reach(NamedTuple):
    """The bounds of a replay: the first symbol begins every match, or the last one ends it."""

    first: Stretches | None
    last: Stretches | None


NO_REACH = Reach(None, None)


def cover_windows(chains: Chains, window: WindowPlan, reach: Reach = NO_REACH) -> Cover:
    """Compute the times of all windows that hold a chain; windows of events may lie anywhere."""
    low, start = chains
    if window.kind in (WindowKind.NONE, WindowKind.COUNT):
        if not len(low):
            return _none()
        begins = np.array([np.iinfo(np.int64).min])
        ends = np.array([np.iinfo(np.int64).max])
        return _narrowed(begins, ends, reach)
    within = window.within
    fits = low - start < within
    low, start = low[fits], start[fits]
    if window.kind is WindowKind.TRAILING:
        # A row at t is about (t - w, t], and one on expiry about [t - w, t).
        begins, ends = low - within, start + within + 1
    else:
        slide = window.slide
        begins = ((low - within) // slide + 1) * slide
        latest = start // slide * slide
        held = begins <= latest
        begins, ends = begins[held], latest[held] + within
    return _narrowed(begins, ends, reach)


def _narrowed(begins: Times, ends: Times, reach: Reach) -> Cover:
    """Trim intervals to the span from their first to their last candidate."""
    if reach.first is not None and len(begins):
        highs = reach.first.high
        smallest = np.minimum.accumulate(reach.first.low[::-1])[::-1]
        place = np.searchsorted(highs, begins, side="left")
        some = place < len(highs)
        found = smallest[np.minimum(place, len(highs) - 1)]
        begins = np.where(some, np.maximum(begins, found), ends)
    if reach.last is not None and len(begins):
        order = np.argsort(reach.last.low, kind="stable")
        lows = reach.last.low[order]
        largest = np.maximum.accumulate(reach.last.high[order])
        place = np.searchsorted(lows, ends, side="left") - 1
        found = np.where(place >= 0, largest[np.maximum(place, 0)], begins - 1)
        ends = np.where(found < ends - 1, found + 1, ends)
    return merged(begins, ends)


def merged(begins: Times, ends: Times) -> Cover:
    """Merge intervals that overlap or touch."""
    some = begins < ends
    begins, ends = begins[some], ends[some]
    if not len(begins):
        return _none()
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], np.maximum.accumulate(ends[order])
    apart: NDArray[np.bool_] = begins[1:] > ends[:-1]
    return Cover(begins[np.append(True, apart)], ends[np.append(apart, True)])


def extended(cover: Cover, before: int, after: int) -> Cover:
    """Extend every interval, so that marks of its events are known (§2.12).

    The events outside are in no match: all windows with a chain are inside.
    """
    if not before and not after:
        return cover
    low, high = np.iinfo(np.int64).min + before, np.iinfo(np.int64).max - after
    return merged(np.maximum(cover.begins, low) - before, np.minimum(cover.ends, high) + after)


def common(one: Cover, other: Cover) -> Cover:
    """Intersect two covers; each holds all windows with matches, and so does the intersection."""
    edges = np.unique(np.concatenate([*one, *other]))
    if len(edges) < 2:
        return _none()
    begins, ends = edges[:-1], edges[1:]
    both = one.holds(begins) & other.holds(begins)
    return merged(begins[both], ends[both])


def _none() -> Cover:
    none = np.zeros(0, np.int64)
    return Cover(none, none)
