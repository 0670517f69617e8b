"""Count the cases that have sequences of types, and the least time in which each has them.

The last event of a sequence is one of its last type, and the best begin for it is the latest: it
is that of the last event of the type before. So a sequence needs one number for each event of its
last type, and one more type costs one look-up for each event of that type. The least duration of
a case tells at once which deadlines it keeps.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.discovery.cases import Cases

PART_CELLS = 1 << 24
"""Events of a part times types: what the look-ups of all pairs of types may hold."""

_NONE = np.iinfo(np.int64).min
_NEVER = np.iinfo(np.int64).max

Counts = NDArray[np.int64]
"""Cases by the shortest duration of the ladder that they keep; at the end those that keep none.

A first axis tells all cases (0) from those with the label (1).
"""


class Places:
    """The events of every type in whole cases, and how they lie to each other."""

    def __init__(self, cases: Cases, ladder: NDArray[np.int64]) -> None:
        self._cases, self._ladder = cases, ladder
        self._rows = [np.flatnonzero(cases.kind == kind) for kind in range(cases.kinds)]
        self._times = [cases.time[rows] for rows in self._rows]
        groups = [_groups(cases.case[rows]) for rows in self._rows]
        self._groups = groups
        self._labels = [
            cases.labels[cases.case[rows][starts]]
            for rows, starts in zip(self._rows, groups, strict=True)
        ]

    @functools.cache  # noqa: B019  # it lives as long as its part of the events
    def _before(self, one: int, two: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Find the last event of one type before each event of another, in the same case."""
        rows, later = self._rows[one], self._rows[two]
        place = np.searchsorted(rows, later) - 1
        known = place >= 0
        if len(rows):
            known &= self._cases.case[rows[place]] == self._cases.case[later]
        return place, known

    def begins(self, types: Sequence[int]) -> NDArray[np.int64]:
        """Return the latest begin of a sequence for each event of its last type, or _NONE."""
        found = self._times[types[0]]
        for one, two in pairwise(types):
            found = self._longer(found, one, two)
        return found

    def _longer(self, begins: NDArray[np.int64], one: int, two: int) -> NDArray[np.int64]:
        place, known = self._before(one, two)
        if not len(begins):
            return np.full(len(place), _NONE)
        return np.where(known, begins[place], _NONE)

    def after(self, types: Sequence[int], begins: NDArray[np.int64], last: int) -> Counts:
        """Count the cases with a sequence and one more type, by the least duration."""
        begin = self._longer(begins, types[-1], last)
        spans = np.where(begin == _NONE, _NEVER, self._times[last] - begin)
        return self._counts(np.minimum, spans, last)

    def answered(self, one: int, two: int) -> Counts:
        """Count the cases in which events of one type wait for another, by the longest wait."""
        rows, answers = self._rows[one], self._rows[two]
        place = np.searchsorted(answers, rows, side="right")
        waits = np.full(len(rows), _NEVER)
        known = place < len(answers)
        known[known] = self._cases.case[answers[place[known]]] == self._cases.case[rows[known]]
        waits[known] = self._times[two][place[known]] - self._times[one][known]
        return self._counts(np.maximum, waits, one)

    def _counts(self, best: Any, lengths: NDArray[np.int64], kind: int) -> Counts:
        """Count cases by the least, or the greatest, of lengths at their events of a type."""
        size = len(self._ladder) + 2
        starts = self._groups[kind]
        if not len(starts):
            return np.zeros((2, size), np.int64)
        found = best.reduceat(lengths, starts)
        # A length keeps the durations that are greater than it; one that never ends keeps none.
        step = np.searchsorted(self._ladder, found, side="right")
        step[found == _NEVER] = size - 1
        labelled = np.bincount(step[self._labels[kind]], minlength=size)
        return np.stack([np.bincount(step, minlength=size), labelled])


def _groups(case: NDArray[np.int64]) -> NDArray[np.int64]:
    new = np.ones(len(case), np.bool_)
    new[1:] = case[1:] != case[:-1]
    return np.flatnonzero(new)


def places_of(cases: Cases, ladder: NDArray[np.int64]) -> list[Places]:
    """Prepare whole cases in parts that bound the memory."""
    events = max(PART_CELLS // max(cases.kinds, 1), 1)
    return [Places(part, ladder) for part in cases.parts(events)]


def count_longer(parts: list[Places], prefixes: list[tuple[int, ...]], kinds: int) -> Counts:
    """Count for each sequence and each type the cases that have the type after the sequence."""
    out: Counts | None = None
    for part in parts:
        for number, types in enumerate(prefixes):
            begins = part.begins(types)
            for kind in range(kinds):
                counted = part.after(types, begins, kind)
                if out is None:
                    out = np.zeros((len(prefixes), kinds, *counted.shape), np.int64)
                out[number, kind] += counted
    assert out is not None, "there are cases, sequences and types"
    return out


def count_waits(parts: list[Places], pairs: list[tuple[int, int]]) -> Counts:
    """Count for each pair of types the cases that have the first, by their longest wait."""
    return np.array(
        [sum(part.answered(one, two) for part in parts) for one, two in pairs], np.int64
    )
