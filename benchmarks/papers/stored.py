"""Körber's thesis, section 3.5: figures 3.1 and 3.9 to 3.14, made events in a store.

Random queries are those of the thesis: ranges of 0 to 10 % of an attribute, any events between some
of the symbols, a window of 300 events. The thesis has 50 M events, 100 queries of each kind, and
pages of 8 KiB where the store has row groups of 4,096 events.
"""

from __future__ import annotations

import atexit
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from benchmarks.papers.entry import Entry, Found, Panel, Point, Verdict, times
from benchmarks.papers.stored_windows import WINDOWS
from benchmarks.store_figures import filled
from benchmarks.store_plans import Asked, AskedRows, all_picks, figures_of, timed
from benchmarks.store_queries import DEVIATIONS, WITHIN, random_query

import cepheid
from cepheid.store import cost, replay_plan, selection
from cepheid.store.cost import StreamSize, expected_groups
from cepheid.store.selection import Picked

EVENTS = 1_000_000
SYMBOLS = (2, 4, 8, 16, 32)
QUERIES = 4
SINGLE = 6
ROUNDS = 2


class Asking(NamedTuple):
    """A random query: seconds by plan, estimates of row groups, and the search for a plan."""

    seconds: dict[str, float]
    errors: tuple[float, ...]
    blind: tuple[float, ...]
    """Errors of estimates that do not use statistics of blocks."""
    search_s: float
    looked: int


@cache
def _store() -> cepheid.EventStore:
    folder = tempfile.TemporaryDirectory(prefix="cepheid-papers-")
    atexit.register(folder.cleanup)
    store = cepheid.EventStore(folder.name)
    filled(store, EVENTS)
    return store


def _source() -> str:
    return f"made: {EVENTS / 1e6:g} M events of five attributes, in a store with an index on each"


@contextmanager
def _watched(seen: dict[str, float]) -> Iterator[None]:
    """Count the sets of look-ups that the planner compares, and the time it takes."""
    real = selection.choose_symbols

    def timed_choice(*arguments: Any) -> Picked:
        began = time.process_time()
        picked = real(*arguments)
        seen["seconds"] = time.process_time() - began
        return picked

    def counted(function: Any, *arguments: Any) -> Any:
        seen["looked"] = seen.get("looked", 0) + 1
        return function(*arguments)

    with (
        patch.object(replay_plan, "choose_symbols", timed_choice),
        patch.object(selection, "query_cost", partial(counted, cost.query_cost)),
        patch.object(selection, "expected_groups", partial(counted, cost.expected_groups)),
    ):
        yield


def prefixes(asked: Asked) -> list[Picked]:
    """Return the sets of look-ups that a greedy choice compares: the most selective symbols."""
    costs = asked.costs()
    places = [place for place, own in enumerate(costs) if own]
    places.sort(key=lambda place: costs[place][-1].candidates)
    return [
        tuple((place, len(costs[place]) - 1) for place in sorted(places[:size]))
        for size in range(1, len(places) + 1)
    ]


def blind_error(asked: Asked, picked: Picked, store: cepheid.EventStore, within: int) -> float:
    """Return how far off the row groups of a plan are without statistics of blocks."""
    snapshot = store.snapshot()
    plan = asked.planned(picked, "index")
    rows = snapshot.manifest.rows
    span = replay_plan.span_of(snapshot)
    stream = StreamSize(plan.total, plan.total, 1.0, span, within, rows=rows)
    expected = expected_groups(selection.costs_of(asked.costs(), picked), stream)
    return abs(plan.groups - expected) / max(plan.groups, 1)


def asking(store: cepheid.EventStore, asked: AskedRows) -> Asking:
    """Run a query by a replay, with all look-ups, with those of a greedy choice, as planned."""
    greedy = prefixes(asked)
    plans = {picked: asked.planned(picked, "index") for picked in greedy}
    cheapest = min(greedy, key=lambda picked: plans[picked].cost)
    ways: dict[str, tuple[Picked | None, str]] = {
        "replay": (None, "replay"),
        "all": (greedy[-1], "index"),
        "greedy": (cheapest, "index"),
        "chosen": (None, "auto"),
    }
    seconds, rows = {}, set()
    for name, (picked, method) in ways.items():
        runs = [timed(asked, picked, method) for _ in range(ROUNDS)]
        seconds[name] = min(taken for taken, _ in runs)
        rows |= {run.rows for _, run in runs}
    assert len(rows) == 1, "all plans find the same matches"
    seen: dict[str, float] = {}
    with _watched(seen):
        asked.planned(None, "auto")
    errors = [abs(p.groups - p.expected) / max(p.groups, 1) for p in plans.values()]
    blind = [blind_error(asked, picked, store, WITHIN) for picked in greedy]
    return Asking(
        seconds, tuple(errors), tuple(blind), seen.get("seconds", 0.0), int(seen.get("looked", 0))
    )


@cache
def _by_size() -> dict[int, list[Asking]]:
    store, random = _store(), np.random.default_rng(31)
    asking(store, AskedRows(store, random_query(random, 2).text()))  # Compiles.
    return {
        size: [
            asking(store, AskedRows(store, random_query(random, size).text()))
            for _ in range(QUERIES)
        ]
        for size in SYMBOLS
    }


@cache
def _by_data() -> dict[str, list[Asking]]:
    store = _store()
    found = {}
    for name in DEVIATIONS:
        random = np.random.default_rng(313)
        found[name] = [
            asking(store, AskedRows(store, random_query(random, 8, name).text()))
            for _ in range(QUERIES)
        ]
    return found


def _median(askings: Sequence[Asking], name: str) -> float:
    return float(np.median([one.seconds[name] for one in askings]))


def _gain(askings: Sequence[Asking], name: str) -> float:
    logs = [np.log(one.seconds["replay"] / one.seconds[name]) for one in askings]
    return float(np.exp(np.mean(logs)))


def complexity() -> Found:
    """Run queries of 2 to 32 symbols by three strategies (figure 3.1)."""
    points = [
        Point(name, size, _median(own, name))
        for size, own in _by_size().items()
        for name in ("replay", "all", "chosen")
    ]
    return Found(tuple(points), _source(), "Look-ups are considered for up to 16 symbols.")


def strategies() -> Found:
    """Run queries of 2 to 32 symbols by all strategies (figure 3.9)."""
    points = []
    for size, own in _by_size().items():
        points += [Point(name, size, _median(own, name), "a") for name in ("replay", "chosen")]
        points += [Point(name, size, _gain(own, name), "b") for name in ("all", "greedy", "chosen")]
    return Found(tuple(points), _source())


def _errors(own: Sequence[Asking], *, blind: bool = False) -> dict[str, float]:
    errors = np.concatenate([one.blind if blind else one.errors for one in own])
    return {
        "median": float(np.median(errors)),
        "75th percentile": float(np.percentile(errors, 75)),
    }


def estimates() -> Found:
    """Compare estimated with read row groups, by symbols (figure 3.10)."""
    points = [
        Point(name, size, error)
        for size, own in _by_size().items()
        for name, error in _errors(own).items()
    ]
    return Found(tuple(points), _source(), "Of all plans that a greedy choice compares.")


def search() -> Found:
    """Tell how long the choice takes, and how many sets it compares (figure 3.11)."""
    points = []
    for size, own in _by_size().items():
        points.append(Point("time", size, float(np.mean([one.search_s for one in own])) * 1e3, "a"))
        points.append(Point("compared", size, float(np.mean([one.looked for one in own])), "b"))
        points.append(Point("all sets", size, 2.0 ** min(size, 16), "b"))
    return Found(tuple(points), _source())


def all_plans() -> Found:
    """Run one query by all of its plans (figure 3.12)."""
    store = _store()
    query = random_query(np.random.default_rng(12), SINGLE, "a4")
    return Found(plan_points(AskedRows(store, query.text())), _source())


def plan_points(asked: Asked, panel: str = "") -> tuple[Point, ...]:
    """Return seconds and estimates of all plans, the cheapest estimate first."""
    found = figures_of(asked, all_picks(asked.costs())[:128])
    replay, chosen, *others = found
    plans = sorted((f for f in others if f.picked), key=lambda figure: figure.estimated_s)
    points = [Point("measured", n + 1, f.seconds, panel) for n, f in enumerate(plans)]
    points += [Point("estimated", n + 1, f.estimated_s, panel) for n, f in enumerate(plans)]
    points += [Point("error", n + 1, f.error, f"{panel}error") for n, f in enumerate(plans)]
    ends = {
        "replay": replay.seconds,
        "chosen": chosen.seconds,
        "best": min(f.seconds for f in found),
        "worst": max(f.seconds for f in found),
    }
    points += [Point("seconds", name, value, f"{panel}ends") for name, value in ends.items()]
    return tuple(points)


def distributions() -> Found:
    """Run queries with one symbol on an attribute that follows time (figure 3.13)."""
    points = []
    for name, own in _by_data().items():
        x = f"σ = {DEVIATIONS[name]:g}"
        points += [Point(way, x, _median(own, way), "a") for way in ("replay", "chosen")]
        points += [Point(way, x, _gain(own, way), "b") for way in ("all", "greedy", "chosen")]
    return Found(tuple(points), _source(), "Queries have eight symbols.")


def distribution_errors() -> Found:
    """Compare estimates with and without statistics of blocks (figure 3.14)."""
    points = []
    for name, own in _by_data().items():
        for label, blind in (("with blocks", False), ("without", True)):
            error = _errors(own, blind=blind)["median"]
            points.append(Point(label, f"σ = {DEVIATIONS[name]:g}", error))
    return Found(tuple(points), _source(), "Medians of all plans that a greedy choice compares.")


# Comparisons ------------------------------------------------------------------------------------


def _complexity(found: Found) -> Sequence[Verdict]:
    replay, every, chosen = (found.curve(name) for name in ("replay", "all", "chosen"))
    slower = max(every[x] / replay[x] for x in replay)
    worst = max(chosen[x] / replay[x] for x in replay)
    return (
        Verdict(
            slower > 1,
            f"all look-ups take up to {times(slower)} the time of a replay; the chosen ones take "
            f"{min(chosen[x] / replay[x] for x in replay):.2f} to {worst:.2f} of it",
        ),
        Verdict(
            max(replay.values()) / min(replay.values()) < 2,
            f"a replay's time differs by {times(max(replay.values()) / min(replay.values()))} "
            "between numbers of symbols",
        ),
    )


def _strategies(found: Found) -> Sequence[Verdict]:
    gains = {name: found.curve(name, "b") for name in ("all", "greedy", "chosen")}
    best_gain = max(gains["chosen"].values())
    ratio = np.exp(np.mean([np.log(gains["chosen"][x] / gains["greedy"][x]) for x in SYMBOLS]))
    return (
        Verdict(
            best_gain > 10,
            f"the chosen look-ups gain up to {times(best_gain)} (the paper: up to 20 times, "
            "with 50 times the events)",
        ),
        Verdict(
            min(gains["all"].values()) < 1,
            f"all look-ups gain {min(gains['all'].values()):.2g} to "
            f"{max(gains['all'].values()):.2g} (the paper: 0.2 at worst)",
        ),
        Verdict(
            bool(ratio > 1.2),
            f"the choice is {ratio:.2f} times as fast as a greedy one on average (the paper: 1.2)",
        ),
    )


def _estimates(found: Found) -> Sequence[Verdict]:
    medians = found.curve("median")
    few = max(medians[x] for x in (2, 4))
    return (
        Verdict(
            few < 0.05,
            "the median error is "
            + ", ".join(f"{error:.0%} with {size}" for size, error in medians.items())
            + " symbols (the paper: most below 5 %)",
        ),
    )


def _search(found: Found) -> Sequence[Verdict]:
    looked, taken = found.at("compared", 32, "b"), found.at("time", 32, "a")
    return (
        Verdict(
            looked < 0.1 * 2**16,
            f"with 32 symbols, of which 16 are considered, {looked:,.0f} of 65,536 sets are "
            f"compared, in {taken:.0f} ms (the paper: 1,689 of 2^32, in 70 ms)",
        ),
    )


def ends_verdict(found: Found, panel: str, what: str, least: float) -> Verdict:
    """Say how good the chosen plan is among all."""
    ends = found.curve("seconds", f"{panel}ends")
    ratio = ends["chosen"] / ends["best"]
    ms = {name: f"{seconds * 1e3:.3g} ms" for name, seconds in ends.items()}
    return Verdict(
        ratio < least,
        f"{what} takes {ms['chosen']} by the chosen plan, {ms['best']} by the best, {ms['worst']} "
        f"by the worst and {ms['replay']} by a replay",
    )


def _all_plans(found: Found) -> Sequence[Verdict]:
    errors = list(found.curve("error", "error").values())
    return (
        ends_verdict(found, "", "the query", 1.3),
        Verdict(
            float(np.median(errors)) < 0.05,
            f"row groups are estimated {np.median(errors):.0%} off in the median (the paper: below "
            f"5 % on average), {np.mean(errors):.0%} on average",
        ),
    )


def _distributions(found: Found) -> Sequence[Verdict]:
    chosen = found.curve("chosen", "b")
    narrow, wide = chosen["σ = 0"], chosen["σ = 1"]
    return (
        Verdict(
            narrow > wide,
            f"the gain falls from {narrow:.2g} times where an attribute follows time to {wide:.2g} "
            "times for uniform values",
        ),
    )


def _distribution_errors(found: Found) -> Sequence[Verdict]:
    with_blocks, without = found.curve("with blocks"), found.curve("without")
    narrow = "σ = 0.001"
    return (
        Verdict(
            with_blocks[narrow] <= without[narrow],
            f"at {narrow} the error is {with_blocks[narrow]:.0%} with statistics of blocks and "
            f"{without[narrow]:.0%} without; for uniform values {with_blocks['σ = 1']:.0%} and "
            f"{without['σ = 1']:.0%}",
        ),
    )


SIZE = Panel("", "time", "symbols")
ENTRIES = (
    Entry(
        "thesis-3.1",
        "Figure 3.1: strategies by complexity",
        "A replay is nearly constant; all indexes help up to some number of symbols and then cost "
        "more than a replay; an optimal choice is always much faster.",
        f"{QUERIES} random queries for each number of symbols, all on uniform values; medians.",
        (SIZE,),
        complexity,
        _complexity,
    ),
    WINDOWS,
    Entry(
        "thesis-3.9",
        "Figure 3.9: strategies by symbols",
        "2 to 32 symbols on uniform values. Replays, Flink and a database do not depend on the "
        "number; an index is up to 10 times as fast. All look-ups are 5 times slower than a "
        "replay at worst, greedy and optimal ones gain up to 20 times, optimal 20 % more.",
        "The queries of figure 3.1; neither Flink nor a database reads the store here.",
        (
            Panel("a", "a, time", "symbols"),
            Panel("b", "b, gain over a replay", "symbols", "times"),
        ),
        strategies,
        _strategies,
    ),
    Entry(
        "thesis-3.10",
        "Figure 3.10: error of estimates",
        "The relative error of the estimated reads, 2 to 32 symbols: mostly below 5 %, more for "
        "32, where little is left to read.",
        "The relative error of the estimated row groups.",
        (Panel("", "error", "symbols", "%"),),
        estimates,
        _estimates,
    ),
    Entry(
        "thesis-3.11",
        "Figure 3.11: choosing indexes",
        "The choice compares 1,689 of 2^32 sets with 32 symbols, in 70 ms; a replay takes 20 s.",
        "The planner's choice alone.",
        (
            Panel("a", "a, time", "symbols", "ms"),
            Panel("b", "b, sets", "symbols", "sets"),
        ),
        search,
        _search,
    ),
    Entry(
        "thesis-3.12",
        "Figure 3.12: all plans of a query",
        "256 plans of a query with 8 symbols: the error is below 5 % on average, and estimated "
        "costs follow the measured times.",
        f"All plans of a query with {SINGLE} symbols, the cheapest estimate first (in the chart).",
        (Panel("ends", "time", "plan"), Panel("", "time", "plan, by estimate", is_log=False)),
        all_plans,
        _all_plans,
    ),
    Entry(
        "thesis-3.13",
        "Figure 3.13: distributions",
        "One of 8 symbols is on an attribute that follows time with a deviation of 0 to 1. Indexes "
        "always help, most where values follow time, if a map of regions (CPM) tells the planner.",
        "The same; statistics of blocks stand for the map of regions.",
        (
            Panel("a", "a, time", "attribute"),
            Panel("b", "b, gain over a replay", "attribute", "times"),
        ),
        distributions,
        _distributions,
    ),
    Entry(
        "thesis-3.14",
        "Figure 3.14: error by distribution",
        "Without the map of regions the reads are overestimated extremely where values follow "
        "time; with it the error is low in all cases.",
        "The error of estimated row groups with and without the statistics of blocks.",
        (Panel("", "error", "attribute", "%"),),
        distribution_errors,
        _distribution_errors,
    ),
)
