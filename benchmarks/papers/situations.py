"""Körber's thesis, section 5.7: figures 5.8 to 5.14, situations on one core."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from benchmarks import situation_cases as cases
from benchmarks import situation_facts as facts
from benchmarks.papers.entry import OURS, Entry, Found, Panel, Point, Verdict, growth, times
from benchmarks.papers.sweep import best
from benchmarks.situation_data import DATA_VARIABLE, SECOND_US, make_flags

import cepheid
from cepheid.kinds.situation.job import SituationJob
from cepheid.kinds.situation.step import SituationState, step_situations
from cepheid.plans.plan import SituationPlan

NAMES = {"ours": OURS, "iseq": "ISEQ", "phases": "two phases", "points": "points"}
FLAGS = "made: an event a second; conditions hold for 10 to 100 s, then not for 10 to 50 s"


def drivers() -> Found:
    """Find aggressive drivers in more and more events (figure 5.8)."""
    source = "made: 1,000 cars, an event a second each"
    asked = [("simple", m) for m in NAMES] + [("full", m) for m in ("ours", "iseq")]
    points = [
        _case(f"cars-{panel}", method, size, panel)
        for panel, method in asked
        for size in (100_000, 200_000, 400_000)
    ]
    if DATA_VARIABLE in os.environ:
        source += "; `linear_road`: 1 M reports of 30,622 cars"
        for panel, method in asked:
            found = _case(f"road-{panel}", method, 1_000_000, "road")
            points.append(Point(found.series, panel, found.y, "road"))
    return Found(tuple(points), source)


def _case(case: str, method: str, size: int, panel: str) -> Point:
    run = cases.PREPARE[case](case, method, size)
    run()
    return Point(NAMES[method], size, best(run)[0], panel)


def disconnected() -> Found:
    """Vary the window of a pattern whose parts are apart (figure 5.9)."""
    points = []
    for method, windows in (
        ("ours", (500, 5_000, 20_000, 100_000)),
        ("iseq", (500, 5_000, 20_000, 100_000)),
        ("phases", (500,)),
    ):
        points += [_case("disconnected", method, window, "") for window in windows]
    return Found(tuple(points), f"{FLAGS}; 1 M events")


# Query patterns ----------------------------------------------------------------------------------

RELATIONS = (
    "before", "meets", "overlaps", "starts", "during", "finishes", "equals", "after", "met by",
    "overlapped by", "started by", "contains", "finished by",
)  # fmt: skip
FAR_MAX = 2
"""Relations `before` and `after` that a drawn query may have: each multiplies its matches by 20."""

PATTERN_EVENTS, PATTERN_QUERIES = 20_000, 5
KINDS = ("Equal", "Meets", "Chain", "Star", "Combined")


def _pairs(kind: str, count: int) -> list[tuple[int, int]]:
    chain = [(n, n + 1) for n in range(count - 1)]
    star = [(0, n) for n in range(1, count)]
    if kind == "Star":
        return star
    return chain[: count // 2] + star[count // 2 :] if kind == "Combined" else chain


def _drawn(random: np.random.Generator, kind: str, count: int) -> str:
    fixed = {"Equal": "equals", "Meets": "meets"}
    far, parts = 0, []
    for left, right in _pairs(kind, count):
        relation = fixed.get(kind) or RELATIONS[random.integers(len(RELATIONS))]
        if relation in ("before", "after"):
            far += 1
            relation = relation if far <= FAR_MAX else "overlaps"
        parts.append(f"{'ABCDEFGHIJ'[left]} {relation} {'ABCDEFGHIJ'[right]}")
    define = ", ".join(f"{name} AS {name.lower()}" for name in "ABCDEFGHIJ"[:count])
    return f"DEFINE {define} PATTERN {' AND '.join(parts)} WITHIN 2000 s"


def patterns() -> Found:
    """Run five shapes of patterns over 4 to 10 conditions (figure 5.10)."""
    table = make_flags(PATTERN_EVENTS, rates=(1,) * 10)
    points = []
    for kind in KINDS:
        random = np.random.default_rng(10)
        for count in (4, 6, 8, 10):
            taken = []
            for _ in range(1 if kind in ("Equal", "Meets") else PATTERN_QUERIES):
                query = cepheid.query(_drawn(random, kind, count))
                query.run(table.slice(0, 100))
                taken.append(best(partial(query.run, table), 0.1)[0])
            points.append(Point(kind, count, float(np.median(taken)), "median"))
            points.append(Point(kind, count, max(taken), "slowest"))
    note = f"{PATTERN_QUERIES} queries of each shape and size are drawn, the paper draws 100."
    return Found(tuple(points), f"{FLAGS}; {PATTERN_EVENTS:,} events", note)


# Latency ----------------------------------------------------------------------------------------


def _gained(table: pa.Table, relation: str) -> tuple[float, float]:
    """Return the mean share of its length by which a match is early, and the mean seconds."""
    text = "DEFINE A AS a, B AS b PATTERN A {0} B {1}WITHIN 1000 s"
    last = facts.rows_of(cepheid.query(text.format(relation, "")).run(table))
    first = facts.rows_of(cepheid.query(text.format(relation, "DETECTED ")).run(table))
    ends = {(a, b): end for a, b, end in last}
    early = [(ends[a, b] - when, ends[a, b] - min(a, b)) for a, b, when in first if (a, b) in ends]
    shares = [gain / length for gain, length in early]
    return float(np.mean(shares)), float(np.mean([gain for gain, _ in early])) / SECOND_US


EARLY = ("before", "meets", "overlaps", "starts", "during")


def detection() -> Found:
    """Compare the time of detection with that of the last end (figure 5.11)."""
    points = []
    for name, lasts in {"2:1": 0.5, "1:1": 1.0, "1:2": 2.0}.items():
        table = make_flags(100_000, rates=(1, 1), lasts=(1.0, lasts))
        points += [Point(name, what, 1 - _gained(table, what)[0]) for what in EARLY]
    return Found(tuple(points), f"{FLAGS}; 100,000 events, lengths of A and B in three ratios")


LATENCY_EVENTS, BATCH = 60_000, 100


def latency() -> Found:
    """Measure how long results take, at the highest rate and at lower ones (figure 5.12)."""
    points, steps = [], {}
    table = make_flags(LATENCY_EVENTS)
    listing = f"{cases.APART} SITUATIONS A, B, C, D"
    for window in (500, 5_000, 20_000, 50_000):
        text = cases.DISCONNECTED.format(window)
        query = cepheid.query(text.replace("WITHIN", "DETECTED WITHIN"))
        job = SituationJob(SituationPlan.of(query.with_schema(table.schema).plan))
        state = SituationState.start(job)
        taken = []
        for offset in range(0, len(table), BATCH):
            began = time.process_time()
            state, _ = step_situations(job, state, table.slice(offset, BATCH))
            taken.append(time.process_time() - began)
        # The last half has a full window.
        steps[window] = float(np.mean(taken[len(taken) // 2 :])) * 1e6
        points.append(Point(OURS, window, steps[window], "a"))
        waits = cases.ours_or_waits(table, "iseq", text, listing)
        seconds = best(waits)[0] / LATENCY_EVENTS * BATCH
        points.append(Point("ISEQ, work of 100 events", window, seconds * 1e6, "a"))
    waited = _gained(make_flags(100_000, rates=(1, 1)), "overlaps")[1]
    for rate in (1, 10, 100, 1_000, 10_000, 100_000):
        points.append(Point("ISEQ waits for an event", rate, waited / rate * 1e6, "b"))
        points.append(Point("Cepheid waits for an event", rate, 0.0, "b"))
        points.append(Point("Cepheid works", rate, steps[50_000], "b"))
    note = f"A step of Cepheid takes {BATCH} events. Waiting is that of `A overlaps B`."
    return Found(tuple(points), f"{FLAGS}; {LATENCY_EVENTS:,} events", note)


# Plans ------------------------------------------------------------------------------------------

QUESTIONS = {
    "Q1": "A overlaps B AND A overlaps C AND B starts C",
    "Q2": "A overlaps B AND A before C AND B overlaps C",
    "Q3": "A before B AND A before C AND B before C",
}
Orders = tuple[tuple[int, ...], ...]
ORDERS: tuple[Orders, ...] = tuple(
    itertools.product(((1, 2), (2, 1)), ((0, 2), (2, 0)), ((0, 1), (1, 0)))
)


def plans() -> Found:
    """Compare the plan that is chosen without statistics with all others (figure 5.13)."""
    events = 200_000
    table = make_flags(events, rates=(1, 1, 1))
    points = []
    for name, pattern in QUESTIONS.items():
        text = f"DEFINE A AS a, B AS b, C AS c PATTERN {pattern} WITHIN 1000 s RETURN COUNT(A) AS n"
        job = SituationJob(SituationPlan.of(cepheid.query(text).with_schema(table.schema).plan))
        facts.time_plan(job, table.slice(0, 2000), ORDERS[0])
        first = SituationState.start(job).tuning.orders
        taken = {
            orders: min(facts.time_plan(job, table, orders) for _ in range(2)) for orders in ORDERS
        }
        rates = {orders: events / seconds / 1e6 for orders, seconds in taken.items()}
        points += [
            Point("best", name, max(rates.values())),
            Point("suggested", name, rates[tuple(tuple(order) for order in first)]),
            Point("worst", name, min(rates.values())),
        ]
    return Found(tuple(points), f"{FLAGS}; {events:,} events, windows of 1,000 s")


def adaption() -> Found:
    """Change the rates while a query runs (figure 5.14)."""
    found = facts.adapts(5)
    points = [
        Point("cpu", name.removesuffix(": cpu s"), seconds)
        for name, seconds in found.items()
        if name.endswith("cpu s")
    ]
    return Found(tuple(points), "made: 3 times 200,000 events, rates 1:1:1, 1:50:50 and 50:1:50")


# Comparisons ------------------------------------------------------------------------------------


def _drivers(found: Found) -> Sequence[Verdict]:
    sizes, grown = growth(found, OURS, "simple")
    last = found.last(OURS, "simple")
    mine = found.at(OURS, last, "simple")
    over = {n: found.at(n, last, "simple") / mine for n in ("ISEQ", "two phases", "points")}
    full = found.at(OURS, last, "full") / mine
    return (
        Verdict(
            grown < 1.3 * sizes,
            f"{sizes:.0f} times the events take Cepheid {times(grown)} as long, and all relations "
            f"of the query {times(full)} as long as two of them",
        ),
        Verdict(
            over["two phases"] > 2 and over["points"] > 1,
            f"as long as Cepheid take ISEQ {times(over['ISEQ'])} (the paper: the same), two phases "
            f"(Esper-1) {times(over['two phases'])} (8) and one pattern over points (Esper-2, "
            f"SASE+) {times(over['points'])} (2)",
        ),
    )


def _disconnected(found: Found) -> Sequence[Verdict]:
    last = found.last(OURS)
    ratio = found.at("ISEQ", last) / found.at(OURS, last)
    grown = growth(found, OURS)[1], growth(found, "ISEQ")[1]
    return (
        Verdict(
            ratio > 3,
            f"with windows of {last:,} s ISEQ takes {times(ratio)} as long as Cepheid (the paper: "
            f"more than 3); from 500 s on its time grows {times(grown[1])}, ours {times(grown[0])}",
        ),
    )


def _patterns(found: Found) -> Sequence[Verdict]:
    grown = {kind: growth(found, kind, "median")[1] for kind in KINDS}
    spread = {
        kind: max(found.at(kind, n, "slowest") / found.at(kind, n, "median") for n in (4, 6, 8, 10))
        for kind in ("Chain", "Star", "Combined")
    }
    said = ", ".join(f"{kind} {times(grown[kind])}" for kind in KINDS)
    wide = ", ".join(f"{kind} {times(spread[kind])}" for kind in spread)
    return (
        Verdict(
            max(grown.values()) < 5,
            f"from 4 to 10 situations the median time grows: {said}; linear is 2.5 times",
        ),
        Verdict(
            spread["Star"] >= spread["Chain"],
            f"the slowest query of a shape takes, in times of the median: {wide}",
        ),
    )


def _detection(found: Found) -> Sequence[Verdict]:
    after = {relation: found.at("1:1", relation) for relation in EARLY}
    least, most = min(after, key=lambda r: after[r]), max(after, key=lambda r: after[r])
    falls = all(found.at("1:2", r) < found.at("2:1", r) for r in ("before", "meets", "overlaps"))
    return (
        Verdict(
            least == "meets" and most == "before",
            f"`{least}` gains most and `{most}` least: found after {after[least]:.0%} and "
            f"{after[most]:.0%} of the time, `meets` after {after['meets']:.0%}",
        ),
        Verdict(falls, "the gain is larger the longer B is"),
    )


def _latency(found: Found) -> Sequence[Verdict]:
    mine, theirs = found.curve(OURS, "a"), found.curve("ISEQ, work of 100 events", "a")
    grown = [list(curve.values())[-1] / next(iter(curve.values())) for curve in (mine, theirs)]
    waits = found.at("ISEQ waits for an event", 1, "b") / 1e6
    return (
        Verdict(
            grown[1] > grown[0],
            f"from windows of 500 to 50,000 s the work of ISEQ grows {times(grown[1])} and that of "
            f"a step of Cepheid {times(grown[0])}. A step of {BATCH} events takes Cepheid "
            f"{mine[50_000]:,.0f} µs, the whole call, where ISEQ's kernel needs "
            f"{theirs[50_000]:,.0f} µs of work",
        ),
        Verdict(
            waits > 10,
            f"at one event a second ISEQ waits {waits:.0f} s for an end (the paper: about 35), "
            "Cepheid not at all",
        ),
    )


def _plans(found: Found) -> Sequence[Verdict]:
    shares = {name: found.at("suggested", name) / found.at("best", name) for name in QUESTIONS}
    said = ", ".join(f"{share:.0%} for {name}" for name, share in shares.items())
    worst = min(found.at("worst", name) / found.at("best", name) for name in QUESTIONS)
    return (
        Verdict(
            min(shares.values()) > 0.9,
            f"the plan that is suggested without statistics has of the best throughput {said}; the "
            f"worst plan has {worst:.0%}",
        ),
    )


def _adaption(found: Found) -> Sequence[Verdict]:
    curve = found.curve("cpu")
    fixed = [seconds for name, seconds in curve.items() if name != "adaptive"]
    ratio = curve["adaptive"] / min(fixed)
    return (
        Verdict(
            ratio < 1.1,
            f"the plan that adapts takes {ratio:.2f} of the time of the best fixed one, the worst "
            f"{max(fixed) / min(fixed):.2f} (the paper: 1.004 of the best at every moment)",
        ),
    )


ENTRIES = (
    Entry(
        "thesis-5.8",
        "Figure 5.8: aggressive drivers",
        "1 M to 100 M events of Linear Road. TPStream and ISEQ are linear, equally fast, and "
        "insensitive to alternatives; Esper in two phases takes 8 (two relations) and 20 times as "
        "long, in one pattern over points 2 and 4.3 times; SASE+ equals that.",
        "Cars that accelerate, speed and brake within 5 minutes: *simple* allows two relations, "
        "*full* all. ISEQ is our version, handed situations that Cepheid derived.",
        (
            Panel("simple", "two relations", "events"),
            Panel("full", "all relations", "events"),
            Panel("road", "linear_road", "query"),
        ),
        drivers,
        _drivers,
    ),
    Entry(
        "thesis-5.9",
        "Figure 5.9: a disconnected pattern",
        "`A starts B before C overlaps D`, 100 M events, windows of 500 to 100,000 s. TPStream is "
        "more than 3 times as fast as ISEQ at the largest; SASE+ takes 5:20 hours.",
        "The same pattern; two phases run for the smallest window alone.",
        (Panel("", "time", "window, s"),),
        disconnected,
        _disconnected,
    ),
    Entry(
        "thesis-5.10",
        "Figure 5.10: query patterns",
        "Five shapes of patterns over 4 to 10 situation streams, 100 queries each, 50 M events, "
        "windows of 2,000 s. The median grows linearly; Chain has higher maxima than Equal and "
        "Meets because of *before*; Star is the most sensitive, Combined less.",
        f"The same shapes; drawn queries have at most {FAR_MAX} `before` or `after`.",
        (
            Panel("median", "median", "situations", is_log=False),
            Panel("slowest", "slowest", "situations", is_log=False),
        ),
        patterns,
        _patterns,
    ),
    Entry(
        "thesis-5.11",
        "Figure 5.11: time of detection",
        "The time until TPStream reports a match of two situations, relative to ISEQ, for lengths "
        "of A and B from 2:1 to 1:2. *meets* gains most and *before* least; the gain grows with "
        "the length of B; *equals* and *finishes* gain nothing.",
        "The time from the first start to `DETECTED WITHIN`, relative to that of the last end.",
        (Panel("", "time until reported", "relation", "%"),),
        detection,
        _detection,
    ),
    Entry(
        "thesis-5.12",
        "Figure 5.12: latency of results",
        "(a) At the highest rate TPStream's results come sooner than ISEQ's, more so with larger "
        "windows. (b) With fewer events a second ISEQ waits for events, about 35 s at one a "
        "second; TPStream never does.",
        "(a) A step of the engine of live queries, beside ISEQ's work for as many events; ISEQ "
        "has no steps here. (b) The wait for the event that reveals a match.",
        (
            Panel("a", "a, step", "window, s", "us"),
            Panel("b", "b, latency", "events/s", "us"),
        ),
        latency,
        _latency,
    ),
    Entry(
        "thesis-5.13",
        "Figure 5.13: the first plan",
        "Three queries on three streams. The suggested plan is the best of six for two, and close "
        "to it for the third.",
        "All eight orders of joins, fixed, and the one that is chosen without statistics.",
        (Panel("", "throughput", "query", "M/s"),),
        plans,
        _plans,
    ),
    Entry(
        "thesis-5.14",
        "Figure 5.14: plans that adapt",
        "Rates change from 1:1:1 to 1:50:50 and 50:1:50. Fixed plans are slow in one phase; the "
        "adaptive one takes less than 1 % longer than a switch at the right moments.",
        "`A before B AND A before C AND B before C`; plans are named by the order of joins that C "
        "triggers.",
        (Panel("", "time", "plan"),),
        adaption,
        _adaption,
    ),
)
