"""Count the matches of segments by their values (§17.7, §17.9): segments in, values and counts out.

Segments whose values leave the bins are counted again, with more or with wider ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.errors import DataError, Diagnostic
from cepheid.kernels.bins import FIRST, SHIFT, SPAN, UNDER
from cepheid.kernels.moments import elapsed_times
from cepheid.kinds.trend.look_back.evaluate import Evaluation
from cepheid.kinds.trend.look_back.question import Question
from cepheid.kinds.trend.program.reading import fill_weights
from cepheid.memory_limits import current, too_much_state
from cepheid.patterns.segments import Segments
from cepheid.plans.marks import variable_of
from cepheid.plans.survey import MatchValue
from cepheid.plans.template import Template

BINS_MAX, BINS_MIN = 4096, 64
GROWTH = 4
"""By how much bins grow, in number or in width, when values leave them."""
DECIMALS_MAX = 6
WHOLE_MAX = 2.0**53


class Values(NamedTuple):
    """Values of matches and how often they come, segment by segment.

    Attributes
    ----------
    segment, value, matches
        One entry for each value of a segment; counts are wide numbers.
    total, error
        The matches of each segment, and how far a value of it may be from that of a match.
    """

    segment: NDArray[np.int64]
    value: NDArray[np.float64]
    matches: NDArray[Any]
    total: NDArray[Any]
    error: NDArray[np.float64]


class _Bins(NamedTuple):
    """One way to count: ``number`` bins of a width, of which ``zero`` has the value 0.

    A width is ``unit / parts``. ``shifts`` has for every event the bins by which it shifts; of
    durations there are none.
    """

    number: int
    zero: int
    unit: float
    parts: float
    error: float
    shifts: NDArray[np.float64] | None


def count_values(
    question: Question, template: Template, segments: Segments, value: MatchValue
) -> Values:
    """Count the matches of all segments by their values.

    Raises
    ------
    DataError
        E519 if lengths or counts have too many values, E576 if a sum has no value.
    """
    counter = _Counter(question, template, segments, value)
    found: list[tuple[Any, ...]] = []
    total = np.zeros(len(segments.key), np.complex128)
    error = np.zeros(len(segments.key))
    left = np.flatnonzero(np.diff(segments.ptr) > 0)
    ways = counter.ways() if len(left) else iter(())
    for bins in ways:
        outside = []
        for part in counter.shares(left, bins):
            numbers = counter.run(part, bins)
            fits = (numbers[:, UNDER].real == 0) & (numbers[:, -1].real == 0)
            outside.append(part[~fits])
            kept, mine = part[fits], numbers[fits]
            total[kept], error[kept] = mine[:, 0], bins.error
            row, place = np.nonzero(mine[:, FIRST:-1].real)
            exact = (place - bins.zero).astype(np.float64) * bins.unit / bins.parts
            found.append((kept[row], exact, mine[row, place + FIRST]))
        left = np.concatenate(outside)
        if not len(left):
            break
    else:
        if len(left):
            too_much_state(f"values of {value.name}", counter.most, verb="counts")
    empty = (np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.complex128))
    parts = [np.concatenate(columns) for columns in zip(empty, *found, strict=True)]
    return Values(parts[0], parts[1], parts[2], total, error)


class _Counter:
    """The events of segments, and the bins in which their values are counted."""

    def __init__(
        self, question: Question, template: Template, segments: Segments, value: MatchValue
    ) -> None:
        self._question, self._template = question, template
        self._segments, self._value = segments, value
        names = [variable_of(name) for name in question.variables]
        self._adds = [value.variable in (None, name) for name in names]
        bits = sum(1 << n for n, adds in enumerate(self._adds) if adds)
        self._bound = segments.bits & bits != 0
        # A tree has two numbers for each event, where an edge looks up single ones.
        trees = len(template.edges) if question.relations or template.guards else 0
        numbers = len(template.states) + 2 * trees
        room = current().state // (16 * max(segments.longest * numbers, 1))
        self.most = int(min(max(room, BINS_MIN), BINS_MAX))
        self._states = len(template.states)

    def ways(self) -> Iterator[_Bins]:
        """Yield the bins to try, one after the other."""
        if self._value.what == "duration":
            return iter([self._durations()])
        return self._sums() if self._value.what == "sum" else self._counts()

    def shares(self, left: NDArray[np.int64], bins: _Bins) -> Iterator[NDArray[np.int64]]:
        """Split segments into shares whose bins fit into memory."""
        rows = np.diff(self._segments.ptr)[left]
        size = 16 * (bins.number + FIRST + 1) * max(self._states, 1)
        most = max(current().state // size, 1)
        share = (np.cumsum(rows) - 1) // most
        cuts = np.flatnonzero(np.diff(share)) + 1
        yield from np.split(left, cuts)

    def run(self, part: NDArray[np.int64], bins: _Bins) -> NDArray[Any]:
        """Count the matches of some segments: their number, and those of each bin."""
        question, parts = self._question, bins.number + FIRST + 1
        count = len(question.arrays.ts)
        weights = np.zeros((3, count))
        weights[0] = bins.zero
        weight_of = np.full((len(question.variables), parts), SPAN, np.int32)
        if bins.shifts is None:
            weights[1] = bins.unit
        else:
            weights[1] = bins.shifts
            weight_of[:] = [[SHIFT - (1 if adds else 2)] for adds in self._adds]
        weight_of[:, 0] = -1
        asked = question._replace(
            arrays=question.arrays._replace(weights=weights),
            weight_of=weight_of,
            value_of=np.zeros((len(question.variables), 0), np.int32),
        )
        mine = self._segments.take(part)
        seen = [1] * len(self._template.states)
        return Evaluation(asked, mine, self._template, seen).run().numbers

    def _counts(self) -> Iterator[_Bins]:
        """Yield more and more bins, as many as there are events in a segment."""
        longest = int(self._in_segments(self._bound.astype(np.int64)).max())
        ones = np.ones(len(self._question.arrays.ts))
        number = min(BINS_MIN, longest + 1)
        while True:
            yield _Bins(number, 0, 1.0, 1.0, 0.0, ones)
            if number >= min(self.most, longest + 1):
                return
            number = min(number * GROWTH, self.most, longest + 1)

    def _durations(self) -> _Bins:
        """Choose bins between the first and the last time of a segment."""
        segments = self._segments
        times = self._question.arrays.ts[segments.rows]
        elapsed = elapsed_times(segments.ptr, times)
        longest, width = int(elapsed.max()), max(int(np.gcd.reduce(elapsed)), 1)
        if longest // width < self.most:
            return _Bins(longest // width + 1, 0, float(width), 1.0, 0.0, None)
        width = longest // (self.most - 1) + 1
        return _Bins(longest // width + 1, 0, float(width), 1.0, float(width), None)

    def _sums(self) -> Iterator[_Bins]:
        """Yield wider and wider bins, from the number of which all values are multiples."""
        added = np.empty(len(self._question.arrays.ts))
        fill_weights(added, self._question.columns, "sum", self._value.attribute)
        used = np.zeros(len(added), np.bool_)
        used[self._segments.rows[self._bound]] = True
        added = np.where(used, added, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            sizes = self._in_segments(np.where(self._bound, np.abs(added[self._segments.rows]), 0))
        if not np.isfinite(sizes).all():
            raise self._without_bin(added)
        unit, parts = _common_unit(added)
        if not unit:
            unit, parts = max(float(sizes.max()), 1e-300) / self.most / GROWTH**4, 1.0
        events = int(self._in_segments(self._bound.astype(np.int64)).max())
        while True:
            shifts = np.rint(added * parts / unit)
            far = np.abs(added - shifts * unit / parts).max() if parts == 1.0 else 0.0
            # What remains of decimals is rounding.
            error = 0.0 if far <= 1e-9 * unit else float(far) * events
            placed = np.where(self._bound, shifts[self._segments.rows], 0.0)
            above = float(self._in_segments(np.maximum(placed, 0)).max())
            below = float(self._in_segments(np.maximum(-placed, 0)).max())
            if above + below < self.most:
                yield _Bins(int(above + below) + 1, int(below), unit, parts, error, shifts)
                return
            zero = int((self.most - 1) * (below / (above + below)))
            yield _Bins(self.most, zero, unit, parts, error, shifts)
            unit, parts = unit * GROWTH / parts, 1.0

    def _without_bin(self, added: NDArray[np.float64]) -> DataError:
        """Tell that a sum has no bin, since values are too large or no numbers."""
        name = self._value.attribute
        message = (
            f"`{name}` has values that are too large: a sum of their sizes is infinite, so it "
        )
        if not np.isfinite(added).all():
            message = f"`{name}` has a value that is not finite, so a sum of it "
        value = f"{self._value.variable}.{name}"
        helps = (f"leave it out: `WHERE {value} < 1e300 AND {value} > -1e300`",)
        return DataError([Diagnostic("E576", f"{message}has no bin", helps=helps)])

    def _in_segments(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Add up numbers of rows by segment, each on its own: a running sum would overflow."""
        ptr = self._segments.ptr
        found = np.zeros(len(ptr) - 1, numbers.dtype)
        full = np.flatnonzero(np.diff(ptr))
        found[full] = np.add.reduceat(numbers, ptr[:-1][full])
        return found


def _common_unit(values: NDArray[np.float64]) -> tuple[float, float]:
    """Find numbers u and p so that all values are whole multiples of u / p; (0, 1) without any."""
    for digits in range(DECIMALS_MAX + 1):
        parts = 10.0**digits
        scaled = np.rint(values * parts)
        if np.abs(scaled).max(initial=0.0) >= WHOLE_MAX:
            break
        if np.array_equal(scaled / parts, values):
            common = int(np.gcd.reduce(scaled.astype(np.int64)))
            return float(max(common, 1)), parts
    return 0.0, 1.0


def percentile_places(
    shares: NDArray[np.float64], fractions: tuple[float, ...]
) -> NDArray[np.int64]:
    """Find the first of some values at which the sum of their shares reaches each fraction."""
    sums = np.cumsum(shares)
    places = np.searchsorted(sums, np.array(fractions) - 1e-12)
    return np.minimum(places, len(sums) - 1).astype(np.int64)
