"""Windows and groups: a query and its stream in, the matches of every window and group out.

A transcription of docs/semantics.md §2.10 and §6.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from cepheid.language import tree
from cepheid.testing.oracle_expressions import Value, order
from cepheid.testing.oracle_matches import Window
from cepheid.testing.oracle_stream import Match, Stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Group = tuple[Value, ...]
Pair = frozenset[Match]
"""What AND counts: two different matches (§2.10)."""

Found = Match | Pair


class Cell(NamedTuple):
    """One group in one window with its matches, or with pairs of matches under AND."""

    start: int | None
    end: int | None
    group: Group
    found: set[Found]


def cells(query: tree.Query, stream: Stream) -> list[Cell]:
    """Return every window and group that has a result, in order."""
    match query.window:
        case None:  # §6.1
            whole = by_group(query, stream, range(len(stream.events)))
            results = [Cell(None, None, group, found) for group, found in whole.items()]
        case tree.Window(within=tree.Duration(microseconds=within), slide=None):
            results = list(running_cells(query, stream, within))
        case tree.Window(within=tree.Duration() as within, slide=tree.Duration() as slide):
            place = dict(enumerate(stream.times))
            first = min(stream.times, default=0) - within.microseconds
            length, step = within.microseconds, slide.microseconds
            results = list(sliding_cells(query, stream, [place], length, step, first))
        case tree.Window(within=tree.EventCount(count=length), slide=tree.EventCount(count=step)):
            results = list(sliding_cells(query, stream, numbered(stream), length, step, 0))
        case _:
            message = "count windows need SLIDE (E307)"
            raise ValueError(message)
    return sorted(results, key=lambda cell: (cell.start or 0, [rank(v) for v in cell.group]))


def sliding_cells(
    query: tree.Query,
    stream: Stream,
    partitions: Iterable[dict[int, int]],
    within: int,
    slide: int,
    first: int,
) -> Iterator[Cell]:
    """Yield the cells of the windows [i*slide, i*slide + within) from ``first`` on (§6.2, §6.6).

    ``partitions`` gives the place of every event: its time, or its number in its partition.
    """
    results: dict[tuple[int, Group], set[Found]] = defaultdict(set)
    for place in partitions:
        numbers = {
            i for p in place.values() for i in range((p - within) // slide + 1, p // slide + 1)
        }
        for start in (i * slide for i in numbers if i * slide >= first):
            inside = [event for event, p in place.items() if start <= p < start + within]
            for group, found in by_group(query, stream, inside).items():
                results[start, group] |= found
    for (start, group), found in results.items():
        yield Cell(start, start + within, group, found)


def numbered(stream: Stream) -> list[dict[int, int]]:
    """Return the events of each partition with their numbers (§6.6)."""
    partitions: dict[Group, dict[int, int]] = defaultdict(dict)
    for event in range(len(stream.events)):
        key = stream.keys(event, sorted(stream.predicates.equal))
        if None not in key:  # NULL equals nothing, so this event has no partition (§4.2).
            partitions[key][event] = len(partitions[key])
    return list(partitions.values())


def running_cells(query: tree.Query, stream: Stream, within: int) -> Iterator[Cell]:
    """Yield a cell for every time at which a match ends or, if asked, expires (§6.3, §6.4)."""

    def groups(times: range) -> dict[Group, set[Found]]:
        inside = [event for event, time in enumerate(stream.times) if time in times]
        return by_group(query, stream, inside)

    leaving = {time + within for time in stream.times} if query.emit_on_expiry else set()
    for t in sorted({*stream.times, *leaving}):
        now = groups(range(t - within + 1, t + 1))
        due = {group for group, found in now.items() if any(end(stream, f) == t for f in found)}
        if t in leaving:
            # What the leaving event alone changes, whatever arrives at the same time.
            old, new = groups(range(t - within, t)), groups(range(t - within + 1, t))
            due |= {group for group in {*old, *new} if old.get(group) != new.get(group)}
        for group in due:
            yield Cell(t - within, t, group, now.get(group, set()))


def end(stream: Stream, found: Found) -> int:
    """Return the time at which a match ends; a pair ends with the later of the two."""
    matches = [found] if isinstance(found, tuple) else found
    return max(stream.times[match[-1][1]] for match in matches)


def by_group(query: tree.Query, stream: Stream, inside: Iterable[int]) -> dict[Group, set[Found]]:
    """Return the matches among the events of one window, or pairs under AND, by group (§6.5)."""
    window = Window(stream, query, list(inside))
    names = [name.text for name in query.group_by]
    groups: dict[Group, set[Found]] = defaultdict(set)
    if isinstance(query.pattern, tree.Conjunction):
        left, right = (window.matches(pattern) for pattern in query.pattern.patterns)
        for p in left:
            for q in right:
                if p != q and stream.agree(p + q):  # In one partition (§2.10).
                    groups[stream.keys(p[0][1], names)].add(frozenset((p, q)))
    else:
        for match in window.matches(query.pattern):
            groups[stream.keys(match[0][1], names)].add(match)
    return groups


def rank(value: Value) -> tuple[int, object]:
    """Return a sort key for values of any type: NULL, truth values, numbers, text."""
    kinds = (type(None), bool, int | float, str)
    kind = next(n for n, type_ in enumerate(kinds) if isinstance(value, type_))
    return kind, order(value) if kind else 0
