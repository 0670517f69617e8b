"""Convert decimal columns to integers or doubles where no digit is lost; else keep decimals.

Decimals of scale 0 become integers. Others become the doubles with the same digits. If a value has
more digits than these hold, the column stays decimal: comparisons are exact, and arithmetic is
refused (docs/semantics.md §4.10).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cepheid.errors import DataError, Diagnostic
from cepheid.events.comparisons import COMPARE, MIRRORED
from cepheid.events.constants import decimal_of
from cepheid.events.schema import ValueKind

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
DIGITS_MAX = 76
"""Digits of the widest decimals of Arrow."""
SAFE_DIGITS = 15
"""Every decimal with at most this many digits has its own double with the same digits."""
EXACT_MAX = 2.0**53
"""Up to this value doubles are denser than integers."""
_WHOLE_DIGITS = 18

_NAMES = {
    "=": "equal", "<>": "not_equal", "<": "less", "<=": "less_equal", ">": "greater",
    ">=": "greater_equal",
}  # fmt: skip


class Decimals:
    """Decimals with more digits than a double or a 64-bit integer holds.

    They support length, take and comparison, as other vector data does. ``rounded`` is the nearest
    double of a constant, which may be rounded: the query has a decimal literal.
    """

    __slots__ = ("array", "name", "rounded")

    def __init__(
        self, array: pa.Array[Any], name: str, rounded: NDArray[np.float64] | None = None
    ) -> None:
        self.array = array
        self.name = name
        self.rounded = rounded

    @staticmethod
    def constant(digits: str) -> Decimals:
        """Build the decimals of a literal, exactly as it is written."""
        return Decimals(pa.array([Decimal(digits)]), "", np.array([float(digits)]))

    def __len__(self) -> int:
        return len(self.array)

    def tolist(self) -> list[Any]:
        """Convert to a list of Python decimals."""
        return list(self.array.to_pylist())

    def take(self, rows: Any) -> Decimals:
        """Select rows."""
        rounded = None if self.rounded is None else self.rounded[rows]
        return Decimals(self.array.take(rows), self.name, rounded)

    @property
    def numbers(self) -> NDArray[Any]:
        """Convert to numbers for arithmetic, or raise if this would round."""
        if self.rounded is not None:
            return self.rounded
        found, _ = read_decimals(self.array, self.name)
        if isinstance(found, Decimals):
            self.refuse()
        return found

    def refuse(self) -> NoReturn:
        """Raise an error: these decimals support only comparison."""
        called = f"column `{self.name}`" if self.name else "a column"
        message = (
            f"a decimal in {called} of type {self.array.type} has more digits than a number that "
            "the query can compute with"
        )
        helps = (
            "cast the column to DOUBLE if rounding is acceptable; comparisons work without a cast",
        )
        raise DataError([Diagnostic("E570", message, helps=helps)])


def is_whole(kind: pa.DataType) -> bool:
    """Check whether a decimal type holds integers only."""
    return bool(pa.types.is_decimal(kind) and kind.scale == 0)


def read_decimals(
    array: pa.Array[Any], name: str = ""
) -> tuple[NDArray[Any] | Decimals, ValueKind]:
    """Convert a decimal column to a lossless representation, and return its kind.

    Examples
    --------
    >>> read_decimals(pa.array([Decimal("1.25")]))
    (array([1.25]), <ValueKind.DECIMAL: 'decimal'>)
    """
    kind = array.type
    if kind.scale < 0:
        # Few functions of Arrow take them.
        array = array.cast(pa.string()).cast(pa.decimal256(DIGITS_MAX, 0))
    filled = array.fill_null(pa.scalar(0, array.type)) if array.null_count else array
    if array.type.scale == 0:
        if kind.precision <= _WHOLE_DIGITS or _fit_whole(filled):
            return filled.cast(pa.int64()).to_numpy(), ValueKind.INTEGER
        return Decimals(filled, name), ValueKind.DECIMAL
    # By way of text, because Arrow's own conversion is often one bit off.
    doubles = filled.cast(pa.string()).cast(pa.float64())
    if kind.precision <= SAFE_DIGITS or _same_digits(doubles, filled):
        return doubles.to_numpy(), ValueKind.DECIMAL
    return Decimals(filled, name), ValueKind.DECIMAL


def _fit_whole(array: pa.Array[Any]) -> bool:
    ends: Any = pc.min_max(array).as_py()
    return ends["min"] is None or bool(ends["min"] >= INT64_MIN and ends["max"] <= INT64_MAX)


def _same_digits(doubles: pa.Array[Any], decimals: pa.Array[Any]) -> bool:
    """Check whether doubles stand for the decimals from which they came (§4.10)."""
    numbers = doubles.to_numpy()
    if not (np.abs(numbers) < 2.0**63).all():
        return False
    # The texts of large doubles are shorter than their values.
    large = np.abs(numbers) >= EXACT_MAX
    whole = pa.array(np.where(large, numbers, 0).astype(np.int64))
    texts = pc.if_else(pa.array(large), whole.cast(pa.string()), doubles.cast(pa.string()))
    try:
        back = texts.cast(decimals.type)
    except pa.ArrowInvalid:
        return False  # A text has more digits behind the point than the decimals.
    return bool(pc.all(pc.equal(back, decimals), min_count=0).as_py())


def compare_decimals(
    operator: str, left: NDArray[Any] | Decimals, right: NDArray[Any] | Decimals
) -> NDArray[np.bool_]:
    """Compare values of which at least one side is decimal, without rounding.

    A double stands for a decimal (``constants.decimal_of``): 0.1 is 0.1.
    """
    if isinstance(left, np.ndarray):
        return compare_decimals(MIRRORED[operator], right, left)
    if isinstance(right, np.ndarray) and right.dtype == np.float64:
        return _compare_doubles(operator, left, right)
    other = right if isinstance(right, Decimals) else _as_decimals(right)
    a, b = _of_one_type(left, other)
    found = pc.call_function(_NAMES[operator], [_one_or_all(a), _one_or_all(b)])
    if isinstance(found, pa.Scalar):
        return np.array([found.as_py()])
    mask: NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return mask


def _one_or_all(array: pa.Array[Any]) -> Any:
    """Unwrap a single value, which stands for a column of any length."""
    return array[0] if len(array) == 1 else array


def _as_decimals(whole: NDArray[Any]) -> Decimals:
    numbers = pa.array(np.ascontiguousarray(whole, np.int64))
    return Decimals(numbers.cast(pa.decimal128(19, 0)), "")


def _of_one_type(left: Decimals, right: Decimals) -> tuple[pa.Array[Any], pa.Array[Any]]:
    types = (left.array.type, right.array.type)
    if types[0] == types[1]:
        return left.array, right.array
    scale = max(kind.scale for kind in types)
    if max(kind.precision - kind.scale for kind in types) + scale > DIGITS_MAX:
        left.refuse()
    wide = pa.decimal256(DIGITS_MAX, scale)
    return left.array.cast(wide), right.array.cast(wide)


def _compare_doubles(operator: str, left: Decimals, doubles: NDArray[Any]) -> NDArray[np.bool_]:
    """Compare with doubles: by the nearest doubles, and by the digits where these are equal."""
    near = left.array.cast(pa.string()).cast(pa.float64()).to_numpy()
    near, other = np.broadcast_arrays(near, doubles)
    sign = np.where(np.isnan(other) | (near < other), -1, np.where(near > other, 1, 0))
    for row in np.flatnonzero(sign == 0).tolist():
        cell = left.array[row if len(left) > 1 else 0].as_py()
        digits = decimal_of(float(other[row]))
        sign[row] = (cell > digits) - (cell < digits)
    mask: NDArray[np.bool_] = COMPARE[operator](sign, 0)
    return mask


def decimal_keys(left: Decimals, right: Decimals) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Encode both sides as integers that compare as the decimals do."""
    both: Any = pa.concat_arrays(_of_one_type(left, right))
    ranks = np.asarray(pc.rank(both, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)
    return ranks[: len(left)], ranks[len(left) :]
