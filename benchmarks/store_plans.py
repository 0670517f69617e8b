"""All plans of random queries over a store: the chosen one against the best, and the estimates.

In the shape of figures 3.9, 3.12, 3.13 and 3.16 of Körber's thesis.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import product
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

import numpy as np
from benchmarks.store_queries import DEVIATIONS, random_query

import cepheid
from cepheid.kinds.row_pattern.bind import bind_clause
from cepheid.kinds.row_pattern.statement import read_statement
from cepheid.kinds.row_pattern.store import question_of, run_planned
from cepheid.kinds.trend.replay import best_chain, plan_replay
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.local import run_batches
from cepheid.runtimes.store import events_of
from cepheid.store.cost import SymbolCost
from cepheid.store.replay_plan import ReplayPlan
from cepheid.store.row_plan import chain_of, plan_rows
from cepheid.store.selection import Picked

RUNS = 2


class PlanFigure(NamedTuple):
    """A plan that was run: its look-ups, seconds, and row groups."""

    picked: Picked | None
    chosen: bool
    seconds: float
    estimated_s: float
    expected: float
    groups: int
    total: int
    rows: int

    @property
    def error(self) -> float:
        """Return how far off the estimate of row groups was, as a share of those read."""
        return abs(self.groups - self.expected) / max(self.groups, 1)


class Strategies(NamedTuple):
    """The seconds of a query by how its look-ups are chosen."""

    replay: float
    everything: float
    greedy: float
    chosen: float
    best: float
    error: float
    plans: int


class Run(NamedTuple):
    """How a query was run, and how many rows it gave."""

    replay: ReplayPlan
    rows: int


class Asked(Protocol):
    """A query whose plans are compared."""

    def costs(self) -> list[list[SymbolCost]]:
        """Return what the look-ups of each symbol cost."""

    def planned(self, picked: Picked | None, method: str) -> ReplayPlan:
        """Plan the query, and run nothing."""

    def run(self, picked: Picked | None, method: str) -> Run:
        """Run the query by some plan."""


class AskedRows:
    """SQL with MATCH_RECOGNIZE."""

    def __init__(self, store: cepheid.EventStore, text: str) -> None:
        self._store = store
        statement = read_statement(text)
        self._plan = bind_clause(statement.sites[0].clause, store.schema.names, text)

    def costs(self) -> list[list[SymbolCost]]:
        snapshot = self._store.snapshot()
        return chain_of(snapshot, question_of(snapshot, self._plan))[0].costs

    def planned(self, picked: Picked | None, method: str) -> ReplayPlan:
        """Plan the query, and run nothing."""
        snapshot = self._store.snapshot()
        return plan_rows(snapshot, question_of(snapshot, self._plan), method, picked)

    def run(self, picked: Picked | None, method: str) -> Run:
        snapshot = self._store.snapshot()
        replay = self.planned(picked, method)
        return Run(replay, len(run_planned(snapshot, self._plan, replay).table))


class AskedTrends:
    """A query for trends."""

    def __init__(self, store: cepheid.EventStore, query: cepheid.CompiledQuery) -> None:
        self._store = store
        self._plan = query.with_schema(store.schema).plan

    def costs(self) -> list[list[SymbolCost]]:
        chain = best_chain(self._store.snapshot(), TrendPlan.of(self._plan))
        return [] if chain is None else chain.costs

    def planned(self, picked: Picked | None, method: str) -> ReplayPlan:
        """Plan the query, and run nothing."""
        return plan_replay(self._store.snapshot(), TrendPlan.of(self._plan), method, picked)

    def run(self, picked: Picked | None, method: str) -> Run:
        snapshot = self._store.snapshot()
        replay = self.planned(picked, method)
        events = events_of(snapshot, self._plan, replay)
        return Run(
            replay, len(run_batches(TrendPlan.of(self._plan), events, snapshot.manifest.schema))
        )


def all_picks(costs: Sequence[Sequence[SymbolCost]]) -> list[Picked]:
    """Return every set of look-ups that a query allows."""
    return [
        tuple((place, way) for place, way in enumerate(ways) if way is not None)
        for ways in product(*([None, *range(len(own))] for own in costs))
    ]


def timed(asked: Asked, picked: Picked | None, method: str) -> tuple[float, Run]:
    """Run a plan; processor time, as plans differ by less than what else a machine does."""
    begin = time.process_time()
    run = asked.run(picked, method)
    return time.process_time() - begin, run


def figures_of(asked: Asked, picks: Sequence[Picked]) -> list[PlanFigure]:
    """Run a query by a replay, by the chosen plan, and by every other one."""
    runs: list[tuple[Picked | None, str]] = [(None, "replay"), (None, "auto")]
    runs += [(picked, "index") for picked in picks]
    found = []
    for picked, method in runs:
        best, run = min((timed(asked, picked, method) for _ in range(RUNS)), key=itemgetter(0))
        replay = run.replay
        expected = replay.expected if replay.cover is not None else float(replay.total)
        figure = PlanFigure(
            picked,
            method == "auto",
            best,
            replay.cost / 1e6,
            expected,
            replay.groups,
            replay.total,
            run.rows,
        )
        found.append(figure)
    if len({figure.rows for figure in found}) > 1:
        message = "plans disagree"
        raise AssertionError(message)
    return found


def strategies_of(asked: Asked) -> Strategies:
    """Run a query in all ways, and return the seconds of each strategy."""
    costs = asked.costs()
    found = figures_of(asked, all_picks(costs))
    replay, chosen, others = found[0], found[1], [f for f in found[2:] if f.picked]
    order = sorted(range(len(costs)), key=lambda n: costs[n][-1].candidates)
    prefixes = [set(order[:size]) for size in range(1, len(order) + 1)]
    greedy = [f for f in others if {place for place, _ in f.picked or ()} in prefixes]
    cheapest = min(greedy, key=lambda f: f.estimated_s, default=replay)
    everything = max(others, key=lambda f: len(f.picked or ()), default=replay)
    return Strategies(
        replay.seconds,
        everything.seconds,
        cheapest.seconds,
        chosen.seconds,
        min(f.seconds for f in found),
        float(np.mean([f.error for f in others])) if others else 0.0,
        len(found),
    )


def random_strategies(
    store: cepheid.EventStore, sizes: Sequence[int], count: int, attribute: str = "a5"
) -> dict[int, list[Strategies]]:
    """Run so many random queries of each size."""
    random = np.random.default_rng([7, list(DEVIATIONS).index(attribute)])
    return {
        size: [
            strategies_of(AskedRows(store, random_query(random, size, attribute).text()))
            for _ in range(count)
        ]
        for size in sizes
    }


def shares(found: Sequence[Strategies], bound_at: float = 1.3) -> float:
    """Return on which share of queries the chosen plan is next to the best."""
    return float(np.mean([s.chosen <= bound_at * s.best for s in found]))


def geometric(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(np.maximum(np.array(values, dtype=float), 1e-9)))))


Rows = list[dict[str, Any]]


def plan_rows_of(figures: Sequence[PlanFigure]) -> Rows:
    """Return the plans of one query, cheapest estimate first, as rows of a chart."""
    looked = [figure for figure in figures if figure.picked]
    ranked = sorted(looked, key=lambda figure: figure.estimated_s)
    return [
        {
            "rank": rank,
            "measured": figure.seconds,
            "estimated": figure.estimated_s,
            "groups": figure.groups,
            "expected": figure.expected,
            "error": figure.error,
        }
        for rank, figure in enumerate(ranked)
    ]
