"""Figures 4.10 to 4.14 of Körber's thesis: one thread, all threads, and a GPU.

``PYTHONPATH=src python -m benchmarks.accelerator_figures measure [file]`` on a machine with a GPU
writes the measurements as JSON (by default ``gpu-figures.json`` in $OUT, or here);
``... accelerator_figures draw file`` draws them into docs/img, which needs the extra `charts`.

The operators take batches; the thesis' take events one by one. Windows of figures 4.13 (b) and 4.14
are 2^15 events where the thesis has 2^16 and 2^17, so that one thread is done in minutes.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PROBES = 2048
METHODS = ("one thread", "all threads", "GPU with copies", "GPU")


class Case(NamedTuple):
    """A point of a figure: how each method does the same work."""

    figure: str
    x: float
    work: Callable[[Any], Any]
    resident: Callable[[], Any] | None


def far(threshold: float) -> Callable[..., Any]:
    """Return the thesis' filter: the distance of a point in six dimensions from the origin."""

    def predicate(columns: Any, i: Any) -> Any:
        total = 0.0
        for k in range(6):
            total += columns[k, i] * columns[k, i]
        return total > threshold

    return predicate


def close(threshold: float) -> Callable[..., Any]:
    """Return the thesis' join: two points in six dimensions are near each other."""

    def predicate(left: Any, i: Any, right: Any, j: Any) -> Any:
        total = 0.0
        for k in range(6):
            total += (left[k, i] - right[k, j]) * (left[k, i] - right[k, j])
        return total < threshold

    return predicate


def follows(delta: float) -> Callable[..., Any]:
    """Return the thesis' condition of patterns: the first attribute is nearly the same."""

    def predicate(left: Any, i: Any, right: Any, j: Any) -> Any:
        return abs(left[0, i] - right[0, j]) <= delta

    return predicate


def every(columns: Any, i: Any) -> Any:
    """Take every event as the first of a match."""
    return columns[0, i] >= 0.0


def points(length: int, seed: int = 1) -> np.ndarray[Any, Any]:
    """Return events with six numbers of the unit interval."""
    return np.random.default_rng(seed).random((6, length), np.float32)


def filter_cases() -> Iterator[Case]:
    """Yield figure 4.10: selectivity at one batch size, batch size at one selectivity."""
    from benchmarks.thesis_operators import launches, operators

    def case(figure: str, x: float, length: int, selectivity: float) -> Case:
        columns = points(length)
        squares = (points(1 << 18, 2).astype(np.float64) ** 2).sum(0)
        predicate = far(float(np.quantile(squares, 1 - selectivity)))
        there, room = launches.device_of(columns), launches.device_of(np.zeros(length, np.int64))
        return Case(
            figure,
            x,
            lambda w: operators.filter_events(columns, predicate, w),
            lambda: launches.filter_on_device(there, predicate, 128, room),
        )

    for power in range(6):
        selectivity = 10.0**-power if power else 0.9999
        yield case("4.10a", selectivity, 1 << 22, selectivity)
    for power in (6, 8, 10, 12, 14, 18, 22, 24):
        yield case("4.10b", 1 << power, 1 << power, 1e-3)


def window_cases() -> Iterator[Case]:
    """Yield figure 4.11: sums of windows that are evaluated again for every event of a batch."""
    from benchmarks.thesis_operators import launches, operators

    for power in (12, 14, 16, 18, 20):
        values = np.random.default_rng(1).random((1 << power) + PROBES)
        bounds = operators.Bounds(
            np.arange(PROBES, dtype=np.int64), np.arange(PROBES, dtype=np.int64) + (1 << power)
        )
        arrays = (values, bounds.low, bounds.high, np.zeros(PROBES))
        there = [launches.device_of(array) for array in arrays]
        yield Case(
            "4.11",
            1 << power,
            lambda w, v=values, b=bounds: operators.aggregate(v, b, "sum", w),
            lambda t=there: launches.fold_on_device(*t, 0, 256, incremental=False),
        )


def join_cases() -> Iterator[Case]:
    """Yield figure 4.12: selectivity at one window, window at one selectivity."""
    from benchmarks.thesis_operators import launches, operators

    left = points(PROBES, 3)
    sample = ((points(2048, 4)[:, :, None] - points(2048, 5)[:, None, :]) ** 2).sum(0).ravel()
    rows = np.arange(PROBES)

    def case(figure: str, x: float, window: int, selectivity: float) -> Case:
        right = points(window, 6)
        predicate = close(float(np.quantile(sample, selectivity)))
        bounds = operators.Bounds(np.zeros(PROBES, np.int64), np.full(PROBES, window))
        there = [launches.device_of(array) for array in (left, right, rows)]
        return Case(
            figure,
            x,
            lambda w: operators.join(left, right, bounds, predicate, w),
            lambda: launches.join_on_device(*there, bounds, predicate, 128),
        )

    for power in (2, 3, 4, 5):
        yield case("4.12a", 10.0**-power, 1 << 19, 10.0**-power)
    for power in (12, 14, 16, 18, 20):
        yield case("4.12b", 1 << power, 1 << power, 1e-3)


def pattern_cases() -> Iterator[Case]:
    """Yield figures 4.13 and 4.14: partial matches, and steps of a pattern."""
    from benchmarks.thesis_operators import sequences
    from benchmarks.thesis_operators.sequences import ANY, NEXT, Step

    def case(figure: str, x: float, length: int, steps: list[Step], semantics: str) -> Case:
        columns, times = points(length), np.arange(length)
        return Case(
            figure,
            x,
            lambda w: sequences.match(columns, times, steps, semantics=semantics, work=w),
            None,
        )

    first, rare, near = Step(every), Step(follows(1e-7)), Step(follows(1e-5))
    for power in (10, 12, 14, 15, 16):
        yield case("4.13a", 1 << power, 1 << power, [first, rare], ANY)
    for steps in range(2, 9):
        yield case("4.13b", steps, 1 << 15, [first, *[near] * (steps - 1)], ANY)
    for steps in range(2, 9):
        yield case("4.14a", steps, 1 << 15, [first, *[near] * (steps - 1)], NEXT)
    for power in (10, 12, 14, 15):
        pattern = [first, near, Step(follows(1e-5), plus=True)]
        yield case("4.14b", 1 << power, 1 << power, pattern, NEXT)


def measure(file: Path) -> None:
    """Measure everything and write it down."""
    from benchmarks.accelerator_measure import device_seconds, line, seconds
    from benchmarks.thesis_operators.operators import Work

    works = dict(zip(METHODS, (Work(), Work(parallel=True), Work("gpu")), strict=False))
    found = []
    for cases in (filter_cases, window_cases, join_cases, pattern_cases):
        for case in cases():
            taken: dict[str, float] = {}
            try:
                for method, work in works.items():
                    runs = 3 if method == METHODS[2] else 1
                    taken[method] = seconds(lambda w=work, c=case: c.work(w), runs)
                if case.resident is not None:
                    taken[METHODS[3]] = device_seconds(case.resident)
            except Exception:
                traceback.print_exc()
            found.append({"figure": case.figure, "x": case.x, "seconds": taken})
            line(f"{case.figure} {case.x:g}", **{k: f"{v:.2e}" for k, v in taken.items()})
            # Whatever happens later, what was measured is kept.
            file.write_text(json.dumps(found, indent=1))


TITLES = {
    "4.10a": "filter, 2^22 events: part of events that pass",
    "4.10b": "filter, one in 1,000 passes: events of a batch",
    "4.11": "sum of windows, evaluated again: events of a window",
    "4.12a": "join, window 2^19: part of pairs that fit",
    "4.12b": "join, one pair in 1,000 fits: events of a window",
    "4.13a": "SEQ(A, B), skip-till-any-match: partial matches",
    "4.13b": "skip-till-any-match: steps of the pattern",
    "4.14a": "skip-till-next-match: steps of the pattern",
    "4.14b": "SEQ(A, B, C+), skip-till-next-match: partial matches",
}


def draw(file: Path) -> Path:
    """Draw the speed of all methods against one thread, a panel for each figure of the thesis."""
    import importlib

    from benchmarks.charts import FOLDER, HEIGHT, WIDTH

    altair = importlib.import_module("altair")
    measured = json.loads(file.read_text())
    names = list(METHODS)
    colour = altair.Color(
        "method:N", sort=names, title=None,
        scale=altair.Scale(domain=names, range=["#28587b", "#6fa8dc", "#7fb069", "#0b6e4f"]),
    )  # fmt: skip
    panels = []
    for figure, title in TITLES.items():
        rows = [
            {"x": row["x"], "method": method, "times": row["seconds"][METHODS[0]] / taken}
            for row in measured
            if row["figure"] == figure and METHODS[0] in row["seconds"]
            for method, taken in row["seconds"].items()
        ]
        steps = figure in ("4.13b", "4.14a")
        scale = altair.Scale(type="linear" if steps else "log", nice=False)
        chart = altair.Chart(altair.InlineData(values=rows), width=WIDTH, height=HEIGHT // 2)
        panels.append(
            chart.mark_line(point=True).encode(
                x=altair.X("x:Q", title=f"{figure} {title}", scale=scale),
                y=altair.Y("times:Q", title="times one thread", scale=altair.Scale(type="log")),
                color=colour,
            )
        )
    target = FOLDER / "bench-gpu.png"
    altair.concat(*panels, columns=2).configure(background="white").save(target)
    return target


def main() -> None:
    """Measure or draw."""
    what, *rest = [*sys.argv[1:], ""]
    default = Path(os.environ.get("OUT", ".")) / "gpu-figures.json"
    file = Path(rest[0]) if rest and rest[0] else default
    if what == "draw":
        sys.stdout.write(f"{draw(file)}\n")
    else:
        measure(file)


if __name__ == "__main__":
    main()
