"""Grow candidates: forms and deadlines of all types, then sequences from frequent ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cepheid.discovery.candidates import (
    Candidates,
    is_frequent,
    of_forms,
    of_sequences,
    of_waits,
)
from cepheid.discovery.counting import Counter

Stake = dict[tuple[int, ...], int]
"""The number of cases that have each sequence."""


class Growth:
    """Counts candidates, level by level, up to a limit."""

    def __init__(self, counter: Counter, steps: int, support: float, limit: int) -> None:
        self._counter, self._steps = counter, steps
        self._support, self._limit = support, limit
        self._kinds = len(counter.seen.types)
        self.counted = self.left_out = 0
        self.has = np.zeros(self._kinds, np.int64)

    def candidates(self, max_length: int) -> Iterator[Candidates]:
        """Yield all candidates, table by table."""
        facts, labelled = self._counter.facts()
        self.has = facts.has
        for table in of_forms(facts, labelled):
            self.counted += len(table)
            yield table
        kinds = range(self._kinds)
        pairs = [(one, two) for one in kinds for two in kinds if one != two]
        for table in of_waits(pairs, self._counter.waits(pairs)) if pairs else ():
            self.counted += len(table)
            yield table
        frequent = is_frequent(facts.has, labelled.has, self._counter.seen.groups, self._support)
        stake: Stake = {(one,): int(facts.has[one]) for one in np.flatnonzero(frequent).tolist()}
        for _ in range(max_length - 1):
            longer: Stake = {}
            for table in self._longer(stake):
                self.counted += len(table)
                if (table.step < 0).all():
                    longer = self._frequent(table)
                yield table
            stake = longer

    def _longer(self, stake: Stake) -> Iterator[Candidates]:
        """Count sequences that are one type longer, those of the most frequent ones first."""
        own = self._kinds * self._steps
        room = max(self._limit - self.counted, 0) // max(own, 1)
        prefixes = sorted(stake, key=lambda types: (-stake[types], types))
        self.left_out += max(len(prefixes) - room, 0) * own
        if prefixes[:room]:
            counts = self._counter.longer(prefixes[:room])
            spoken = np.array([stake[types] for types in prefixes[:room]])
            yield from of_sequences(prefixes[:room], spoken, counts)

    def _frequent(self, table: Candidates) -> Stake:
        groups = self._counter.seen.groups
        rows = np.flatnonzero(is_frequent(table.holds, table.labelled, groups, self._support))
        types = map(tuple, table.types[rows].tolist())
        return dict(zip(types, table.holds[rows].tolist(), strict=True))
