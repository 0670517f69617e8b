"""Methods for Kleene patterns without conditions between neighbours, by key: counted trends out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from benchmarks import ours
from benchmarks.baselines import aseq as aseq_baseline
from benchmarks.baselines import cogra as cogra_baseline
from benchmarks.baselines import greta as greta_baseline
from benchmarks.baselines import sase as sase_baseline
from benchmarks.baselines.template import Template
from benchmarks.papers.data import Codes, Events
from benchmarks.papers.entry import OURS
from benchmarks.papers.state import state_bytes
from benchmarks.papers.sweep import Make, Outcome

ANY, NEXT, CONTIGUOUS = "any", "next", "contiguous"
CLAUSES = {
    ANY: "",
    NEXT: "SEMANTICS skip-till-next-match",
    CONTIGUOUS: "SEMANTICS contiguous",
}
BY_EVENT = "a count an event"
SASE_LIMIT_S = 3.0
FLAT_MAX = 20_000
"""A-Seq keeps a counter for every length: with longer partitions it is not tried."""

ACTIVITY = Template("SEQ(A, B+, C)", "ABC", {"B": "AB", "C": "B"}, "A", "C")
STOCK = Template("A+", "A", {"A": "A"}, "A", "A")
RIDES = Template("(SEQ(A, B))+", "AB", {"A": "B", "B": "A"}, "A", "B")


def log2_sum(logs: Sequence[float]) -> float:
    """Return the logarithm of the sum of numbers that are given by their logarithms."""
    values = np.array([value for value in logs if value > -math.inf])
    if not values.size:
        return -math.inf
    return float(values.max() + np.log2(np.exp2(values - values.max()).sum()))


def methods(
    make: Callable[[float], Events], template: Template, semantics: str, names: Sequence[str]
) -> dict[str, Make]:
    """Return the methods that count trends of a pattern by key, over streams that `make` gives."""
    every: dict[str, Make] = {
        OURS: lambda x: _ours(make(x), template, semantics),
        "COGRA": lambda x: _each(make(x), _cogra(template, semantics), _cogra_kept(template)),
        "GRETA": lambda x: _each(make(x), _greta(template), lambda part: 8 * part.size),
        BY_EVENT: lambda x: _each(make(x), _by_event(template), lambda part: 16 * part.size),
        "A-Seq": lambda x: _aseq(make(x), template),
        "SASE": lambda x: _sase(make(x), template, semantics),
    }
    return {name: every[name] for name in names}


def _ours(events: Events, template: Template, semantics: str) -> Callable[[], Outcome]:
    clause = CLAUSES[semantics]
    text = f"RETURN LOG2(COUNT(*)) PATTERN {template.pattern} {clause} WHERE [key]"
    kept = state_bytes(text, events.table)

    def run() -> Outcome:
        found = ours.run(text, events.table)["log2_count"].to_pylist()
        return Outcome(found[0] if found else -math.inf, kept)

    return run


def _parts(events: Events) -> list[Codes]:
    return [events.codes[rows] for rows in events.parts()]


def _each(
    events: Events, log2_count: Callable[[Codes], float], kept: Callable[[Codes], int]
) -> Callable[[], Outcome]:
    parts = _parts(events)
    held = sum(kept(part) for part in parts)
    return lambda: Outcome(log2_sum([log2_count(part) for part in parts]), held)


def _cogra(template: Template, semantics: str) -> Callable[[Codes], float]:
    if semantics == ANY:
        return cogra_baseline.counter(template)
    is_contiguous = semantics == CONTIGUOUS

    def log2_count(codes: Codes) -> float:
        count = cogra_baseline.count_pattern_grained(codes, template, contiguous=is_contiguous)
        return math.log2(count) if count else -math.inf

    return log2_count


def _cogra_kept(template: Template) -> Callable[[Codes], int]:
    return lambda _: 8 * len(template.states)


def _greta(template: Template) -> Callable[[Codes], float]:
    return lambda codes: greta_baseline.log2_count(codes, template)


def _by_event(template: Template) -> Callable[[Codes], float]:
    def log2_count(codes: Codes) -> float:
        count = cogra_baseline.count_event_grained(codes, template)
        return math.log2(count) if count else -math.inf

    return log2_count


def _aseq(events: Events, template: Template) -> Callable[[], Outcome]:
    parts = _parts(events)
    if max(part.size for part in parts) > FLAT_MAX:
        return lambda: Outcome(None)
    held = sum(8 * len(template.states) * part.size for part in parts)
    return lambda: Outcome(
        log2_sum([aseq_baseline.log2_count_flattened(part, template) for part in parts]), held
    )


def _sase(events: Events, template: Template, semantics: str) -> Callable[[], Outcome]:
    parts = _parts(events)
    width = 1 + template.predecessors().shape[1]
    held = sum(8 * part.size * width for part in parts)

    def run() -> Outcome:
        trends = 0
        for part in parts:
            found = sase_baseline.count_trends(
                part, template, semantics=semantics, limit_s=SASE_LIMIT_S
            )
            trends += found.trend_count
            if not found.is_complete:
                return Outcome(None)
        return Outcome(math.log2(trends) if trends else -math.inf, held)

    return run
