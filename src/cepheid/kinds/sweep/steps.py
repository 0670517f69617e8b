"""Step functions of matrices, many at once, and how they are multiplied and added.

See ``kernels/sweep.py``. The functions of a list of stretches are reduced to one for each segment
by multiplying neighbours, level by level: the cells of a level are at most as many as the events
have steps, whatever the number of values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.sweep import add_cells, multiply_cells, pair_cells, unite_steps
from cepheid.kinds.trend.program.wide import wide_of

Ints = NDArray[np.int64]

DOUBLES_MAX = 2.0**500
"""Products of two numbers up to this are doubles, however many are added up."""


class Axis(NamedTuple):
    """The intervals of one parameter: for each node where they begin, by number of the value."""

    ptr: Ints
    begin: Ints

    @property
    def counts(self) -> Ints:
        """Count the intervals of every node."""
        return np.diff(self.ptr)

    def take(self, nodes: Ints) -> Axis:
        """Choose some of the nodes, in any order."""
        counts = self.counts[nodes]
        ptr = pointers(counts)
        return Axis(ptr, self.begin[spread(self.ptr[nodes], counts, ptr)])

    @staticmethod
    def joined(axes: list[Axis]) -> Axis:
        """Concatenate the nodes of several."""
        return Axis(
            pointers(np.concatenate([axis.counts for axis in axes])),
            np.concatenate([axis.begin for axis in axes]),
        )


def pointers(counts: Ints) -> Ints:
    """Compute where each of some consecutive pieces begins, and where the last one ends."""
    ptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def spread(first: Ints, counts: Ints, ptr: Ints) -> Ints:
    """List ``first[i], first[i] + 1, ...``, as many as ``counts[i]``, for every i."""
    return np.repeat(first - ptr[:-1], counts) + np.arange(ptr[-1])


class Nodes(NamedTuple):
    """Step functions; cells are the last axis of ``arrays``: matrices, or results of segments."""

    first: Axis
    second: Axis
    arrays: tuple[NDArray[Any], ...]

    @property
    def counts(self) -> Ints:
        """Count the cells of every node."""
        return self.first.counts * self.second.counts

    @property
    def cell(self) -> Ints:
        """Compute the first cell of every node."""
        return pointers(self.counts)

    @property
    def total(self) -> int:
        """Count the nodes."""
        return len(self.first.ptr) - 1

    def take(self, nodes: Ints) -> Nodes:
        """Choose some of the nodes, in any order."""
        cell, counts = self.cell, self.counts[nodes]
        rows = spread(cell[nodes], counts, pointers(counts))
        arrays = tuple(np.take(array, rows, axis=-1) for array in self.arrays)
        return Nodes(self.first.take(nodes), self.second.take(nodes), arrays)

    def widened(self) -> Nodes:
        """Convert numbers to wide ones; they may be so already."""
        if self.arrays[0].dtype.kind == "c":
            return self
        return self._replace(arrays=(wide_of(self.arrays[0]), *self.arrays[1:]))

    @staticmethod
    def joined(several: list[Nodes]) -> Nodes:
        """Concatenate nodes; numbers are wide if some are."""
        if len({nodes.arrays[0].dtype for nodes in several}) > 1:
            several = [nodes.widened() for nodes in several]
        arrays = zip(*(nodes.arrays for nodes in several), strict=True)
        return Nodes(
            Axis.joined([nodes.first for nodes in several]),
            Axis.joined([nodes.second for nodes in several]),
            tuple(np.concatenate(column, axis=-1) for column in arrays),
        )


Combine = Callable[[Nodes, Ints, Ints], Nodes]
"""Combine pairs of nodes; -1 is no partner."""


def reduce_nodes(nodes: Nodes, refs: Ints, segment: Ints, combine: Combine) -> tuple[Nodes, Ints]:
    """Combine the nodes of every segment, in order, to one; return them and their segments.

    Parameters
    ----------
    refs, segment
        A list of nodes, each in one or more segments; those of a segment lie side by side.
    """
    while len(segment):
        new = np.ones(len(segment), np.bool_)
        new[1:] = segment[1:] != segment[:-1]
        if new.all():
            break
        starts = np.flatnonzero(new)
        place = np.arange(len(segment)) - np.repeat(starts, np.diff(starts, append=len(segment)))
        left = np.flatnonzero(place % 2 == 0)
        right = np.full(len(left), -1)
        after = left + 1
        paired = after < len(segment)
        paired[paired] = ~new[after[paired]]
        right[paired] = refs[after[paired]]
        segment, left = segment[left], refs[left]
        # Windows that overlap have pairs in common.
        both = left * (nodes.total + 1) + right + 1
        pairs, chosen, refs = np.unique(both, return_index=True, return_inverse=True)
        if len(pairs) == len(both):
            chosen = refs = np.arange(len(both))
        nodes = combine(nodes, left[chosen], right[chosen])
    if len(refs) == nodes.total and (refs == np.arange(nodes.total)).all():
        return nodes, segment
    return nodes.take(refs), segment


def _united(axis: Axis, other: Axis, left: Ints, right: Ints) -> Axis:
    partner = np.where(right >= 0, other.counts[np.maximum(right, 0)], 0)
    begin = np.empty(int((axis.counts[left] + partner).sum()), np.int64)
    ptr = np.zeros(len(left) + 1, np.int64)
    unite_steps(left, right, *axis, *other, ptr, begin)
    return Axis(ptr, begin[: ptr[-1]])


def _paired(nodes: Nodes, others: Nodes, left: Ints, right: Ints) -> tuple[Axis, Axis, Ints, Ints]:
    """Unite the intervals of pairs of nodes, and find the cells that meet."""
    first = _united(nodes.first, others.first, left, right)
    second = _united(nodes.second, others.second, left, right)
    cells = int((np.diff(first.ptr) * np.diff(second.ptr)).sum())
    one, other = np.empty(cells, np.int64), np.empty(cells, np.int64)
    pair_cells(
        left, right, nodes.cell, *nodes.first, *nodes.second, others.cell, *others.first,
        *others.second, *first, *second, one, other,
    )  # fmt: skip
    return first, second, one, other


def _room(arrays: tuple[NDArray[Any], ...], cells: int) -> tuple[NDArray[Any], ...]:
    return tuple(np.empty((*array.shape[:-1], cells), array.dtype) for array in arrays)


class Product(NamedTuple):
    """The multiplication of matrices of one program: its start configurations, and ways."""

    starts: int
    reach: NDArray[np.bool_]

    def pairs(self, nodes: Nodes, left: Ints, right: Ints) -> Nodes:
        """Multiply pairs of nodes."""
        return self.of(nodes, nodes, left, right)

    def of(self, nodes: Nodes, others: Nodes, left: Ints, right: Ints) -> Nodes:
        """Multiply nodes, of matrices or of vectors, by nodes of matrices."""
        first, second, one, other = _paired(nodes, others, left, right)
        if not (_fits(nodes.arrays[0]) and _fits(others.arrays[0])):
            same = others is nodes
            nodes = nodes.widened()
            others = nodes if same else others.widened()
        out = _room(nodes.arrays, len(one))
        zero = out[0].dtype.type(0)
        multiply_cells(
            *nodes.arrays, *others.arrays, one, other, self.reach, self.starts, zero, *out,
            np.uint64(1),
        )  # fmt: skip
        return Nodes(first, second, out)


def _fits(numbers: NDArray[Any]) -> bool:
    """Check whether products of these numbers are doubles."""
    if numbers.dtype.kind != "f":
        return False
    if not numbers.size:
        return True
    return bool(numbers.max() <= DOUBLES_MAX and numbers.min() >= -DOUBLES_MAX)


def add_nodes(nodes: Nodes, left: Ints, right: Ints) -> Nodes:
    """Add nodes of results."""
    first, second, one, other = _paired(nodes, nodes, left, right)
    out = _room(nodes.arrays, len(one))
    add_cells(*nodes.arrays, one, other, *out, np.uint64(1))
    return Nodes(first, second, out)
