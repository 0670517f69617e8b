"""Plan the part of the history that is replayed, with the reason, from the required symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from cepheid.store.chains import Chain, described, light_places
from cepheid.store.cost import StreamSize, expected_groups, query_cost, replay_cost
from cepheid.store.rates import read_rates
from cepheid.store.replay_intervals import common
from cepheid.store.selection import Picked, choose_symbols, costs_of
from cepheid.store.snapshot import Cover, Interval, Snapshot

SAVED_MIN = 0.95
"""Intervals must cost less than this share of a full replay."""


Chosen = Sequence[tuple[int, int]]
"""Symbols by their positions, each with the number of secondary indexes to read."""


class Keys(NamedTuple):
    """Values of a column; only events with one of these values are replayed."""

    column: str
    values: pa.Array[Any]


class ReplayPlan(NamedTuple):
    """A replay of the full history, or of the intervals in ``cover``.

    ``symbols`` are the look-ups, as text. ``expected`` row groups were estimated before the
    look-ups, ``groups`` are left after them, of ``total``. ``cost`` is the estimate in
    microseconds. With ``keys``, only events of some partitions are replayed. ``bounds`` tell in
    words what shortens the intervals. The intervals of a plan that is ``apart`` are no stream with
    gaps: what is read around them is found on the way, in this process.
    """

    cover: Cover | None
    reason: str
    symbols: tuple[str, ...] = ()
    expected: float = 0.0
    groups: int = 0
    total: int = 0
    cost: float = 0.0
    keys: Keys | None = None
    bounds: tuple[str, ...] = ()
    apart: bool = False


def full_replay(snapshot: Snapshot, reason: str) -> ReplayPlan:
    """Build the plan that reads everything."""
    total = total_groups(snapshot)
    return ReplayPlan(None, reason, (), float(total), total, total)


class Window(NamedTuple):
    """The maximum length of a match, and the slide of windows; 0 for unbounded, and for no slide.

    ``columns`` is the number of columns read; ``variables`` is the number of variables that SQL
    matches rows with, 0 for other queries. Running an event costs ``weight`` times as much as in a
    simple query. Gaps shorter than ``bridge`` are replayed.
    """

    within: int
    slide: int
    columns: int
    variables: int = 0
    weight: float = 1.0
    bridge: int = 0


def choose_replay(
    snapshot: Snapshot,
    chain: Chain,
    cover_of: Callable[[Chosen], Cover],
    window: Window,
    method: str,
    forced: Picked | None = None,
) -> ReplayPlan:
    """Choose the symbols to look up, and compute the intervals that remain.

    Parameters
    ----------
    chain
        The symbols that every match needs.
    cover_of
        Computes the times of all possible matches from the candidates of some symbols.
    window
        The window and read sizes on which the cost depends.
    method
        ``"auto"`` looks up symbols that pay off, ``"index"`` all that can be looked up.
    forced
        The symbols to be looked up, to measure plans that would not be chosen.
    """
    whole = full_replay(snapshot, "")
    places = light_places(chain)
    # The remaining blocks are a coarse map of the pattern (Körber, section 3.4.3).
    light = cover_of([(place, 0) for place in places]) if places else None
    stream = _stream(snapshot, light, whole.total, window)
    rates = read_rates()
    run = rates.match * (1 + window.variables) if window.variables else rates.run * window.weight
    rates = msgspec.structs.replace(rates, run=run)
    full = replay_cost(whole.total, 1.0, stream, rates)
    chosen = tuple((place, len(own) - 1) for place, own in enumerate(chain.costs) if own)
    if forced is not None:
        chosen = forced
    elif method == "auto":
        chosen = choose_symbols(chain.costs, stream, rates)
    if light is None and not chosen:
        unused = ", ".join(described(chain, range(len(chain.symbols))))
        return whole._replace(reason=f"{unused} would not save enough", cost=full)
    costs = costs_of(chain.costs, chosen)
    expected, estimated = expected_groups(costs, stream), query_cost(costs, stream, rates)
    cover = light
    if chosen:
        exact = cover_of([(place, way + 1) for place, way in chosen])
        cover = exact if light is None else common(light, exact)
    assert cover is not None, "one of both is there"
    used = sorted({*places, *(place for place, _ in chosen)})
    names = tuple(described(chain, used))
    groups = count_groups(snapshot, cover)
    cost = replay_cost(groups, _share(cover, stream.span), stream, rates)
    if method == "auto" and whole.total and cost >= SAVED_MIN * full:
        why = f"{', '.join(names)} would not save enough"
        return whole._replace(reason=why, symbols=names, expected=expected, cost=full)
    reason = f"every match has {' and then '.join(names)}" if all(names) else "nothing can match"
    return ReplayPlan(cover, reason, names, expected, groups, whole.total, estimated)


def _stream(snapshot: Snapshot, light: Cover | None, total: int, window: Window) -> StreamSize:
    span = span_of(snapshot)
    manifest = snapshot.manifest
    return StreamSize(
        total if light is None else count_groups(snapshot, light),
        total,
        1.0 if light is None else _share(light, span),
        span,
        window.within,
        window.slide,
        manifest.rows,
        window.columns,
        len(manifest.segments),
        window.variables > 0,
        len(manifest.schema) * total // max(len(manifest.segments), 1),
        window.bridge,
    )


def count_groups(snapshot: Snapshot, cover: Cover) -> int:
    """Count the row groups that may have events in ranges of time."""
    cover = snapshot.clip_cover(cover)
    found = 0
    for segment in snapshot.manifest.segments:
        # A segment within one range needs no look at its blocks.
        place = int(np.searchsorted(cover.ends, segment.last, side="right"))
        if place < len(cover.begins) and cover.begins[place] <= segment.first:
            found += snapshot.tree(segment).groups
        else:
            found += len(snapshot.groups_in(segment, cover)[0])
    return found


def total_groups(snapshot: Snapshot) -> int:
    """Count the row groups that a full replay reads."""
    return count_groups(snapshot, Cover.of(Interval()))


def _share(cover: Cover, span: int) -> float:
    """Estimate the share of the time that is replayed."""
    lengths = (cover.ends.astype(float) - cover.begins.astype(float)).sum()
    return min(1.0, float(lengths) / max(span, 1))


def span_of(snapshot: Snapshot) -> int:
    """Compute the span of time from the first to the last event of a store."""
    segments = snapshot.manifest.segments
    if not segments:
        return 0
    return max(s.last for s in segments) - min(s.first for s in segments) + 1
