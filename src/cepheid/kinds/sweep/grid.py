"""A grid of two parameters: numbers are kept for every cell, and events change rectangles.

Matrices of stretches have as many cells as their events have pairs of steps, so that products of
short stretches are the best that they can do (``run.py``). A vector for every cell is less; where
windows overlap, a matrix for every cell of a pane.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import EventArrays
from cepheid.kernels.ring import LIMIT, SHRINK, STEP
from cepheid.kernels.sweep_grid import COLUMNS, SETTLE, SOURCES_MAX, run_grid
from cepheid.kinds.sweep.leaves import Leaves, Scale, reach_of
from cepheid.kinds.sweep.segments import Segments, firsts, numbered
from cepheid.kinds.sweep.steps import Axis, Ints, Nodes
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import NO_VALUE
from cepheid.kinds.trend.program.program import Plain, Program
from cepheid.kinds.trend.windows.step import encode_events

EVENTS_MIN = 256
"""Events of a segment in a batch from which on a number for every cell pays."""

TOP = 600
"""The largest power of two of a number of a cell that goes on, and least that of the others."""

NUMBERS_MAX = 1 << 24
"""Numbers that are kept at once."""

WEIGHT_MAX, WEIGHT_MIN = 2.0**100, 2.0**-100
"""Values that are added up have a size between these: the kernel leaves room for them alone."""


class Numbers(NamedTuple):
    """The numbers that a grid keeps; see ``kernels/sweep_grid.py``."""

    V: NDArray[np.float64]
    M: Ints
    exponent: Ints


class Grid(NamedTuple):
    """A query in which an event adds to one configuration, and the two scales of its parameters."""

    job: Job
    program: Program
    scales: Sequence[Scale]
    plain: Plain
    wcol: NDArray[np.int32]
    xcol: NDArray[np.int32]
    """(configuration, part) -> the row of weights or values that an event adds, or -1."""
    lanes: int

    @staticmethod
    def of(job: Job, program: Program, scales: Sequence[Scale], *, matrices: bool) -> Grid | None:
        """Create the grid of a query; None if there is none, or if its events do more than add."""
        plain = program.plain()
        if len(scales) != 2 or plain is None or plain.source.shape[1] > SOURCES_MAX:
            return None
        variable = program.tables().variable
        wcol, xcol = (columns[variable] for columns in job.columns_of(program))
        if min(wcol.min(initial=0), xcol.min(initial=0)) < -1:
            return None
        # An event adds to its own slot first, while this is as it was.
        own = plain.source == plain.target[:, None]
        order = np.argsort(~own, axis=1, kind="stable")
        source = np.take_along_axis(plain.source, order, axis=1)
        lanes = 1 + program.size if matrices else 1
        return Grid(job, program, scales, Plain(plain.target, source), wcol, xcol, lanes)

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

    @property
    def live(self) -> NDArray[np.bool_]:
        """Mark for every lane the slots that can have matches."""
        found = np.zeros((self.lanes, self.program.size + 2), np.bool_)
        found[0, :-1] = True
        found[1:, :-2] = reach_of(self.program).T[: self.lanes - 1]
        return found

    @property
    def places(self) -> Ints:
        """Compute for all cells, row by row, where the kernel has them."""
        rows, width = self.sides
        row, column = np.divmod(np.arange(rows * width), width)
        places: Ints = (column // COLUMNS * rows + row) * COLUMNS + column % COLUMNS
        return places

    def takes(self, segments: int, leaves: Leaves) -> bool:
        """Check whether numbers for every cell of some segments pay, and are doubles."""
        size, rows, width = self.program.size, *self.sides
        parts = len(self.job.parts) + len(self.job.extremes)
        if len(leaves.arrays.ts) < segments * EVENTS_MIN:
            return False
        if segments * self.lanes * (size + 2) * parts * rows * width > NUMBERS_MAX:
            return False
        weights = np.abs(leaves.arrays.weights[: len(self.job.parts) - 1])
        least = np.min(weights, initial=1.0, where=weights > 0)
        return bool(weights.max(initial=0.0) <= WEIGHT_MAX and least >= WEIGHT_MIN)

    def run(
        self, before: Segments | None, leaves: Leaves, key: Ints, pane: Ints
    ) -> tuple[Segments, int]:
        """Go on from what was before; return what is now, and the first event that is left.

        Numbers of a cell may differ by more than doubles reach: then events are left.
        """
        segment = numbered(key, pane)
        first = firsts(segment)
        kept = self._nothing(len(first))
        others = self._restore(before, (key[first], pane[first]), kept)
        if others is None:
            assert before is not None, "there are numbers"
            return before, 0
        arrays, (rows, width) = leaves.arrays, self.sides
        room = rows * COLUMNS
        # Who passes for all values does so for those that fill the last columns up.
        column = np.where(leaves.ranks[1] == width, kept.V.shape[-1] // rows, leaves.ranks[1])
        _, done = run_grid(
            *kept, *self.plain, self.live, self.begins, segment, self._codes(leaves),
            leaves.ranks[0], column, *(int(scale.below) for scale in self.scales),
            arrays.weights, arrays.values, self.wcol, self.xcol, rows,
            np.full(len(first), SETTLE - 1), np.empty((len(self.job.parts), room)),
            np.empty((len(self.job.extremes), room), np.int64),
        )  # fmt: skip
        found = Segments(self._nodes(kept), key[first], pane[first])
        return Segments.joined([found, *others]), int(done)

    def _nothing(self, segments: int) -> Numbers:
        """Create the numbers of segments without events."""
        size, (rows, width) = self.program.size, self.sides
        cells = rows * -(-width // COLUMNS) * COLUMNS
        shape = (segments, self.lanes, size + 2)
        numbers = np.zeros((*shape, len(self.job.parts), cells))
        numbers[:, 0, size, 0] = 1.0
        for lane in range(1, self.lanes):
            numbers[:, lane, lane - 1, 0] = 1.0
        least = np.full((*shape, len(self.job.extremes), cells), NO_VALUE, np.int64)
        return Numbers(numbers, least, np.zeros((segments, self.lanes, cells), np.int64))

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
        self, before: Segments | None, names: tuple[Ints, Ints], kept: Numbers
    ) -> list[Segments] | None:
        """Fill in what was before; return the segments that do not go on.

        None if numbers of a cell differ by more than doubles reach.
        """
        if before is None:
            return []
        size, places = self.program.size, self.places
        wanted = {name: n for n, name in enumerate(zip(*(c.tolist() for c in names), strict=True))}
        rest = []
        for node, name in enumerate(zip(before.key.tolist(), before.pane.tolist(), strict=True)):
            if name not in wanted:
                rest.append(node)
                continue
            g = wanted[name]
            own = before.nodes.take(np.array([node]))
            # Lanes come first, then configurations, parts and cells.
            numbers, values = (np.moveaxis(self._spread(own, a), 2, 0) for a in own.arrays[:2])
            kept.M[g, :, :size, :, places] = _cells_first(values)
            if numbers.dtype.kind == "f":
                kept.V[g, :, :size, :, places] = _cells_first(numbers)
                continue
            with np.errstate(divide="ignore"):
                logs = np.log2(np.abs(numbers.real)) + numbers.imag
            excess = np.maximum(logs.max(axis=(1, 2)) - TOP, 0)
            powers = (np.ceil(excess / STEP) * STEP).astype(np.int64)
            counts, scaled = numbers[:, :, 0], powers[:, None, :]
            lost = (logs[:, :, 0] - scaled < -TOP) & (counts.real > 0)
            lost[:1] |= (counts[:1].real == 0) & self.begins[:, None] & (scaled[:1] > 0)
            if lost.any():
                return None
            kept.exponent[g][:, places] = powers
            kept.V[g, 0, size, 0, places] = np.ldexp(1.0, -powers[0])
            shifts = numbers.imag - powers[:, None, None, :]
            shifts = np.where(numbers.real != 0, shifts, 0).astype(np.int64)
            scaled_numbers = np.ldexp(numbers.real, shifts)
            kept.V[g, :, :size, :, places] = _cells_first(scaled_numbers)
        return [before.take(np.array(rest))] if rest else []

    def _spread(self, own: Nodes, array: NDArray[Any]) -> NDArray[Any]:
        """Repeat the cells of a node for every pair of values."""
        lengths = [
            np.diff(axis.begin, append=side) for axis, side in zip(own[:2], self.sides, strict=True)
        ]
        shape = array.shape[:3]
        cells = array.reshape(*shape, *map(len, lengths))
        for axis, length in enumerate(lengths, 3):
            cells = np.repeat(cells, length, axis=axis)
        return cells.reshape(*shape, self.sides[0] * self.sides[1])

    def _nodes(self, kept: Numbers) -> Nodes:
        """Build nodes of vectors or matrices with a cell for every pair of values."""
        count, size, places = len(kept.V), self.program.size, self.places
        wide, cells = bool(kept.exponent.any()), len(places)
        parts, mins = len(self.job.parts), len(self.job.extremes)
        kind = np.complex128 if wide else np.float64
        numbers = np.empty((size, parts, self.lanes, count, cells), kind)
        values = np.empty((size, mins, self.lanes, count, cells), np.int64)
        # One segment after the other stays in the CPU cache.
        for g in range(count):
            own: NDArray[Any] = np.take(kept.V[g, :, :size], places, axis=-1)
            if wide:
                exponent = np.take(kept.exponent[g], places, axis=-1)
                own = _widened(own, exponent[:, None, None])
            numbers[:, :, :, g] = np.transpose(own, (1, 2, 0, 3))
            least = np.take(kept.M[g, :, :size], places, axis=-1)
            values[:, :, :, g] = np.transpose(least, (1, 2, 0, 3))
        start = np.full((self.lanes, count * cells), -1, np.int32)
        start[0] = 0
        flat = (a.reshape(*a.shape[:3], count * cells) for a in (numbers, values))
        arrays = (*flat, start)
        first, second = (
            Axis(np.arange(count + 1) * side, np.tile(np.arange(side), count))
            for side in self.sides
        )
        return Nodes(first, second, arrays)


def _widened(numbers: NDArray[np.float64], exponent: Ints) -> NDArray[np.complex128]:
    """Convert finite doubles times powers of two, multiples of STEP, to wide numbers."""
    wide = np.empty(numbers.shape, np.complex128)
    size = np.abs(numbers)
    large, none = size >= LIMIT, size == 0
    # From the least double on, two steps lead to a mantissa of 1 or more.
    steps = large.astype(np.float64) - (size < 1) - (size < SHRINK)
    wide.real = numbers * np.where(large, SHRINK, 1.0)
    wide.real *= np.where(size < 1, LIMIT, 1.0)
    wide.real *= np.where(size < SHRINK, LIMIT, 1.0)
    wide.imag = np.where(none, 0.0, exponent + STEP * steps)
    return wide


def _cells_first(array: NDArray[Any]) -> NDArray[Any]:
    """Bring [lane, configuration, part, cell] to the order in which numpy has chosen cells."""
    return np.moveaxis(array, -1, 0)
