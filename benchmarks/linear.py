"""The benchmark of linear queries: sizes and limits in, measurements and tables out.

Side by side, on one core and from memory: Cepheid, COGRA's algorithms, GRETA's graph, A-Seq and a
two-step enumerator in the style of SASE, as in the figures of the papers. A method that exceeds the
time limit is not tried on larger inputs. The baselines read arrays of type codes; Cepheid reads an
Arrow table and codes the types itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.measure import measure
from benchmarks.tasks import Measurement, Task
from rich.table import Table

METHOD_NAMES = {
    "ours": "Cepheid",
    "cogra": "COGRA",
    "greta": "GRETA",
    "aseq": "A-Seq",
    "sase": "SASE",
    "pairwise": "Cepheid, pairwise",
    "loop": "GRETA",
    "vectorised": "GRETA, vectorised",
}
POWERS = tuple(10**i for i in range(3, 9))
CHECK_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Experiment:
    """One figure of the papers: methods over sizes.

    Attributes
    ----------
    key
        Its name in `benchmarks.methods`, and of the chart.
    title
        What is computed, and the figures that it corresponds to.
    axis
        What the sizes are.
    is_in_events
        Whether the sizes are numbers of events, and so end where the user wants.
    """

    key: str
    title: str
    axis: str
    methods: tuple[str, ...]
    sizes: tuple[int, ...]
    is_in_events: bool = True


EXPERIMENTS = (
    Experiment(
        "any",
        "(SEQ(A+, B))+, skip-till-any-match, one window (COGRA figures 5, 8, 10)",
        "events per window",
        ("ours", "cogra", "greta", "aseq", "sase"),
        (20, 40, 60, 80, *POWERS),
    ),
    Experiment(
        "next",
        "(SEQ(A+, B))+, skip-till-next-match, one window (COGRA figures 6, 9)",
        "events per window",
        ("ours", "cogra", "sase"),
        POWERS,
    ),
    Experiment(
        "contiguous",
        "(SEQ(A+, B))+, contiguous, one window (COGRA figures 7, 11)",
        "events per window",
        ("ours", "cogra", "sase"),
        POWERS,
    ),
    Experiment(
        "sliding",
        "(SEQ(A+, B))+, skip-till-any-match, every event in 60 windows (COGRA section 7)",
        "events per window",
        ("ours", "cogra", "greta"),
        POWERS[:-1],
    ),
    Experiment(
        "length",
        "SEQ of l types in the last second, 120,000 events (A-Seq figure 12)",
        "length of the pattern",
        ("ours", "aseq"),
        (2, 3, 4, 5),
        is_in_events=False,
    ),
    Experiment(
        "starts",
        "SEQ(A, B, C) in the last w, 400,000 events (A-Seq figures 13, 14)",
        "active starts",
        ("ours", "aseq"),
        (100, 1_000, 10_000, 100_000),
        is_in_events=False,
    ),
)


def run(
    experiment: Experiment, *, events_max: int, limit_s: float, tell: Callable[[str], None]
) -> list[Measurement]:
    """Measure the methods of an experiment, size by size."""
    found: list[Measurement] = []
    stopped: set[str] = set()
    for size in experiment.sizes:
        if experiment.is_in_events and size > events_max:
            break
        for method in experiment.methods:
            if method in stopped:
                continue
            tell(f"{experiment.key}: {METHOD_NAMES[method]}, {size:,} {experiment.axis}")
            found.append(measure(Task(experiment.key, method, size, limit_s)))
            if found[-1].status != "ok":
                stopped.add(method)
    return found


def disagreements(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yield a sentence for every answer that differs from the first one of the same input."""
    first: dict[tuple[str, int], Measurement] = {}
    for found in measurements:
        if found.timing is None or found.timing.check is None:
            continue
        reference = first.setdefault((found.task.experiment, found.task.size), found).timing
        assert reference is not None, "only finished tasks are compared"
        assert reference.check is not None, "only answers are compared"
        if not math.isclose(reference.check, found.timing.check, rel_tol=CHECK_TOLERANCE):
            yield (
                f"{found.task.experiment}, {found.task.size:,}: {METHOD_NAMES[found.task.method]} "
                f"gives {found.timing.check!r}, {reference.case} gives {reference.check!r}"
            )


def as_table(experiment: Experiment, measurements: Sequence[Measurement]) -> Table:
    """Return the figures of an experiment, one section a size."""
    table = Table(title=experiment.title, title_justify="left")
    table.add_column(experiment.axis, justify="right")
    table.add_column("method")
    for name in ("time", "events/s", "peak MB", "working MB", "x ours"):
        table.add_column(name, justify="right")
    for size in dict.fromkeys(found.task.size for found in measurements):
        rows = [found for found in measurements if found.task.size == size]
        ours = next((m.timing for m in rows if m.task.method == "ours"), None)
        for i, found in enumerate(rows):
            ratio = found.timing.seconds / ours.seconds if found.timing and ours else None
            table.add_row(
                f"{size:,}" if i == 0 else "",
                METHOD_NAMES[found.task.method],
                *_figures(found),
                "-" if ratio is None else f"{ratio:,.3g}",
                end_section=i == len(rows) - 1,
            )
    return table


def _figures(found: Measurement) -> tuple[str, str, str, str]:
    """Return time, events per second, peak and working memory, in words."""
    peak = f"{found.peak_mb:,.0f}"
    if found.status == "failed":
        return "failed", "-", "-", "-"
    if found.timing is None:
        return f"> {found.task.limit_s:g} s", "-", peak, "-"
    rate = found.timing.event_count / found.timing.seconds
    return seconds_text(found.timing.seconds), rate_text(rate), peak, f"{found.working_mb:,.1f}"


def failures(measurements: Sequence[Measurement]) -> list[str]:
    """Return why tasks failed, each reason once."""
    reasons = (
        f"{METHOD_NAMES[m.task.method]}: {m.message}" for m in measurements if m.status == "failed"
    )
    return list(dict.fromkeys(reasons))


def seconds_text(seconds: float) -> str:
    """Return a time with a unit that suits it."""
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def rate_text(rate: float) -> str:
    """Return events per second in thousands or millions."""
    return f"{rate / 1e6:,.3g} M" if rate >= 1e6 else f"{rate / 1e3:,.3g} k"
