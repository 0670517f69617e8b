"""A grid of two parameters: plain counts are kept for every cell, and events change rectangles.

Matrices of stretches have as many cells as their events have pairs of steps, so that products of
short stretches are the best that they can do (``run.py``). Where a query only counts, a vector for
every cell is less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import EventArrays
from cepheid.kernels.sweep_grid import SOURCES_MAX, run_grid
from cepheid.kinds.sweep.leaves import Leaves, Scale
from cepheid.kinds.sweep.segments import Segments, firsts, numbered
from cepheid.kinds.sweep.steps import Axis, Ints, Nodes
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.program import Plain, Program
from cepheid.kinds.trend.program.wide import wide_of
from cepheid.kinds.trend.windows.step import encode_events

EVENTS_MIN = 256
"""Events of a segment in a batch from which on a number for every cell pays."""

TOP = 700
"""The power of two of the largest number of a cell that goes on, and least that of the others."""

NUMBERS_MAX = 1 << 24
"""Numbers that are kept at once."""


class Grid(NamedTuple):
    """A query that only counts, and the two scales of its parameters."""

    job: Job
    program: Program
    scales: Sequence[Scale]
    plain: Plain

    @staticmethod
    def of(job: Job, program: Program, scales: Sequence[Scale]) -> Grid | None:
        """Create the grid of a query; None if there is none, or if it does more than count."""
        plain = program.plain()
        counts_only = len(job.parts) == 1 and not job.extremes
        if len(scales) != 2 or plain is None or not counts_only:
            return None
        if plain.source.shape[1] > SOURCES_MAX:
            return None
        # An event adds to its own slot first, while this is as it was.
        own = plain.source == plain.target[:, None]
        order = np.argsort(~own, axis=1, kind="stable")
        source = np.take_along_axis(plain.source, order, axis=1)
        return Grid(job, program, scales, Plain(plain.target, source))

    @property
    def sides(self) -> tuple[int, int]:
        """Return the numbers of values."""
        first, second = (len(scale.values) for scale in self.scales)
        return first, second

    @property
    def begins(self) -> NDArray[np.bool_]:
        """Mark the configurations in which matches begin."""
        found = np.zeros(self.program.size, np.bool_)
        unit = (self.plain.source == self.program.size).any(axis=1) & (self.plain.target >= 0)
        found[self.plain.target[unit]] = True
        return found

    def takes(self, segments: int, events: int) -> bool:
        """Check whether a number for every cell of some segments pays."""
        numbers = segments * (self.program.size + 2) * self.sides[0] * self.sides[1]
        return events >= segments * EVENTS_MIN and numbers <= NUMBERS_MAX

    def run(
        self, before: Segments | None, leaves: Leaves, key: Ints, pane: Ints
    ) -> tuple[Segments, int]:
        """Go on from what began before; return what began, and the first event that is left.

        Numbers of a cell may differ by more than doubles reach: then events are left.
        """
        segment = numbered(key, pane)
        first = firsts(segment)
        rows, width = self.sides
        size = self.program.size
        state = np.zeros((len(first), size + 2, rows * width))
        state[:, size] = 1.0
        exponent = np.zeros((len(first), rows * width), np.int64)
        others = self._restore(before, (key[first], pane[first]), state, exponent)
        if others is None:
            assert before is not None, "there are numbers"
            return before, 0
        _, done = run_grid(
            state, exponent, *self.plain, self.begins, segment, self._codes(leaves), *leaves.ranks,
            *(int(scale.below) for scale in self.scales), width, 0,
            np.zeros(len(first), np.int64),
        )  # fmt: skip
        found = Segments(self._nodes(state, exponent), key[first], pane[first])
        return Segments.joined([found, *others]), int(done)

    def _codes(self, leaves: Leaves) -> NDArray[np.int64]:
        """Encode every event four times: by the conditions that it passes."""
        arrays = leaves.arrays
        codes = np.empty((len(arrays.ts), 4), np.int64)
        for passes in range(4):
            bits = arrays.bits
            for number, scale in enumerate(self.scales):
                if not passes >> (1 - number) & 1:
                    bits = bits & ~bits.dtype.type(scale.mask)
            taken = EventArrays(
                np.arange(len(bits)), arrays.key, bits, arrays.weights, arrays.values
            )
            codes[:, passes] = encode_events(self.job, self.program, taken, sort=False).codes
        return codes

    def _restore(
        self,
        before: Segments | None,
        names: tuple[Ints, Ints],
        state: NDArray[np.float64],
        exponent: Ints,
    ) -> list[Segments] | None:
        """Fill the state with what began before; return the segments that do not go on.

        None if numbers of a cell differ by more than doubles reach.
        """
        if before is None:
            return []
        wanted = {name: n for n, name in enumerate(zip(*(c.tolist() for c in names), strict=True))}
        rest = []
        for node, name in enumerate(zip(before.key.tolist(), before.pane.tolist(), strict=True)):
            if name not in wanted:
                rest.append(node)
                continue
            numbers = self._spread(before.nodes.take(np.array([node])))
            if numbers.dtype.kind == "f":
                state[wanted[name], : len(numbers)] = numbers
                continue
            with np.errstate(divide="ignore"):
                logs = np.log2(numbers.real) + numbers.imag
            powers = np.maximum(np.floor(logs.max(axis=0)) - TOP, 0).astype(np.int64)
            lost = (logs - powers < -TOP) & (numbers.real > 0)
            lost |= (numbers.real == 0) & self.begins[:, None] & (powers > 0)
            if lost.any():
                return None
            exponent[wanted[name]] = powers
            state[wanted[name], len(numbers)] = np.ldexp(1.0, -powers)
            shifts = np.where(numbers.real > 0, numbers.imag - powers, 0).astype(np.int64)
            state[wanted[name], : len(numbers)] = np.ldexp(numbers.real, shifts)
        return [before.take(np.array(rest))] if rest else []

    def _spread(self, own: Nodes) -> NDArray[Any]:
        """Repeat the cells of a node for every pair of values."""
        lengths = [
            np.diff(axis.begin, append=side) for axis, side in zip(own[:2], self.sides, strict=True)
        ]
        numbers = own.arrays[0][:, 0, 0].reshape(self.program.size, *map(len, lengths))
        for axis, length in enumerate(lengths, 1):
            numbers = np.repeat(numbers, length, axis=axis)
        return numbers.reshape(self.program.size, -1)

    def _nodes(self, state: NDArray[np.float64], exponent: Ints) -> Nodes:
        """Build nodes of vectors with a cell for every pair of values."""
        count, size = len(state), self.program.size
        numbers = state[:, :size]
        if exponent.any():
            numbers = wide_of(numbers, exponent[:, None, :].astype(np.float64))
        cells = count * exponent.shape[1]
        arrays = (
            np.ascontiguousarray(np.moveaxis(numbers, 1, 0)).reshape(size, 1, 1, cells),
            np.zeros((size, 0, 1, cells), np.int64),
            np.zeros((1, cells), np.int32),
        )
        first, second = (
            Axis(np.arange(count + 1) * side, np.tile(np.arange(side), count))
            for side in self.sides
        )
        return Nodes(first, second, arrays)
