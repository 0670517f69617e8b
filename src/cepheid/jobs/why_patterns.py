"""Counts for every kind of query with a pattern: events of variables, and the shortest match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from cepheid.errors import Span
from cepheid.events.schema import ValueKind
from cepheid.expressions.format import as_written
from cepheid.jobs.why import (
    STREAM,
    Condition,
    Counted,
    Counting,
    Question,
    amount,
    any_of,
    attribute_of,
    count_events,
    is_null,
    number,
)
from cepheid.language import tree

FIRST, LAST = "cepheid_first", "cepheid_last"

EVER = 50 * 365 * 86_400_000_000
"""A window as long as all of history: nanoseconds of so many years are still 61 bits."""


class EventCounts:
    """The events of each type, those without a key, and those that satisfy each condition.

    ``local`` are the conditions on single events, by variable; those of None hold for all.
    """

    def __init__(
        self,
        question: Question,
        counting: Counting,
        local: Sequence[tuple[str | None, tree.Expression]],
    ) -> None:
        self._question = question
        self._counting = counting
        self._local = local
        self._keys = question.plan.partition.attributes
        self.counts: dict[str, int] = {}
        self.conditions = self._count()

    @property
    def events(self) -> int:
        """Return the number of all events."""
        return self.counts.get("all", 0)

    @cached_property
    def time_span(self) -> int:
        """Find the time from the first to the last event, in microseconds; 0 if it is unknown."""
        span = self._question.tree.span
        stream = tree.Name(span=span, text=STREAM)
        time = attribute_of(self._question, self._question.plan.time)
        time = msgspec.structs.replace(time, variable=stream)
        items = tuple(
            tree.ReturnItem(
                span=span,
                expression=tree.Call(span=span, function=function, arguments=(time,)),
                alias=tree.Name(span=span, text=name),
            )
            for function, name in (("MIN", FIRST), ("MAX", LAST))
        )
        select = tree.SelectQuery(
            span=span,
            items=items,
            streams=(tree.Stream(span=span, name=stream, alias=stream),),
        )
        return self._counting.least_gap(self._question.relaxed(select), FIRST, LAST) or 0

    @cached_property
    def partitions(self) -> int:
        """Count the keys that events have."""
        span = self._question.tree.span
        stream = tree.Name(span=span, text=STREAM)
        names = tuple(tree.Name(span=span, text=key) for key in self._keys)
        if not names:
            return 1
        values = [tree.Attribute(span=span, variable=stream, attribute=name) for name in names]
        select = tree.SelectQuery(
            span=span,
            items=tuple(tree.ReturnItem(span=span, expression=value) for value in values),
            streams=(tree.Stream(span=span, name=stream, alias=stream),),
            group_by=names,
        )
        found = self._counting.tally({"keys": Counted(self._question.relaxed(select))})["keys"]
        return 1 if found is None else max(1, found.rows)

    def _count(self) -> tuple[Condition, ...]:
        """Count the events of each type, and those that satisfy each condition."""
        asked: dict[str, list[tree.Expression]] = {"all": []}
        local: dict[str, list[tree.Expression]] = {}
        for variable, name in variables_in(self._question.tree.pattern).items():
            typed = of_type(self._question, name)
            asked[f"type {name}"] = typed
            for key in self._keys:
                asked[f"null {name} {key}"] = [*typed, is_null(self._question, key)]
            own = [condition for of, condition in self._local if of in (None, variable)]
            local[variable] = own
            for n, one in enumerate(own):
                rest = own[:n] + own[n + 1 :]
                asked[f"one {variable} {n}"] = [*typed, one]
                asked[f"but {variable} {n}"] = [*typed, *rest]
            asked[f"every {variable}"] = [*typed, *own]
        found = count_events(self._question, self._counting, asked)
        self.counts = found or {}
        if found is None:
            return ()
        types = variables_in(self._question.tree.pattern)
        return tuple(
            Condition(
                variable,
                as_written(one),
                found[f"type {types[variable]}"],
                found[f"one {variable} {n}"],
                found[f"but {variable} {n}"] - found[f"every {variable}"],
            )
            for variable, own in local.items()
            for n, one in enumerate(own)
        )

    def missing(self, part: tree.Pattern) -> list[str]:
        """List the types of a part that no event has, if all of its types are such."""
        negated = {name for one in negations_in(part) for name in variables_in(one).values()}
        types = [n for n in dict.fromkeys(variables_in(part).values()) if n not in negated]
        lacking = [name for name in types if self.counts.get(f"type {name}") == 0]
        return [f"`{name}`" for name in lacking] if lacking and lacking == types else []

    def sentences(self) -> list[str]:
        """Tell how many events satisfy the conditions, where not all do."""
        told = []
        for variable in dict.fromkeys(c.variable for c in self.conditions):
            own = [c for c in self.conditions if c.variable == variable]
            every = self.counts[f"every {variable}"]
            if own[0].events == every:
                continue
            parts = [f"{number(c.satisfied)} satisfy `{c.text}`" for c in own]
            text = f"Of {amount(own[0].events, 'event')} for {variable}, {', '.join(parts)}"
            if len(own) > 1:
                most = max(own, key=lambda c: c.alone)
                text += f", {number(every)} all of it"
                if most.alone:
                    text += f"; `{most.text}` alone stops {number(most.alone)}"
            told.append(f"{text}.")
        return told

    def null_keys(self) -> list[str]:
        """Tell how many events have no key, so that they are in no match."""
        told = []
        for name in dict.fromkeys(variables_in(self._question.tree.pattern).values()):
            for key in self._keys:
                count = self.counts.get(f"null {name} {key}", 0)
                if count:
                    them = "it takes" if count == 1 else "they take"
                    told.append(
                        f"{amount(count, 'event')} for {name} {'has' if count == 1 else 'have'} "
                        f"no {key} (NULL): {them} part in no match."
                    )
        return told


def of_type(question: Question, name: str) -> list[tree.Expression]:
    """Build the condition for events of a type; without types all events are of it (§1.2)."""
    column = question.plan.type
    if column is None:
        return []
    schema = question.source.schema
    kind = schema.kind(column) if schema is not None else ValueKind.TEXT
    span = question.tree.span
    value = tree.Literal(span=span, value=name)
    if kind is ValueKind.INTEGER:
        is_number = name.removeprefix("-").isdecimal()
        value = tree.Literal(span=span, value=int(name) if is_number else None)
    left = attribute_of(question, column)
    return [tree.Binary(span=span, operator="=", left=left, right=value)]


def event_filters(
    question: Question, local: Sequence[tuple[str | None, tree.Expression]]
) -> dict[str, list[tree.Expression]]:
    """Name the conditions that events pass: types, conditions of variables, keys."""
    keys = question.plan.partition.attributes
    found: dict[str, list[tree.Expression]] = {}
    variables = variables_in(question.tree.pattern)
    types = [c for name in dict.fromkeys(variables.values()) for c in of_type(question, name)]
    if types:
        found["of a type of the pattern"] = [any_of(question, types)]
    fitting = []
    for variable, name in variables.items():
        own = [condition for of, condition in local if of in (None, variable)]
        parts = (*of_type(question, name), *own)
        if parts:
            span = question.tree.span
            whole = tree.Logical(span=span, operator="AND", operands=parts)
            fitting.append(whole if len(parts) > 1 else parts[0])
    passed = [any_of(question, fitting)] if len(fitting) == len(variables) else []
    if local and passed:
        found["satisfy the conditions of a variable"] = passed
    if keys:
        known = [is_null(question, key, negated=True) for key in keys]
        found["with a key"] = [*passed, *known]
    return found


# ---------------------------------------------------------------------------------------
# Patterns


def variables_in(pattern: tree.Pattern) -> dict[str, str]:
    """Collect the variables of a pattern with their types, also below NOT."""
    events = (node for node in tree.walk(pattern) if isinstance(node, tree.EventPattern))
    return {event.variable.text: event.event_type.text for event in events}


def negations_in(pattern: tree.Pattern) -> list[tree.Negation]:
    """List the outermost NOTs of a pattern."""
    if isinstance(pattern, tree.Negation):
        return [pattern]
    return [
        found
        for child in tree.children_of(pattern)
        if isinstance(child, tree.Pattern)
        for found in negations_in(child)
    ]


def all_of(conditions: Sequence[tree.Expression]) -> tree.Expression | None:
    """Build the condition that all of several hold; None if there is none."""
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    span = conditions[0].span.to(conditions[-1].span)
    return tree.Logical(span=span, operator="AND", operands=tuple(conditions))


def unit_of(keys: Sequence[str]) -> str:
    """Name what is counted where keys are.

    Examples
    --------
    >>> unit_of(["session"]), unit_of(["user_id"]), unit_of(["shop", "user"])
    ('session', 'value of user_id', 'combination of shop, user')
    """
    if len(keys) > 1:
        return f"combination of {', '.join(keys)}"
    return keys[0] if keys[0].isalpha() else f"value of {keys[0]}"


def returning(span: Span, keys: Sequence[str], items: Mapping[str, tree.Expression]) -> tree.Return:
    """Build RETURN of keys and of named values."""
    returned = [
        tree.ReturnItem(span=span, expression=tree.Word(span=span, text=key)) for key in keys
    ]
    returned += [
        tree.ReturnItem(span=span, expression=value, alias=tree.Name(span=span, text=name))
        for name, value in items.items()
    ]
    return tree.Return(span=span, items=tuple(returned))


def latest_first(span: Span, first: tree.EventPattern, time: str) -> tree.Expression:
    """Build the latest time of first events, whose difference from ``window_end`` is a length.

    With a window that never ends (``ever``) there is a row for every time t at which a match ends,
    and the largest time of first events is that of all matches so far. The least difference is that
    of the shortest match: at the end of that match, no other has begun later and is as short.
    """
    return tree.Aggregate(
        span=span,
        function=tree.AggregateFunction.MAX,
        variable=first.variable,
        attribute=tree.Name(span=span, text=time),
    )


def ever(span: Span) -> tree.Window:
    """Build a window that never ends."""
    return tree.Window(span=span, within=tree.Duration(span=span, microseconds=EVER))
