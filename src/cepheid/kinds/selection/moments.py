"""Moments of events: the count, sum, minimum and maximum that aggregates need.

Integer sums that may overflow 64 bits are kept as two: those of the upper and of the lower 32 bits
of the values. So a sum is exact whatever the order of addition, or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.pool import empty
from cepheid.errors import DataError, Diagnostic
from cepheid.events.schema import ValueKind
from cepheid.expressions.arrow import arrow_of
from cepheid.expressions.format import as_written
from cepheid.expressions.vectors import Vector
from cepheid.kernels.window_folds import MAX, MIN, SUM, fold_into, fold_windows
from cepheid.kinds.selection.groups import Codes
from cepheid.language import tree
from cepheid.plans.selection import SelectFunction

Numbers = NDArray[Any]
Parts = tuple[Numbers | None, Numbers | None, Numbers | None]
"""Sums, minima and maxima; None if not needed."""

OPERATIONS = (SUM, MIN, MAX)
SUM_MAX = 2.0**62
"""While the sum of all absolute values is smaller, no partial sum can overflow 64 bits."""
_HALF = 32
_LOW = 2**_HALF - 1

_UFUNCS: dict[int, np.ufunc] = {SUM: np.add, MIN: np.fmin, MAX: np.maximum}


class Moments(NamedTuple):
    """The number of known values and, as far as aggregates need them, sums, minima and maxima."""

    known: Codes
    parts: Parts
    kind: ValueKind

    @staticmethod
    def counts(rows: Codes) -> Moments:
        """Build moments that only count."""
        return Moments(rows, NO_PARTS, ValueKind.INTEGER)

    @staticmethod
    def united(parts: Sequence[Moments]) -> Moments:
        """Concatenate moments; a column of only NULLs takes the kind of the others."""
        known = [part for part in parts if part.kind is not ValueKind.UNKNOWN]
        kind = known[0].kind if known else ValueKind.UNKNOWN
        if any(part.kind is not kind for part in known):
            kind = ValueKind.DOUBLE
        total, least, largest = (
            _concatenated([part.parts[i] for part in parts]) for i in range(len(OPERATIONS))
        )
        known_all = np.concatenate([part.known for part in parts])
        return Moments(known_all, (total, least, largest), kind)

    def take(self, rows: Codes) -> Moments:
        """Select some of the moments."""
        return self._mapped(lambda part, _: part[rows])

    def nothing(self) -> Moments:
        """Build the moments of no event."""
        return self._mapped(lambda part, _: np.zeros((1, *part.shape[1:]), part.dtype))

    def reduced(self, begins: Codes) -> Moments:
        """Reduce runs of consecutive rows, which begin at ``begins``."""
        if not len(begins):
            return self.take(begins)
        with np.errstate(invalid="ignore", over="ignore"):
            return self._mapped(lambda part, operation: _UFUNCS[operation].reduceat(part, begins))

    def gathered(self, slots: Codes, size: int) -> Moments:
        """Add up the rows of each slot."""
        return self._mapped(lambda part, operation: _gathered(part, slots, size, operation))

    def widened(self) -> Moments:
        """Split integer sums into two halves."""
        total, least, largest = self.parts
        return self._replace(parts=(None if total is None else _halves(total), least, largest))

    def folded(self, low: Codes, high: Codes) -> Moments:
        """Fold stretches low to high - 1 to the moments of each window."""
        return self._mapped(lambda part, operation: _folded(part, low, high, operation))

    def _mapped(self, function: Callable[[Numbers, int], Numbers]) -> Moments:
        return self.with_parts(function)._replace(known=function(self.known, SUM))

    def with_parts(self, function: Callable[[Numbers, int], Numbers]) -> Moments:
        """Change the sums, minima and maxima, and not the number of known values."""
        total, least, largest = (
            None if part is None else function(part, operation)
            for part, operation in zip(self.parts, OPERATIONS, strict=True)
        )
        return self._replace(parts=(total, least, largest))


NO_PARTS: Parts = (None, None, None)


def _halves(total: Numbers) -> Numbers:
    """Split integers into upper and lower 32 bits; doubles, and split values, stay as they are."""
    if total.dtype.kind != "i" or total.ndim == 2:
        return total
    return np.stack([total >> _HALF, total & _LOW], axis=1)


def _concatenated(parts: list[Numbers | None]) -> Numbers | None:
    present = [part for part in parts if part is not None]
    if any(part.ndim == 2 for part in present):
        present = [_halves(part) for part in present]
    return np.concatenate(present) if present else None


def moments_of(vector: Vector, functions: frozenset[str], ones: Codes) -> Moments:
    """Compute the moments of single values that the functions need; ``ones`` counts them."""
    valid = vector.valid
    known = ones if valid is None else valid.astype(np.int64)
    if vector.kind is ValueKind.TEXT or functions <= {"COUNT"}:
        return Moments(known, NO_PARTS, vector.kind)
    numbers = vector.numbers
    if numbers.dtype == np.bool_:
        numbers = numbers.astype(np.int64)

    def part(names: set[str], operation: int) -> Numbers | None:
        if not functions & names:
            return None
        if valid is None:
            return numbers
        return np.where(valid, numbers, neutral_of(operation, numbers))

    parts = (part({"SUM", "AVG"}, SUM), part({"MIN"}, MIN), part({"MAX"}, MAX))
    return Moments(known, parts, vector.kind)


class SumBounds:
    """Tracks the range of all integers that are summed, before they are added."""

    def __init__(self) -> None:
        self._bounds: dict[tree.Expression, float] = {}

    def added(self, expression: tree.Expression, moments: Moments) -> Moments:
        """Widen moments if their sum, alone or with the earlier ones, could overflow."""
        total = moments.parts[0]
        if total is None or total.dtype == np.float64:
            return moments
        more = float(np.abs(total.astype(np.float64)).sum())
        return moments if self.fits(expression, more) else moments.widened()

    def fits(self, expression: tree.Expression, more: float) -> bool:
        """Check whether 64 bits hold the sum with more integers, of this sum of absolute values."""
        bound = self._bounds[expression] = self._bounds.get(expression, 0.0) + more
        return bound < SUM_MAX


def _whole_sums(halves: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
    """Join sums that were kept in halves, and mark those that fit 64 bits."""
    high = halves[:, 0] + (halves[:, 1] >> _HALF)
    fits = (high >= -(2 ** (_HALF - 1))) & (high < 2 ** (_HALF - 1))
    return (high << _HALF) | (halves[:, 1] & _LOW), fits


def _sums(total: Numbers, valid: NDArray[np.bool_], written: str) -> Numbers:
    if total.ndim == 1:
        return total
    sums, fits = _whole_sums(total)
    if not (fits | ~valid).all():
        message = f"a sum of `{written}` overflowed 64 bits"
        helps = ("make one operand a double: `SUM(1.0 * x)`",)
        raise DataError([Diagnostic("E504", message, helps=helps)])
    return sums


def _doubles(total: Numbers) -> Numbers:
    """Convert sums to doubles, for a mean."""
    if total.ndim == 1:
        return total
    sums, fits = _whole_sums(total)
    wide = total[:, 0] * 2.0**_HALF + total[:, 1]
    return np.where(fits, sums.astype(np.float64), wide)


def _gathered(values: Numbers, slots: Codes, size: int, operation: int) -> Numbers:
    if values.ndim == 2:
        columns = [_gathered(column, slots, size, operation) for column in values.T.copy()]
        return np.stack(columns, axis=1)
    out = np.full(size, neutral_of(operation, values), values.dtype)
    fold_into(slots, values, operation, out)
    return out


def _folded(values: Numbers, low: Codes, high: Codes, operation: int) -> Numbers:
    if (high - low == 1).all():
        return values[low]
    if values.ndim == 2:
        return np.stack([_folded(c, low, high, operation) for c in values.T.copy()], axis=1)
    out = np.empty(len(low), values.dtype)
    back = np.empty_like(values)
    fold_windows(values, low, high, operation, neutral_of(operation, values), back, out)
    return out


def neutral_of(operation: int, numbers: Numbers) -> Any:
    """Look up the neutral element of a fold; minima and maxima ignore NaN."""
    if operation == SUM:
        return numbers.dtype.type(0)
    if numbers.dtype == np.float64:
        return np.float64(np.nan if operation == MIN else -np.inf)
    limits = np.iinfo(np.int64)
    return np.int64(limits.max if operation == MIN else limits.min)


def aggregate_column(
    function: SelectFunction, moments: Moments, argument: tree.Expression
) -> pa.Array[Any]:
    """Compute an aggregate of every window; without a value it is NULL, except COUNT.

    Raises
    ------
    DataError
        E504 if a sum overflows 64 bits.
    """
    known = moments.known
    if function is SelectFunction.COUNT:
        return pa.array(known)
    valid = known > 0
    kind = moments.kind
    values = moments.parts[{"MIN": 1, "MAX": 2}.get(function.value, 0)]
    assert values is not None, "moments are there for the functions that need them"
    if function is SelectFunction.AVG:
        with np.errstate(invalid="ignore"):
            values = np.divide(
                _doubles(values),
                known if valid.all() else np.maximum(known, 1),
                out=empty(len(known), np.float64),
            )
        if kind is ValueKind.DURATION:
            values = np.round(values).astype(np.int64)
        else:
            kind = ValueKind.DOUBLE
    elif function is SelectFunction.SUM:
        values = _sums(values, valid, as_written(argument))
    if kind is ValueKind.UNKNOWN:
        kind = ValueKind.INTEGER
    if kind is ValueKind.DECIMAL:
        kind = ValueKind.DOUBLE
    found: pa.Array[Any] = arrow_of(Vector(values, None if valid.all() else valid, kind))
    return found
