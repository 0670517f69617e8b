"""Methods for S+ with a condition between neighbours, by key: events in, counted trends out."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from benchmarks import ours
from benchmarks.baselines import greta_edges, two_step
from benchmarks.papers.data import Events, Floats
from benchmarks.papers.state import state_bytes
from benchmarks.papers.sweep import Outcome

FALLING = "A.price > NEXT(A).price"
TRENDS_MAX = 100_000_000
"""Trends that the two-step engines may build."""

Run = Callable[[], Outcome]


def cepheid(events: Events, condition: str = FALLING, pattern: str = "A+") -> Run:
    """Count with Cepheid, and measure the state of a live query over the same window."""
    text = f"RETURN LOG2(COUNT(*)) PATTERN {pattern} WHERE [key] AND {condition}"
    kept = state_bytes(text, events.table)

    def run() -> Outcome:
        found = ours.run(text, events.table)["log2_count"].to_pylist()
        return Outcome(found[0] if found else -math.inf, kept)

    return run


class Part(NamedTuple):
    """The events of a key: j may come before i if f[j] > g[i]; trends begin before `start_max`."""

    f: Floats
    g: Floats
    start_max: int | None = None


def greta(parts: list[Part]) -> Run:
    """Count with GRETA's graph: a vertex an event, with its count and its value."""

    def run() -> Outcome:
        total, vertices = 0.0, 0
        for f, g, start_max in parts:
            if start_max is None:
                total, vertices = total + greta_edges.PLAIN(f, g), vertices + f.size
            else:
                own, some = greta_edges.count_started(f, g, start_max)
                total, vertices = total + own, vertices + some
        return Outcome(math.log2(total), 16 * vertices)

    return run


def _two_step(build: Callable[..., two_step.Built | None], parts: list[Part]) -> Outcome:
    trends = kept = 0
    for part in parts:
        built = build(*part)
        if built is None or trends + built.trends > TRENDS_MAX:
            return Outcome(None)
        trends, kept = trends + built.trends, kept + built.kept
    return Outcome(math.log2(trends), kept)


def sase(parts: list[Part]) -> Run:
    """Build all trends by walks."""
    return partial(_two_step, two_step.build_by_walks, parts)


def cet(parts: list[Part]) -> Run:
    """Build all trends from stored ones."""
    return partial(_two_step, two_step.build_by_stored_trends, parts)


def fallen(events: Events) -> list[Part]:
    """Return the two sides of `price > NEXT(price)`, by key."""
    return [Part(events.values[rows], events.values[rows]) for rows in events.parts()]


def risen(events: Events, factor: float = 1.0) -> list[Part]:
    """Return the two sides of `price * factor < NEXT(price)`, by key."""
    every = (events.values[rows] for rows in events.parts())
    return [Part(-values * factor, -values) for values in every]


def unblocked(events: Events) -> list[Part]:
    """Return the prices of every key, in trends that begin before its first event of type 1."""
    found = []
    for rows in events.parts():
        is_price = events.codes[rows] == 0
        values = events.values[rows[is_price]]
        hits = np.flatnonzero(~is_price)
        found.append(Part(values, values, int(hits[0]) if hits.size else values.size))
    return found
