"""COGRA (Poppe et al., SIGMOD 2019), section 8 and appendix D: figures 5 to 13."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from benchmarks import ours
from benchmarks.baselines.cogra import count_pattern_grained
from benchmarks.baselines.template import Template
from benchmarks.papers import data, flink, kleene
from benchmarks.papers.entry import OURS, Entry, Found, Panel, Point, Verdict, growth, times
from benchmarks.papers.greta import share_methods
from benchmarks.papers.sweep import sweep

ONLINE = (OURS, "COGRA", "GRETA", "A-Seq")
LOW = (100, 150, 200, 250, 1_000, 10_000, 100_000, 600_000)
RATES = (1_000, 10_000, 100_000, 600_000)
COMPANIES = (4_000, 8_000, 12_000, 16_000, 20_000, 100_000, 1_000_000)
SECTORS = (30_000, 100_000, 300_000, 1_000_000)
RIDES = (10_000, 30_000, 100_000, 300_000)
GROUPS = (5, 10, 15, 20, 25, 30)
SHARES = (10, 30, 50, 70, 90)
FEW, FULL, LARGE, SMALL = 400, 50_000, 20_000, 26
TIME = Panel("", "time", "events in a window")
KEPT = Panel("kept", "kept", "events in a window", "bytes")

Make = Callable[[float], data.Events]


def _swept(
    make: Make,
    template: Template,
    semantics: str,
    names: Sequence[str],
    sizes: Sequence[float],
    **options: object,
) -> tuple[Point, ...]:
    methods = kleene.methods(make, template, semantics, names)
    return tuple(sweep(methods, sizes, kept="kept", **options))  # type: ignore[arg-type]


def _beside_flink(
    found: Found,
    name: str,
    make: Make,
    template: Template,
    semantics: str,
    sizes: Sequence[float],
) -> Found:
    """Add Flink's curve over the same windows."""
    windows = {size: make(size) for size in sizes}
    return flink.beside(found, f"{name} {semantics}", windows, _counting(template, semantics))


def activity_any() -> Found:
    """Count changes from slow to fast under skip-till-any-match (figure 5)."""
    events = data.activity()
    points = _swept(
        events.thin, kleene.ACTIVITY, kleene.ANY, (OURS, "COGRA", "GRETA", "A-Seq", "SASE"), LOW
    )
    found = Found(points, events.source)
    return _beside_flink(found, "activity", events.thin, kleene.ACTIVITY, kleene.ANY, LOW)


def activity(semantics: str) -> Found:
    """Count changes from slow to fast, next-match or contiguous (figures 6 and 7)."""
    events = data.activity()
    found = _restrictive(events, events.thin, kleene.ACTIVITY, semantics, RATES)
    return _beside_flink(found, "activity", events.thin, kleene.ACTIVITY, semantics, RATES)


def _restrictive(
    events: data.Events,
    make: Make,
    template: Template,
    semantics: str,
    sizes: Sequence[float],
) -> Found:
    is_next = semantics == kleene.NEXT
    wrong = ("COGRA", "SASE") if is_next else ()
    names = (OURS, "COGRA", *((kleene.BY_EVENT,) if is_next else ()), "SASE")
    points = _swept(make, template, semantics, names, sizes, different=wrong)
    mine = ours.run(_counting(template, semantics), events.table)["count"].to_numpy().sum()
    told = f"All {len(events):,} events have {mine:,.0f} trends to build."
    return Found(points, events.source, _difference(events, template, mine) if is_next else told)


def _counting(template: Template, semantics: str) -> str:
    return f"RETURN COUNT(*) PATTERN {template.pattern} {kleene.CLAUSES[semantics]} WHERE [key]"


def _difference(events: data.Events, template: Template, mine: float) -> str:
    """Say what Algorithm 3 counts on the whole stream, and what Definition 2.6 asks for."""
    theirs = sum(
        count_pattern_grained(events.codes[rows], template, contiguous=False)
        for rows in events.parts()
    )
    return (
        f"Algorithm 3 counts {theirs:,.0f} trends in all events, where the paper's definition 2.6 "
        f"has {mine:,.0f}: several A wait for the same B, and the algorithm keeps the last "
        "event alone. So the times of COGRA and SASE are compared, and not their answers."
    )


def stock_low() -> Found:
    """Count trends of companies, few events in a window (figure 8)."""
    events = data.stocks()
    names = (*ONLINE, "SASE")
    found = Found(_swept(events.first, kleene.STOCK, kleene.ANY, names, COMPANIES), events.source)
    return _beside_flink(found, "stock", events.first, kleene.STOCK, kleene.ANY, COMPANIES)


def stock_high() -> Found:
    """Count trends of sectors, many events in a window (figure 10)."""
    events = data.stocks("sector")
    points = _swept(events.first, kleene.STOCK, kleene.ANY, ONLINE, SECTORS)
    found = Found(points, f"{events.source}, by 13 sectors")
    return _beside_flink(found, "stock", events.first, kleene.STOCK, kleene.ANY, SECTORS)


def rides(semantics: str) -> Found:
    """Count rides one after the other, next-match or contiguous (figures 9 and 11)."""
    events = data.rides()
    found = _restrictive(events, events.first, kleene.RIDES, semantics, RIDES)
    return _beside_flink(found, "rides", events.first, kleene.RIDES, semantics, RIDES)


def groups() -> Found:
    """Vary the number of groups (figure 12)."""
    events = data.rides()
    points: list[Point] = []
    for panel, size, names in (
        ("large", FULL, ONLINE),
        ("small", FEW, (*ONLINE, "SASE")),
    ):
        window = events.first(size)

        def grouped(count: float, window: data.Events = window) -> data.Events:
            return data.regrouped(window, int(count))

        methods = kleene.methods(grouped, kleene.RIDES, kleene.ANY, names)
        kept = "kept" if panel == "large" else None
        points += sweep(methods, GROUPS[::-1], panel=panel, kept=kept)
    return Found(tuple(points), events.source)


def selectivity() -> Found:
    """Vary the share of pairs that satisfy the predicate, on trades (figure 13)."""
    source = data.trades()
    prices = np.random.default_rng(13).permutation(source.values)
    points: list[Point] = []
    for panel, size in (("large", LARGE), ("small", SMALL)):
        zeros = np.zeros(size, np.int64)
        window = data.made(np.arange(size) * 1000, ["A"], zeros, zeros, prices[:size], "")
        points += sweep(
            share_methods(window, prices, is_small=panel == "small"), SHARES, panel=panel
        )
    return Found(tuple(points), f"{source.source}, prices in random order")


# Comparisons ------------------------------------------------------------------------------------


def _two_step(found: Found) -> Verdict:
    size, last = found.last("SASE"), found.last("COGRA")
    ratio = found.at("SASE", size) / found.at("COGRA", size)
    if size == last:
        text = f"SASE takes {times(ratio)} as long as COGRA at {size:,} events, and gets there"
        return Verdict(ratio > 100, text)
    return Verdict(
        ratio > 5,
        f"SASE ends at {size:,} events, where it takes {times(ratio)} as long as COGRA; COGRA and "
        f"Cepheid go on to {last:,}",
    )


def _linear(found: Found) -> Verdict:
    sizes, grown = growth(found, "COGRA")
    mine, last = growth(found, OURS)[1], found.last(OURS)
    own, theirs = (found.at(name, last) for name in (OURS, "COGRA"))
    more = growth(found, "COGRA", "kept")[1]
    return Verdict(
        grown < 3 * sizes and more < sizes / 5,
        f"for {sizes:,.0f} times the events COGRA takes {times(grown)} as long and Cepheid "
        f"{times(mine)}; at {last:,} events Cepheid's whole call takes {own * 1e3:.3g} ms, COGRA's "
        f"kernel alone {theirs * 1e3:.3g} ms; the states, {found.at(OURS, last, 'kept'):,.0f} and "
        f"{found.at('COGRA', last, 'kept'):,.0f} bytes, grow with the keys and not with the events",
    )


def _quadratic(found: Found) -> Verdict:
    said, holds = [], True
    for name in ("GRETA", "A-Seq"):
        size = found.last(name)
        ratio = found.at(name, size) / found.at("COGRA", size)
        holds &= ratio > 5
        said.append(f"{name} takes {times(ratio)} as long as COGRA at {size:,} events")
    return Verdict(holds, ", ".join(said))


def _any(found: Found) -> Sequence[Verdict]:
    return _two_step(found), _quadratic(found), _linear(found)


def _activity(found: Found) -> Sequence[Verdict]:
    return *flink.verdicts(found, 1e6), *_any(found)


def _high(found: Found) -> Sequence[Verdict]:
    last = found.last(OURS)
    rate = float(last) / found.at(OURS, last) / 1e6
    kernel = float(last) / found.at("COGRA", last) / 1e6
    return (
        _quadratic(found),
        _linear(found),
        Verdict(
            kernel > 39,
            f"COGRA does {kernel:.0f} M events/s (the paper: 39 M), Cepheid from an Arrow table "
            f"{rate:.0f} M",
        ),
    )


def _restricted(found: Found, flink_claim: float | None = None) -> Sequence[Verdict]:
    beside = () if flink_claim is None else flink.verdicts(found, flink_claim)
    return *beside, _two_step(found), _linear(found)


def _rides_next(found: Found) -> Sequence[Verdict]:
    size = found.last(kleene.BY_EVENT)
    ratio = found.at(kleene.BY_EVENT, size) / found.at("COGRA", size)
    more = found.at(kleene.BY_EVENT, size, "kept") / found.at("COGRA", size, "kept")
    by_event = Verdict(
        ratio >= 12,
        f"a count for each event takes {times(ratio)} as long as COGRA at {size:,} events (the "
        f"paper: 12 times), and {times(more)} its memory",
    )
    return *_restricted(found), by_event


def _groups(found: Found) -> Sequence[Verdict]:
    fewest = found.last("SASE", "small")
    grown = found.at("SASE", fewest, "small") / found.at("SASE", 30, "small")
    ratios = {
        n: found.at(n, 5, "large") / found.at("COGRA", 5, "large") for n in ("GRETA", "A-Seq")
    }
    flat = [
        max(found.curve(n, "large").values()) / min(found.curve(n, "large").values())
        for n in (OURS, "COGRA")
    ]
    return (
        Verdict(
            grown > 5,
            f"of {FEW} events SASE builds trends for {times(grown)} as long with {fewest:g} groups "
            "as with 30",
        ),
        Verdict(
            ratios["GRETA"] > 7 and ratios["A-Seq"] > 5,
            f"with 5 groups of {FULL:,} events GRETA takes {times(ratios['GRETA'])} (the paper: 7) "
            f"and A-Seq {times(ratios['A-Seq'])} (the paper: 5) as long as COGRA",
        ),
        Verdict(
            max(flat) < 3,
            f"the number of groups changes COGRA's time by {times(flat[1])} and Cepheid's by "
            f"{times(flat[0])}",
        ),
    )


def _selectivity(found: Found) -> Sequence[Verdict]:
    last = found.last("SASE", "small")
    grown = found.at("SASE", last, "small") / found.at("SASE", 10, "small")
    rise = found.at("GRETA", 90, "large") / found.at("GRETA", 10, "large")
    best = found.at("GRETA", 90, "large") / found.at(OURS, 90, "large")
    return (
        Verdict(
            grown > 100,
            f"over {SMALL} events SASE takes {times(grown)} as long at {last:g} % as at 10 %",
        ),
        Verdict(
            rise > 1.5,
            f"over {LARGE:,} events GRETA's graph takes {times(rise)} as long at 90 % as at 10 %",
        ),
        Verdict(
            best > 2,
            f"the paper's COGRA halves GRETA's time at 90 %; Cepheid takes a {best:,.0f}th of it",
        ),
    )


def _entry(
    number: int,
    title: str,
    paper: str,
    here: str,
    measure: Callable[[], Found],
    compare: Callable[[Found], Sequence[Verdict]],
) -> Entry:
    return Entry(
        f"cogra-{number}", f"Figure {number}: {title}", paper, here, (TIME, KEPT), measure, compare
    )


BY_SHARE = (
    Panel("large", f"{LARGE:,} events", "pairs that fit, %", is_log=False),
    Panel("small", f"{SMALL} events", "pairs that fit, %", is_log=False),
)
BY_GROUP = (
    Panel("large", f"{FULL:,} events", "groups", is_log=False),
    Panel("small", f"{FEW} events", "groups", is_log=False),
    Panel("kept", f"kept, {FULL:,} events", "groups", "bytes", is_log=False),
)
CHANGE = "`SEQ(A, B+, C)` by person: a heart rate below 60, others, one above 100"
ENTRIES = (
    _entry(
        5,
        "skip-till-any-match, physical activity",
        "Flink does not return beyond 30 k events, where COGRA is 10^6 times as fast with 10^-7 of "
        "the memory; the online methods are all fast at these rates.",
        f"{CHANGE}, with a rate of so many events a window.",
        activity_any,
        _activity,
    ),
    _entry(
        6,
        "skip-till-next-match, physical activity",
        "Flink has polynomial cost and ends; COGRA stays about a million times as fast.",
        f"{CHANGE}.",
        partial(activity, kleene.NEXT),
        partial(_restricted, flink_claim=1e6),
    ),
    _entry(
        7,
        "contiguous, physical activity",
        "Flink does better, as trends are few and short, and is still 10^4 times slower than "
        "COGRA for 4 M events.",
        f"{CHANGE}.",
        partial(activity, kleene.CONTIGUOUS),
        partial(_restricted, flink_claim=1e4),
    ),
    _entry(
        8,
        "skip-till-any-match, stocks, low rates",
        "SASE grows exponentially and ends beyond 40 k events, where COGRA is 1,000 times as fast "
        "with 10^-4 of the memory.",
        "`A+` by company.",
        stock_low,
        _any,
    ),
    _entry(
        9,
        "skip-till-next-match, rides",
        "SASE takes over 3 hours for 4 M events and ends; COGRA is 10^4 times as fast with 10^-5 "
        "of the memory. Aggregates an event (as in GRETA) take 12 times as long as COGRA.",
        "`(SEQ(A, B))+` by bicycle: rides one after the other. *A count an event* is the same by "
        "definition 2.6, with an aggregate for each event.",
        partial(rides, kleene.NEXT),
        _rides_next,
    ),
    _entry(
        10,
        "skip-till-any-match, stocks, high rates",
        "GRETA ends beyond 20 M events, 10^4 times slower than COGRA; A-Seq is 1,000 times slower "
        "at 100 M with 10^4 times the memory. COGRA does over 39 M events/s, in constant memory.",
        "`A+` by sector.",
        stock_high,
        _high,
    ),
    _entry(
        11,
        "contiguous, rides",
        "SASE keeps up here; COGRA is 1,000 times as fast at 10 M events, with 10^-6 of its "
        "memory.",
        "`(SEQ(A, B))+` by bicycle.",
        partial(rides, kleene.CONTIGUOUS),
        _restricted,
    ),
    Entry(
        "cogra-12",
        "Figure 12: number of groups",
        "50 k events. SASE ends below 25 groups, where COGRA is 10^4 times as fast; with 5 groups "
        "A-Seq takes 5 times and GRETA 7 times as long as COGRA; online methods do well with any "
        "number of groups.",
        f"`(SEQ(A, B))+`, bicycles put into so many groups; {FULL:,} events, and {FEW} for SASE.",
        BY_GROUP,
        groups,
        _groups,
    ),
    Entry(
        "cogra-13",
        "Figure 13: selectivity of predicates",
        "50 k events. Flink ends beyond 50 %; SASE takes 100 times as long as COGRA at 90 %; GRETA "
        "grows with the edges, and COGRA takes half of its time at 90 %. (With a condition between "
        "neighbours COGRA keeps events as GRETA does: its Algorithm 2.)",
        f"`A+` with `A.price * x < NEXT(A).price`; {LARGE:,} events, and {SMALL} for SASE and CET.",
        BY_SHARE,
        selectivity,
        _selectivity,
    ),
)
