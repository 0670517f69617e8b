"""Patterns for the baselines: letters and arrows in, arrays out.

The papers assume that an event type occurs once in a pattern, so a type is a state. The arrays are
padded to spare the loops every branch: there is one more state, *idle*, for events that the pattern
does not name. It has no predecessors but itself, and its aggregate stays 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

TYPES = "ABCDEFGHIJ"
"""The type with code i is called TYPES[i]."""


@dataclass(frozen=True, slots=True)
class Template:
    """A pattern in which every type occurs once.

    Attributes
    ----------
    pattern
        The text for the PATTERN clause.
    states
        The types that the pattern names, one letter a state.
    arrows
        The predecessor types of each type (COGRA section 3.1).
    starts, ends
        The types that begin and that end a trend.
    """

    pattern: str
    states: str
    arrows: Mapping[str, str]
    starts: str
    ends: str

    @property
    def idle(self) -> int:
        """Return the number of the idle state."""
        return len(self.states)

    def state_of_type(self) -> Integers:
        """Return the state of each type code, for 128 codes."""
        states = np.full(128, self.idle, dtype=np.int64)
        for state, letter in enumerate(self.states):
            states[TYPES.index(letter)] = state
        return states

    def predecessors(self) -> Integers:
        """Return one row of predecessor states per state, padded with the idle state."""
        width = max(map(len, self.arrows.values()), default=0)
        table = np.full((self.idle + 1, max(width, 1)), self.idle, dtype=np.int64)
        for letter, before in self.arrows.items():
            row = [self.states.index(other) for other in before]
            table[self.states.index(letter), : len(row)] = row
        return table

    def start_weights(self) -> Floats:
        """Return 1 for every state that begins a trend, else 0."""
        return np.array([letter in self.starts for letter in self.states] + [False], dtype=float)

    def end_weights(self) -> Floats:
        """Return 1 for every state that ends a trend, else 0."""
        return np.array([letter in self.ends for letter in self.states] + [False], dtype=float)

    def words(self, length_max: int) -> Iterator[str]:
        """Yield the type sequences of all trends up to a length, shortest first."""
        partial = list(self.starts)
        for _ in range(length_max):
            yield from (word for word in partial if word[-1] in self.ends)
            partial = [
                word + letter
                for word in partial
                for letter in self.states
                if word[-1] in self.arrows.get(letter, "")
            ]


KLEENE = Template("(SEQ(A+, B))+", "AB", {"A": "AB", "B": "A"}, "A", "B")
"""The running example of COGRA and GRETA."""


def sequence(types: str) -> Template:
    """Return the template of a SEQ of distinct types."""
    arrows = {later: earlier for earlier, later in itertools.pairwise(types)}
    return Template(f"SEQ({', '.join(types)})", types, arrows, types[0], types[-1])
