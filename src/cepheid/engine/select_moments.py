"""What aggregates need to know of some events: how many values, their sum, least and largest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.engine.select_groups import Codes
from cepheid.engine.select_rows import arrow_of
from cepheid.engine.vectors import Vector
from cepheid.errors import DataError, Diagnostic
from cepheid.events.schema import ValueKind
from cepheid.kernels.window_folds import MAX, MIN, SUM, fold_into, fold_windows
from cepheid.language import tree
from cepheid.language.formatter import format_expression

Numbers = NDArray[Any]
Parts = tuple[Numbers | None, Numbers | None, Numbers | None]
"""Sums, least and largest values; None is not needed."""

OPERATIONS = (SUM, MIN, MAX)
SUM_MAX = 2.0**62
"""As long as the sum of all absolute values is less, no sum of some can leave 64 bits."""

_UFUNCS: dict[int, np.ufunc] = {SUM: np.add, MIN: np.fmin, MAX: np.maximum}


class Moments(NamedTuple):
    """Values that are known, and as far as aggregates ask: sums, least and largest values."""

    known: Codes
    parts: Parts
    kind: ValueKind

    @staticmethod
    def counts(rows: Codes) -> Moments:
        """Return moments that only count."""
        return Moments(rows, NO_PARTS, ValueKind.INTEGER)

    @staticmethod
    def united(parts: Sequence[Moments]) -> Moments:
        """Return moments one after the other; a column of NULLs alone has no kind of its own."""
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
        """Return some of them."""
        return self._mapped(lambda part, _: part[rows])

    def nothing(self) -> Moments:
        """Return the moments of no event."""
        return self._mapped(lambda part, _: np.zeros(1, part.dtype))

    def reduced(self, begins: Codes) -> Moments:
        """Return the moments of stretches of rows, which begin at some of them."""
        if not len(begins):
            return self.take(begins)
        with np.errstate(invalid="ignore", over="ignore"):
            return self._mapped(lambda part, operation: _UFUNCS[operation].reduceat(part, begins))

    def gathered(self, slots: Codes, size: int) -> Moments:
        """Return the moments of slots, into which rows go."""
        return self._mapped(lambda part, operation: _gathered(part, slots, size, operation))

    def folded(self, low: Codes, high: Codes) -> Moments:
        """Return the moments of windows, which are stretches low to high - 1."""
        return self._mapped(lambda part, operation: _folded(part, low, high, operation))

    def _mapped(self, function: Callable[[Numbers, int], Numbers]) -> Moments:
        total, least, largest = (
            None if part is None else function(part, operation)
            for part, operation in zip(self.parts, OPERATIONS, strict=True)
        )
        return Moments(function(self.known, SUM), (total, least, largest), self.kind)


NO_PARTS: Parts = (None, None, None)


def _concatenated(parts: list[Numbers | None]) -> Numbers | None:
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if present else None


def moments_of(vector: Vector, functions: frozenset[str]) -> Moments:
    """Return the moments of single values, those that functions need."""
    length = len(vector.data)
    valid = vector.valid
    known = np.ones(length, np.int64) if valid is None else valid.astype(np.int64)
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
        return np.where(valid, numbers, _neutral(operation, numbers))

    parts = (part({"SUM", "AVG"}, SUM), part({"MIN"}, MIN), part({"MAX"}, MAX))
    return Moments(known, parts, vector.kind)


class SumCheck:
    """Sees all values of whole numbers that are summed up, before they are."""

    def __init__(self) -> None:
        self._bounds: dict[tree.Expression, float] = {}

    def add(self, expression: tree.Expression, moments: Moments) -> None:
        """Add values; raise E504 if a sum of some may leave 64 bits."""
        total = moments.parts[0]
        if total is None or total.dtype == np.float64:
            return
        more = float(np.abs(total.astype(np.float64)).sum())
        self._bounds[expression] = self._bounds.get(expression, 0.0) + more
        check_sum(expression, self._bounds[expression])


def check_sum(expression: tree.Expression, bound: float) -> None:
    """Raise E504 if a sum whose absolute values add up to so much may leave 64 bits."""
    if bound >= SUM_MAX:
        message = f"a sum of `{format_expression(expression)}` may leave 64 bits"
        helps = ("make one number of it a double: `SUM(1.0 * x)`",)
        raise DataError([Diagnostic("E504", message, helps=helps)])


def _gathered(values: Numbers, slots: Codes, size: int, operation: int) -> Numbers:
    out = np.full(size, _neutral(operation, values), values.dtype)
    fold_into(slots, values, operation, out)
    return out


def _folded(values: Numbers, low: Codes, high: Codes, operation: int) -> Numbers:
    if (high - low == 1).all():
        return values[low]
    out = np.empty(len(low), values.dtype)
    back = np.empty_like(values)
    fold_windows(values, low, high, operation, _neutral(operation, values), back, out)
    return out


def _neutral(operation: int, numbers: Numbers) -> Any:
    """Return the neutral element of a fold; NaN is nothing to a least value."""
    if operation == SUM:
        return numbers.dtype.type(0)
    if numbers.dtype == np.float64:
        return np.float64(np.nan if operation == MIN else -np.inf)
    limits = np.iinfo(np.int64)
    return np.int64(limits.max if operation == MIN else limits.min)


def aggregate_column(function: tree.AggregateFunction, moments: Moments) -> pa.Array[Any]:
    """Return an aggregate of every window; of no value it is NULL, but for COUNT."""
    known = moments.known
    if function is tree.AggregateFunction.COUNT:
        return pa.array(known)
    valid = known > 0
    kind = moments.kind
    values = moments.parts[{"MIN": 1, "MAX": 2}.get(function.value, 0)]
    assert values is not None, "moments are there for the functions that need them"
    if function is tree.AggregateFunction.AVG:
        with np.errstate(invalid="ignore"):
            values = values / np.maximum(known, 1)
        if kind is ValueKind.DURATION:
            values = np.round(values).astype(np.int64)
        else:
            kind = ValueKind.DOUBLE
    if kind is ValueKind.UNKNOWN:
        kind = ValueKind.INTEGER
    if kind is ValueKind.DECIMAL:
        kind = ValueKind.DOUBLE
    return arrow_of(Vector(values, None if valid.all() else valid, kind))
