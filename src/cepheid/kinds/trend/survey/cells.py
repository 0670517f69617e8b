"""Cells: the groups and windows of a survey, each with the segments of its partitions."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import KeyTable
from cepheid.kernels.compose import add_rows
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.results import groups_of
from cepheid.kinds.trend.program.wide import steps
from cepheid.patterns.segments import Segments


class Cells(NamedTuple):
    """Groups in windows that have matches, in the order of rows (§17.1).

    Attributes
    ----------
    start, group
        Where the window begins, and the number of the group.
    ptr, segments
        The segments of each cell. Their order depends on their keys alone.
    counts, total
        The matches of each segment in this order, and of each cell, as wide numbers.
    seeds
        A random number for each cell, from the seed of the query, the group and the window.
    values
        The values of all groups, for each GROUP-BY attribute.
    """

    start: NDArray[np.int64]
    group: NDArray[np.int64]
    ptr: NDArray[np.int64]
    segments: NDArray[np.int64]
    counts: NDArray[Any]
    total: NDArray[Any]
    seeds: NDArray[np.uint64]
    values: list[Any]

    def __len__(self) -> int:
        """Count the cells."""
        return len(self.start)

    @property
    def owner(self) -> NDArray[np.int64]:
        """Find the cell of each of the segments."""
        return np.repeat(np.arange(len(self.start)), np.diff(self.ptr))

    def weights(self, cell: int) -> NDArray[np.float64]:
        """Compute the counts of the segments of a cell, as shares of the largest power of two."""
        mine = self.counts[self.ptr[cell] : self.ptr[cell + 1]]
        shares = np.ldexp(mine.real, steps(mine.imag - mine.imag.max()))
        return np.asarray(shares, np.float64)


def gather_cells(
    job: Job, keys: KeyTable, segments: Segments, starts: NDArray[np.int64], counts: NDArray[Any]
) -> Cells:
    """Gather the segments that have matches by window and group."""
    group_of, values = groups_of(job, keys)
    used = np.flatnonzero(counts.real > 0)
    prints = _prints(keys, segments.key[used])
    group, start = group_of[segments.key[used]], starts[used]
    order = np.lexsort((prints, group, start))
    used, group, start = used[order], group[order], start[order]
    new = np.ones(len(used), np.bool_)
    new[1:] = (group[1:] != group[:-1]) | (start[1:] != start[:-1])
    first = np.flatnonzero(new)
    total = np.zeros((len(first), 1), np.complex128)
    none = np.zeros((len(used), 0), np.int64)
    place = np.cumsum(new) - 1
    add_rows(counts[used][:, None], none, place, total, none[: len(first)], np.uint64(1))
    survey = job.plan.output.survey
    assert survey is not None, "the plan of a survey"
    seeds = [
        _digest(survey.seed, *(column[int(g)].as_py() for column in values), int(s))
        for g, s in zip(group[first], start[first], strict=True)
    ]
    return Cells(
        start[first], group[first], np.append(first, len(used)).astype(np.int64), used,
        counts[used], total[:, 0], np.array(seeds, np.uint64), values,
    )  # fmt: skip


def _prints(keys: KeyTable, used: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Compute a fingerprint of each key, so that an order of keys does not depend on arrival."""
    if not keys.names:
        return np.zeros(len(used), np.uint64)
    arrays = keys.arrays()
    known = {
        int(key): _digest(*(column[int(key)].as_py() for column in arrays)) for key in set(used)
    }
    return np.array([known[int(key)] for key in used], np.uint64)


def _digest(*values: object) -> int:
    """Compute 64 bits of values, the same in every process."""
    text = "\x1f".join(map(repr, values)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
