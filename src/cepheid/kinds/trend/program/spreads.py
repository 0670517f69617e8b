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
    mean = _ratio(numbers[:, parts.index(first)], count)
    squares = _ratio(numbers[:, parts.index(second)], count)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        variance = squares - mean * mean
        variance = np.where(variance < 0, 0.0, variance)
        values = to_double(count)
        if spread.function.is_sample:
            # Of infinitely many values, one more or less does not matter.
            variance *= np.where(np.isfinite(values), values / (values - 1), 1.0)
    least = 1 if spread.function.is_sample else 0
    found = np.sqrt(variance) if spread.function.is_root else variance
    return pa.array(found, mask=values <= least)


def _ratio(total: NDArray[Any], count: NDArray[Any]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        powers = steps(total.imag - count.imag)
        return np.asarray(np.ldexp(total.real / count.real, powers), np.float64)
