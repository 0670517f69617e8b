"""The reference implementation of AFTER MATCH SKIP: choose matches, one after the other (§14)."""

from __future__ import annotations

from collections.abc import Callable, Collection

from cepheid.language import tree
from cepheid.testing.oracle_matches import Match


class SkipError(Exception):
    """A chosen match has no event to skip to, or begins with it; the text is the code (§14.3)."""


def choose_matches(
    skip: tree.SkipClause,
    pattern: tree.Pattern,
    found: Collection[Match],
    before: Callable[[int, int], bool],
) -> list[Match]:
    """Choose the matches of a partition.

    Parameters
    ----------
    found
        All matches; events are numbered by time, tie-breakers and arrival.
    before
        Whether an event comes before another in the sense of §1.

    Raises
    ------
    SkipError
        E345 or E346.
    """
    nodes = [node for node in tree.walk(pattern) if isinstance(node, tree.EventPattern)]
    written = list(
        dict.fromkeys(n.variable.text for n in sorted(nodes, key=lambda n: n.span.start))
    )

    def place(m: Match) -> tuple[int, int, list[int], list[int]]:
        events = [event for _, event in m]
        return events[-1], events[0], events, [written.index(name) for name, _ in m]

    def latest(m: Match) -> tuple[int, list[int], list[int]]:
        events = [event for _, event in m]
        return events[-1], [-event for event in events], [written.index(name) for name, _ in m]

    left = sorted(found, key=latest if skip.mode is tree.SkipMode.TO_LATEST else place)
    chosen: list[Match] = []
    while left:
        match = left.pop(0)
        chosen.append(match)
        if skip.variable is not None:
            target_of(skip, match)
        left = [other for other in left if not _drops(skip, match, other, before)]
    return chosen


def _drops(
    skip: tree.SkipClause, match: Match, other: Match, before: Callable[[int, int], bool]
) -> bool:
    """Check whether a chosen match drops another one (§14.3)."""
    first = other[0][1]
    if skip.mode is tree.SkipMode.PAST_LAST:
        return not before(match[-1][1], first)
    if skip.mode is tree.SkipMode.TO_NEXT:
        return first == match[0][1]
    if skip.mode is tree.SkipMode.TO_LATEST:
        return other[-1][1] == match[-1][1]
    return before(first, target_of(skip, match))


def target_of(skip: tree.SkipClause, match: Match) -> int:
    """Find the event that TO FIRST or TO LAST goes to."""
    assert skip.variable is not None, "TO FIRST and TO LAST name a variable"
    events = [event for name, event in match if name == skip.variable.text]
    if not events:
        message = "E346"
        raise SkipError(message)
    target = events[0] if skip.mode is tree.SkipMode.TO_FIRST else events[-1]
    if target == match[0][1]:
        message = "E345"
        raise SkipError(message)
    return target
