"""Search the bounds of conditions on sums and products of doubles (``patterns/monotone.py``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cepheid.events.comparisons import COMPARE
from cepheid.patterns.monotone import Monotone

Doubles = NDArray[np.float64]
Keys = NDArray[np.int64]

_LARGEST = int(np.array(np.finfo(np.float64).max).view(np.int64))
_BEYOND = _LARGEST + 1
_MAGNITUDE = np.int64(2**63 - 1)


def bounds_of(
    form: Monotone, prev: Doubles, others: Sequence[Doubles], bound: Doubles
) -> list[tuple[str, Keys, Keys]]:
    """Return operators and keys of both events that compare, all of them, as the condition does.

    All values are finite; ``others`` are those of the steps, and no step but the first one
    multiplies by 0. Keys of the later event are those of the least earlier value on the upper side.
    Where the signs of factors differ, some later events have a lower bound, and some an upper one.
    """
    limit = -bound if form.negated else bound
    values_of = _from_reciprocal if form.is_reciprocal else _values
    rises = np.ones(len(prev), np.bool_)
    for step, other in zip(form.steps, others, strict=True):
        if step.operator == "-":
            rises ^= step.turned
        elif step.operator in ("*", "/"):
            rises ^= other < 0.0
    upper = rises == (form.operator in (">", ">="))
    low = np.full(len(prev), -_LARGEST - 1, np.int64)
    high = np.full(len(prev), _BEYOND, np.int64)  # Beyond it, nothing is accepted.
    for _ in range(64):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        value = _applied(form, values_of(np.minimum(middle, _LARGEST)), others)
        above = COMPARE[form.operator](value, limit) == upper
        above |= middle > _LARGEST
        high = np.where(above, middle, high)
        low = np.where(above, low, np.minimum(middle + 1, high))
    keys = _reciprocal(_keys(prev)) if form.is_reciprocal else _keys(prev)
    found = []
    if upper.any():
        found.append((">=", keys, np.where(upper, high, -_LARGEST - 1)))
    if not upper.all():
        found.append(("<", keys, np.where(upper, _BEYOND, high)))
    return found


def _applied(form: Monotone, values: Doubles, others: Sequence[Doubles]) -> Doubles:
    """Apply the steps of a condition to values of the earlier event."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for step, other in zip(form.steps, others, strict=True):
            apply: Callable[..., Doubles] = _APPLY[step.operator]
            values = apply(other, values) if step.turned else apply(values, other)
    return values


_APPLY = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}


def _keys(values: Doubles) -> Keys:
    """Return whole numbers in the order of doubles."""
    bits = np.ascontiguousarray(values).view(np.int64)
    return np.where(bits < 0, ~(bits & _MAGNITUDE), bits)


def _values(keys: Keys) -> Doubles:
    bits = np.where(keys < 0, ~keys | ~_MAGNITUDE, keys)
    return bits.view(np.float64)


def _reciprocal(keys: Keys) -> Keys:
    """Return whole numbers in the order of the reciprocals, or such keys back: -0.0 is the least.

    Below 0 they fall from -0.0 to the least double, above it from the largest one to 0.0.
    """
    return np.where(keys < 0, -2 - keys - _LARGEST, _LARGEST - keys)


def _from_reciprocal(keys: Keys) -> Doubles:
    return _values(_reciprocal(keys))
