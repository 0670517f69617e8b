"""A-Seq (Qi et al., SIGMOD 2014), section 6: figures 12 to 16, in its own window.

`WITHIN` without SLIDE is A-Seq's window: matches leave it with their first events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np
import pyarrow as pa
from benchmarks import ours, streams, workloads
from benchmarks.baselines import aseq, stacks
from benchmarks.papers import data
from benchmarks.papers.entry import OURS, Entry, Found, Panel, Point, Verdict, growth, times
from benchmarks.papers.sweep import Make, Outcome, best, check, sweep

import cepheid

EVENTS = 20_000
SPEED = 10
"""The trades are replayed so many times as fast, for a second to hold about 280 of them."""

LENGTHS, LONGER = (2, 3, 4, 5), (6, 7, 8, 9, 10)
WINDOWS_MS = (100, 250, 500, 750, 1000)
STACKS, COUNTERS = "stacks", "A-Seq"
TYPES = "GHABEFCD"
"""SPY and BAC come first: they have most of the trades."""


@cache
def _trades() -> tuple[data.Integers, data.Codes, pa.Table, str]:
    events = data.trades().first(EVENTS)
    micros = np.asarray(events.table["ts"]).astype("datetime64[us]").astype(np.int64)
    micros = data.rising((micros - micros[0]) // SPEED)
    made = data.made(micros, list("ABCDEFGH"), events.codes, events.keys, events.values, "")
    return micros, events.codes, made.table, events.source


@cache
def _drawn(event_count: int) -> streams.Stream:
    return streams.uniform(event_count, type_count=10)


def _methods(question: Callable[[float], tuple[str, int, str]]) -> dict[str, Make]:
    """Return methods for questions: types, a window in µs, and a negated type."""
    micros, codes, table, _ = _trades()

    def mine(x: float) -> Callable[[], Outcome]:
        text = _text(*question(x))
        return lambda: Outcome(_sum(ours.run(text, table)))

    def counters(x: float) -> Callable[[], Outcome]:
        types, within_us, negated = question(x)
        most = _starts_max(micros, codes, types[0], within_us)

        def run() -> Outcome:
            found = aseq.count_within(micros, codes, types, within_us, negated)
            return Outcome(math.fsum(found.counts[found.is_match_end]), most)

        return run

    def built(x: float) -> Callable[[], Outcome]:
        types, within_us, negated = question(x)

        def run() -> Outcome:
            found = stacks.build_within(micros, codes, types, within_us, negated)
            return Outcome(None) if found is None else Outcome(found.total, found.kept)

        return run

    return {OURS: mine, COUNTERS: counters, STACKS: built}


def _text(types: str, within_us: int, negated: str) -> str:
    parts = list(types)
    if negated:
        parts.insert(len(parts) - 1, f"NOT {negated}")
    return f"RETURN COUNT(*) PATTERN SEQ({', '.join(parts)}) WITHIN {within_us} us"


def _sum(table: pa.Table) -> float:
    return math.fsum(table["count"].to_numpy())


def _starts_max(micros: data.Integers, codes: data.Codes, first: str, within_us: int) -> int:
    """Return the most starts that are active at once: A-Seq's objects."""
    starts = micros[codes == "ABCDEFGHIJ".index(first)]
    return int((np.arange(1, len(starts) + 1) - np.searchsorted(starts, starts - within_us)).max())


def length() -> Found:
    """Vary the length of the pattern (figure 12)."""
    methods = _methods(lambda x: (TYPES[: int(x)], 1_000_000, ""))
    points = sweep(methods, LENGTHS, kept="kept", limit_s=10)
    return Found(tuple(points), f"{_trades()[3]}, ten times as fast")


def windows() -> Found:
    """Vary the window (figure 13)."""
    methods = _methods(lambda x: (TYPES[:3], int(x) * 1000, ""))
    points = sweep(methods, WINDOWS_MS, kept="kept", limit_s=10)
    return Found(tuple(points), f"{_trades()[3]}, ten times as fast")


def scale() -> Found:
    """Vary the length up to ten, and put a NOT in (figure 14)."""
    stream = _drawn(60_000)
    table = stream.table()

    def mine(x: float) -> Callable[[], Outcome]:
        text = _text("ABCDEFGHIJ"[: int(x)], 2_000_000, "")
        return lambda: Outcome(_sum(ours.run(text, table)))

    def counters(x: float) -> Callable[[], Outcome]:
        def run() -> Outcome:
            types = "ABCDEFGHIJ"[: int(x)]
            found = aseq.count_within(stream.times_us, stream.type_codes, types, 2_000_000)
            return Outcome(math.fsum(found.counts[found.is_match_end]))

        return run

    points = sweep({OURS: mine, COUNTERS: counters}, LONGER, panel="a")
    negated = {"SEQ(G, H, A)": "", "SEQ(G, H, NOT B, A)": "B"}
    answers: dict[float, tuple[str, float]] = {}
    for number, (name, letter) in enumerate(negated.items()):
        methods = _methods(partial(_of_three, letter))
        for method, make in methods.items():
            make(0)()
            seconds, outcome = best(make(0))
            assert outcome.answer is not None, "three types are few enough"
            check(answers, method, number, outcome.answer)
            points.append(Point(method, name, seconds, "b"))
    return Found(tuple(points), f"made: 60,000 events of 10 types (a); {_trades()[3]} (b)")


def _of_three(negated: str, _: float) -> tuple[str, int, str]:
    return TYPES[:3], 1_000_000, negated


def sharing() -> Found:
    """Run three queries that share their middle, alone and together (figure 15)."""
    stream = _drawn(8_000)
    arrays = stream.times_us, stream.type_codes
    within_us = 150 * streams.STEP_US
    points, table = [], stream.table()
    for middle in (2, 3, 4):
        queries = [f"{a}{'ABCD'[:middle]}{b}" for a, b in ("EF", "GH", "IJ")]
        texts = [_text(query, within_us, "") for query in queries]
        group = cepheid.workload(texts)

        def apart(texts: list[str] = texts) -> float:
            return sum(_sum(ours.run(text, table)) for text in texts)

        def shared(group: cepheid.Workload = group) -> float:
            return sum(_sum(own) for own in group.run(table, separate=True).values())

        def built(queries: list[str] = queries) -> float | None:
            found = [stacks.build_within(*arrays, query, within_us) for query in queries]
            return None if None in found else sum(one.total for one in found if one is not None)

        def counted(queries: list[str] = queries) -> float:
            found = [aseq.count_within(*arrays, query, within_us) for query in queries]
            return sum(math.fsum(one.counts[one.is_match_end]) for one in found)

        def cubed(queries: list[str] = queries) -> float | None:
            return stacks.build_shared(*arrays, queries, within_us)

        methods: dict[str, Callable[[], float | None]] = {
            "Cepheid, shared": shared,
            "Cepheid, alone": apart,
            "A-Seq, alone": counted,
            "stacks, alone": built,
            "E-Cube, shared": cubed,
        }
        answers: dict[float, tuple[str, float]] = {}
        for name, call in methods.items():
            call()
            seconds, answer = best(call)
            points.append(Point(name, middle, None if answer is None else seconds))
            if answer is not None:
                check(answers, name, middle, answer)
    note = "A window holds 150 events. A-Seq's own sharing (Chop-Connect) is not measured."
    return Found(tuple(points), "made: 8,000 events of 10 types", note)


def workload() -> Found:
    """Share prefixes and substrings of queries (figure 16)."""
    table = workloads.make_events(100_000)
    rows = {
        "a": {n: workloads.prefixes(3, n, workloads.TRAILING) for n in (2, 4, 6)},
        "b": {n: workloads.prefixes(n, 3, workloads.TRAILING) for n in (2, 4, 6)},
        "c": {n: workloads.substrings(n, 3, workloads.TRAILING) for n in (2, 4, 6)},
        "d": {n: workloads.substrings(6, n, workloads.TRAILING) for n in (2, 4, 6)},
    }
    points = []
    for panel, own in rows.items():
        for x, texts in own.items():
            group = cepheid.workload(texts)
            for name, run in (("shared", _together), ("alone", _apart)):
                call = partial(run, group, table)
                call()
                points.append(Point(name, x, best(call)[0], panel))
    return Found(tuple(points), "made: 100,000 events of 20 types, a thousand a second")


def _together(group: cepheid.Workload, table: pa.Table) -> float:
    return sum(_sum(own) for own in group.run(table, separate=True).values())


def _apart(group: cepheid.Workload, table: pa.Table) -> float:
    return sum(_sum(query.run(table)) for query in group.queries)


# Comparisons ------------------------------------------------------------------------------------


def _length(found: Found) -> Sequence[Verdict]:
    last = found.last(STACKS)
    ratio = found.at(STACKS, last) / found.at(COUNTERS, last)
    kept = found.at(STACKS, last, "kept") / found.at(COUNTERS, last, "kept")
    flat, mine = (growth(found, name)[1] for name in (COUNTERS, OURS))
    return (
        Verdict(
            ratio > 100,
            f"at length {last:g} stacks take {times(ratio)} as long as A-Seq (the paper: 16,736 at "
            f"5) and keep {times(kept)} as many objects",
        ),
        Verdict(
            flat < 4,
            f"from length 2 to 5 A-Seq's time grows {times(flat)}, Cepheid's {times(mine)}; "
            "A-Seq's kernel alone is faster than a call of Cepheid with so few active starts: "
            f"{found.at(COUNTERS, 5) * 1e3:.1f} and {found.at(OURS, 5) * 1e3:.1f} ms",
        ),
    )


def _windows(found: Found) -> Sequence[Verdict]:
    grown = {name: growth(found, name)[1] for name in (STACKS, COUNTERS, OURS)}
    return (
        Verdict(
            grown[STACKS] > grown[COUNTERS],
            f"ten times the window takes stacks {times(grown[STACKS])} as long, A-Seq "
            f"{times(grown[COUNTERS])} and Cepheid {times(grown[OURS])}",
        ),
    )


def _scale(found: Found) -> Sequence[Verdict]:
    flat = growth(found, COUNTERS, "a")[1]
    plain, negated = (dict.fromkeys((OURS, COUNTERS, STACKS), 0.0) for _ in range(2))
    for name in plain:
        plain[name], negated[name] = found.curve(name, "b").values()
    more = {name: negated[name] / plain[name] for name in plain}
    each = found.at(COUNTERS, 10, "a") / 60_000 * 1e3
    return (
        Verdict(
            flat < 2,
            f"from length 6 to 10 A-Seq's time changes {times(flat)} and Cepheid's "
            f"{times(growth(found, OURS, 'a')[1])}; an event takes {each * 1e3:.2f} µs at 10 (the "
            "paper: 21.9), in Cepheid "
            f"{found.at(OURS, 10, 'a') / 60_000 * 1e6:.2f} µs",
        ),
        Verdict(
            more[COUNTERS] < 1.2 < more[STACKS],
            f"NOT takes A-Seq {times(more[COUNTERS])} as long as without it, stacks that check "
            f"built matches {times(more[STACKS])}, Cepheid {times(more[OURS])}",
        ),
    )


def _sharing(found: Found) -> Sequence[Verdict]:
    gain = {x: found.at("stacks, alone", x) / y for x, y in found.curve("E-Cube, shared").items()}
    last = found.last("E-Cube, shared")
    ratio = found.at("E-Cube, shared", last) / found.at("A-Seq, alone", last)
    mine = found.at("Cepheid, alone", 4) / found.at("Cepheid, shared", 4)
    return (
        Verdict(
            max(gain.values()) > 2,
            f"E-Cube is up to {times(max(gain.values()))} as fast as stacks (the paper: 2 to 3)",
        ),
        Verdict(
            ratio > 100,
            f"with a middle of {last:g} E-Cube takes {times(ratio)} as long as A-Seq (the paper: "
            "at least 100)",
        ),
        Verdict(
            mine > 1, f"in Cepheid the shared workload is {times(mine)} as fast as its queries"
        ),
    )


def _workload(found: Found) -> Sequence[Verdict]:
    gain = {
        panel: {
            x: found.at("alone", x, panel) / shared
            for x, shared in found.curve("shared", panel).items()
        }
        for panel in "abcd"
    }
    said = {
        "a": "2 to 6 queries of a shared prefix of 3 gain {} (the paper: around 2)",
        "b": "3 queries of a shared prefix of 2 to 6 gain {} (3 to 5)",
        "c": "3 queries of a shared substring of 2 to 6 gain {} (1.3 to 2.6)",
        "d": "2 to 6 queries of a shared substring of 6 gain {} (2)",
    }
    least = {"a": 2.0, "b": 3.0, "c": 1.3, "d": 2.0}
    return [
        Verdict(
            max(gain[panel].values()) >= least[panel],
            text.format(" to ".join(f"{gain[panel][x]:.2g}" for x in (2, 6))),
        )
        for panel, text in said.items()
    ]


ENTRIES = (
    Entry(
        "aseq-12",
        "Figure 12: length of the pattern",
        "Sequences of 2 to 5 types in a second of stock trades, 120,000 events. The stack-based "
        "engine grows exponentially, A-Seq stays fairly constant: 16,736 times as fast at length "
        "5. It keeps as many counters as starts are active.",
        f"SEQ of 2 to 5 of eight types (company, and whether the price fell), `WITHIN 1 second`; "
        f"{EVENTS:,} events. Objects are events, pointers and matches, or counters.",
        (
            Panel("", "time", "types", is_log=False),
            Panel("kept", "kept", "types", "objects", is_log=False),
        ),
        length,
        _length,
    ),
    Entry(
        "aseq-13",
        "Figure 13: window",
        "Windows of 100 to 1,000 ms, sequences of three types. The stack-based engine degrades "
        "much faster than A-Seq, which is linear in the active events.",
        f"SEQ of three types, `WITHIN` 100 to 1,000 ms; {EVENTS:,} events.",
        (
            Panel("", "time", "window, ms", is_log=False),
            Panel("kept", "kept", "window, ms", "objects", is_log=False),
        ),
        windows,
        _windows,
    ),
    Entry(
        "aseq-14",
        "Figure 14: scale and negation",
        "(a) Sequences of 6 to 10 types in 2 s: A-Seq does not degrade, 0.0219 ms an event at "
        "most. (b) A negated type costs A-Seq nearly nothing, and the stack-based engine, which "
        "checks built matches, much.",
        "(a) SEQ of 6 to 10 types, `WITHIN 2 seconds`, 3,333 events in a window. (b) Two queries "
        f"over {EVENTS:,} trades, with and without NOT.",
        (
            Panel("a", "a, time", "types", is_log=False),
            Panel("b", "b, time", "query"),
        ),
        scale,
        _scale,
    ),
    Entry(
        "aseq-15",
        "Figure 15: shared A-Seq beside E-Cube",
        "Three queries. E-Cube shares the construction of a common substring and is 2 to 3 times "
        "as fast as SASE, and at least 100 times slower than A-Seq, shared or not.",
        "Three queries with a middle of 2 to 4 types in common, and a first and last type of their "
        "own.",
        (Panel("", "time", "types in common", is_log=False),),
        sharing,
        _sharing,
    ),
    Entry(
        "aseq-16",
        "Figure 16: sharing in workloads",
        "(a) 2 to 6 queries with a common prefix of 3 gain about 2 times; (b) 3 queries with a "
        "prefix of 2 to 6 gain 3 to 5 times; (c) 3 queries with a common substring of 2 to 6 gain "
        "1.3 to 2.6 times; (d) 2 to 6 queries with one gain 2 times, growing with their number.",
        "The same workloads of Cepheid, shared and each query alone, `WITHIN 10 seconds`.",
        (
            Panel("a", "a, time", "queries", is_log=False),
            Panel("b", "b, time", "common prefix", is_log=False),
            Panel("c", "c, time", "common substring", is_log=False),
            Panel("d", "d, time", "queries", is_log=False),
        ),
        workload,
        _workload,
    ),
)
