"""The bars that linear queries must clear: sizes in, a table with verdicts out.

The two cases of a ratio run in turn in one process, so that noise meets both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.linear import METHOD_NAMES, rate_text
from benchmarks.measure import measure
from benchmarks.tasks import Measurement, Task
from rich.table import Table

LIMIT_S = 120.0
BUDGET_S = 4.0
FULL_EVENTS = 10_000_000
STARTS_EVENTS = 2_000_000
STARTS_BASELINE_EVENTS = 400_000
RATE_BAR = 80e6
BYTES_PER_EVENT_BAR = 1.0


@dataclass(frozen=True, slots=True)
class Bar:
    """Two cases of one query, and by how much they may differ.

    Attributes
    ----------
    experiment
        Its key in `benchmarks.methods`; the first case is the reference.
    speed_min
        The least speed of the second case, relative to the first.
    event_count
        The size of the stream.
    baseline
        The paper's method to run beside, and the size of its stream.
    """

    experiment: str
    what: str
    speed_min: float
    event_count: int
    baseline: tuple[str, int] | None = None


BARS = (
    Bar(
        "bar-sliding",
        "WITHIN 10 min SLIDE 10 s, speed relative to tumbling",
        0.5,
        FULL_EVENTS,
        ("cogra", FULL_EVENTS // 5),
    ),
    Bar("bar-keys", "10,000 interleaved keys, speed relative to one key", 0.5, FULL_EVENTS),
    Bar("bar-aggregates", "SUM, MIN, MAX, AVG, speed relative to COUNT(*)", 0.3, FULL_EVENTS),
    Bar(
        "bar-starts",
        "100,000 active starts, speed relative to 100",
        1 / 3,
        STARTS_EVENTS,
        ("aseq", STARTS_BASELINE_EVENTS),
    ),
)


def run(*, shrink: int, tell: Callable[[str], None]) -> tuple[Table, list[Measurement]]:
    """Measure all bars, Cepheid on streams that are `shrink` times smaller than they should be."""
    title = "Bars" if shrink == 1 else f"Bars, on streams {shrink} times smaller"
    table = Table(title=title, title_justify="left")
    for name in ("what", "figure", "bar", "verdict", "baseline"):
        table.add_column(name, justify="left" if name == "what" else "right")
    found: list[Measurement] = []
    _add_kernel(table, found, FULL_EVENTS // shrink, tell)
    for bar in BARS:
        tell(bar.what)
        found.append(_measure(bar.experiment, "ours", bar.event_count // shrink))
        figure = _relative_speed(found[-1])
        beside = "-"
        if bar.baseline:
            method, event_count = bar.baseline
            found.append(_measure(bar.experiment, method, event_count))
            beside = f"{METHOD_NAMES[method]} {_ratio_text(_relative_speed(found[-1]))}"
        verdict = _verdict(figure, bar.speed_min)
        table.add_row(bar.what, _ratio_text(figure), f">= {bar.speed_min:.2f}", verdict, beside)
    return table, found


def _add_kernel(
    table: Table, found: list[Measurement], event_count: int, tell: Callable[[str], None]
) -> None:
    """Add the speed on one key, and how memory grows with the stream."""
    tell("(SEQ(A+, B))+ on one key")
    small = _measure("any", "ours", event_count // 10)
    large = _measure("any", "ours", event_count)
    beside = _measure("any", "cogra", event_count)
    found += [small, large, beside]
    rate, cogra_rate = _rate(large), _rate(beside)
    table.add_row(
        "(SEQ(A+, B))+ on one key, events/s",
        rate_text(rate) if rate else "-",
        f">= {rate_text(RATE_BAR)}",
        _verdict(rate, RATE_BAR),
        f"COGRA {rate_text(cogra_rate)}" if cogra_rate else "-",
    )
    grown = (large.working_mb - small.working_mb) * 2**20 / (0.9 * event_count) if rate else None
    verdict = "-" if grown is None else _verdict(-grown, -BYTES_PER_EVENT_BAR)
    table.add_row(
        "memory beside the input, bytes an event",
        "-" if grown is None else f"{grown:.2f}",
        f"<= {BYTES_PER_EVENT_BAR:g}",
        verdict,
        "-",
    )


def _measure(experiment: str, method: str, event_count: int) -> Measurement:
    return measure(Task(experiment, method, event_count, LIMIT_S, BUDGET_S))


def _rate(found: Measurement) -> float | None:
    return found.timing.event_count / found.timing.seconds if found.timing else None


def _relative_speed(found: Measurement) -> float | None:
    if not found.timings:
        return None
    reference, second = found.timings
    return reference.seconds / second.seconds


def _ratio_text(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2g}" if ratio < 0.01 else f"{ratio:.2f}"


def _verdict(figure: float | None, least: float) -> str:
    if figure is None:
        return "-"
    return "met" if figure >= least else "MISSED"
