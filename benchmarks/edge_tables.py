"""Tables on predicates between neighbours: bars, varieties and GRETA's queries, from measurements.

Cases that are compared run in turn in one process, so that noise meets all of them.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import edge_streams
from benchmarks.linear import rate_text, seconds_text
from benchmarks.measure import measure
from benchmarks.tasks import Measurement, Task, Timing
from rich.table import Table

LIMIT_S, BUDGET_S = 120.0, 10.0
EVENTS = 1_000_000
LOOP_EVENTS, LOOP_PREFIX = 300_000, 30_000
SELECTIVITY_EVENTS = 100_000
"""As in GRETA's figure 16."""

RATE_BAR, SLIDING_BAR, LOOP_BAR, GROWTH_BAR, SELECTIVITY_BAR = 10e6, 1e6, 1_000.0, 13.0, 1.5
QUERIES = {
    "q1": "Q1 with variations: falling prices per sector, trades, WITHIN 10 min SLIDE 10 s",
    "q2": "Q2 with variations: rising load per mapper, generated, WITHIN 1 min SLIDE 30 s",
    "q3": "Q3 with variations: slower cars without accidents, Linear Road, WITHIN 5 min",
}
QUERY_EVENTS = {"q1": 1_000_000, "q2": 1_000_000, "q3": 50_000}
KEYS = ("edge-bars", "varieties", *QUERIES)

Tell = Callable[[str], None]


def run(key: str, *, shrink: int, limit_s: float, tell: Tell) -> tuple[Table, list[Measurement]]:
    """Measure a table, on streams that are `shrink` times smaller than they should be."""
    if key == "edge-bars":
        return _Bars(shrink, limit_s, tell).run()
    event_count = QUERY_EVENTS.get(key, EVENTS) // shrink
    if key in ("q1", "q3") and edge_streams.data_folder() is None:
        return Table(title=edge_streams.MISSING, title_justify="left"), []
    tell(key)
    found = _measure(key, "ours", event_count)
    title = QUERIES.get(key, "A+, falling prices, one window: aggregates and semantics")
    return _cases(f"{title}, {event_count:,} events", found, key), [found]


def _measure(key: str, method: str, size: int, limit_s: float = LIMIT_S) -> Measurement:
    return measure(Task(key, method, size, limit_s, BUDGET_S))


def _cases(title: str, found: Measurement, key: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("what")
    columns = ["time", "events/s", "x first"]
    if key in QUERIES:
        columns.append("log2 of all trends")
    for name in columns:
        table.add_column(name, justify="right")
    for timing in found.timings:
        row = [
            timing.case,
            seconds_text(timing.seconds),
            rate_text(_rate(timing)),
            f"{timing.seconds / found.timings[0].seconds:.2f}",
        ]
        table.add_row(*row, *([f"{timing.check or 0:.4f}"] if key in QUERIES else []))
    if not found.timings:
        table.add_row(f"{found.status} {found.message}")
    else:
        table.caption = (
            f"peak {found.peak_mb:,.0f} MB, of which {found.working_mb:,.0f} by the runs"
        )
    return table


def _rate(timing: Timing) -> float:
    return timing.event_count / timing.seconds


class _Bars:
    """The bars, one after the other."""

    def __init__(self, shrink: int, limit_s: float, tell: Tell) -> None:
        self._shrink, self._limit_s, self._tell = shrink, limit_s, tell
        title = "Bars" if shrink == 1 else f"Bars, on streams {shrink} times smaller"
        self._table = Table(title=title, title_justify="left")
        for name in ("what", "figure", "bar", "verdict", "baseline"):
            self._table.add_column(name, justify="left" if name == "what" else "right")
        self._found: list[Measurement] = []

    def run(self) -> tuple[Table, list[Measurement]]:
        """Measure and judge all of them."""
        timings = self._timings("bar-growth", "ours", EVENTS)
        if timings:
            small, middle, large = timings
            rate, growth = _rate(large), large.seconds / small.seconds
            self._at_least("falling prices, one window, events/s", rate, RATE_BAR, rate_text)
            self._at_most("growth in time, 10 times the events", growth, GROWTH_BAR)
            self._against_loops(middle)
        for size in (10_000, 100_000):
            timings = self._timings("bar-falling-sliding", "ours", size)
            what = f"60 windows at a time, {size // self._shrink:,} events each, events/s"
            if timings:
                self._at_least(what, _rate(timings[0]), SLIDING_BAR, rate_text)
        for size in (SELECTIVITY_EVENTS, EVENTS):
            timings = self._timings("bar-selectivity", "ours", size)
            what = f"selectivity 10 to 90 %, {size // self._shrink:,} events, slowest : fastest"
            if timings:
                seconds = [timing.seconds for timing in timings]
                self._at_most(what, max(seconds) / min(seconds), SELECTIVITY_BAR)
        return self._table, self._found

    def _timings(self, key: str, method: str, size: int) -> tuple[Timing, ...]:
        self._tell(f"{key}, {method}")
        self._found.append(_measure(key, method, size // self._shrink))
        return self._found[-1].timings

    def _against_loops(self, ours: Timing) -> None:
        """Compare with GRETA's loop, extrapolated only if it exceeds the limit."""
        figures = {method: self._loop(method) for method in ("loop", "vectorised")}
        what = f"GRETA's loop : Cepheid, {LOOP_EVENTS // self._shrink:,} events"
        seconds, note = figures["loop"]
        beside = figures["vectorised"]
        self._at_least(
            what + note,
            seconds / ours.seconds,
            LOOP_BAR,
            lambda ratio: f"{ratio:,.0f}",
            f"vectorised {beside[0] / ours.seconds:,.0f}{beside[1]}",
        )

    def _loop(self, method: str) -> tuple[float, str]:
        self._tell(f"GRETA's loop, {method}")
        size, prefix = LOOP_EVENTS // self._shrink, LOOP_PREFIX // self._shrink
        whole = _measure("falling", method, size, self._limit_s)
        if whole.timing is not None:
            self._found.append(whole)
            return whole.timing.seconds, ""
        part = _measure("falling", method, prefix)
        self._found.append(part)
        if part.timing is None:
            return float("nan"), " (failed)"
        growth = (size / prefix) ** 2
        return part.timing.seconds * growth, f" (over {self._limit_s:g} s: {prefix:,} x {growth:g})"

    def _at_least(
        self, what: str, figure: float, bar: float, text: Callable[[float], str], beside: str = "-"
    ) -> None:
        verdict = "met" if figure >= bar else "MISSED"
        self._table.add_row(what, text(figure), f">= {text(bar)}", verdict, beside)

    def _at_most(self, what: str, figure: float, bar: float) -> None:
        verdict = "met" if figure <= bar else "MISSED"
        self._table.add_row(what, f"{figure:.2f}", f"<= {bar:g}", verdict, "-")
