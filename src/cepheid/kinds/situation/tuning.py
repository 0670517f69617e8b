"""Track the number of situations and the selectivity of relations, and choose the join order.

Moving averages are updated with every step. When one of them differs from the value that the orders
were chosen for by more than a factor, the orders are chosen again; no state depends on them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.temporal_join import sample_pairs
from cepheid.kinds.situation.job import SituationJob
from cepheid.kinds.situation.join_order import (
    INITIAL_SIZE,
    LEAST,
    initial_selectivity,
    most_partial_matches,
    order_joins,
)

WEIGHT = 0.3
"""The weight of the latest step in a moving average."""

FACTOR = 1.5
"""The factor by which a statistic may change before the orders are chosen again."""

PARTIAL_MATCHES_MIN = 8.0
"""With this many per trigger, it pays off to find first which situations have a partner."""

KEYS_SAMPLED_MAX = 64
ROWS_SAMPLED_MAX = 32


class Tuning(NamedTuple):
    """The current join orders, the statistics they were chosen for, and the current statistics."""

    orders: tuple[tuple[int, ...], ...]
    planned: NDArray[np.float64]
    current: NDArray[np.float64]
    prunes: bool = False
    """Whether situations without a partner are found first, so that joins skip them."""
    fixed: bool = False

    @staticmethod
    def start(job: SituationJob) -> Tuning:
        """Create the tuning with the plan's own orders, chosen without statistics."""
        masks = [c.mask for c in job.situations.constraints]
        guess = [INITIAL_SIZE] * len(job.definitions) + [initial_selectivity(m) for m in masks]
        return _planned(job, job.situations.orders, np.array(guess))


def observe(
    job: SituationJob,
    tuning: Tuning,
    bounds: NDArray[np.int64],
    ts: NDArray[np.int64],
    te: NDArray[np.int64],
) -> Tuning:
    """Update the averages after a step and, if necessary, choose new orders."""
    if tuning.fixed or len(job.definitions) < 3:
        return tuning  # Two definitions have one order.
    partitions = max(bounds.shape[1] - 1, 1)
    sizes: list[Any] = [(row[-1] - row[0]) / partitions for row in bounds]
    shares = []
    known = tuning.current[len(sizes) :]
    for constraint, before in zip(job.situations.constraints, known, strict=True):
        kept, pairs = sample_pairs(
            constraint.mask,
            bounds[constraint.left],
            bounds[constraint.right],
            ts,
            te,
            KEYS_SAMPLED_MAX,
            ROWS_SAMPLED_MAX,
        )
        shares.append(max(kept / pairs, LEAST) if pairs else before)
    seen = np.array([*(max(size, LEAST) for size in sizes), *shares])
    current = WEIGHT * seen + (1 - WEIGHT) * tuning.current
    moved = np.maximum(current / tuning.planned, tuning.planned / current)
    if moved.max() <= FACTOR:
        return tuning._replace(current=current)
    count = len(sizes)
    orders = order_joins(
        count, job.situations.constraints, current[:count].tolist(), current[count:].tolist()
    )
    return _planned(job, orders, current)


def _planned(
    job: SituationJob, orders: tuple[tuple[int, ...], ...], known: NDArray[np.float64]
) -> Tuning:
    count = len(job.definitions)
    sizes, shares = known[:count].tolist(), known[count:].tolist()
    width = most_partial_matches(job.situations.constraints, orders, sizes, shares)
    return Tuning(orders, known, known, width >= PARTIAL_MATCHES_MIN)
