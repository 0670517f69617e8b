"""Matches as arrays: where each starts, how long it is, and the states of its rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.pool import empty
from cepheid.kernels.segments import index_entries, spread_rows
from cepheid.kinds.row_pattern.arrange import Rows
from cepheid.kinds.row_pattern.automaton import Automaton

Entries = NDArray[np.int32]
"""Places among the rows of all matches; a set of matches has fewer than 2**31."""


class MatchSet:
    """Some matches, in the order in which they were found.

    Attributes
    ----------
    starts, lengths, numbers
        One entry a match. A length of 0 is an empty match, and -1 a row that no match took.
    states
        The automaton's states of the rows of all matches, one match after the other.
    offsets
        The rows of match m are entries ``offsets[m]`` up to ``offsets[m + 1]`` of ``states``.
    """

    def __init__(
        self,
        automaton: Automaton,
        variables: tuple[str, ...],
        starts: Rows,
        lengths: Rows,
        numbers: Rows,
        states: NDArray[Any],
    ) -> None:
        self.automaton = automaton
        self.variables = variables
        self.starts = starts
        self.lengths = lengths
        self.numbers = numbers
        self.states = states
        self.offsets = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(np.maximum(lengths, 0), out=self.offsets[1:])
        self._places: dict[frozenset[str], tuple[Entries, Entries]] = {}

    @cached_property
    def rows(self) -> Rows:
        """Return the row of every entry."""
        rows = np.empty(int(self.offsets[-1]), np.int64)
        spread_rows(self.starts, self.offsets, rows)
        return rows

    @cached_property
    def labels(self) -> NDArray[np.int32]:
        """Return the number of the variable of every entry."""
        found: NDArray[np.int32] = self.automaton.variable_of[self.states]
        return found

    def of_variables(self, variables: frozenset[str] | None) -> NDArray[np.bool_]:
        """Find which entries are mapped to one of some variables."""
        if variables is None:
            return np.ones(len(self.states), np.bool_)
        found: NDArray[np.bool_] = self._wanted(variables)[self.states]
        return found

    def _wanted(self, variables: frozenset[str]) -> NDArray[np.bool_]:
        """Find which states stand for one of some variables."""
        wanted = np.array([name in variables for name in self.variables], np.bool_)
        return np.append(False, wanted[self.automaton.variable_of[1:]])

    def places(self, variables: frozenset[str]) -> tuple[Entries, Entries]:
        """Return the entries of some variables, and how many there are before each entry."""
        if variables not in self._places:
            size = len(self.states) + 1
            entries, before = empty(size, np.int32), empty(size, np.int32)
            count = index_entries(self.states, self._wanted(variables), entries, before)
            self._places[variables] = entries[:count], before
        return self._places[variables]
