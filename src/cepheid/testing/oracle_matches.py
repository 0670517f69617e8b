"""The reference implementation, first half: find the matches of a pattern (§1 to §4).

It follows docs/semantics.md alone, by recursion over the definitions and without regard to speed;
the numbers in brackets are the rules of that page. It shares no code with the engines.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, product

from cepheid.language import tree
from cepheid.testing.oracle_expressions import Leaf, Value, evaluate_expression, order
from cepheid.testing.oracle_patterns import (
    Rest,
    after,
    anchors_of,
    conjuncts_of,
    greedy_loops,
    kind_of,
    loops_of,
    neighbours_of,
    speaks_of,
    variables_in,
    variables_of,
)

Event = Mapping[str, object]
Binding = tuple[str, int]
"""A variable and the number of an event."""
Match = tuple[Binding, ...]
Obligation = tuple[tree.Negation, int | None, int | None]
"""Nothing forbidden may lie after the one event and before the other (None: window's end)."""
Derivation = tuple[Match, frozenset[Obligation]]

NOTHING: Derivation = ((), frozenset())


EFFORT_MAX = sys.maxsize
"""The largest number of pairs that are tried at once; random tests set it, to end."""


class TooMuchEffortError(Exception):
    """A query has too many ways to match for brute force."""


def check_effort(pairs: int) -> None:
    """Give up where brute force would take too long."""
    if pairs > EFFORT_MAX:
        raise TooMuchEffortError(pairs)


class Matcher:
    """The events of a stream and the conditions of a query."""

    def __init__(self, query: tree.Query, events: Sequence[Event], time: str, type_: str) -> None:
        self.query, self.events, self.type = query, events, type_
        self.times = [whole(event[time]) for event in events]
        assert self.times == sorted(self.times), "events come in the order of time (§1.1)"
        self.typed = any(event.get(type_) is not None for event in events)
        self.arrival = query.ties is not None and query.ties.ties is tree.Ties.ARRIVAL
        clause = query.semantics
        self.semantics = clause.semantics if clause else tree.Semantics.ANY_MATCH
        self.rules = (
            {(r.prev.text, r.next.text): r.semantics for r in clause.links} if clause else {}
        )
        self.loops = loops_of(query.pattern)
        items = [
            i for c in conjuncts_of(query.where) if isinstance(c, tree.Equivalence) for i in c.items
        ]
        self.group_by = [name.text for name in query.group_by]
        self.keys = [i.attribute.text for i in items if i.variable is None] + self.group_by
        self.partial: dict[str, set[str]] = {}
        for item in items:
            if item.variable is not None:
                self.partial.setdefault(item.attribute.text, set()).add(item.variable.text)
        self.conditions: dict[str, list[tree.Expression]] = {"local": [], "edge": [], "global": []}
        for c in conjuncts_of(query.where):
            if not isinstance(c, tree.Equivalence):
                self.conditions[kind_of(c)].append(c)
        self.types = {
            n.variable.text: n.event_type.text
            for n in tree.walk(query.pattern)
            if isinstance(n, tree.EventPattern)
        }
        self.neighbours = neighbours_of(query.pattern)
        self.greed = {id(loop): (loop, later) for loop, later in greedy_loops(query.pattern)}
        self.known: dict[tuple[tree.Pattern, tuple[int, ...], Match], set[Match]] = {}

    # Events (§1) and patterns (§2) ---------------------------------------------------------------

    def before(self, i: int, j: int) -> bool:
        """Check whether an event comes before another (§1.3, §1.4)."""
        return i < j if self.arrival else self.times[i] < self.times[j]

    def fits(self, variable: str, i: int) -> bool:
        """Check type, local predicates (§4.1) and NULL in partial equivalence (§4.3)."""
        event = self.events[i]
        own = self.types[variable]
        if self.typed and own != tree.ANY_TYPE and event.get(self.type) != own:
            return False
        if any(variable in names and event.get(a) is None for a, names in self.partial.items()):
            return False
        local = (c for c in self.conditions["local"] if set(variables_of(c)) <= {variable})
        return all(
            evaluate_expression(c, lambda leaf: self.attribute(i, leaf)) is True for c in local
        ) and not any(self.fits(other, i) for other in self.leaves(variable))

    def leaves(self, variable: str) -> Iterator[str]:
        """Yield the variables to which a variable leaves the events that they fit (§2.15)."""
        for loop, later in self.greed.values():
            own = set(variables_in(loop))
            if loop.greed is tree.Greed.GREEDY and variable in later:
                yield from own
            if loop.greed is tree.Greed.RELUCTANT and variable in own:
                yield from later

    def attribute(self, i: int, leaf: Leaf) -> Value:
        """Look up an attribute of an event; a bare word is text (§4.7)."""
        if isinstance(leaf, tree.Word):
            return leaf.text
        assert leaf.attribute is not None, "only attributes belong to one event"
        value = self.events[i].get(leaf.attribute.text)
        assert value is None or isinstance(value, bool | int | float | str), "a plain value"
        return value

    def derivations(self, pattern: tree.Pattern, window: Sequence[int]) -> set[Derivation]:
        """Find all ways to match a pattern (§2.4), also the empty one, and what they forbid."""
        match pattern:
            case tree.EventPattern(variable=variable):
                v = variable.text
                return {(((v, i),), frozenset()) for i in window if self.fits(v, i)}
            case tree.Disjunction(alternatives=alternatives):
                return set().union(*(self.derivations(p, window) for p in alternatives))
            case tree.Repeat(pattern=inner, least=least, most=most, without=without):
                once, level, count = self.derivations(inner, window), {NOTHING}, 0
                reluctant = pattern.greed is tree.Greed.RELUCTANT
                found: set[Derivation] = set()
                # Repetitions of events come to an end; those of nothing repeat what was found.
                while level and (most is None or count <= most) and not level <= found:
                    found |= level if count >= least else set()
                    if reluctant and count >= least:
                        without = self.left_out(pattern)
                    check_effort(len(level) * len(once))
                    level = {way for a in level for b in once for way in self.chain(a, b, without)}
                    count += 1
                return found
            case tree.Sequence(parts=parts):
                return self.sequence(parts, window)
        raise ValueError(pattern)

    def chain(
        self, a: Derivation, b: Derivation, without: tree.Negation | None = None
    ) -> Iterator[Derivation]:
        """Yield a followed by b, if b comes after a; nothing forbidden lies between (§2.13)."""
        if not a[0] or not b[0] or self.before(a[0][-1][1], b[0][0][1]):
            gap: frozenset[Obligation] = frozenset()
            if without is not None and a[0] and b[0]:
                gap = frozenset({(without, a[0][-1][1], b[0][0][1])})
            yield a[0] + b[0], a[1] | b[1] | gap

    def left_out(self, loop: tree.Repeat) -> tree.Negation | None:
        """Return the NOT that a loop with greed (§2.15) puts beside it, or None."""
        _, later = self.greed.get(id(loop), (loop, ()))
        names = variables_in(loop) if loop.greed is tree.Greed.GREEDY else later
        if loop.greed is None or not later:
            return None
        events = [
            node
            for node in tree.walk(self.query.pattern)
            if isinstance(node, tree.EventPattern) and node.variable.text in names
        ]
        either = tree.Disjunction(span=loop.span, alternatives=tuple(events))
        return tree.Negation(span=loop.span, pattern=either)

    def sequence(self, parts: Rest, window: Sequence[int]) -> set[Derivation]:
        """Chain parts; NOTs wait for the next part that is there, or for the end (§2.5 to §2.8).

        What loops with greed forbid only ever lies between two events (§2.15).
        """
        ways: set[tuple[Derivation, tuple[tree.Negation, ...], tuple[tree.Negation, ...]]]
        ways = {(NOTHING, (), ())}
        for part in parts:
            if isinstance(part, tree.Negation):
                ways = {(way, (*waiting, part), beside) for way, waiting, beside in ways}
                continue
            mine = self.left_out(part) if isinstance(part, tree.Repeat) else None
            greed = () if mine is None else (mine,)
            entering: tuple[tree.Negation, ...] = ()
            if mine and isinstance(part, tree.Repeat) and part.least == 0:
                entering = greed if part.greed is tree.Greed.RELUCTANT else ()
            longer, own = set(), self.derivations(part, window)
            check_effort(len(ways) * len(own))
            for (way, waiting, beside), new in product(ways, own):
                for bindings, owed in self.chain(way, new):
                    if not new[0]:
                        longer.add(((bindings, owed), waiting, (*beside, *greed)))
                        continue
                    after = way[0][-1][1] if way[0] else None
                    gaps = frozenset((n, after, new[0][0][1]) for n in waiting)
                    if after is not None:
                        gaps |= {(n, after, new[0][0][1]) for n in (*beside, *entering)}
                    longer.add(((bindings, owed | gaps), (), greed))
            ways = longer
        return {
            (m, owed | frozenset((n, m[-1][1], None) for n in waiting if m))
            for (m, owed), waiting, _ in ways
        }

    def matches(self, pattern: tree.Pattern, window: Sequence[int]) -> set[Match]:
        """Find the matches of a pattern without AND in a window."""
        return {m for m in self.holding(pattern, window, ()) if self.selected(pattern, m, window)}

    def holding(self, pattern: tree.Pattern, window: Sequence[int], around: Match) -> set[Match]:
        """Find the matches before selection; ``around`` limits matches of a negated pattern."""
        key = (pattern, tuple(window), around)
        found = self.known.get(key)  # Hashing a pattern is half the work.
        if found is None:
            ways: dict[Match, list[frozenset[Obligation]]] = {}
            for bindings, owed in self.derivations(pattern, window):
                ways.setdefault(bindings, []).append(owed)
            found = self.known[key] = {
                m
                for m, alternatives in ways.items()
                if m  # §2.2: never empty
                and all(self.follows(a, b) for a, b in pairwise(m))
                and self.agree(around + m)
                and any(
                    not any(self.violated(o, around + m, window) for o in owed)
                    for owed in alternatives
                )
            }
        return found

    def violated(self, obligation: Obligation, m: Match, window: Sequence[int]) -> bool:
        """Check for a forbidden occurrence (§2.5) that agrees with all around it (§2.9)."""
        negation, first, last = obligation
        if negation.next:
            beside = self.beside(self.partition_of(m[0][1]), first, last)
            return any(
                self.in_time(negation, n, first, last)
                for n in self.holding(negation.pattern, beside, m)
            )
        if negation.within is not None:
            # A deadline is a fact of the stream, whatever the window holds (§2.12).
            window = self.partition_of(m[0][1])
        elif self.semantics is tree.Semantics.CONTIGUOUS and self.partial:
            window = [i for i in window if self.same_partition(i, m)]
        return any(
            (first is None or self.before(first, n[0][1]))
            and (last is None or self.before(n[-1][1], last))
            and self.in_time(negation, n, first, last)
            for n in self.holding(negation.pattern, window, m)
        )

    def beside(self, events: Sequence[int], first: int | None, last: int | None) -> list[int]:
        """List the events directly after one, or else directly before another one (§2.14)."""
        if first is not None:
            later = [i for i in events if self.before(first, i)]
            return [i for i in later if not any(self.before(j, i) for j in later)]
        assert last is not None, "a NOT has a neighbour"
        earlier = [i for i in events if self.before(i, last)]
        return [i for i in earlier if not any(self.before(i, j) for j in earlier)]

    def in_time(
        self, negation: tree.Negation, n: Match, first: int | None, last: int | None
    ) -> bool:
        """Check that an occurrence lies within the deadline of a NOT, if it has one (§2.12)."""
        if negation.within is None:
            return True
        assert isinstance(negation.within, tree.Duration), "a deadline is a time"
        length = negation.within.microseconds
        if first is not None:
            return self.times[n[-1][1]] < self.times[first] + length
        assert last is not None, "a NOT has a neighbour"
        return self.times[n[0][1]] > self.times[last] - length

    def partition_of(self, i: int) -> list[int]:
        """List all events of the partition of an event (§4.2), in any window."""
        wanted = [key_of(self.events[i].get(k)) for k in self.keys]
        return [
            j
            for j, event in enumerate(self.events)
            if [key_of(event.get(k)) for k in self.keys] == wanted
        ]

    # Selection (§3) and predicates (§4) ----------------------------------------------------------

    def selected(self, pattern: tree.Pattern, m: Match, window: Sequence[int]) -> bool:
        """Check that a match is long enough, is selected (§3) and passes global predicates."""
        least = self.query.min_length.value if self.query.min_length else 1
        asked = self.conditions["global"]
        if isinstance(self.query.pattern, tree.Conjunction):
            asked = [c for c in asked if speaks_of(c, pattern)]
        if len(m) < whole(least) or not all(self.spans(c, m) for c in asked):
            return False
        if self.rules or self.loops:
            return self.linked(pattern, m, window)
        if self.semantics is tree.Semantics.NEXT_MATCH:
            return not any(self.skipped(pattern, m[:k], m[k][1], window) for k in range(1, len(m)))
        if self.semantics is tree.Semantics.CONTIGUOUS:
            between = [i for i in window if self.before(m[0][1], i) and self.before(i, m[-1][1])]
            mine = {j for _, j in m}
            return all(self.same_partition(i, m) for i in mine) and not any(
                self.same_partition(i, m) for i in between if i not in mine
            )
        return True

    def skipped(self, pattern: tree.Pattern, m: Match, until: int, window: Sequence[int]) -> bool:
        """Check whether an event before ``until`` could have extended m (§3.2)."""
        return any(
            self.fits(v, i) and self.follows(m[-1], (v, i)) and self.agree((*m, (v, i)))
            for v in self.allowed(pattern, m)
            for i in window
            if self.before(m[-1][1], i) and self.before(i, until)
        )

    # Selection per link (§3.6) and UNTIL (§3.7) --------------------------------------------------

    def linked(self, pattern: tree.Pattern, m: Match, window: Sequence[int]) -> bool:
        """Check that every link of a match is open when it is taken, and no loop takes its end."""
        return not any(self.ends(v, i) for v, i in m) and all(
            self.is_open(pattern, m[:k], m[k], window) for k in range(1, len(m))
        )

    def rule(self, u: str, v: str) -> tree.Semantics:
        """Look up the rule of a link."""
        return self.rules.get((u, v), self.semantics)

    def ends(self, variable: str, i: int) -> bool:
        """Check whether an event ends the loop that a variable is in (§3.7)."""
        return any(variable in names and self.meets(c, i) for names, c in self.loops)

    def meets(self, condition: tree.Expression, i: int) -> bool:
        """Check whether a condition on one event is true for an event."""
        return evaluate_expression(condition, lambda leaf: self.attribute(i, leaf)) is True

    def is_open(self, pattern: tree.Pattern, m: Match, new: Binding, window: Sequence[int]) -> bool:
        """Check that no event between a partial match and the next one has closed their link."""
        last, (v, e) = m[-1], new
        between = [i for i in window if self.before(last[1], i) and self.before(i, e)]
        for names, condition in self.loops:
            if v in names:
                outside = [i for u, i in m if u not in names]
                p = outside[-1] if outside else m[0][1]
                since = [i for i in window if self.before(p, i) and self.before(i, e)]
                if any(self.meets(condition, i) for i in since):
                    return False
        match self.rule(last[0], v):
            case tree.Semantics.CONTIGUOUS:
                if len(m) > 1 and self.rule(m[-2][0], last[0]) is tree.Semantics.CONTIGUOUS:
                    between = [
                        i
                        for i in window
                        if self.before(m[-2][1], i) and self.before(i, e) and i != last[1]
                    ]
                return not between
            case tree.Semantics.NEXT_MATCH:
                return not any(self.follows_linked(pattern, m, i, window) for i in between)
        return True

    def follows_linked(
        self, pattern: tree.Pattern, m: Match, i: int, window: Sequence[int]
    ) -> bool:
        """Check whether an event may follow through an open link whose rule is not `any`."""
        return any(
            self.rule(m[-1][0], v) is not tree.Semantics.ANY_MATCH
            and self.fits(v, i)
            and not self.ends(v, i)
            and self.follows(m[-1], (v, i))
            and self.is_open(pattern, m, (v, i), window)
            for v in self.allowed(pattern, m)
        )

    def allowed(self, pattern: tree.Pattern, m: Match) -> list[str]:
        """List the variables that the pattern allows after those of a partial match (§3.2)."""
        rests: set[Rest] = {(pattern,)}
        for variable, _ in m:
            rests = {left for rest in rests for left in after(rest, variable)}
        return [v for v in self.types if any(after(rest, v) for rest in rests)]

    def agree(self, m: Match) -> bool:
        """Check partial equivalence (§4.3); full equivalence has cut the stream already."""
        values = [
            {key_of(self.events[i].get(a)) for v, i in m if v in names}
            for a, names in self.partial.items()
        ]
        return all(len(equal) <= 1 for equal in values)

    def same_partition(self, i: int, m: Match) -> bool:
        """Check whether an event belongs to the partition of a match (§4.3)."""
        for attribute, names in self.partial.items():
            wanted = {key_of(self.events[j].get(attribute)) for v, j in m if v in names}
            typed = {self.types[v] for v in names}
            own = self.events[i].get(self.type)
            concerned = not self.typed or tree.ANY_TYPE in typed or own in typed
            mine = self.events[i].get(attribute)
            if concerned and (mine is None or (wanted and key_of(mine) not in wanted)):
                return False
        return True

    def follows(self, a: Binding, b: Binding) -> bool:
        """Check edge predicates between two neighbours (§4.4)."""
        for condition in self.conditions["edge"]:
            if self.pair(condition) == (a[0], b[0]):
                forward = "PREV" not in anchors_of(condition)

                def lookup(leaf: Leaf, forward: bool = forward, one: bool = a[0] == b[0]) -> Value:  # noqa: FBT001
                    assert not isinstance(leaf, tree.Aggregate), "an aggregate would be global"
                    if isinstance(leaf, tree.Word):
                        return leaf.text
                    if leaf.anchor is not tree.Anchor.EACH or one:
                        later = (
                            (leaf.anchor is tree.Anchor.NEXT)
                            if forward
                            else leaf.anchor is tree.Anchor.EACH
                        )
                    else:
                        later = leaf.variable.text == b[0]
                    return self.attribute(b[1] if later else a[1], leaf)

                if evaluate_expression(condition, lookup) is not True:
                    return False
        return True

    def pair(self, condition: tree.Expression) -> Binding | tuple[str, str]:
        """Find the variables (previous, next) of an edge predicate."""
        by_anchor: dict[str, str] = {}
        for node in tree.walk(condition):
            if isinstance(node, tree.Attribute):
                by_anchor.setdefault(node.anchor.value, node.variable.text)
        each = by_anchor["each"]
        if "NEXT" in by_anchor:
            return each, by_anchor["NEXT"]
        if "PREV" in by_anchor:
            return by_anchor["PREV"], each
        first, second = variables_of(condition)
        return (first, second) if (first, second) in self.neighbours else (second, first)

    def spans(self, condition: tree.Expression, m: Match) -> bool:
        """Check a global predicate for every choice of events for plain variables (§4.5)."""
        plain = sorted(
            {
                n.variable.text
                for n in tree.walk(condition)
                if isinstance(n, tree.Attribute) and n.anchor is tree.Anchor.EACH
            }
        )

        def lookup(chosen: dict[str, int]) -> Callable[[Leaf], Value]:
            def look(leaf: Leaf) -> Value:
                if isinstance(leaf, tree.Aggregate):
                    return self.aggregate(leaf, [m])
                if isinstance(leaf, tree.Word) or leaf.anchor is tree.Anchor.EACH:
                    return self.attribute(
                        0 if isinstance(leaf, tree.Word) else chosen[leaf.variable.text], leaf
                    )
                bound = [i for v, i in m if v == leaf.variable.text]
                end = 0 if leaf.anchor is tree.Anchor.FIRST else -1
                return self.attribute(bound[end], leaf) if bound else None

            return look

        events = product(*([i for v, i in m if v == name] for name in plain))
        return all(
            evaluate_expression(condition, lookup(dict(zip(plain, e, strict=True)))) is True
            for e in events
        )

    def aggregate(self, aggregate: tree.Aggregate, found: Sequence[Match]) -> Value:
        """Compute an aggregate over matches (§5.1, §5.2)."""
        if aggregate.variable is None:
            return len(found)
        bound = [i for m in found for v, i in m if v == aggregate.variable.text]
        if aggregate.attribute is None:
            return len(bound)
        values = [x for i in bound if (x := self.attribute(i, aggregate)) is not None]
        if not values:
            return None
        if aggregate.function in ("MIN", "MAX"):
            return (min if aggregate.function == "MIN" else max)(values, key=order)
        numbers = [x for x in values if not isinstance(x, str)]
        exact = all(isinstance(x, int) for x in numbers) or not all(map(math.isfinite, numbers))
        total = sum(numbers) if exact else math.fsum(numbers)
        return total if aggregate.function == "SUM" else total / len(numbers)


def key_of(value: object) -> object:
    """Normalise a value for equality as in §4.6: NaN equals itself, -0.0 equals 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if value != value else (0, value + 0.0)
    return (0, value) if isinstance(value, int) and not isinstance(value, bool) else value


def whole(value: object) -> int:
    """Check that a value is an integer, and return it."""
    assert isinstance(value, int), "a whole number"
    return value
