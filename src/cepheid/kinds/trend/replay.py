"""Plan which part of the history a pattern query replays, with the reason."""

from __future__ import annotations

from cepheid.kinds.trend.planning.variants import reach_of
from cepheid.kinds.trend.reaching import Reaching, gap_of, looks_outside
from cepheid.language import tree
from cepheid.patterns.required import required_chain
from cepheid.patterns.thresholds import thresholds_of
from cepheid.plans.plan import TrendPlan, WindowKind
from cepheid.store.candidates import Axis, SymbolSource
from cepheid.store.chains import Chain, costs_of, fewest, find_symbol
from cepheid.store.places import Places
from cepheid.store.replay_intervals import (
    NO_REACH,
    Chains,
    Reach,
    chains_of,
    common,
    cover_windows,
    extended,
    merged,
)
from cepheid.store.replay_plan import (
    Chosen,
    ReplayPlan,
    Window,
    choose_replay,
    full_replay,
)
from cepheid.store.row_plan import cover_rows
from cepheid.store.selection import Picked
from cepheid.store.shortening import bridged
from cepheid.store.snapshot import Cover, Snapshot


def plan_replay(
    snapshot: Snapshot, plan: TrendPlan, method: str = "auto", forced: Picked | None = None
) -> ReplayPlan:
    """Plan which part of a store a query must read.

    Parameters
    ----------
    snapshot
        The store.
    plan
        The query.
    method
        ``"auto"`` uses the indexes that pay off; ``"index"`` all that apply, for tests and
        measurements; ``"replay"`` none.
    forced
        Look up these symbols and no others, to compare plans.
    """
    if method == "replay":
        return full_replay(snapshot, "a full replay is asked for")
    if plan.skip is not None:
        why = "which matches `AFTER MATCH SKIP` drops depends on all that were chosen before"
        return full_replay(snapshot, why)
    chain = best_chain(snapshot, plan)
    if chain is None:
        why = "no variable that every match binds has a condition that an index can answer"
        return full_replay(snapshot, why)
    reaching = Reaching(snapshot, plan, chain)
    chain = chain._replace(costs=reaching.costs())
    counted = plan.window.kind is WindowKind.COUNT
    window = _window(snapshot, plan, adjacent=reaching.adjacent)
    found = choose_replay(
        snapshot,
        chain,
        lambda chosen: _cover(snapshot, plan, chain, reaching, chosen),
        window,
        method,
        forced,
    )
    if counted and found.cover is not None and len(found.cover.begins):
        return full_replay(snapshot, "windows counted in events begin where the stream begins")
    return found if found.cover is None else found._replace(bounds=reaching.told(found.symbols))


TRAILING_WEIGHT = 3.0
"""The factor by which an event costs more if every event ends a window."""


def _window(snapshot: Snapshot, plan: TrendPlan, *, adjacent: bool) -> Window:
    """Compute the inputs of the cost model: an event runs once for every window and state."""
    columns = len(snapshot.manifest.schema if plan.columns is None else plan.columns)
    within, slide = plan.window.within, plan.window.slide
    windows = max(1.0, within / slide) if slide else TRAILING_WEIGHT
    states = sum(len(template.states) for template in plan.patterns)
    weight = windows * max(1.0, states / 2)
    if plan.window.kind is WindowKind.COUNT:
        within = slide = 0
    bridge = gap_of(plan) if adjacent else 0
    return Window(within, slide, columns, weight=weight, bridge=bridge)


def best_chain(snapshot: Snapshot, plan: TrendPlan) -> Chain | None:
    """Find the chain of the pattern that selects the fewest events; AND needs both patterns."""
    thresholds = thresholds_of(plan)
    best: Chain | None = None
    for template in plan.patterns:
        sources = {name: SymbolSource(snapshot, thresholds[name]) for name in template.variables()}
        sources = {name: source for name, source in sources.items() if source.usable}
        found = {name: source.counts() for name, source in sources.items()}
        few = {name: float(counts[-1].candidates) for name, counts in found.items()}
        symbols = required_chain(template, few)
        if not symbols:
            continue
        chain = Chain(symbols, sources, [costs_of(s, found) for s in symbols])
        if best is None or fewest(chain) < fewest(best):
            best = chain
    return best


def _cover(
    snapshot: Snapshot, plan: TrendPlan, chain: Chain, reaching: Reaching, chosen: Chosen
) -> Cover:
    """Compute the cover of some symbols, each looked up in the given number of indexes."""
    symbols = [chain.symbols[place] for place, _ in chosen]
    found = [find_symbol(chain, place, depth) for place, depth in chosen]
    reach = NO_REACH
    if len(plan.patterns) == 1:
        reach = Reach(
            found[0] if symbols[0].first else None,
            found[-1] if symbols[-1].last else None,
        )
    strict = plan.ties is tree.Ties.STRICT
    cover = cover_windows(chains_of(found, strict=strict), plan.window, reach)
    places = [place for place, _ in chosen]
    cover = common(cover, reaching.cover(places, found))
    shape = reaching.shape_of(places)
    if shape is not None:
        rows = [find_symbol(chain, place, depth, Axis.ROWS) for place, depth in chosen]
        cover = common(cover, _cover_adjacent(snapshot, plan, cover_rows(rows, shape)))
    return extended(cover, *reach_of(plan))


def _cover_adjacent(snapshot: Snapshot, plan: TrendPlan, rows: Cover) -> Cover:
    """Compute the times of contiguous matches from their positions.

    Where less than a window lies between two intervals, events around the gap could be taken for
    neighbours, so it is replayed, too.
    """
    begins, ends = Places.of(snapshot).times(rows)
    cover = Cover(begins, ends)
    if looks_outside(plan.patterns[0]):
        cover = cover_windows(Chains(begins, ends - 1), plan.window)
    return bridged(merged(*cover), gap_of(plan))
