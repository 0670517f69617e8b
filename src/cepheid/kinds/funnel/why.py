"""Explain why few keys reach a step of a funnel: keys of each step, and what stopped the others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from cepheid.errors import CepheidError
from cepheid.events.temporal import format_duration
from cepheid.expressions.format import as_written
from cepheid.jobs.why import (
    Counted,
    Counting,
    Question,
    Relaxation,
    Step,
    WhyNot,
    amount,
    capital,
    length_of_time,
    number,
)
from cepheid.jobs.why_patterns import (
    FIRST,
    EventCounts,
    all_of,
    ever,
    latest_first,
    returning,
    unit_of,
)
from cepheid.language import tree
from cepheid.language.formatter import format_pattern
from cepheid.patterns.conjuncts import conjuncts_of
from cepheid.plans.plan import FunnelPlan

STEP, KEYS, COUNT = "step", "keys", "cepheid_count"
"""Columns of results: the first two are those of a funnel (§12.4)."""

WIDER = (2, 4, 16, 64)
"""Lengths of WITHIN that are tried where the shortest chain cannot be asked for."""


class Target(NamedTuple):
    """The first steps of a funnel, and all that judges its chains."""

    parts: tuple[tree.EventPattern, ...]
    conditions: tuple[tree.Expression, ...]
    shared: tuple[str, ...]
    """Attributes of ``[a, b]`` that are no keys."""
    modes: tuple[str, ...]
    window: tree.Window | None
    ties: tree.TiesClause | None


class FunnelWhy:
    """Counts the keys of each step, then those of the first empty or the last step without one."""

    def __init__(self, question: Question, counting: Counting) -> None:
        self.question = question
        self.counting = counting
        assert isinstance(question.tree, tree.FunnelQuery), "this kind reads no other"
        self.query: tree.FunnelQuery = question.tree
        self.plan = FunnelPlan.of(question.plan)
        self.keys = self.plan.funnel.keys
        self.unit = unit_of(self.keys)

    @cached_property
    def events(self) -> EventCounts:
        """Count events by type and condition, once."""
        return EventCounts(self.question, self.counting, local_conditions(self.plan))

    def answer(self) -> WhyNot:
        """Count, and say it in sentences."""
        whole = self._target()
        reached, names = self._steps(whole)
        stuck = reached.index(0) if 0 in reached else None
        place = len(reached) - 1 if stuck is None else stuck
        sentences = [self._headline(reached, names[-1]), self._chain(reached, names)]
        if self.plan.funnel.slide:
            sentences.append(f"A {self.unit} counts once in every window.")
        relaxations: list[Relaxation] = []
        if missing := self.events.missing(whole.parts[place]):
            sentences.append(f"No event has the type {' or '.join(missing)}.")
        else:
            target = self._up_to(whole, place + 1)
            relaxations, told = self._relax(target, reached[place], names[place])
            sentences += told
        sentences += self.events.sentences() + self.events.null_keys()
        return WhyNot(
            unit=self.unit,
            found=reached[-1],
            events=self.events.events,
            steps=tuple(Step(t, c) for t, c in zip(names, reached, strict=True)),
            conditions=self.events.conditions,
            stopped_at=None if stuck is None else names[stuck],
            relaxations=tuple(relaxations),
            notices=tuple(self.counting.notices()),
            sentences=tuple(sentences),
        )

    def partial(self) -> list[str]:
        """Tell how many keys reach each step."""
        return [self._chain(*self._steps(self._target()))]

    def _steps(self, whole: Target) -> tuple[list[float], list[str]]:
        counts = self._keys_of(whole) or {}
        reached = [counts.get(n, 0) for n in range(1, len(whole.parts) + 1)]
        return reached, [format_pattern(part) for part in whole.parts]

    def _headline(self, reached: list[float], last: str) -> str:
        if not reached[-1]:
            return f"No {self.unit} comes to the last step, {last}."
        come = "comes" if reached[0] == 1 else "come"
        return (
            f"{number(reached[-1])} of {amount(reached[0], self.unit)} {come} to the last step, "
            f"{last}."
        )

    def _chain(self, reached: list[float], names: list[str]) -> str:
        parts = [f"{amount(reached[0], self.unit)} had {names[0]}"]
        rest = zip(reached[1:], names[1:], strict=True)
        parts += [f"{number(count)} then {name}" for count, name in rest]
        return f"{', '.join(parts)}."

    # -----------------------------------------------------------------------------------
    # Funnels with one thing left out

    def _target(self) -> Target:
        pattern, query = self.query.pattern, self.query
        parts = pattern.parts if isinstance(pattern, tree.Sequence) else (pattern,)
        steps = tuple(part for part in parts if isinstance(part, tree.EventPattern))
        conjuncts = list(conjuncts_of(query.where))
        own = tuple(c for c in conjuncts if not isinstance(c, tree.Equivalence))
        given = self.plan.partition
        grouped = {*self.keys, *given.group_by}
        shared = tuple(name for name in given.attributes if name not in grouped)
        modes = []
        modes += ["strict_order"] if self.plan.funnel.strict_order else []
        modes += ["strict_deduplication"] if self.plan.funnel.deduplicated else []
        return Target(steps, own, shared, tuple(modes), query.window, query.ties)

    def _up_to(self, target: Target, steps: int) -> Target:
        """Keep the first steps, and the conditions that speak of them."""
        parts = target.parts[:steps]
        known = {part.variable.text for part in parts}
        conditions = tuple(c for c in target.conditions if _variables(c) <= known)
        return target._replace(parts=parts, conditions=conditions)

    def _keys_of(self, target: Target) -> dict[int, float] | None:
        """Count the keys of each step; the sum of all groups and windows."""
        span = self.query.span
        arguments: list[tree.Expression] = [tree.Word(span=span, text=key) for key in self.keys]
        arguments += [tree.Literal(span=span, value=mode) for mode in target.modes]
        call = tree.Call(span=span, function="FUNNEL", arguments=tuple(arguments))
        made = msgspec.structs.replace(
            self.query,
            pattern=_sequence(target.parts),
            returns=tree.Return(span=span, items=(tree.ReturnItem(span=span, expression=call),)),
            where=self._where(target),
            window=target.window,
            ties=target.ties,
        )
        return self.counting.sums(self.question.relaxed(made), STEP, KEYS)

    def _where(self, target: Target) -> tree.Expression | None:
        span = self.query.span
        items = tuple(
            tree.EquivalenceItem(span=span, attribute=tree.Name(span=span, text=name))
            for name in target.shared
        )
        equal = [tree.Equivalence(span=span, items=items)] if items else []
        return all_of([*equal, *target.conditions])

    def _dropped(self, target: Target) -> dict[str, Target]:
        """Leave out one thing at a time."""
        found: dict[str, Target] = {}
        for condition in target.conditions:
            rest = tuple(c for c in target.conditions if c is not condition)
            found[f"without `{as_written(condition)}`"] = target._replace(conditions=rest)
        for name in target.shared:
            fewer = tuple(other for other in target.shared if other != name)
            found[f"without [{name}]"] = target._replace(shared=fewer)
        for mode in target.modes:
            left = tuple(other for other in target.modes if other != mode)
            found[f"without '{mode}'"] = target._replace(modes=left)
        if target.window is not None:
            found[f"without {_window_text(target.window)}"] = target._replace(window=None)
        if len(target.parts) > 1 and not _by_arrival(target):
            found["with TIES arrival"] = target._replace(ties=self._arrival())
        return found

    def _arrival(self) -> tree.TiesClause:
        return tree.TiesClause(span=self.query.span, ties=tree.Ties.ARRIVAL)

    def _count(self, target: Target) -> float | None:
        try:
            counts = self._keys_of(target)
        except CepheidError:
            return None
        return None if counts is None else counts.get(len(target.parts), 0)

    def _relax(self, target: Target, base: float, name: str) -> tuple[list[Relaxation], list[str]]:
        """Count the keys of a step without each thing, and tell where there are more."""
        dropped = self._dropped(target)
        counts = {text: self._count(one) for text, one in dropped.items()}
        relaxations = [Relaxation(text, count, self.unit) for text, count in counts.items()]
        more = {text: count for text, count in counts.items() if (count or 0) > base}
        told = []
        if target.window is not None and f"without {_window_text(target.window)}" in more:
            told += self._length_sentences(target, base, name)
        for text, count in sorted(more.items(), key=lambda one: -(one[1] or 0)):
            would = amount(count or 0, self.unit)
            told.append(f"{capital(text)}, {would} would come to {name}.")
        if not more and not base:
            told += self._without_everything(target, len(dropped), name)
        return relaxations, told

    def _without_everything(self, target: Target, dropped: int, name: str) -> list[str]:
        """Tell of a step without all conditions, and then without the key."""
        bare = target._replace(
            conditions=(), shared=(), modes=(), window=None, ties=self._arrival()
        )
        if count := self._count(bare):
            told = f"Without all conditions and WITHIN, {amount(count, self.unit)} would come to"
            alone = "No condition alone is the reason: without any one of them there is none."
            return [*([alone] if dropped > 1 else []), f"{told} {name}."]
        loose = self._trend(bare, {COUNT: _count_all(self.query)}, keys=(), window=None)
        found = self.counting.tally({"loose": Counted(self.question.relaxed(loose), (), COUNT)})
        tally = found["loose"]
        if tally is not None and tally.total:
            return [
                f"Only events of different {self.unit} values come in this order up to {name}: "
                f"is {', '.join(self.keys)} the right key?"
            ]
        return [f"Even without any condition and key, no {name} follows the steps before it."]

    # -----------------------------------------------------------------------------------
    # WITHIN

    def _length_sentences(self, target: Target, base: float, name: str) -> list[str]:
        """Tell how long the shortest chain takes, where WITHIN is what stops all."""
        window = target.window
        assert window is not None, "WITHIN was left out"
        assert isinstance(window.within, tree.Duration), "WITHIN of a funnel is a time"
        within = window.within.microseconds
        shortest = None if base else self._shortest(target)
        if shortest is None:
            return self._wider(target, base, within, name)
        length = f"the nearest {name} comes {length_of_time(shortest)} after the first step"
        if shortest > within or window.slide is None:
            return [f"{capital(length)}; WITHIN is {format_duration(within)}."]
        return [
            f"{capital(length)}, which is not more than WITHIN, but the edges of windows cut it: "
            "a shorter SLIDE, or none, finds more."
        ]

    def _shortest(self, target: Target) -> int | None:
        """Ask for the length of the shortest chain; the first event that fits is the nearest.

        Modes end chains that are no shorter, so with them the answer would be too short.
        """
        if target.modes:
            return None
        span = self.query.span
        found = {FIRST: latest_first(span, target.parts[0], self.plan.time)}
        query = self._trend(target, found, self.plan.partition.attributes, ever(span))
        return self.counting.least_gap(self.question.relaxed(query), FIRST, "window_end")

    def _wider(self, target: Target, base: float, within: int, name: str) -> list[str]:
        """Try longer times, until more keys come to a step."""
        assert target.window is not None, "there is a time to widen"
        for factor in WIDER:
            length = msgspec.structs.replace(target.window.within, microseconds=within * factor)
            window = msgspec.structs.replace(target.window, within=length)
            count = self._count(target._replace(window=window))
            if (count or 0) > base:
                text = f"With WITHIN {format_duration(within * factor)}, "
                return [f"{text}{amount(count or 0, self.unit)} would come to {name}."]
        return []

    def _trend(
        self,
        target: Target,
        items: dict[str, tree.Expression],
        keys: tuple[str, ...],
        window: tree.Window | None,
    ) -> tree.Query:
        """Build a query about all matches of the steps, whatever lies between them."""
        span = self.query.span
        return tree.Query(
            span=span,
            pattern=_sequence(target.parts),
            returns=returning(span, keys, items),
            where=all_of(target.conditions),
            group_by=tuple(tree.Name(span=span, text=key) for key in keys),
            window=window,
            ties=target.ties,
        )


def why_funnels(question: Question, counting: Counting) -> WhyNot:
    """Explain why few keys, or none, reach the steps of a funnel."""
    return FunnelWhy(question, counting).answer()


def count_keys(question: Question, counting: Counting) -> list[str]:
    """Tell how many keys reach each step."""
    return FunnelWhy(question, counting).partial()


def local_conditions(plan: FunnelPlan) -> list[tuple[str | None, tree.Expression]]:
    """List the conditions of all steps, by variable."""
    return [(step.variable, c) for step in plan.funnel.steps for c in step.conditions]


def _count_all(query: tree.Query) -> tree.Expression:
    return tree.Aggregate(span=query.span, function=tree.AggregateFunction.COUNT)


def _variables(condition: tree.Expression) -> set[str]:
    attributes = (node for node in tree.walk(condition) if isinstance(node, tree.Attribute))
    return {attribute.variable.text for attribute in attributes}


def _sequence(parts: Sequence[tree.EventPattern]) -> tree.Pattern:
    if len(parts) == 1:
        return parts[0]
    return tree.Sequence(span=parts[0].span.to(parts[-1].span), parts=tuple(parts))


def _by_arrival(target: Target) -> bool:
    return target.ties is not None and target.ties.ties is tree.Ties.ARRIVAL


def _window_text(window: tree.Window) -> str:
    assert isinstance(window.within, tree.Duration), "WITHIN of a funnel is a time"
    return f"WITHIN {format_duration(window.within.microseconds)}"
