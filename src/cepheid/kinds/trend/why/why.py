"""Explain why a pattern has no or few matches, by counting what relaxed queries find."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import msgspec

from cepheid.events.temporal import format_duration
from cepheid.jobs.why import (
    Counting,
    Question,
    Relaxation,
    Step,
    Tally,
    WhyNot,
    amount,
    capital,
    length_of_time,
    number,
)
from cepheid.jobs.why_patterns import FIRST, EventCounts, ever, unit_of
from cepheid.kinds.trend.why.chain import first_event, loosened, prefixes_of
from cepheid.kinds.trend.why.cost import steps_of
from cepheid.kinds.trend.why.having import explain_having
from cepheid.kinds.trend.why.queries import (
    DROPS_MAX,
    Target,
    count_query,
    gap_query,
    target_of,
)
from cepheid.kinds.trend.why.words import (
    format_part,
    last_part,
    looser,
    window_text,
    written,
)
from cepheid.language import tree
from cepheid.plans.plan import PredicateKind, TrendPlan

WORK_MAX = 10_000_000
"""So many steps may a query take that looks back at the events of a wider window or partition."""

OWN_WORK_MAX = 30_000_000
EVENTS_MIN = 2_000
"""If the query itself takes more steps, a part of the events is counted, not less than so many."""

RELAXED_EVENTS_MAX = 100_000
SAMPLE_EVENTS = 40_000
"""Above so many events, relaxed queries are counted in about so many of them."""

GAP_EVENTS_MAX = 50_000
"""Above so many events, a window that never ends takes much longer than the query itself."""

_EVERYTHING = {
    "values": "Without all conditions on values",
    "all": "Without all conditions and WITHIN",
    "tied": "With TIES arrival, by which events of one time follow each other, and no condition",
}

WIDER = (2, 4, 16, 64)
"""Windows that are tried where the shortest match cannot be asked for."""


class Measure(NamedTuple):
    """The name of the counted things, by the clauses of the query."""

    unit: str
    by_keys: bool
    by_rows: bool

    @staticmethod
    def of(keys: tuple[str, ...], window: tree.Window | None) -> Measure:
        """Count keys where there are any, else windows, else matches."""
        if keys:
            return Measure(unit_of(keys), by_keys=True, by_rows=False)
        if window is not None:
            return Measure("window", by_keys=False, by_rows=True)
        return Measure("match", by_keys=False, by_rows=False)

    def of_tally(self, tally: Tally) -> float:
        """Take the number that counts from a tally."""
        if self.by_keys:
            return tally.keys
        return tally.rows if self.by_rows else tally.total


class Stage(NamedTuple):
    """A step of the pattern on its way to a count."""

    text: str
    target: Target
    part: tree.Pattern | None
    branch: int
    adds_event: bool
    passed: float | None = None


class Reached(NamedTuple):
    """Where relaxed queries come to: as a verb, and behind a number of matches."""

    verb: str
    suffix: str


class Chosen(NamedTuple):
    """The number of matches that AFTER MATCH SKIP leaves, and what is said of the others."""

    found: float
    relaxations: tuple[Relaxation, ...]
    sentences: tuple[str, ...]


def _stuck(stages: list[Stage]) -> Stage | None:
    """Find the first step that nothing passes, of the alternative that came farthest."""
    places: dict[int, int] = {}
    for branch in dict.fromkeys(stage.branch for stage in stages):
        own = [n for n, stage in enumerate(stages) if stage.branch == branch]
        stopped = [place for place, n in enumerate(own) if stages[n].passed == 0]
        if stopped:
            places[own[stopped[0]]] = stopped[0]
    return stages[max(places, key=places.__getitem__)] if places else None


class TrendWhy:
    """Counts the steps of a pattern, then what stopped the step that nothing passes."""

    def __init__(self, question: Question, counting: Counting) -> None:
        self.question = question
        self.counting = counting
        self.plan = TrendPlan.of(question.plan)
        self.keys = self.plan.partition.attributes
        self.measure = Measure.of(self.keys, question.tree.window)

    @cached_property
    def events(self) -> EventCounts:
        """Count events by type and condition, once."""
        local = [(p.variable, p.expression) for p in self.plan.local]
        return EventCounts(self.question, self.counting, local)

    def answer(self) -> WhyNot:
        """Count, and say it in sentences; a query that takes long is asked of a part of events."""
        whole = self._target(self.question.tree.pattern, whole=True)
        counted = count_query(self.question, whole)
        work = 0.0 if counted is None else self._work(counted.query.plan, whole)
        if work > OWN_WORK_MAX:
            rows = max(EVENTS_MIN, int(self.events.events * OWN_WORK_MAX / work))
            sample = self.counting.sampled(self.keys, self.events.events, rows)
            if sample is not None:
                found = TrendWhy(self.question, sample.counting).whole_answer()
                told = (f"All of this is counted in {sample.text}:", *found.sentences)
                return msgspec.structs.replace(found, sentences=told)
        return self.whole_answer()

    def whole_answer(self) -> WhyNot:
        """Count all events, and say it in sentences."""
        stages, whole, found = self._counted()
        chosen = self._chosen(whole, found)
        sentences = [self._headline(chosen.found), *self._chains(stages), *chosen.sentences]
        sentences += explain_having(self.question, self.counting) if found else []
        stuck = None if found else _stuck(stages)
        part = whole.pattern if stuck is None or stuck.part is None else stuck.part
        relaxations: list[Relaxation] = []
        if missing := self.events.missing(part):
            sentences.append(f"No event has the type {' or '.join(missing)}.")
        else:
            target = whole if stuck is None else stuck.target
            relaxations, told = self._relaxed_of_sample(target, found, _reached(stuck, stages))
            sentences += told
        sentences += self.events.sentences() + self.events.null_keys()
        return WhyNot(
            unit=self.measure.unit,
            found=chosen.found,
            events=self.events.events,
            steps=tuple(Step(s.text, s.passed, s.branch) for s in stages if s.passed is not None),
            conditions=self.events.conditions,
            stopped_at=stuck.text if stuck is not None else None,
            relaxations=(*chosen.relaxations, *relaxations),
            notices=tuple(self.counting.notices()),
            sentences=tuple(sentences),
        )

    def partial(self) -> list[str]:
        """Tell how many keys, windows or matches have each prefix of the pattern."""
        return self._chains(self._counted()[0])

    def _counted(self) -> tuple[list[Stage], Target, float]:
        """Count what passes each stage, and what the whole query finds."""
        stages = self._stages()
        whole = self._target(self.question.tree.pattern, whole=True)
        asked = {f"step {n}": stage.target for n, stage in enumerate(stages)}
        counts = self._tally(asked | {"whole": whole})
        stages = [s._replace(passed=counts[f"step {n}"]) for n, s in enumerate(stages)]
        return stages, whole, counts["whole"] or 0

    def _chosen(self, whole: Target, found: float) -> Chosen:
        """Count what AFTER MATCH SKIP leaves; all other counts are of all matches."""
        skip = self.question.tree.skip
        if skip is None or not found:
            return Chosen(found, (), ())
        left = self.counted(whole._replace(skip=skip))
        name = f"AFTER MATCH SKIP {skip.mode.value}"
        name += f" {skip.variable.text}" if skip.variable else ""
        if left is None or left == found:
            return Chosen(found, (), ())
        unit = self.measure.unit
        told = f"{name} leaves {number(left)} of {amount(found, unit)}; what follows counts all."
        return Chosen(left, (Relaxation(f"without {name}", found, unit),), (told,))

    def _stages(self) -> list[Stage]:
        """List the prefixes of the pattern; MIN LENGTH judges the whole, so it comes last."""
        query = self.question.tree
        prefixes = prefixes_of(query.pattern)
        stages = [
            Stage(p.text, self._target(p.pattern, whole=False), p.part, p.branch, not p.is_negation)
            for p in prefixes
        ]
        if query.min_length is not None:
            text = f"with MIN LENGTH {query.min_length.value}"
            whole = self._target(query.pattern, whole=True)
            stages.append(Stage(text, whole, None, stages[-1].branch, adds_event=False))
        return stages

    def _target(self, pattern: tree.Pattern, *, whole: bool) -> Target:
        return target_of(self.question, pattern, self.keys, whole=whole)

    def _tally(self, targets: dict[str, Target]) -> dict[str, float | None]:
        """Count targets; what cannot be planned or counted is None."""
        queries = {}
        for name, target in targets.items():
            counted = count_query(self.question, target)
            if counted is not None and not self._is_costly(counted.query.plan, target):
                queries[name] = counted
        found = self.counting.tally(queries) if queries else {}
        counts: dict[str, float | None] = dict.fromkeys(targets)
        for name, tally in found.items():
            if tally is not None:
                measure = Measure.of(targets[name].keys, targets[name].window)
                counts[name] = measure.of_tally(tally)
        return counts

    def _is_costly(self, plan: object, target: Target) -> bool:
        """Check whether a query that sees more events at a time than the user's takes too long."""
        if target.keys == self.keys and target.window == self.question.tree.window:
            return False
        return self._work(plan, target) > WORK_MAX

    def _work(self, plan: object, target: Target) -> float:
        """Estimate the steps of a query; see ``steps_of``."""
        planned = TrendPlan.of(plan)  # type: ignore[arg-type]  # this kind makes no other plan
        return steps_of(planned, target, self.keys, self.events)

    # -----------------------------------------------------------------------------------
    # Steps

    def _headline(self, found: float) -> str:
        unit = self.measure.unit
        if unit == "match":
            return f"The pattern has {amount(found, unit) if found else 'no match'}."
        if not found:
            return f"No {unit} has a match."
        return f"{capital(amount(found, unit))} {'has' if found == 1 else 'have'} a match."

    def _chains(self, stages: list[Stage]) -> list[str]:
        """Tell the steps of each alternative in one sentence."""
        told = []
        for branch in dict.fromkeys(stage.branch for stage in stages):
            own = [s for s in stages if s.branch == branch and s.passed is not None]
            if not own:
                continue
            unit = self.measure.unit
            have = "of" if unit == "match" else "had"
            parts = [f"{amount(own[0].passed or 0, unit)} {have} {own[0].text}"]
            for stage in own[1:]:
                then = "then " if stage.adds_event else ""
                parts.append(f"{number(stage.passed or 0)} {then}{stage.text}")
            told.append(f"{capital(', '.join(parts))}.")
        return told

    # -----------------------------------------------------------------------------------
    # One thing left out

    def _relaxed_of_sample(
        self, target: Target, base: float, reached: Reached
    ) -> tuple[list[Relaxation], list[str]]:
        """Relax a target; of very many events, in a part of them, which is said.

        Without a condition, WITHIN or a key, a query can take much longer than the query itself.
        """
        sample, events = None, self.events.events
        if events > RELAXED_EVENTS_MAX or (events > SAMPLE_EVENTS and self._has_costly(target)):
            sample = self.counting.sampled(self.keys, events, SAMPLE_EVENTS)
        if sample is None:
            return self._relax(target, base, reached)
        part = TrendWhy(self.question, sample.counting)
        own = part.counted(target) or 0
        relaxations, told = part.relaxed(target, own, reached)
        return relaxations, [f"What follows is counted in {sample.text}.", *told] if told else []

    def _has_costly(self, target: Target) -> bool:
        """Check whether one thing less makes the target too costly for all events."""
        for one in self._dropped(target).values():
            counted = count_query(self.question, one)
            if counted is not None and self._is_costly(counted.query.plan, one):
                return True
        return False

    def counted(self, target: Target) -> float | None:
        """Count one target."""
        return self._tally({"one": target})["one"]

    def relaxed(
        self, target: Target, base: float, reached: Reached
    ) -> tuple[list[Relaxation], list[str]]:
        """Count what a target finds without each of its conditions, of all events."""
        return self._relax(target, base, reached)

    def _relax(
        self, target: Target, base: float, reached: Reached
    ) -> tuple[list[Relaxation], list[str]]:
        """Count what a target finds without each of its conditions, and tell where it is more."""
        dropped = self._dropped(target)
        counts = self._tally(dropped)
        relaxations = [
            Relaxation(text, counts[text], Measure.of(one.keys, one.window).unit)
            for text, one in dropped.items()
        ]
        more = [r for r in relaxations if self._is_more(r, base)]
        told = self._window_sentences(target, {one.text for one in more})
        for one in sorted(more, key=lambda r: -(r.count or 0)):
            would = amount(one.count or 0, one.unit)
            if one.unit == "match":
                told.append(f"{capital(one.text)} there would be {would}{reached.suffix}.")
            else:
                told.append(f"{capital(one.text)}, {would} would {reached.verb}.")
        told += [
            f"What there would be {one.text} was not counted: it takes too long."
            for one in relaxations
            if one.count is None
        ]
        if not more and not base and len(relaxations) == len(counts):
            told += self._without_everything(target, len(dropped))
        return relaxations, told

    def _is_more(self, relaxation: Relaxation, base: float) -> bool:
        """Compare only what is counted alike; anything is more than nothing."""
        count = relaxation.count or 0
        return count > base if relaxation.unit == self.measure.unit else count > 0 and not base

    def _dropped(self, target: Target) -> dict[str, Target]:
        """Leave out one thing at a time."""
        found: dict[str, Target] = {}
        for condition in target.conditions[:DROPS_MAX]:
            found[f"without {written(condition)}"] = target.without(condition)
        for text, pattern in loosened(target.pattern)[:DROPS_MAX]:
            found[text] = target._replace(pattern=pattern)
        if target.window is not None:
            found[f"without {window_text(target.window)}"] = target._replace(window=None)
        if target.semantics is not None:
            for text, semantics in looser(target.semantics).items():
                found[text] = target._replace(semantics=semantics)
        if target.min_length is not None:
            text = f"without MIN LENGTH {target.min_length.value}"
            found[text] = target._replace(min_length=None)
        return found

    def _without_everything(self, target: Target, dropped: int) -> list[str]:
        """Tell of a target without all conditions, if none of them alone stops everything."""
        equal = tuple(c for c in target.conditions if c.kind is None)
        bare = target._replace(conditions=equal, min_length=None)
        loose = bare._replace(window=None, semantics=None)
        while found := loosened(loose.pattern):
            loose = loose._replace(pattern=found[0][1])
        arrival = tree.TiesClause(span=self.question.tree.span, ties=tree.Ties.ARRIVAL)
        tied = loose._replace(ties=arrival)
        counts = self._tally({"values": bare, "all": loose, "tied": tied})
        told = []
        if dropped > 1:
            told.append("No condition alone is the reason: without any one of them there is none.")
        for name, text in _EVERYTHING.items():
            if count := counts[name]:
                unit = Measure.of(self.keys, bare.window if name == "values" else None).unit
                return [*told, f"{text}, there would be {amount(count, unit)}."]
        where = f" of one {self.measure.unit}" if self.measure.by_keys else ""
        return [f"Even without any condition and WITHIN, no events{where} come so far."]

    # -----------------------------------------------------------------------------------
    # Windows

    def _window_sentences(self, target: Target, more: set[str]) -> list[str]:
        """Tell how long the shortest match takes, where the window is what stops it."""
        window = target.window
        if window is None or not isinstance(window.within, tree.Duration):
            return []
        if f"without {window_text(window)}" not in more:
            return []
        within = window.within.microseconds
        shortest = self._shortest(target)
        if shortest is None:
            return self._wider(target, within)
        last = format_part(last_part(target.pattern))
        length = f"the nearest {last} comes {length_of_time(shortest)} after the first event"
        if shortest >= within or window.slide is None:
            return [f"{capital(length)}; WITHIN is {format_duration(within)}."]
        return [
            f"{capital(length)}, which is less than WITHIN, but may be cut by the edges of "
            f"windows: a shorter SLIDE, or none, finds more."
        ]

    def _shortest(self, target: Target) -> int | None:
        """Ask for the length of the shortest match, in microseconds."""
        if any(c.kind is PredicateKind.GLOBAL for c in target.conditions) or target.min_length:
            return None
        if isinstance(target.pattern, tree.Repeat | tree.Disjunction | tree.Conjunction):
            return None
        first = first_event(target.pattern)
        if first is None or self.events.events > GAP_EVENTS_MAX:
            return None
        pattern, event = first
        query = gap_query(self.question, target._replace(pattern=pattern), event, self.plan.time)
        ever_long = target._replace(window=ever(self.question.tree.span))
        if query is None or self._is_costly(query.plan, ever_long):
            return None
        return self.counting.least_gap(query, FIRST, "window_end")

    def _wider(self, target: Target, within: int) -> list[str]:
        """Try wider windows, where the length of matches cannot be asked for."""
        assert target.window is not None, "there is a window to widen"
        asked = {}
        for factor in WIDER:
            length = msgspec.structs.replace(target.window.within, microseconds=within * factor)
            window = msgspec.structs.replace(target.window, within=length)
            asked[format_duration(within * factor)] = target._replace(window=window)
        for text, count in self._tally(asked).items():
            if count:
                unit = self.measure.unit
                return [f"With WITHIN {text}, there would be {amount(count, unit)}."]
        return []


def why_trends(question: Question, counting: Counting) -> WhyNot:
    """Explain why a pattern has no or few matches."""
    return TrendWhy(question, counting).answer()


def partial_matches(question: Question, counting: Counting) -> list[str]:
    """Tell how many keys, windows or matches have each prefix of a pattern."""
    return TrendWhy(question, counting).partial()


def _reached(stuck: Stage | None, stages: list[Stage]) -> Reached:
    """Say where more would come to if nothing stopped them at a stage."""
    if stuck is None or stuck is stages[-1]:
        return Reached("have a match", "")
    if stuck.adds_event:
        return Reached(f"come to {stuck.text}", f" up to {stuck.text}")
    return Reached("come farther", " up to there")
