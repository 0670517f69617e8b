"""Aliases: variables as which an event of another value only ends the waiting of matches (§4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ALIAS_BITS = 63
"""Variables and aliases are bits of one signed number."""


class Alias(NamedTuple):
    """A variable as which an event only ends the waiting of matches (§4.3).

    The event has another value than its segment of the attributes ``differs``, as bits, so that it
    can follow a match that has no value of them yet, but not in this segment.
    """

    variable: str
    differs: int


class Aliases:
    """The aliases of variables with partial equivalences, and their numbers after the variables."""

    def __init__(self, variables: Sequence[str], listed: Sequence[frozenset[str]]) -> None:
        self._variables = list(variables)
        self.all: list[Alias] = []
        for name in variables:
            mine = sum(1 << a for a, names in enumerate(listed) if name in names)
            self.all += [Alias(name, some) for some in range(1, mine + 1) if not some & ~mine]
        numbers = {alias: n for n, alias in enumerate(self.all, len(variables))}
        numbers |= {Alias(name, 0): n for n, name in enumerate(variables)}
        self._numbers = numbers

    def of(self, variables: int) -> int:
        """Collect the aliases of some variables, as bits."""
        return sum(
            1 << n
            for alias, n in self._numbers.items()
            if alias.differs and variables >> self._variables.index(alias.variable) & 1
        )

    def variables_of(self, blocked: NDArray[np.int64]) -> NDArray[np.int64]:
        """Translate aliases to the variables that they stand for."""
        found = np.zeros(len(blocked), np.int64)
        for n, alias in enumerate(self.all, len(self._variables)):
            found |= (blocked >> n & 1) << self._variables.index(alias.variable)
        return found

    def move(self, bits: NDArray[np.int64], attribute: int) -> NDArray[np.int64]:
        """Let events differ in one more attribute from their segment."""
        return self._shift(bits, attribute, add=True)

    def agree(self, bits: NDArray[np.int64], attribute: int) -> NDArray[np.int64]:
        """Let events no longer differ in an attribute from their segment."""
        return self._shift(bits, attribute, add=False)

    def _shift(self, bits: NDArray[np.int64], attribute: int, *, add: bool) -> NDArray[np.int64]:
        found = np.zeros(len(bits), np.int64)
        for alias, n in self._numbers.items():
            differs = alias.differs | 1 << attribute if add else alias.differs & ~(1 << attribute)
            to = self._numbers.get(Alias(alias.variable, differs), n)
            found |= (bits >> n & 1) << to
        return found
