"""A pattern query and a snapshot in, what of the history is replayed out, with the reason."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cepheid.language import tree
from cepheid.planner.plan import Plan, WindowKind
from cepheid.planner.required import Required, required_chain
from cepheid.planner.thresholds import thresholds_of
from cepheid.store.candidates import Found, Stretches, SymbolSource, united
from cepheid.store.cost import (
    StreamSize,
    SymbolCost,
    choose_symbols,
    expected_groups,
    replay_cost,
)
from cepheid.store.replay_intervals import NO_REACH, Reach, chains_of, common, cover_windows
from cepheid.store.snapshot import Cover, Interval, Snapshot

SAVED_MIN = 0.95
"""Intervals must cost less than this share of a full replay."""


class ReplayPlan(NamedTuple):
    """What is replayed: everything, or the intervals of ``cover``.

    ``symbols`` are the look-ups, as text. ``expected`` row groups were estimated before the
    look-ups, ``groups`` are left after them, of ``total``.
    """

    cover: Cover | None
    reason: str
    symbols: tuple[str, ...] = ()
    expected: float = 0.0
    groups: int = 0
    total: int = 0


class _Chain(NamedTuple):
    """The required symbols of one pattern, where their events are found, and at what costs.

    A symbol has a cost for each number of indexes that can be read for it.
    """

    symbols: list[Required]
    sources: dict[str, SymbolSource]
    costs: list[list[SymbolCost]]


def plan_replay(snapshot: Snapshot, plan: Plan, method: str = "auto") -> ReplayPlan:
    """Find out which part of a store a query must read.

    Parameters
    ----------
    snapshot
        The store.
    plan
        The query.
    method
        ``"auto"`` looks up what is worth it; ``"index"`` all that can be looked up, for tests and
        measurements; ``"replay"`` nothing.
    """
    total = _total(snapshot)
    whole = ReplayPlan(None, "", (), float(total), total, total)
    if method == "replay":
        return whole._replace(reason="a full replay is asked for")
    if plan.situations is not None:
        return whole._replace(reason="situations may last across every cut of the time")
    chain = _best_chain(snapshot, plan)
    if chain is None:
        why = "no variable that every match binds has a condition that an index can answer"
        return whole._replace(reason=why)
    light = _light_cover(plan, chain)
    span = _span(snapshot)
    counted = plan.window.kind is WindowKind.COUNT
    stream = StreamSize(
        total if light is None else count_groups(snapshot, light),
        total,
        1.0 if light is None else _share(light, span),
        span,
        0 if counted else plan.window.within,
    )
    chosen = tuple((place, len(own) - 1) for place, own in enumerate(chain.costs) if own)
    if method == "auto":
        chosen = choose_symbols(chain.costs, stream)
    if light is None and not chosen:
        unused = ", ".join(_described(chain, range(len(chain.symbols))))
        return whole._replace(reason=f"{unused} would not save enough")
    expected = expected_groups([chain.costs[place][way] for place, way in chosen], stream)
    cover = light
    if chosen:
        exact = _cover(plan, chain, [(place, way + 1) for place, way in chosen])
        cover = exact if light is None else common(light, exact)
    assert cover is not None, "one of both is there"
    used = sorted({*_light_places(chain), *(place for place, _ in chosen)})
    names = tuple(_described(chain, used))
    if counted and len(cover.begins):
        why = "windows counted in events begin where the stream begins"
        return whole._replace(reason=why)
    groups = count_groups(snapshot, cover)
    cost = replay_cost(groups, _share(cover, span), total)
    if method == "auto" and total and cost >= SAVED_MIN * replay_cost(total, 1.0, total):
        why = f"{', '.join(names)} would not save enough"
        return whole._replace(reason=why, symbols=names, expected=expected)
    reason = f"every match has {' and then '.join(names)}" if all(names) else "nothing can match"
    return ReplayPlan(cover, reason, names, expected, groups, total)


def _light_places(chain: _Chain) -> list[int]:
    """Return the symbols of which the blocks say something."""
    return [
        place
        for place, symbol in enumerate(chain.symbols)
        if all(chain.sources[name].light for name in symbol.variables)
    ]


def _light_cover(plan: Plan, chain: _Chain) -> Cover | None:
    """Return what the blocks leave: a coarse map of the pattern (Körber, section 3.4.3)."""
    places = _light_places(chain)
    return _cover(plan, chain, [(place, 0) for place in places]) if places else None


def _best_chain(snapshot: Snapshot, plan: Plan) -> _Chain | None:
    """Return the chain of the pattern that finds the fewest events; AND needs both patterns."""
    thresholds = thresholds_of(plan)
    best: _Chain | None = None
    for template in plan.patterns:
        sources = {name: SymbolSource(snapshot, thresholds[name]) for name in template.variables()}
        sources = {name: source for name, source in sources.items() if source.usable}
        found = {
            name: [source.count(depth) for depth in range(source.depth + 1)]
            for name, source in sources.items()
        }
        fewest = {name: float(counts[-1].candidates) for name, counts in found.items()}
        symbols = required_chain(template, fewest)
        if not symbols:
            continue
        chain = _Chain(symbols, sources, [_costs(s, found) for s in symbols])
        if best is None or _fewest(chain) < _fewest(best):
            best = chain
    return best


def _fewest(chain: _Chain) -> int:
    return min((own[-1].candidates for own in chain.costs if own), default=sys.maxsize)


def _costs(symbol: Required, found: dict[str, list[Found]]) -> list[SymbolCost]:
    """Return what a symbol costs, with one index for each variable, with two, and so on."""
    depths = [len(found[name]) - 1 for name in symbol.variables]
    if not all(depths):
        return []  # The blocks alone know something of one of them.
    costs = []
    for depth in range(1, max(depths, default=0) + 1):
        mine = [found[n][min(depth, own)] for n, own in zip(symbol.variables, depths, strict=True)]
        candidates = sum(part.candidates for part in mine)
        entries = sum(part.entries for part in mine)
        costs.append(SymbolCost(candidates, entries, symbol.first, symbol.last))
    return costs


def _cover(plan: Plan, chain: _Chain, chosen: Sequence[tuple[int, int]]) -> Cover:
    """Return the cover of some symbols, each looked up in so many indexes."""
    symbols = [chain.symbols[place] for place, _ in chosen]
    found = [_find(chain, place, depth) for place, depth in chosen]
    reach = NO_REACH
    if len(plan.patterns) == 1:
        reach = Reach(
            found[0] if symbols[0].first else None,
            found[-1] if symbols[-1].last else None,
        )
    strict = plan.ties is tree.Ties.STRICT
    return cover_windows(chains_of(found, strict=strict), plan.window, reach)


def _find(chain: _Chain, place: int, depth: int) -> Stretches:
    sources = [chain.sources[name] for name in chain.symbols[place].variables]
    return united([source.find(min(depth, source.depth)) for source in sources])


def _described(chain: _Chain, chosen: Iterable[int]) -> list[str]:
    texts = []
    for place in chosen:
        parts = []
        for name in chain.symbols[place].variables:
            conditions = chain.sources[name].look_ups
            shown = " and ".join(str(look_up) for look_up in conditions)
            parts.append(f"{name} ({shown})")
        texts.append(" or ".join(parts))
    return texts


def _total(snapshot: Snapshot) -> int:
    cover = snapshot.clip_cover(Cover.of(Interval()))
    return count_groups(snapshot, cover)


def count_groups(snapshot: Snapshot, cover: Cover) -> int:
    """Return how many row groups may have events in ranges of time."""
    cover = snapshot.clip_cover(cover)
    return sum(len(snapshot.groups_in(s, cover)[0]) for s in snapshot.manifest.segments)


def _share(cover: Cover, span: int) -> float:
    """Return which share of the time is replayed."""
    lengths = (cover.ends.astype(float) - cover.begins.astype(float)).sum()
    return min(1.0, float(lengths) / max(span, 1))


def _span(snapshot: Snapshot) -> int:
    segments = snapshot.manifest.segments
    if not segments:
        return 0
    return max(s.last for s in segments) - min(s.first for s in segments) + 1
