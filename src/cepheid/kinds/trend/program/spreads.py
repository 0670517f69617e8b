"""Compute variances and standard deviations from sums over all matches (§5.7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.kinds.trend.planning.accumulators import Part, moments_of
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.wide import steps, to_double
from cepheid.plans.spread import Spread


def spread_column(job: Job, spread: Spread, numbers: NDArray[Any]) -> Any:
    """Compute a column of variances or deviations from wide numbers."""
    value, parts = spread.value, job.parts
    if spread.of_matches:
        first, second = moments_of(value)
        count = numbers[:, 0]
    else:
        names = (value.variable, value.attribute)
        first, second = Part("sum", *names), Part("squares", *names)
        count = numbers[:, parts.index(Part("values", *names))]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        mean, of_mean = _ratio(numbers[:, parts.index(first)], count)
        squares, of_squares = _ratio(numbers[:, parts.index(second)], count)
        # In units of a power of two near the root of the mean square, nothing leaves the doubles.
        unit = (of_squares + np.frexp(squares)[1]) // 2
        mean = np.ldexp(mean, steps(of_mean - unit))
        variance = np.ldexp(squares, steps(of_squares - 2 * unit)) - mean * mean
        variance = np.where(variance < 0, 0.0, variance)
        # Squares of single events are doubles.
        variance = np.where(np.isposinf(squares) & np.isfinite(mean), np.inf, variance)
        values = to_double(count)
        if spread.function.is_sample:
            # Of infinitely many values, one more or less does not matter.
            variance *= np.where(np.isfinite(values), values / (values - 1), 1.0)
        if spread.function.is_root:
            found = np.ldexp(np.sqrt(variance), steps(unit))
        else:
            found = np.ldexp(variance, steps(2 * unit))
    least = 1 if spread.function.is_sample else 0
    return pa.array(found, mask=values <= least)


def _ratio(
    total: NDArray[Any], count: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Divide wide numbers; return doubles and the powers of two by which they are multiplied."""
    return total.real / count.real, total.imag - count.imag
