"""Cut windows into slices, and combine the partial aggregates of slices to results of windows.

The edges of all windows cut the stream into slices. With windows of length w every s they are
alternately (w mod s) and s - (w mod s) long (Körber, section 3.3.3), so every window is a fixed
number of slices, and two running aggregates over stretches of that length yield any window: no
event is added twice, and nothing is subtracted, which would lose precision.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.errors import DataError, Diagnostic

SLICES_MAX = 1 << 26
"""Slices of one run; each takes some tens of bytes."""


class Windows(NamedTuple):
    """Windows [i * slide, i * slide + within), in ticks of time or in events."""

    within: int
    slide: int


class Grid(NamedTuple):
    """The slices between the first and the last event.

    ``edges`` has one more element than there are slices. A window begins at every ``step``-th edge
    and has ``length`` slices; if windows leave gaps, every other slice is a gap.
    """

    windows: Windows
    edges: NDArray[np.int64]
    step: int
    length: int
    first_window: int

    @property
    def size(self) -> int:
        """Count the slices."""
        return len(self.edges) - 1

    def place(self, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the slice of every position; one outside of the grid has a number outside, too."""
        within, slide = self.windows
        number = at // slide - self.first_window
        if self.step == 1:
            return number
        inside = at - (number + self.first_window) * slide
        return 2 * number + (inside >= within % slide)


def grid_of(windows: Windows, first: int, last: int) -> Grid:
    """Build the slices of all windows that can hold an event in [first, last].

    Raises
    ------
    DataError
        E511 if there are too many.
    """
    within, slide = windows
    begin = (first - within) // slide + 1
    count = last // slide - begin + 1
    rest = within % slide
    step = 1 if rest == 0 else 2
    per_window = step * (within // slide) + (1 if rest else 0)
    slices = step * count + per_window
    if slices > SLICES_MAX:
        message = f"the windows have {slices:,} slices, more than the maximum of {SLICES_MAX:,}"
        raise DataError([Diagnostic("E511", message, helps=("use a longer slide",))])
    starts = (begin + np.arange(count + within // slide + 2, dtype=np.int64)) * slide
    edges = starts
    if rest:
        edges = np.stack([starts, starts + rest], axis=1).reshape(-1)
    return Grid(windows, edges[: slices + 1], step, per_window, begin)


class Partials(NamedTuple):
    """Aggregates of an attribute per slice or per window; ``None`` stands for all events."""

    known: NDArray[np.int64]
    least: NDArray[Any]
    largest: NDArray[Any]
    sum: NDArray[Any]

    @staticmethod
    def empty(size: int, kind: type[np.float64] | type[np.int64]) -> Partials:
        """Build empty aggregates; NaN is the neutral element of fmin."""
        if kind is np.float64:
            low: Any = np.full(size, np.nan)
            high: Any = np.full(size, -np.inf)
        else:
            low = np.full(size, np.iinfo(np.int64).max)
            high = np.full(size, np.iinfo(np.int64).min)
        return Partials(np.zeros(size, np.int64), low, high, np.zeros(size, kind))

    def add(
        self,
        at: NDArray[np.int64],
        known: NDArray[np.int64],
        least: NDArray[Any],
        largest: NDArray[Any],
        total: NDArray[Any],
    ) -> None:
        """Add the aggregates of parts to their slices."""
        some = known > 0
        at = at[some]
        np.add.at(self.known, at, known[some])
        with np.errstate(invalid="ignore"):
            np.fmin.at(self.least, at, least[some])
            np.maximum.at(self.largest, at, largest[some])
            np.add.at(self.sum, at, total[some])


def over_windows(
    parts: NDArray[Any], grid: Grid, operation: np.ufunc, neutral: Any
) -> NDArray[Any]:
    """Combine the slices of every window.

    Stretches of ``length`` slices are accumulated from both ends; a window combines a suffix of one
    stretch with a prefix of the next (van Herk; Gil and Werman).
    """
    length, step = grid.length, grid.step
    count = (grid.size - length) // step
    rows = -(-(grid.size + length) // length)
    padded = np.full(rows * length, neutral, parts.dtype)
    padded[: len(parts)] = parts
    with np.errstate(invalid="ignore"):
        matrix = padded.reshape(rows, length)
        forwards = operation.accumulate(matrix, axis=1).reshape(-1)
        backwards = operation.accumulate(matrix[:, ::-1], axis=1)[:, ::-1].reshape(-1)
        begins = np.arange(count) * step
        ends = begins + length - 1
        both: NDArray[Any] = operation(backwards[begins], forwards[ends])
    # A window that is one whole stretch must not be counted twice.
    return np.where(begins % length == 0, forwards[ends], both)


def windows_of(partials: Partials, grid: Grid) -> Partials:
    """Compute the aggregates of all windows."""
    neutral = Partials.empty(1, np.float64 if partials.sum.dtype == np.float64 else np.int64)
    return Partials(
        over_windows(partials.known, grid, np.add, 0),
        over_windows(partials.least, grid, np.fmin, neutral.least[0]),
        over_windows(partials.largest, grid, np.maximum, neutral.largest[0]),
        over_windows(partials.sum, grid, np.add, 0),
    )
