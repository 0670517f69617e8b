"""The reference implementation: evaluates a query over its events to result rows (§5 to §7).

All engines are compared with it, and it shares no code with them. ``oracle_matches`` finds the
matches (§1 to §4) with the help of ``oracle_patterns``, and ``oracle_expressions`` evaluates
expressions (§4.6); all follow docs/semantics.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import product
from typing import Self

from cepheid.language import tree
from cepheid.testing.oracle_expressions import Leaf, Value, evaluate_expression
from cepheid.testing.oracle_funnel import evaluate_funnel, funnel_columns
from cepheid.testing.oracle_matches import Event, Match, Matcher, check_effort, key_of, whole
from cepheid.testing.oracle_patterns import has_single_events, joined, matches_begun
from cepheid.testing.oracle_situations import evaluate_situations, situation_columns
from cepheid.testing.oracle_skip import choose_matches
from cepheid.testing.oracle_spread import is_spread, name_of_spread, spread_of
from cepheid.testing.oracle_survey import columns_of_survey, survey_of, survey_rows
from cepheid.testing.oracle_sweep import parameter_names, sweep_rows

Row = dict[str, object]
Group = tuple[object, ...]
Window = tuple[int | None, int | None, list[list[int]]]
"""Start, end, and the numbers of the events of each partition."""
Cell = tuple[Group, int | None, int | None, list[Match]]
"""Group, window and matches of one result row."""
WHOLE_MAX = 1000
"""The most bindings that an event can begin where they are counted by a whole number (§5.4)."""


def evaluate(
    query: tree.Query,
    events: Sequence[Event],
    *,
    time: str = "ts",
    type: str = "type",  # noqa: A002
) -> list[Row]:
    """Evaluate a query that the binder accepts, over events sorted by time.

    Times are integer microseconds; an attribute that an event lacks is NULL; if no event has a
    type, the stream has no types (§1.2). Listed matches are tuples of (variable, number of the
    event). Counts and sums are floats where they are doubles (§5.4), else integers.
    """
    if isinstance(query, tree.SweepQuery):
        return sweep_rows(query, lambda one: evaluate(one, events, time=time, type=type))
    if isinstance(query, tree.SituationQuery):
        return evaluate_situations(query, events, time)
    if isinstance(query, tree.FunnelQuery):
        return evaluate_funnel(query, events, time, type)
    return Oracle(query, events, time, type).rows()


class MatchSet(tuple[tuple[str, int], ...]):
    """A set of matches (§2.10) as one tuple of all their bindings, that of the last to end last."""

    matches: tuple[Match, ...]

    def __new__(cls, some: Iterable[Match]) -> Self:
        """Put the bindings of matches one after the other."""
        backwards = {m: [(i, name) for name, i in reversed(m)] for m in some}
        matches = tuple(sorted(backwards, key=lambda m: (m[-1][1], len(m), backwards[m])))
        found = super().__new__(cls, (binding for m in matches for binding in m))
        found.matches = matches
        return found

    def __eq__(self, other: object) -> bool:
        """Tell apart sets of other matches with the same bindings."""
        return isinstance(other, MatchSet) and self.matches == other.matches

    def __hash__(self) -> int:
        """Return a number that equal sets share."""
        return hash(self.matches)

    @property
    def numbered(self) -> tuple[tuple[str, int, int], ...]:
        """List the bindings with the numbers of their matches in the set."""
        return tuple((v, i, n) for n, m in enumerate(self.matches, 1) for v, i in m)


class Oracle(Matcher):
    """Adds windows, groups and rows."""

    # Windows and groups (§6) ---------------------------------------------------------------------

    def groups(self) -> Iterator[tuple[Group, list[list[int]]]]:
        """Yield the GROUP-BY values of each group (§6.5) and its partitions (§4.2)."""
        groups: dict[Group, dict[Group, list[int]]] = {}
        for i, event in enumerate(self.events):
            if all(event.get(k) is not None for k in self.keys):
                group = tuple(key_of(event.get(g)) for g in self.group_by)
                partition = tuple(key_of(event.get(k)) for k in self.keys)
                groups.setdefault(group, {}).setdefault(partition, []).append(i)
        for _, partitions in sorted(groups.items(), key=lambda item: str(item[0])):
            first = next(iter(partitions.values()))[0]
            yield tuple(self.events[first].get(g) for g in self.group_by), list(partitions.values())

    def windows(self, partitions: list[list[int]]) -> Iterator[Window]:
        """Yield the windows of the partitions of a group (§6)."""
        window = self.query.window
        if window is None:
            yield None, None, partitions
        elif isinstance(window.within, tree.EventCount):
            assert isinstance(window.slide, tree.EventCount), "count windows need SLIDE"
            size, slide = window.within.count, window.slide.count
            for start in range(0, max(map(len, partitions)), slide):
                yield start, start + size, [p[start : start + size] for p in partitions]
        else:
            size = window.within.microseconds
            times = sorted({self.times[i] for p in partitions for i in p})
            if isinstance(window.slide, tree.Duration):
                slide = window.slide.microseconds
                for start in range(
                    (times[0] - size) // slide * slide + slide, times[-1] + 1, slide
                ):
                    yield start, start + size, self.cut(partitions, start, start + size - 1)
            else:
                leaving = {t + size for t in times} if self.query.emit_on_expiry else set()
                for t in sorted({*times, *leaving}):
                    yield t - size, t, self.cut(partitions, t - size + 1, t)

    def cut(self, partitions: list[list[int]], first: int, last: int) -> list[list[int]]:
        """Keep the events of a range of time."""
        return [[i for i in p if first <= self.times[i] <= last] for p in partitions]

    def cells(self) -> Iterator[Cell]:
        """Yield group, window and matches of every result row (§5.3, §6.3, §6.4)."""
        trailing = self.query.window is not None and self.query.window.slide is None
        for group, partitions in self.groups():
            for start, end, parts in self.windows(partitions):
                found = self.found(parts)
                if not trailing:
                    emitted = bool(found)
                else:
                    assert start is not None
                    assert end is not None
                    emitted = any(self.end(m) == end for m in found)
                    if self.query.emit_on_expiry and not emitted:
                        # What leaving alone changes, whatever arrives at the same time (§6.4).
                        kept = self.found(self.cut(partitions, start + 1, end - 1))
                        emitted = self.found(self.cut(partitions, start, end - 1)) != kept
                if emitted:
                    yield group, start, end, found

    def end(self, m: Match) -> int:
        """Find the end of a match; a set of matches ends with the latest one (§2.10)."""
        return max(self.times[i] for _, i in m)

    def found(self, parts: list[list[int]]) -> list[Match]:
        """Find the matches, or sets of matches, in a window."""
        pattern = self.query.pattern
        if self.query.skip is not None:
            held = [set(part) for part in parts]
            return sorted(m for m in self.chosen if any({i for _, i in m} <= p for p in held))
        if not isinstance(pattern, tree.Conjunction):
            return sorted(m for p in parts for m in self.matches(pattern, p))
        sets: list[Match] = []
        for p in parts:
            sides = [self.matches(side, p) for side in joined(pattern)]
            check_effort(math.prod(map(len, sides)))
            chosen = {frozenset(choice) for choice in product(*sides)}
            sets += [MatchSet(some) for some in chosen if len(some) == len(sides)]
        return sorted(sets)

    @cached_property
    def chosen(self) -> list[Match]:
        """Choose matches of every partition, among those that a window holds (§14)."""
        assert self.query.skip is not None, "only AFTER MATCH SKIP chooses"
        chosen: list[Match] = []
        for _, partitions in self.groups():
            for partition in partitions:
                found = {
                    m
                    for _, _, parts in self.windows([partition])
                    for part in parts
                    for m in self.matches(self.query.pattern, part)
                }
                chosen += choose_matches(self.query.skip, self.query.pattern, found, self.before)
        return chosen

    # Rows (§5, §7) -------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        """Build the result."""
        items = self.query.returns.items if self.query.returns else ()
        nodes = [n for i in items for n in tree.walk(i)]
        listing = not any(isinstance(n, tree.Aggregate) or is_spread(n) for n in nodes)
        survey = survey_of(self.query)
        cells = sorted(self.cells(), key=lambda cell: cell[1] or 0)
        seen: set[Match] = set()
        rows: list[Row] = []
        for group, start, end, found in cells:
            head: Row = dict(zip(self.group_by, group, strict=True))
            head |= {"window_start": start, "window_end": end} if self.query.window else {}
            if survey is not None:
                told = survey_rows(survey, self.query.pattern, found, self.events, self.times)
                rows += [head | row for row in told]
                continue
            if not listing:
                rows += self.aggregate_row(head, items, found)
                continue
            trailing = self.query.window is not None and self.query.window.slide is None
            for m in found:
                if m not in seen and (not trailing or self.end(m) == end):
                    seen.add(m)
                    rows.append(self.match_row(head, items, m))
        limit = self.query.limit.value if self.query.limit else None
        return rows[: None if limit is None else whole(limit)]

    def match_row(self, head: Row, items: Sequence[tree.ReturnItem], m: Match) -> Row:
        """Build the row of a match (§7)."""
        events = m.numbered if isinstance(m, MatchSet) else m
        return head | ({column_name(i): self.listed(i, m) for i in items} or {"events": events})

    def aggregate_row(
        self, head: Row, items: Sequence[tree.ReturnItem], found: list[Match]
    ) -> list[Row]:
        """Build the row of a group and window, if HAVING keeps it (§5)."""
        row = dict(head)

        def lookup(leaf: Leaf) -> Value:
            if isinstance(leaf, tree.Aggregate) and leaf.distinct:
                return self.keys_found([name.text for name in leaf.distinct], found)
            if isinstance(leaf, tree.Aggregate):
                total = self.aggregate(leaf, found)
                return float(total) if isinstance(total, int) and self.double(leaf) else total
            value = row[leaf.text] if isinstance(leaf, tree.Word) else None
            assert value is None or isinstance(value, bool | int | float | str), "a plain value"
            return value

        def told(node: tree.Node) -> tree.Node:
            if isinstance(node, tree.Call) and is_spread(node):
                number = spread_of(node, found, self.events, self.times)
                return tree.Literal(span=node.span, value=number)
            return node

        for item in items:
            expression = tree.transform(item.expression, told)
            row[column_name(item)] = evaluate_expression(expression, lookup)
        having = self.query.having
        kept = having is None or evaluate_expression(tree.transform(having, told), lookup) is True
        return [row] if kept else []

    def keys_found(self, names: Sequence[str], found: list[Match]) -> int:
        """Count the keys that have a match (§5.6)."""
        keys = {tuple(key_of(self.events[m[0][1]].get(name)) for name in names) for m in found}
        return len(keys)

    def double(self, aggregate: tree.Aggregate) -> bool:
        """Check whether a count or sum is a double (§5.4), not a whole or exact number (§5.5)."""
        numbers = self.query.numbers
        if aggregate.function not in ("COUNT", "SUM"):
            return False
        if numbers is not None and numbers.numbers is tree.Numbers.EXACT:
            return False
        name = aggregate.variable.text if aggregate.variable else None
        bound = 1 if name is None else bindings_max(self.query.pattern, name)
        return aggregate.function == "SUM" or self.begun * bound > WHOLE_MAX

    @cached_property
    def begun(self) -> float:
        """Count the matches that an event can begin, in any stream (§5.4)."""
        pattern = self.query.pattern
        if self.query.skip is not None:
            return 1  # §14.4
        determined = (
            tree.Semantics.ANY_MATCH not in (self.semantics, *self.rules.values())
            and self.arrival
            and self.partial.keys() <= set(self.keys)
        )
        if isinstance(pattern, tree.Conjunction):
            return math.inf
        if not determined and not has_single_events(pattern, self.types):
            return math.inf
        types = self.types if self.typed else dict.fromkeys(self.types, "")
        return matches_begun(pattern, types, WHOLE_MAX)

    def listed(self, item: tree.ReturnItem, m: Match) -> object:
        """Look up the value of a returned attribute, or the list of them (§7.3)."""
        if isinstance(item.expression, tree.Word):
            return self.events[m[0][1]].get(item.expression.text)
        expression = item.expression
        if isinstance(expression, tree.Attribute) and expression.anchor is tree.Anchor.EACH:
            name = expression.variable.text
            if bindings_max(self.query.pattern, name) > 1:
                return [self.attribute(i, expression) for v, i in m if v == name]

        def lookup(leaf: Leaf) -> Value:
            assert not isinstance(leaf, tree.Aggregate), "an aggregate would make no list"
            if isinstance(leaf, tree.Word):
                value = self.events[m[0][1]].get(leaf.text)
                assert value is None or isinstance(value, bool | int | float | str), "plain"
                return value
            bound = [i for v, i in m if v == leaf.variable.text]
            place = -1 if leaf.anchor is tree.Anchor.LAST else 0
            return self.attribute(bound[place], leaf) if bound else None

        return evaluate_expression(expression, lookup)


def column_names(query: tree.Query) -> list[str]:
    """Name the columns of a query's rows, in order."""
    if isinstance(query, tree.SweepQuery):
        return parameter_names(query) + column_names(query.query)
    if isinstance(query, tree.SituationQuery):
        return situation_columns(query)
    if isinstance(query, tree.FunnelQuery):
        return funnel_columns(query)
    names = [name.text for name in query.group_by]
    names += ["window_start", "window_end"] if query.window else []
    survey = survey_of(query)
    if survey is not None:
        return [*names, *columns_of_survey(survey)]
    items = query.returns.items if query.returns else ()
    return list(dict.fromkeys([*names, *([column_name(item) for item in items] or ["events"])]))


def column_name(item: tree.ReturnItem) -> str:
    """Choose the name after AS, or else the one of the expression."""
    expression, log2 = item.expression, ""
    if item.alias:
        return item.alias.text
    if isinstance(expression, tree.Call) and is_spread(expression):
        return name_of_spread(expression)
    if isinstance(expression, tree.Call):
        expression, log2 = expression.arguments[0], "log2_"
    if isinstance(expression, tree.Word):
        return expression.text
    assert isinstance(expression, tree.Aggregate | tree.Attribute), "RETURN has nothing else"
    function = [expression.function.lower()] if isinstance(expression, tree.Aggregate) else []
    if isinstance(expression, tree.Aggregate) and expression.distinct:
        function += ["distinct", *(name.text for name in expression.distinct)]
    if isinstance(expression, tree.Attribute) and expression.anchor is not tree.Anchor.EACH:
        function = [expression.anchor.value.lower()]
    names = [name.text for name in (expression.variable, expression.attribute) if name]
    return log2 + "_".join(function + names)


def bindings_max(pattern: tree.Pattern, variable: str) -> float:
    """Count how often a match can bind a variable."""
    match pattern:
        case tree.EventPattern(variable=name):
            return int(name.text == variable)
        case tree.Sequence(parts=parts) | tree.Conjunction(patterns=parts):
            return sum(bindings_max(part, variable) for part in parts)
        case tree.Disjunction(alternatives=alternatives):
            return max(bindings_max(part, variable) for part in alternatives)
        case tree.Repeat(pattern=inner, most=most):
            once = bindings_max(inner, variable)
            return once * (math.inf if most is None else most) if once else 0
    return 0  # A NOT part binds nothing.
