"""Sorted values without repetitions."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)


def distinct(values: NDArray[Scalar]) -> NDArray[Scalar]:
    """Sort values that are no NaN and drop repetitions.

    ``np.unique`` does so too, but loads the module of masked arrays first, which takes longer than
    a small query.
    """
    found = np.sort(values, axis=None)
    keep = np.ones(len(found), np.bool_)
    np.not_equal(found[1:], found[:-1], out=keep[1:])
    return found[keep]
