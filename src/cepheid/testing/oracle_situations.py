"""The reference implementation of situations: evaluate a query over its events (§9).

At every time of a partition it finds the combinations of situations that match for every possible
end of the open ones, by trying these ends one by one. It shares no code with the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product

from cepheid.language import tree
from cepheid.testing.oracle_expressions import Leaf, Value, evaluate_expression, order
from cepheid.testing.oracle_matches import Event, key_of

Row = dict[str, object]
Time = int | Fraction
Around = Callable[[str, list[str]], Value]
"""Looks up PREV, or an aggregate, of the names in its parentheses."""
FAR = 10**24
"""Longer than every window and every bound of a duration."""


@dataclass(frozen=True)
class Situation:
    """A run of events; ``te`` is None while it is open."""

    events: tuple[int, ...]
    ts: int
    te: int | None


def evaluate_situations(
    query: tree.SituationQuery, events: Sequence[Event], time: str
) -> list[Row]:
    """Evaluate a query that the binder accepts, over events sorted by time."""
    return _Situations(query, events, time).rows()


def situation_columns(query: tree.SituationQuery) -> list[str]:
    """Name the columns of a query's rows, in order."""
    names = [name.text for name in query.partition_by]
    names += ["situation", "ts", "te"] if query.listed else ["ts"]
    items = query.returns.items if query.returns else ()
    if not items and not query.listed:
        names += [f"{d.name.text}_{end}" for d in query.definitions for end in ("ts", "te")]
    for item in items:
        e = item.expression
        if isinstance(e, tree.Attribute | tree.Aggregate):
            names.append(item.alias.text if item.alias else _column_name(e))
    return names


def _column_name(e: tree.Attribute | tree.Aggregate) -> str:
    function = e.function if isinstance(e, tree.Aggregate) else e.anchor
    parts = [name.text for name in (e.variable, e.attribute) if name is not None]
    return "_".join([function.lower(), *parts])


def relation_of(a: tuple[Time, Time], b: tuple[Time, Time]) -> tree.Relation:
    """Determine Allen's relation between two intervals (§9.3)."""
    (a_ts, a_te), (b_ts, b_te) = a, b
    holds = {
        tree.Relation.BEFORE: a_te < b_ts,
        tree.Relation.MEETS: a_te == b_ts,
        tree.Relation.OVERLAPS: a_ts < b_ts < a_te < b_te,
        tree.Relation.STARTS: a_ts == b_ts and a_te < b_te,
        tree.Relation.DURING: b_ts < a_ts and a_te < b_te,
        tree.Relation.FINISHES: a_ts > b_ts and a_te == b_te,
        tree.Relation.EQUALS: a_ts == b_ts and a_te == b_te,
        tree.Relation.AFTER: b_te < a_ts,
        tree.Relation.MET_BY: b_te == a_ts,
        tree.Relation.OVERLAPPED_BY: b_ts < a_ts < b_te < a_te,
        tree.Relation.STARTED_BY: b_ts == a_ts and b_te < a_te,
        tree.Relation.CONTAINS: a_ts < b_ts and b_te < a_te,
        tree.Relation.FINISHED_BY: b_ts > a_ts and b_te == a_te,
    }
    (found,) = [relation for relation, true in holds.items() if true]
    return found


class _Situations:
    def __init__(self, query: tree.SituationQuery, events: Sequence[Event], time: str) -> None:
        self.query = query
        self.events = events
        self.time = time
        self.definitions = {d.name.text: d for d in query.definitions}

    # Events ---------------------------------------------------------------------------------

    def around(self, name: str, before: int | None, run: list[int]) -> Around:
        """Look up what a definition asks beyond its event: PREV, and aggregates so far (§9.10)."""

        def look(function: str, words: list[str]) -> Value:
            attribute = ".".join(words[1:] if words[:1] == [name] else words) or None
            if function == "PREV":
                assert attribute is not None, "PREV is of an attribute"
                return None if before is None else self.value(before, attribute)
            return self.fold(function, Situation(tuple(run), 0, None), attribute)

        return look

    def is_true(self, condition: tree.Expression, i: int, around: Around | None = None) -> bool:
        if around is not None:
            condition = _settled(condition, around)

        def lookup(leaf: Leaf) -> Value:
            if isinstance(leaf, tree.Word):
                name = leaf.text
            else:
                assert isinstance(leaf, tree.Attribute), "conditions speak of attributes"
                name = f"{leaf.variable.text}.{leaf.attribute.text}"
            return self.value(i, name)

        return evaluate_expression(condition, lookup) is True

    def value(self, i: int, name: str) -> Value:
        value = self.events[i].get(name)
        assert value is None or isinstance(value, bool | int | float | str), "a plain value"
        return value

    def at(self, i: int) -> int:
        time = self.events[i][self.time]
        assert isinstance(time, int), "times are whole microseconds"
        return time

    def partitions(self) -> Iterator[list[int]]:
        """Yield the events of each partition (§9.1), sorted by its values."""
        found: dict[tuple[object, ...], list[int]] = {}
        names = [name.text for name in self.query.partition_by]
        for i in range(len(self.events)):
            kept = self.query.where is None or self.is_true(self.query.where, i)
            values = tuple(self.value(i, name) for name in names)
            if kept and None not in values:
                found.setdefault(tuple(map(key_of, values)), []).append(i)
        firsts = {part[0]: part for part in found.values()}
        for i in sorted(firsts, key=lambda i: [order(self.value(i, name)) for name in names]):
            yield firsts[i]

    def derive(self, name: str, partition: Sequence[int]) -> list[Situation]:
        """Find the longest runs of events that satisfy a condition (§9.2, §9.10)."""
        definition = self.definitions[name]
        found: list[Situation] = []
        run: list[int] = []
        for place, i in enumerate(partition):
            before = partition[place - 1] if place else None
            seen = self.around(name, before, [*run, i])
            holds = bool(run and definition.until) or self.is_true(definition.condition, i, seen)
            if definition.until and self.is_true(definition.until, i, seen):
                holds = False
            if holds:
                run.append(i)
            elif run:
                found.append(Situation(tuple(run), self.at(run[0]), self.at(i)))
                run = []
        if run:
            found.append(Situation(tuple(run), self.at(run[0]), None))
        # What begins and ends at one time is no interval.
        return [s for s in found if s.ts != s.te]

    def lasts(self, name: str, length: Time) -> bool:
        definition = self.definitions[name]
        least, most = definition.at_least, definition.at_most
        return (least is None or length >= least.microseconds) and (
            most is None or length <= most.microseconds
        )

    def counts(self, name: str, situation: Situation) -> bool:
        """Tell whether the number of events fits, whatever events an open situation still gets."""
        definition = self.definitions[name]
        least, most = definition.least_events, definition.most_events
        now = len(situation.events)
        possible = [now] if situation.te is not None else [now, now + FAR]
        return all(
            (least is None or number >= least.count) and (most is None or number <= most.count)
            for number in possible
        )

    # Matches (§9.4 to §9.6) ------------------------------------------------------------------

    def futures(self, chosen: Sequence[Situation], now: int) -> Iterator[list[tuple[Time, Time]]]:
        """Yield the intervals that open situations may become, one for each distinct outcome."""
        marks = {now + FAR}
        for name, s in zip(self.definitions, chosen, strict=True):
            bounds = (self.definitions[name].at_least, self.definitions[name].at_most)
            marks |= {s.ts + bound.microseconds for bound in bounds if bound is not None}
        if self.query.window is not None:
            assert isinstance(self.query.window.within, tree.Duration), "a window of time"
            marks.add(min(s.ts for s in chosen) + self.query.window.within.microseconds)
        still = sum(s.te is None for s in chosen)
        places: list[Time] = [now, *sorted(mark for mark in marks if mark > now)]
        ends: list[Time] = list(places[1:])
        for before, after in pairwise(places):
            # As many ends between two marks as there are situations whose order counts.
            ends += [before + (after - before) * Fraction(n + 1, still + 1) for n in range(still)]
        for choice in product(*(ends if s.te is None else [s.te] for s in chosen)):
            yield [(s.ts, te) for s, te in zip(chosen, choice, strict=True)]

    def is_match(self, intervals: Sequence[tuple[Time, Time]]) -> bool:
        place = dict(zip(self.definitions, intervals, strict=True))
        if not all(self.lasts(name, te - ts) for name, (ts, te) in place.items()):
            return False
        for c in self.query.constraints:
            if relation_of(place[c.left.text], place[c.right.text]) not in c.relations:
                return False
        if self.query.window is None:
            return True
        assert isinstance(self.query.window.within, tree.Duration), "a window of time"
        span = max(te for _, te in intervals) - min(ts for ts, _ in intervals)
        return span <= self.query.window.within.microseconds

    def detections(self, partition: list[int]) -> Iterator[tuple[int, list[Situation]]]:
        """Yield the time at which a match is first certain, and its situations at that time."""
        limit = self.query.detected_within
        reported: set[tuple[int, ...]] = set()
        for now in sorted({self.at(i) for i in partition}):
            past = [i for i in partition if self.at(i) <= now]
            found = [self.derive(name, past) for name in self.definitions]
            for chosen in product(*found):
                identity = tuple(s.events[0] for s in chosen)
                if identity in reported:
                    continue
                if not all(map(self.counts, self.definitions, chosen)):
                    continue
                if all(self.is_match(future) for future in self.futures(chosen, now)):
                    reported.add(identity)
                    if limit is None or now - min(s.ts for s in chosen) <= limit.microseconds:
                        yield now, list(chosen)

    # Rows (§9.7) -------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        found: list[tuple[tuple[int, ...], Row]] = []
        for number, partition in enumerate(self.partitions()):
            names = [name.text for name in self.query.partition_by]
            head: Row = {name: self.events[partition[0]].get(name) for name in names}
            if self.query.listed:
                found += self.listed(number, head, partition)
                continue
            for now, chosen in self.detections(partition):
                place = (now, number, *(s.ts for s in chosen))
                found.append((place, head | {"ts": now} | self.cells(now, chosen)))
        return [row for _, row in sorted(found, key=lambda item: item[0])]

    def cells(self, now: int, chosen: Sequence[Situation]) -> Row:
        names = dict(zip(self.definitions, chosen, strict=True))
        items = self.query.returns.items if self.query.returns else ()
        if not items:
            return {
                f"{name}_{end}": s.ts if end == "ts" else s.te
                for name, s in names.items()
                for end in ("ts", "te")
            }
        del now
        return self.items(names)

    def items(self, names: dict[str, Situation]) -> Row:
        row: Row = {}
        partition = {name.text for name in self.query.partition_by}
        for item in self.query.returns.items if self.query.returns else ():
            e = item.expression
            if isinstance(e, tree.Word) and e.text in partition and item.alias is None:
                continue
            assert isinstance(e, tree.Attribute | tree.Aggregate), "RETURN has nothing else"
            assert e.variable is not None, "every aggregate is of a situation"
            function = e.function if isinstance(e, tree.Aggregate) else e.anchor
            name = item.alias.text if item.alias else _column_name(e)
            situation = names.get(e.variable.text)
            attribute = e.attribute.text if e.attribute else None
            row[name] = None if situation is None else self.fold(function, situation, attribute)
        return row

    def fold(self, function: str, situation: Situation, attribute: str | None) -> Value:
        if attribute is None:
            return len(situation.events)
        values = [self.value(i, attribute) for i in situation.events]
        if function == "FIRST":
            return values[0]
        if function == "LAST":
            return values[-1]
        known = [v for v in values if v is not None]
        if function == "COUNT":
            return len(known)
        if not known:
            return None
        if function in ("MIN", "MAX"):
            return (min if function == "MIN" else max)(known, key=order)
        total = float(sum(v for v in known if not isinstance(v, str)))
        return total if function == "SUM" else total / len(known)

    def listed(
        self, number: int, head: Row, partition: list[int]
    ) -> Iterator[tuple[tuple[int, ...], Row]]:
        """Yield the situations themselves, when they have ended (§9.8)."""
        for place, name in enumerate(self.definitions):
            if name not in {listed.text for listed in self.query.listed}:
                continue
            for s in self.derive(name, partition):
                if s.te is None or not self.counts(name, s):
                    continue
                if self.lasts(name, s.te - s.ts):
                    row = head | {"situation": name, "ts": s.ts, "te": s.te} | self.items({name: s})
                    yield (s.te, number, place, s.ts), row


def _settled(condition: tree.Expression, around: Around) -> tree.Expression:
    """Put values in the place of PREV, FIRST and aggregates."""

    def settle(node: tree.Node) -> tree.Node:
        match node:
            case tree.Call(function=name, arguments=(tree.Word(text=text),)) if name in (
                "PREV",
                "FIRST",
                "SUM",
                "AVG",
                "MIN",
                "MAX",
            ):
                value = around(name, [text])
            case tree.Aggregate(function=function, variable=variable, attribute=attribute):
                names = [name.text for name in (variable, attribute) if name is not None]
                value = around(function.value, names)
            case tree.Attribute(
                anchor=tree.Anchor.PREV | tree.Anchor.FIRST as anchor,
                variable=variable,
                attribute=attribute,
            ):
                value = around(anchor.value, [variable.text, attribute.text])
            case _:
                return node
        assert value is None or isinstance(value, bool | int | float | str), "a plain value"
        return tree.Literal(span=node.span, value=value)

    return tree.transform(condition, settle)
