"""Explain why situations have no or few matches: how many there are, and which constraint stops."""

from __future__ import annotations

import msgspec

from cepheid.events.temporal import format_duration
from cepheid.expressions.format import as_written
from cepheid.jobs.why import (
    Condition,
    Counted,
    Counting,
    Question,
    Relaxation,
    Step,
    WhyNot,
    amount,
    any_of,
    count_events,
    is_null,
    number,
)
from cepheid.language import tree
from cepheid.language.formatter import format_constraint
from cepheid.plans.plan import SituationPlan


class SituationWhy:
    """Counts situations of each definition, then matches with one constraint more each time."""

    def __init__(self, question: Question, counting: Counting) -> None:
        self.question = question
        self.counting = counting
        assert isinstance(question.tree, tree.SituationQuery), "this kind reads no other"
        self.query: tree.SituationQuery = question.tree
        self.plan = SituationPlan.of(question.plan)
        self.events: dict[str, int] = {}

    def answer(self) -> WhyNot:
        """Count, and say it in sentences."""
        conditions = self._conditions()
        counts = self._tally(self._asked())
        found = counts["whole"] or 0
        unit = "situation" if self.query.listed else "match"
        head = f"There {'is' if found == 1 else 'are'} {amount(found, unit)}."
        sentences = [head if found else f"There is no {unit}.", *self._told_definitions(counts)]
        steps = self._steps(counts)
        sentences += self._told_constraints(counts)
        relaxations = [
            Relaxation(text, count, unit)
            for text, count in counts.items()
            if text.startswith("without ")
        ]
        for one in relaxations:
            if one.count is not None and one.count > found:
                text = one.text[0].upper() + one.text[1:]
                sentences.append(f"{text} there would be {amount(one.count, unit)}.")
        sentences += self._told_events(conditions)
        return WhyNot(
            unit=unit,
            found=found,
            events=self.events.get("all", 0),
            steps=steps,
            conditions=conditions,
            relaxations=tuple(relaxations),
            notices=tuple(self.counting.notices()),
            sentences=tuple(sentences),
        )

    def _tally(self, queries: dict[str, tree.SituationQuery]) -> dict[str, float | None]:
        asked = {name: Counted(self.question.relaxed(query)) for name, query in queries.items()}
        found = self.counting.tally(asked)
        return {name: None if tally is None else tally.rows for name, tally in found.items()}

    # -----------------------------------------------------------------------------------
    # Relaxed queries

    def _asked(self) -> dict[str, tree.SituationQuery]:
        query = self.query
        asked = {"whole": query} | self._listings()
        for n, constraint in enumerate(query.constraints):
            if len(query.constraints) > 1:
                asked[f"pair {n}"] = self._related((constraint,))
                asked[f"first {n}"] = self._related(query.constraints[: n + 1])
                rest = query.constraints[:n] + query.constraints[n + 1 :]
                asked[f"without {format_constraint(constraint)}"] = self._related(rest)
        for n, definition in enumerate(query.definitions):
            if _is_bounded(definition):
                free = (
                    *query.definitions[:n],
                    _unbounded(definition),
                    *query.definitions[n + 1 :],
                )
                text = f"without the bounds of {definition.name.text}"
                asked[text] = msgspec.structs.replace(query, definitions=free)
        if query.window is not None or query.detected_within is not None:
            free_query = msgspec.structs.replace(query, window=None, detected_within=None)
            asked[f"without {self._window_text()}"] = free_query
        return asked

    def _listings(self) -> dict[str, tree.SituationQuery]:
        """List the situations of each definition, with and without its bounds."""
        asked = {}
        for definition in self.query.definitions:
            name = definition.name.text
            asked[f"all {name}"] = self._listing(_unbounded(definition))
            if _is_bounded(definition):
                asked[f"fit {name}"] = self._listing(definition)
        return asked

    def count(self) -> list[str]:
        """Tell how many situations of each definition there are."""
        return self._told_definitions(self._tally(self._listings()))

    def _window_text(self) -> str:
        query = self.query
        if query.detected_within is not None:
            return f"DETECTED WITHIN {format_duration(query.detected_within.microseconds)}"
        assert query.window is not None, "one of the two is written"
        assert isinstance(query.window.within, tree.Duration), "a window of situations is a time"
        return f"WITHIN {format_duration(query.window.within.microseconds)}"

    def _listing(self, definition: tree.Definition) -> tree.SituationQuery:
        """List the situations of one definition."""
        return msgspec.structs.replace(
            self.query,
            definitions=(definition,),
            listed=(definition.name,),
            constraints=(),
            window=None,
            detected_within=None,
            returns=None,
        )

    def _related(self, constraints: tuple[tree.TemporalConstraint, ...]) -> tree.SituationQuery:
        """Keep some constraints, and the situations that they speak of."""
        names = {name.text for c in constraints for name in (c.left, c.right)}
        kept = tuple(d for d in self.query.definitions if d.name.text in names)
        return msgspec.structs.replace(
            self.query, definitions=kept, constraints=constraints, returns=None
        )

    # -----------------------------------------------------------------------------------
    # Sentences

    def _steps(self, counts: dict[str, float | None]) -> tuple[Step, ...]:
        steps = []
        for definition in self.query.definitions:
            name = definition.name.text
            count = counts.get(f"fit {name}", counts[f"all {name}"])
            steps.append(Step(f"situations {name}", count or 0))
        for n, constraint in enumerate(self.query.constraints):
            count = counts.get(f"first {n}", counts["whole"])
            if count is not None:
                steps.append(Step(format_constraint(constraint), count))
        return tuple(steps)

    def _told_definitions(self, counts: dict[str, float | None]) -> list[str]:
        told = []
        for definition in self.query.definitions:
            name = definition.name.text
            every = counts[f"all {name}"]
            if every is None:
                continue
            text = f"{number(every)} {name}"
            fitting = counts.get(f"fit {name}")
            told.append(
                text if fitting is None else f"{text}, {number(fitting)} {_bounds(definition)}"
            )
        return [f"Situations that have ended: {'; '.join(told)}."] if told else []

    def _told_constraints(self, counts: dict[str, float | None]) -> list[str]:
        told = []
        for n, constraint in enumerate(self.query.constraints):
            pair, so_far = counts.get(f"pair {n}"), counts.get(f"first {n}")
            if pair is None or so_far is None:
                continue
            text = f"{format_constraint(constraint)}: {amount(pair, 'pair')}"
            told.append(text if n == 0 else f"{text}, {amount(so_far, 'match')} with all before it")
        return [f"{'; '.join(told)}."] if told else []

    def _conditions(self) -> tuple[Condition, ...]:
        """Count the events that WHERE keeps, and those at which each definition holds."""
        situations = self.plan.situations
        where = [] if situations.where is None else [situations.where]
        asked: dict[str, list[tree.Expression]] = {"all": [], "where": where}
        relative = {situations.definitions[one.number].name for one in situations.relative}
        for definition in situations.definitions:
            if definition.name in relative:
                continue  # It does not speak of single events.
            asked[f"holds {definition.name}"] = [*where, definition.condition]
            unknown = tree.IsNull(
                span=definition.condition.span, operand=definition.condition, negated=False
            )
            asked[f"unknown {definition.name}"] = [*where, unknown]
        for key in self.plan.partition.attributes:
            asked[f"null {key}"] = [is_null(self.question, key)]
        found = count_events(self.question, self.counting, asked)
        self.events = found or {}
        if found is None:
            return ()
        return tuple(
            Condition(
                d.name.text,
                as_written(d.condition),
                found["where"],
                found[f"holds {d.name.text}"],
                found["where"] - found[f"holds {d.name.text}"],
            )
            for d in self.query.definitions
            if d.name.text not in relative
        )

    def _told_events(self, conditions: tuple[Condition, ...]) -> list[str]:
        if not self.events:
            return []
        told = []
        if self.query.where is not None:
            kept = number(self.events["where"])
            text = as_written(self.query.where)
            told.append(f"Of {amount(self.events['all'], 'event')}, {kept} satisfy `{text}`.")
        told += [
            f"`{c.text}` holds at {number(c.satisfied)} of {amount(c.events, 'event')}."
            for c in conditions
        ]
        told += [
            f"`{c.text}` is NULL at {number(count)} of them, and ends there: "
            f"`{c.variable} AS {c.text} UNTIL …` would go on."
            for c in conditions
            if c.satisfied and (count := self.events[f"unknown {c.variable}"])
        ]
        for key in self.plan.partition.attributes:
            if count := self.events[f"null {key}"]:
                told.append(f"{amount(count, 'event')} without {key} (NULL) count for nothing.")
        return told


def why_situations(question: Question, counting: Counting) -> WhyNot:
    """Explain why a query about situations has no or few rows."""
    return SituationWhy(question, counting).answer()


def count_situations(question: Question, counting: Counting) -> list[str]:
    """Tell how many situations of each definition there are."""
    return SituationWhy(question, counting).count()


def event_filters(question: Question) -> dict[str, list[tree.Expression]]:
    """Name the conditions that events pass: WHERE, keys, and the condition of a definition."""
    plan = SituationPlan.of(question.plan)
    passed: list[tree.Expression] = []
    found: dict[str, list[tree.Expression]] = {}
    if plan.situations.where is not None:
        passed = [plan.situations.where]
        found["satisfy WHERE"] = passed
    if plan.partition.attributes:
        passed = [*passed, *(is_null(question, k, negated=True) for k in plan.partition.attributes)]
        found["with a key"] = passed
    conditions = [d.condition for d in plan.situations.definitions]
    return {**found, "at which a definition holds": [*passed, any_of(question, conditions)]}


def _unbounded(definition: tree.Definition) -> tree.Definition:
    return msgspec.structs.replace(
        definition, at_least=None, at_most=None, least_events=None, most_events=None
    )


def _is_bounded(definition: tree.Definition) -> bool:
    lengths = (definition.at_least, definition.at_most)
    return any((*lengths, definition.least_events, definition.most_events))


def _bounds(definition: tree.Definition) -> str:
    parts = []
    if definition.at_least is not None:
        parts.append(f"of at least {format_duration(definition.at_least.microseconds)}")
    if definition.at_most is not None:
        parts.append(f"of at most {format_duration(definition.at_most.microseconds)}")
    if definition.least_events is not None:
        parts.append(f"of at least {amount(definition.least_events.count, 'event')}")
    if definition.most_events is not None:
        parts.append(f"of at most {amount(definition.most_events.count, 'event')}")
    return " and ".join(parts)
