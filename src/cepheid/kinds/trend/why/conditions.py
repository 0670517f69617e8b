"""Count the events that the variables of a pattern may take, condition by condition."""

from __future__ import annotations

from cepheid.events.schema import ValueKind
from cepheid.expressions.format import as_written
from cepheid.jobs.why import (
    Condition,
    Counting,
    Question,
    amount,
    any_of,
    attribute_of,
    count_events,
    is_null,
    number,
)
from cepheid.kinds.trend.why.chain import negations_in, variables_in
from cepheid.language import tree
from cepheid.plans.plan import TrendPlan


class EventCounts:
    """The events of each type, those without a key, and those that satisfy each condition."""

    def __init__(self, question: Question, counting: Counting) -> None:
        self._question = question
        self._counting = counting
        self._plan = TrendPlan.of(question.plan)
        self._keys = self._plan.partition.attributes
        self.counts: dict[str, int] = {}
        self.conditions = self._count()

    @property
    def events(self) -> int:
        """Return the number of all events."""
        return self.counts.get("all", 0)

    def _count(self) -> tuple[Condition, ...]:
        """Count the events of each type, and those that satisfy each condition."""
        asked: dict[str, list[tree.Expression]] = {"all": []}
        local: dict[str, list[tree.Expression]] = {}
        for variable, name in variables_in(self._question.tree.pattern).items():
            typed = of_type(self._question, name)
            asked[f"type {name}"] = typed
            for key in self._keys:
                asked[f"null {name} {key}"] = [*typed, is_null(self._question, key)]
            own = [p.expression for p in self._plan.local if p.variable in (None, variable)]
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


def event_filters(question: Question) -> dict[str, list[tree.Expression]]:
    """Name the conditions that events pass: types, conditions of variables, keys."""
    plan = TrendPlan.of(question.plan)
    found: dict[str, list[tree.Expression]] = {}
    variables = variables_in(question.tree.pattern)
    types = [c for name in dict.fromkeys(variables.values()) for c in of_type(question, name)]
    if types:
        found["of a type of the pattern"] = [any_of(question, types)]
    fitting = []
    for variable, name in variables.items():
        own = [p.expression for p in plan.local if p.variable in (None, variable)]
        parts = (*of_type(question, name), *own)
        if parts:
            span = question.tree.span
            whole = tree.Logical(span=span, operator="AND", operands=parts)
            fitting.append(whole if len(parts) > 1 else parts[0])
    passed = [any_of(question, fitting)] if len(fitting) == len(variables) else []
    if plan.local and passed:
        found["satisfy the conditions of a variable"] = passed
    if plan.partition.attributes:
        keys = [is_null(question, key, negated=True) for key in plan.partition.attributes]
        found["with a key"] = [*passed, *keys]
    return found
