"""Count the keys that have a match (§5.6): rows of partitions in, rows with one more number out.

Every partition is one key, so a partition with a match counts as one, and the counts of partitions
are added up like other numbers. This number comes after the parts that kernels compute; rows that
have it already are sums of partitions and stay as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import Rows


def width_of(job: Job) -> int:
    """Count the default numbers of a row that may be a sum of partitions."""
    return len(job.parts) + job.plan.output.counts_keys


def with_keys(job: Job, rows: Rows) -> Rows:
    """Add the count of keys to rows in default numbers; a partition may have several a window."""
    if rows.numbers.shape[1] == width_of(job):
        return rows
    some = np.flatnonzero(rows.numbers[:, 0].real != 0)
    keys = np.zeros(len(rows.key), rows.numbers.dtype)
    if len(some):
        names = np.stack([rows.key[some], rows.window[some]])
        _, first = np.unique(names, axis=1, return_index=True)
        keys[some[first]] = 1
    return rows._replace(numbers=np.concatenate([rows.numbers, keys[:, None]], axis=1))


def numbers_with_keys(job: Job, numbers: NDArray[Any]) -> NDArray[Any]:
    """Add the count of keys to default numbers of partitions, each row for itself."""
    if numbers.shape[1] == width_of(job):
        return numbers
    keys = (numbers[:, :1].real != 0).astype(numbers.dtype)
    return np.concatenate([numbers, keys], axis=1)
