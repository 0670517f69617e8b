"""Counts of a search, made by this process or by tasks whose counts add up."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cepheid.discovery.cases import Cases
from cepheid.discovery.declare import Facts, count_facts
from cepheid.discovery.ranking import Groups
from cepheid.discovery.sequences import Counts, count_longer, count_waits, places_of

Pairs = list[tuple[int, int]]
Prefixes = list[tuple[int, ...]]


class Seen(NamedTuple):
    """The events and types of a log, and what was left out of it."""

    types: tuple[str, ...]
    groups: Groups
    events: int
    other_types: int
    without_key: int


class Counter(Protocol):
    """Counts cases of a log: all of them, and those with the label."""

    seen: Seen

    def facts(self) -> tuple[Facts, Facts]:
        """Count what the forms of Declare need."""

    def waits(self, pairs: Pairs) -> Counts:
        """Count the longest waits of pairs of types."""

    def longer(self, prefixes: Prefixes) -> Counts:
        """Count sequences with one more type."""


class LocalCounter:
    """Counts in this process, in parts of whole cases."""

    def __init__(self, cases: Cases, seen: Seen, ticks: NDArray[np.int64]) -> None:
        self.seen, self._cases = seen, cases
        self._parts = places_of(cases, ticks)

    def facts(self) -> tuple[Facts, Facts]:
        """Count what the forms of Declare need."""
        return facts_of(self._cases)

    def waits(self, pairs: Pairs) -> Counts:
        """Count the longest waits of pairs of types."""
        return count_waits(self._parts, pairs)

    def longer(self, prefixes: Prefixes) -> Counts:
        """Count sequences with one more type."""
        return count_longer(self._parts, prefixes, self._cases.kinds)


def facts_of(cases: Cases) -> tuple[Facts, Facts]:
    """Count the facts of all cases, and of those with the label."""
    facts = count_facts(cases)
    return facts, count_facts(cases.with_label()) if cases.labels.any() else facts.none()
