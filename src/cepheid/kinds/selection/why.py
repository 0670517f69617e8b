"""Explain why a SELECT has no or few rows: events after WHERE, and what a join finds without."""

from __future__ import annotations

import msgspec

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
    count_events,
    number,
)
from cepheid.language import tree
from cepheid.plans.plan import SelectPlan
from cepheid.plans.selection import (
    Extent,
    SelectKind,
    SelectStream,
    aliases_in,
    conjuncts_of,
)

EVER_US = 50 * 365 * 86_400_000_000
EVER_EVENTS = 2**60


def why_select(question: Question, counting: Counting) -> WhyNot:
    """Explain why a SELECT has no or few rows."""
    return SelectWhy(question, counting).answer()


class SelectWhy:
    """Counts the events of each stream, what conditions keep, and rows without each condition."""

    def __init__(self, question: Question, counting: Counting) -> None:
        self.question = question
        self.counting = counting
        assert isinstance(question.tree, tree.SelectQuery), "this kind reads no other"
        # Rows that LIMIT leaves out are there.
        self.query: tree.SelectQuery = msgspec.structs.replace(
            question.tree, order_by=(), limit=None
        )
        self.select = SelectPlan.of(question.plan).select

    def answer(self) -> WhyNot:
        """Count, and say it in sentences."""
        asked = {"whole": self.query} | self._relaxed()
        tallies = self.counting.tally(
            {name: Counted(self.question.relaxed(query)) for name, query in asked.items()}
        )
        counts = {name: None if t is None else t.rows for name, t in tallies.items()}
        found = counts.pop("whole") or 0
        joins = self.select.kind is SelectKind.JOIN and self.select.then is None
        unit = "pair" if joins else "row"
        head = f"There {'is' if found == 1 else 'are'} {amount(found, unit)}."
        sentences = [head if found else f"There is no {unit}."]
        conditions: list[Condition] = []
        steps: list[Step] = []
        events = 0
        for stream in dict.fromkeys(self.select.streams):
            here, own, kept = self._events_of(stream)
            events += here
            steps += [Step(f"events of {stream.alias}", here)]
            conditions += own
            sentences.append(f"{stream.alias} has {amount(here, 'event')}{_kept(own, here, kept)}.")
            steps += [Step(f"{stream.alias} after its conditions", kept)] if own else []
        sentences += self._keys_in_common()
        relaxations = tuple(Relaxation(text, count, unit) for text, count in counts.items())
        for one in relaxations:
            if one.count is None:
                sentences.append(f"What there would be {one.text} was not counted: too many rows.")
            elif one.count > found:
                text = one.text[0].upper() + one.text[1:]
                sentences.append(f"{text} there would be {amount(one.count, unit)}.")
        steps.append(Step(f"{unit}s", found))
        return WhyNot(
            unit=unit,
            found=found,
            events=events,
            steps=tuple(steps),
            conditions=tuple(conditions),
            relaxations=relaxations,
            notices=tuple(self.counting.notices()),
            sentences=tuple(sentences),
        )

    def _relaxed(self) -> dict[str, tree.SelectQuery]:
        """Leave out one condition of WHERE, ON and HAVING at a time, and the window of a join."""
        found: dict[str, tree.SelectQuery] = {}
        for clause in ("where", "on", "having"):
            condition: tree.Expression | None = getattr(self.query, clause)
            if condition is None:
                continue
            parts = list(conjuncts_of(condition))
            for n, part in enumerate(parts):
                rest = tuple(parts[:n] + parts[n + 1 :])
                kept = _all_of(rest, condition) if rest or clause != "on" else _always(condition)
                text = f"without `{as_written(part)}`"
                found[text] = msgspec.structs.replace(self.query, **{clause: kept})
        if self.select.kind is SelectKind.JOIN:
            waiting = self.query.streams[0].within is not None
            found[f"without {'WITHIN' if waiting else 'WINDOW'}"] = self._unbounded()
        return found

    def _unbounded(self) -> tree.SelectQuery:
        """Let the events of both streams of a join wait for each other for ever."""
        span, window = self.query.span, self.query.window
        ever: tree.Duration | tree.EventCount
        ever = tree.Duration(span=span, microseconds=EVER_US)
        if self.select.window.extent is Extent.EVENTS:
            ever = tree.EventCount(span=span, count=EVER_EVENTS)
        if window is not None and self.query.streams[0].within is None:
            longer = msgspec.structs.replace(window, within=ever)
            return msgspec.structs.replace(self.query, window=longer)
        streams = tuple(msgspec.structs.replace(s, within=ever) for s in self.query.streams)
        return msgspec.structs.replace(self.query, streams=streams)

    def _events_of(self, stream: SelectStream) -> tuple[int, list[Condition], int]:
        """Count the events of a stream, and those that satisfy conditions on it alone."""
        own = [c for c in self.select.condition if aliases_in(c) == {stream.alias}]
        asked: dict[str, list[tree.Expression]] = {"all": [], "every": own}
        for n, one in enumerate(own):
            asked[f"one {n}"] = [one]
            asked[f"but {n}"] = own[:n] + own[n + 1 :]
        found = count_events(self.question, self.counting, asked, stream.name)
        if found is None:
            return 0, [], 0
        conditions = [
            Condition(
                stream.alias,
                as_written(one),
                found["all"],
                found[f"one {n}"],
                found[f"but {n}"] - found["every"],
            )
            for n, one in enumerate(own)
        ]
        return found["all"], conditions, found["every"]

    def _keys_in_common(self) -> list[str]:
        """Tell how many values both sides of a join have of what it compares by ``=``."""
        told = []
        first, second = self.select.streams[0], self.select.streams[-1]
        for left, right in self.select.equal:
            queries = [
                self.question.relaxed(self._values(stream.name, name))
                for stream, name in ((first, left), (second, right))
            ]
            tallies = self.counting.tally({str(n): Counted(q) for n, q in enumerate(queries)})
            common = self.counting.common(*queries)
            sizes = [0 if tally is None else tally.rows for tally in tallies.values()]
            text = f"{first.alias}.{left} has {amount(sizes[0], 'value')}, {second.alias}.{right} "
            shared = "" if common is None else f"; {number(common)} are in both"
            told.append(f"{text}{number(sizes[1])}{shared}.")
        return told

    def _values(self, stream: str, attribute: str) -> tree.SelectQuery:
        """Build a query with one row for each value of an attribute that is not NULL."""
        span = self.query.span
        name, column = (tree.Name(span=span, text=text) for text in (stream, attribute))
        word = tree.Attribute(span=span, variable=name, attribute=column)
        return tree.SelectQuery(
            span=span,
            items=(tree.ReturnItem(span=span, expression=word),),
            streams=(tree.Stream(span=span, name=name, alias=name),),
            where=tree.IsNull(span=span, operand=word, negated=True),
            group_by=(column,),
        )


def _kept(conditions: list[Condition], events: int, kept: int) -> str:
    if not conditions or events == kept:
        return ""
    parts = [f"{number(c.satisfied)} satisfy `{c.text}`" for c in conditions]
    if len(conditions) == 1:
        return f", {parts[0]}"
    most = max(conditions, key=lambda c: c.alone)
    alone = f"; `{most.text}` alone stops {number(most.alone)}" if most.alone else ""
    return f", {', '.join(parts)}, {number(kept)} all of it{alone}"


def _all_of(parts: tuple[tree.Expression, ...], whole: tree.Expression) -> tree.Expression | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    return tree.Logical(span=whole.span, operator="AND", operands=parts)


def _always(condition: tree.Expression) -> tree.Expression:
    """Build a condition that holds for every pair: a join needs one."""
    one = tree.Literal(span=condition.span, value=1)
    return tree.Binary(span=condition.span, operator="=", left=one, right=one)
