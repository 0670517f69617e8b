"""Plan the replay for a pattern over adjacent rows, with the reason.

MATCH_RECOGNIZE searches row by row, and each match decides where the next may begin. So the replay
is cut into stretches that are matched independently. The result is exact if every match of the full
history lies in one stretch, with all rows that it reads: missing rows make no condition true, so
a stretch has no additional match, and it loses none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.patterns.distances import BEYOND, Gap, Shape, between, only
from cepheid.patterns.required import Required
from cepheid.patterns.thresholds import Threshold
from cepheid.plans.plan import WindowKind, WindowPlan
from cepheid.store.candidates import Axis, Stretches, SymbolSource, sorted_stretches
from cepheid.store.chains import Chain, costs_of, find_symbol
from cepheid.store.places import Places, in_order
from cepheid.store.replay_intervals import Reach, chains_of, common, cover_windows, merged
from cepheid.store.replay_plan import (
    Chosen,
    ReplayPlan,
    Window,
    choose_replay,
    full_replay,
    span_of,
)
from cepheid.store.selection import Picked
from cepheid.store.snapshot import Cover, Snapshot


class RowQuestion(NamedTuple):
    """The requirements of a row pattern that a store can be searched for.

    Attributes
    ----------
    shape, thresholds
        The rows that every match has, their distances, and the conditions on each.
    margin
        The number of rows that a match reads beyond its own.
    within
        The maximum duration of a match in ticks; None for unbounded.
    placed
        Whether adjacent rows are adjacent events of the store (no PARTITION BY).
    whole
        Why the plan can only rule out all matches or read everything; empty otherwise.
    one_stretch
        Why the replay must be one stretch; empty if it may be several.
    columns
        The number of columns read.
    """

    shape: Shape
    thresholds: dict[str, tuple[Threshold, ...]]
    margin: int
    within: int | None
    placed: bool
    whole: str
    one_stretch: str
    columns: int = 1


def plan_rows(
    snapshot: Snapshot, asked: RowQuestion, method: str = "auto", forced: Picked | None = None
) -> ReplayPlan:
    """Plan which part of a store a pattern over rows must read; arguments as for queries."""
    if method == "replay":
        return full_replay(snapshot, "a full replay is asked for")
    chain, shape = chain_of(snapshot, asked)
    if not chain.symbols:
        why = "no row that every match has meets a condition that an index can answer"
        return full_replay(snapshot, asked.whole or why)
    places = Places.of(snapshot) if asked.placed and in_order(snapshot) else None
    whole = asked.whole
    if not whole and asked.margin and places is None:
        whole = "PREV and NEXT may find rows at any time"
    if whole and not _impossible(chain):
        return full_replay(snapshot, whole)
    within = _within(snapshot, shape, asked, places)
    found = choose_replay(
        snapshot,
        chain,
        lambda chosen: _cover(chain, shape, asked, places, chosen),
        Window(within, 0, asked.columns, len(asked.thresholds)),
        method,
        forced,
    )
    if found.cover is None or not len(found.cover.begins):
        return found
    if whole:
        return full_replay(snapshot, whole)
    if asked.one_stretch and len(found.cover.begins) > 1:
        return full_replay(snapshot, asked.one_stretch)
    return found


def chain_of(snapshot: Snapshot, asked: RowQuestion) -> tuple[Chain, Shape]:
    """Select the symbols that an index can narrow, and the shape restricted to them."""
    shape = asked.shape
    names = sorted({name for symbol in shape.symbols for name in symbol})
    sources = {name: SymbolSource(snapshot, asked.thresholds[name]) for name in names}
    sources = {name: source for name, source in sources.items() if source.usable}
    kept = [n for n, symbol in enumerate(shape.symbols) if all(name in sources for name in symbol)]
    shape = only(shape, kept)
    found = {name: source.counts() for name, source in sources.items()}
    symbols = [
        Required(
            tuple(sorted(symbol)),
            place == 0 and not shape.gaps[0].most,
            place == len(shape.symbols) - 1 and not shape.gaps[-1].most,
        )
        for place, symbol in enumerate(shape.symbols)
    ]
    costs = []
    block = 1
    for place, symbol in enumerate(symbols):
        gap = shape.gaps[place]
        block += int(not asked.placed or gap.least < gap.most)
        costs.append([cost._replace(block=block) for cost in costs_of(symbol, found)])
    return Chain(symbols, sources, costs), shape


def _impossible(chain: Chain) -> bool:
    """Check whether a symbol has no candidate at all."""
    return any(
        all(not chain.sources[name].counts()[-1].candidates for name in symbol.variables)
        for symbol in chain.symbols
    )


def _within(snapshot: Snapshot, shape: Shape, asked: RowQuestion, places: Places | None) -> int:
    """Convert the maximum duration of a match for the estimate; 0 for unbounded."""
    bounds = [] if asked.within is None else [asked.within]
    if places is not None and shape.length.most < BEYOND and places.rows:
        bounds.append(shape.length.most * span_of(snapshot) // places.rows + 1)
    return max(1, min(bounds)) if bounds else 0


def _cover(
    chain: Chain, shape: Shape, asked: RowQuestion, places: Places | None, chosen: Chosen
) -> Cover:
    """Compute the times of all possible matches from the candidates of some symbols."""
    alone = only(shape, [place for place, _ in chosen])
    if places is not None and alone.length.most < BEYOND:
        return _widened(_rows_of(chain, alone, chosen), asked.margin, places)
    symbols = [chain.symbols[place] for place, _ in chosen]
    found = [find_symbol(chain, place, depth) for place, depth in chosen]
    kind = WindowKind.NONE if asked.within is None else WindowKind.TRAILING
    first = found[0] if symbols[0].first else None
    reach = Reach(first, found[-1] if symbols[-1].last else None)
    window = WindowPlan(kind, asked.within or 0)
    cover = cover_windows(chains_of(found, strict=False), window, reach)
    if places is None or not len(cover.begins):
        return cover
    cover = common(merged(*places.places(cover)), _rows_of(chain, alone, chosen))
    return _widened(cover, asked.margin, places)


def _rows_of(chain: Chain, shape: Shape, chosen: Chosen) -> Cover:
    """Compute the positions of all possible matches."""
    return cover_rows(
        [find_symbol(chain, place, depth, Axis.ROWS) for place, depth in chosen], shape
    )


def _widened(rows: Cover, margin: int, places: Places) -> Cover:
    """Convert positions to times, including some rows around them."""
    return merged(*places.times(Cover(rows.begins - margin, rows.ends + margin)))


# ---------------------------------------------------------------------------------------
# Places


def cover_rows(found: Sequence[Stretches], shape: Shape) -> Cover:
    """Compute the positions of all matches whose symbols have the required distances."""
    kept = chained(found, [Gap(g.least + 1, g.most + 1) for g in shape.gaps[1:-1]])
    covers = []
    for place, (low, high) in enumerate(kept):
        before = between(shape, 0, place).most
        after = between(shape, place + 1, len(shape.gaps) - 1).most
        covers.append(merged(low - before, high + after + 1))
    return reduce(common, covers)


def chained(found: Sequence[Stretches], distances: Sequence[Gap]) -> list[Stretches]:
    """Keep the candidates that have one of each other symbol at the required distance.

    Neighbouring symbols are compared, first from left to right and then from right to left.
    """
    kept = list(found)
    for place, distance in enumerate(distances):
        kept[place + 1] = _taken(kept[place + 1], _after(kept[place], distance, kept[place + 1]))
    for place in reversed(range(len(distances))):
        kept[place] = _taken(kept[place], _before(kept[place + 1], distances[place], kept[place]))
    return kept


def _taken(stretches: Stretches, kept: NDArray[np.bool_]) -> Stretches:
    return sorted_stretches(stretches.low[kept], stretches.high[kept])


def _after(earlier: Stretches, distance: Gap, later: Stretches) -> NDArray[np.bool_]:
    """Mark the later candidates that have an earlier one at the required distance."""
    if not len(earlier.low):
        return np.zeros(len(later.low), np.bool_)
    order = np.argsort(earlier.low, kind="stable")
    reached = np.maximum.accumulate(earlier.high[order])
    place = np.searchsorted(earlier.low[order], later.high - distance.least, side="right") - 1
    near: NDArray[np.bool_] = reached[np.maximum(place, 0)] >= later.low - distance.most
    return near & (place >= 0)


def _before(later: Stretches, distance: Gap, earlier: Stretches) -> NDArray[np.bool_]:
    """Mark the earlier candidates that have a later one at the required distance."""
    if not len(later.low):
        return np.zeros(len(earlier.low), np.bool_)
    nearest = np.minimum.accumulate(later.low[::-1])[::-1]
    place = np.searchsorted(later.high, earlier.low + distance.least, side="left")
    inside = place < len(later.high)
    near: NDArray[np.bool_] = (
        nearest[np.minimum(place, len(nearest) - 1)] <= earlier.high + distance.most
    )
    return near & inside
