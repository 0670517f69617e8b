"""Search the bounds of conditions on sums and differences of doubles (``patterns/monotone.py``)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cepheid.events.comparisons import COMPARE
from cepheid.patterns.monotone import Monotone

Doubles = NDArray[np.float64]
Keys = NDArray[np.int64]

_LARGEST = int(np.array(np.finfo(np.float64).max).view(np.int64))
_MAGNITUDE = np.int64(2**63 - 1)


def bounds_of(
    form: Monotone, prev: Doubles, later: Doubles, bound: Doubles
) -> tuple[str, Keys, Keys]:
    """Return an operator and keys of both events that compare as the condition does.

    All values are finite. Keys of the later event are those of the least earlier value on the
    upper side.
    """
    limit = -bound if form.negated else bound
    rises = form.sign == "+" or not form.turned
    compare: Callable[..., NDArray[np.bool_]] = COMPARE[form.operator]

    def holds(values: Doubles) -> NDArray[np.bool_]:
        with np.errstate(over="ignore"):
            if form.sign == "+":
                return compare(values + later, limit)
            return compare(later - values if form.turned else values - later, limit)

    upper = (form.operator in (">", ">=")) == rises
    low = np.full(len(later), -_LARGEST - 1, np.int64)
    high = np.full(len(later), _LARGEST + 1, np.int64)  # Beyond it, nothing is accepted.
    for _ in range(64):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        above = holds(_values(np.minimum(middle, _LARGEST))) == upper
        above |= middle > _LARGEST
        high = np.where(above, middle, high)
        low = np.where(above, low, np.minimum(middle + 1, high))
    return (">=" if upper else "<"), _keys(prev), high


def _keys(values: Doubles) -> Keys:
    """Return whole numbers in the order of doubles."""
    bits = np.ascontiguousarray(values).view(np.int64)
    return np.where(bits < 0, ~(bits & _MAGNITUDE), bits)


def _values(keys: Keys) -> Doubles:
    bits = np.where(keys < 0, ~keys | ~_MAGNITUDE, keys)
    return bits.view(np.float64)
