"""Which keys have an open window, so that closing windows visits these and no others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.hashing import add_present, number_present

FEW_KEYS = 1 << 12
"""Up to so many keys, visiting all of them costs less than finding those that matter."""

SHARE = 2
"""Events whose keys are at least one in so many of all keys run over all keys."""


class OpenKeys:
    """A set of keys; all keys that have an open window are in it."""

    def __init__(self, keys: int) -> None:
        """Create a set of all keys."""
        self._place = np.full(keys, -1, np.int64)
        self._isin = np.ones(keys, np.bool_)
        self._parts = [np.arange(keys)]

    def copy(self) -> OpenKeys:
        """Copy the set, so that both can change."""
        other = OpenKeys(0)
        other._place, other._isin = self._place.copy(), self._isin.copy()
        other._parts = list(self._parts)
        return other

    def grow(self, keys: int) -> None:
        """Make room for more keys, which have no window."""
        more = keys - len(self._isin)
        self._place = np.append(self._place, np.full(more, -1, np.int64))
        self._isin = np.append(self._isin, np.zeros(more, np.bool_))

    def add(self, key: NDArray[np.int64]) -> None:
        """Add the keys of events."""
        found = np.empty(len(key), np.int64)
        count = add_present(key, self._isin, found)
        if count:
            self._parts.append(found[:count].copy())

    def distinct(self, key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the distinct keys of events, and the place of each event's among them."""
        found, numbers = np.empty(len(key), np.int64), np.empty(len(key), np.int64)
        return found[: number_present(key, self._place, found, numbers)].copy(), numbers

    def all(self) -> NDArray[np.int64]:
        """Return the keys."""
        self._parts = [np.concatenate(self._parts)]
        return self._parts[0]

    def replace(self, keys: NDArray[np.int64]) -> None:
        """Keep only some keys."""
        self._isin[self.all()] = False
        self._isin[keys] = True
        self._parts = [keys]
