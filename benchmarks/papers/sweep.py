"""Time methods over sizes: functions in, points out. Processor time, as machines may be busy."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from benchmarks.papers.entry import Point

LIMIT_S = 2.0
"""A method that took longer is not tried on larger sizes."""

BUDGET_S = 0.3
ROUNDS_MAX = 5
TOLERANCE = 1e-6
T = TypeVar("T")


class Outcome(NamedTuple):
    """The answer of a method, none if it gave up, and how many bytes it kept for it."""

    answer: float | None
    kept: float | None = None


Make = Callable[[float], Callable[[], Outcome]]


def best(call: Callable[[], T], budget_s: float = BUDGET_S) -> tuple[float, T]:
    """Return the least processor time of some rounds, and the result."""
    spent, times = 0.0, list[float]()
    while True:
        began = time.process_time()
        result = call()
        times.append(time.process_time() - began)
        spent += times[-1]
        if spent > budget_s or len(times) == ROUNDS_MAX:
            return min(times), result


def sweep(
    methods: Mapping[str, Make],
    sizes: Sequence[float],
    *,
    panel: str = "",
    kept: str | None = None,
    limit_s: float = LIMIT_S,
    warm: float | None = None,
    different: Sequence[str] = (),
) -> list[Point]:
    """Run every method on every size until it takes too long; all must give the same answers.

    Parameters
    ----------
    kept
        The panel that shows the bytes that methods keep.
    warm
        The size that is run first, unmeasured, so that everything is compiled.
    different
        Methods that are known to answer otherwise.
    """
    points, answers = [], dict[float, tuple[str, float]]()
    for name, make in methods.items():
        make(sizes[0] if warm is None else warm)()
        for size in sizes:
            seconds, (answer, held) = best(make(size))
            points.append(Point(name, size, None if answer is None else seconds, panel))
            if kept is not None and held is not None:
                points.append(Point(name, size, held, kept))
            if answer is None:
                break
            if name not in different:
                check(answers, name, size, answer)
            if seconds > limit_s:
                break
    return points


def check(answers: dict[float, tuple[str, float]], name: str, size: float, answer: float) -> None:
    """Compare an answer with the first one to the same question.

    Raises
    ------
    AssertionError
        If they differ.
    """
    other, expected = answers.setdefault(size, (name, answer))
    if math.isfinite(answer) and not math.isclose(answer, expected, rel_tol=TOLERANCE):
        message = f"{name} answers {answer} at {size}, {other} {expected}"
        raise AssertionError(message)
