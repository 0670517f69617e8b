"""Offsets of topics: where a micro-batch begins and ends, as plain dicts for Spark's log.

An offset of Spark is ``{topic: {partition: offset}}`` with texts as keys, in order, because Spark
compares it as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Offsets = dict[str, dict[str, int]]


class Span(NamedTuple):
    """The offsets of a partition that a task reads: from the first one, up to before the second."""

    topic: str
    partition: int
    begin: int
    end: int


def in_order(found: Mapping[tuple[str, int], int]) -> Offsets:
    """Arrange offsets of partitions by topic and number."""
    arranged: Offsets = {}
    for (topic, partition), offset in sorted(found.items()):
        arranged.setdefault(topic, {})[str(partition)] = offset
    return arranged


def flat(offsets: Offsets) -> dict[tuple[str, int], int]:
    """Convert an offset of Spark to offsets of partitions."""
    return {
        (topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def limited(begin: Offsets, end: Offsets, rows: int) -> Offsets:
    """Cut the ends so that at most so many offsets lie between, shared by what is there.

    Examples
    --------
    >>> limited({"t": {"0": 0, "1": 0}}, {"t": {"0": 300, "1": 100}}, 40)
    {'t': {'0': 30, '1': 10}}
    >>> limited({}, {"t": {"0": 3}}, 40)
    {'t': {'0': 3}}
    """
    starts, ends = flat(begin), flat(end)
    there = {place: max(ends[place] - starts.get(place, 0), 0) for place in ends}
    total = sum(there.values())
    if total <= rows:
        return end
    taken = {place: count * rows // total for place, count in there.items()}
    # Rounding down leaves some rows; those go to the first partitions, so that all go on in time.
    left = rows - sum(taken.values())
    for place in sorted(there):
        if left and taken[place] < there[place]:
            taken[place] += 1
            left -= 1
    return in_order({place: starts.get(place, 0) + count for place, count in taken.items()})


def not_before(begin: Offsets, end: Offsets) -> Offsets:
    """Combine two offsets: the later one of each partition; topics that are gone stay."""
    starts, ends = flat(begin), flat(end)
    return in_order(
        {place: max(starts.get(place, 0), ends.get(place, 0)) for place in starts.keys() | ends}
    )


def spans(begin: Offsets, end: Offsets) -> list[Span]:
    """List the non-empty spans between two offsets; a new partition begins with its first event."""
    starts = flat(begin)
    return [
        Span(topic, partition, starts.get((topic, partition), 0), offset)
        for (topic, partition), offset in sorted(flat(end).items())
        if offset > starts.get((topic, partition), 0)
    ]


def shared(found: Sequence[Span], tasks: int) -> list[list[Span]]:
    """Share spans among tasks, the longest first: each goes to the task with the least so far."""
    piles: list[tuple[int, list[Span]]] = [(0, []) for _ in range(min(tasks, len(found)))]
    for span in sorted(found, key=lambda one: one.begin - one.end):
        place = min(range(len(piles)), key=lambda one: piles[one][0])
        length, pile = piles[place]
        piles[place] = (length + span.end - span.begin, [*pile, span])
    return [sorted(pile) for _, pile in piles]
