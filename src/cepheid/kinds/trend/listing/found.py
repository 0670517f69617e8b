"""Batches of matches: the events and variables of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Told(NamedTuple):
    """What rows of matches tell about events: words by column, and how their variable is spelled.

    ``words`` has a value of 64 bits for every event, ``letters`` the bytes of its variable's name;
    none if names differ in length.
    """

    words: dict[str, NDArray[np.int64]]
    letters: NDArray[np.uint8]


class Found(NamedTuple):
    """A batch of matches.

    ``segment`` is the segment of a match and ``last`` the index of its last event among the rows of
    all segments; the bindings of match n are ``ptr[n]`` to ``ptr[n + 1]`` of ``rows`` (of the
    input) and ``variables`` (their numbers). Of sets of matches (§2.10), ``part`` is the number of
    the match of a binding in its set. What was ``told`` of bindings need not be looked up.
    """

    segment: NDArray[np.int64]
    last: NDArray[np.int64]
    ptr: NDArray[np.int64]
    rows: NDArray[np.int64]
    variables: NDArray[np.int8]
    part: NDArray[np.int64] | None = None
    told: Told | None = None

    def __len__(self) -> int:
        """Return the number of matches."""
        return len(self.segment)

    @property
    def leading(self) -> NDArray[np.int64]:
        """Return the rows that begin the matches."""
        return self.rows[self.ptr[:-1]]

    @property
    def ending(self) -> NDArray[np.int64]:
        """Return the rows that end the matches."""
        return self.rows[self.ptr[1:] - 1]

    @property
    def owner(self) -> NDArray[np.int64]:
        """Compute the match of every binding."""
        return np.repeat(np.arange(len(self.segment)), np.diff(self.ptr))

    def take(self, kept: NDArray[np.bool_]) -> Found:
        """Select some of the matches."""
        if kept.all():
            return self
        lengths = np.diff(self.ptr)
        inside = np.repeat(kept, lengths)
        ptr = np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int64)
        return Found(
            self.segment[kept], self.last[kept], ptr, self.rows[inside], self.variables[inside]
        )

    def reordered(self, order: NDArray[np.int64]) -> Found:
        """Sort the matches."""
        lengths = np.diff(self.ptr)[order]
        ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        at = np.repeat(self.ptr[order] - ptr[:-1], lengths) + np.arange(ptr[-1])
        return Found(self.segment[order], self.last[order], ptr, self.rows[at], self.variables[at])

    def only_rows(self, mine: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        """Return the row of the one variable of some where all matches bind the same, in one order.

        None if they do not, or bind several of these variables.
        """
        count = len(self)
        length = len(self.rows) // count if count else 0
        if not length or not (np.diff(self.ptr) == length).all():
            return None
        bound = self.variables
        places = np.flatnonzero(mine[bound[:length]])
        # Each match is compared with the one before, which is much faster than all with the first.
        alike = len(places) == 1 and (bound[length:] == bound[:-length]).all()
        return self.rows[places[0] :: length] if alike else None

    def loose(self) -> Found:
        """Return the bindings match by match."""
        return self

    def head(self, count: int) -> Found:
        """Select the first matches."""
        end = self.ptr[count]
        return Found(
            self.segment[:count], self.last[:count], self.ptr[: count + 1], self.rows[:end],
            self.variables[:end], None if self.part is None else self.part[:end],
        )  # fmt: skip


class Aligned(NamedTuple):
    """A batch of matches that bind the same variables, one event each, in the same order.

    ``rows`` are the rows of the input, an array for each variable.
    """

    rows: NDArray[np.int32]
    variables: NDArray[np.int8]

    def __len__(self) -> int:
        """Return the number of matches."""
        return len(self.last)

    @property
    def last(self) -> NDArray[np.int32]:
        """Return the indices of the last events."""
        return self.ending

    @property
    def leading(self) -> NDArray[np.int32]:
        """Return the rows that begin the matches."""
        leading: NDArray[np.int32] = self.rows[0]
        return leading

    @property
    def ending(self) -> NDArray[np.int32]:
        """Return the rows that end the matches."""
        ending: NDArray[np.int32] = self.rows[-1]
        return ending

    def only_rows(self, mine: NDArray[np.bool_]) -> NDArray[np.int32] | None:
        """Return the rows of the one variable of some, None if there are several."""
        places = np.flatnonzero(mine[self.variables])
        rows: NDArray[np.int32] = self.rows[places[:1]]
        return rows[0] if len(places) == 1 else None

    def head(self, count: int) -> Aligned:
        """Select the first matches."""
        return Aligned(self.rows[:, :count], self.variables)

    def loose(self) -> Found:
        """Return the bindings match by match."""
        length, count = self.rows.shape
        return Found(
            np.zeros(count, np.int64), self.last.astype(np.int64),
            np.arange(0, length * count + 1, length), self.rows.T.ravel().astype(np.int64),
            np.tile(self.variables, count),
        )  # fmt: skip
