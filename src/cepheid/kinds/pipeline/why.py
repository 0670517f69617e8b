"""Explain why a pipeline has no or few rows: the first stage without rows, and why it has none."""

from __future__ import annotations

import msgspec

from cepheid.jobs.relaxed import RelaxedQuery
from cepheid.jobs.why import Counted, Counting, Feed, Question, Step, WhyNot, amount, number
from cepheid.jobs.why_patterns import negations_in, variables_in
from cepheid.kinds.pipeline.bind import streams_read, type_column
from cepheid.language import tree
from cepheid.plans.plan import BASE_STREAM, PipelinePlan

RESULT = "the result"


class PipelineWhy:
    """Counts the rows of every stage, then lets the first one without rows explain itself."""

    def __init__(self, question: Question, counting: Counting) -> None:
        self.question = question
        self.counting = counting
        assert isinstance(question.tree, tree.PipelineQuery), "this kind reads no other"
        self.query: tree.PipelineQuery = question.tree
        self.stages = question.tree.stages
        self.plan = PipelinePlan.of(question.plan)

    def answer(self) -> WhyNot:
        """Count, and say it in sentences."""
        last = len(self.stages) - 1
        counts = self._rows(last)
        number_ = self._first_empty(last, counts)
        found = counts[last] or 0
        steps = tuple(Step(self._name(n), c) for n, c in counts.items() if c is not None)
        about = self._explain(number_)
        head = f"The pipeline has {amount(found, 'row') if found else 'no row'}."
        told = [head, *([self._chain(steps)] if len(steps) > 1 else [])]
        if about is None:
            told.append(f"Why was not counted of {self._name(number_)}: it takes too long.")
            return WhyNot("row", found, 0, steps, (), (), (), tuple(told))
        if found:
            told.append("Of the last query:")
        else:
            told.append(f"The first query without rows is that of {self._name(number_)}:")
        return WhyNot(
            unit="row",
            found=found,
            events=about.events,
            steps=steps,
            conditions=about.conditions,
            relaxations=about.relaxations,
            notices=about.notices,
            sentences=(*told, *about.sentences),
            stopped_at=None if found else self._name(number_),
        )

    def partial(self) -> list[str]:
        """Tell how many rows each stage has."""
        counts = self._rows(len(self.stages) - 1)
        return [self._chain([Step(self._name(n), c or 0) for n, c in counts.items()])]

    def _chain(self, steps: tuple[Step, ...] | list[Step]) -> str:
        first, *rest = steps
        told = [f"{first.text} has {amount(first.count, 'row')}"]
        return f"{', '.join([*told, *(f'{s.text} {number(s.count)}' for s in rest)])}."

    def _name(self, stage: int) -> str:
        name = self.stages[stage].name
        return RESULT if stage == len(self.stages) - 1 or name is None else name.text

    # -----------------------------------------------------------------------------------
    # Stages

    def _rows(self, last: int) -> dict[int, float | None]:
        """Count the rows of the stages that feed the last one, and its own."""
        asked = {n: self._listing(n) for n in self._before(last)}
        queries = {str(n): Counted(query) for n, query in asked.items()}
        queries[str(last)] = Counted(self.question.relaxed(self.query))
        found = self.counting.tally(queries)
        return {int(n): None if tally is None else tally.rows for n, tally in found.items()}

    def _before(self, last: int) -> list[int]:
        """List the stages whose rows reach a stage, in the order of the text."""
        found: set[int] = set()
        waiting = [last]
        while waiting:
            for place in self.plan.stages[waiting.pop()].reads:
                if place != BASE_STREAM and place - 1 not in found:
                    found.add(place - 1)
                    waiting.append(place - 1)
        return sorted(found)

    def _listing(self, stage: int) -> RelaxedQuery:
        """Build the query whose rows are the events of a derived stream."""
        span, name = self.query.span, self.stages[stage].name
        assert name is not None, "only the last query has no name"
        stream = tree.Stream(span=span, name=name, alias=name)
        items = (tree.Star(span=span),)
        listed = tree.SelectQuery(span=span, items=items, streams=(stream,))
        stages = (*self.stages[: stage + 1], tree.StageQuery(span=span, query=listed))
        return self.question.relaxed(msgspec.structs.replace(self.query, stages=stages))

    def _first_empty(self, last: int, counts: dict[int, float | None]) -> int:
        """Go back from a result without rows to a stage without rows whose input has some.

        A stream that is forbidden (NOT) is no reason if it has no events.
        """
        stage = last
        while counts[stage] == 0:
            needed = [place - 1 for place in self._needs(stage) if place != BASE_STREAM]
            empty = [n for n in needed if counts[n] == 0]
            if not empty:
                break
            stage = empty[0]
        return stage

    def _needs(self, stage: int) -> tuple[int, ...]:
        """List the streams without which a stage finds nothing."""
        query, reads = self.stages[stage].query, self.plan.stages[stage].reads
        if isinstance(query, tree.SelectQuery | tree.SituationQuery):
            return reads
        forbidden = {
            name for one in negations_in(query.pattern) for name in variables_in(one).values()
        }
        return tuple(
            place
            for place in reads
            if place == BASE_STREAM or self.plan.stages[place - 1].name not in forbidden
        )

    def _explain(self, stage: int) -> WhyNot | None:
        """Explain a stage over the events that it reads."""
        query, planned = self.stages[stage].query, self.plan.stages[stage]
        source = self.question.source
        derived = [place for place in planned.reads if place != BASE_STREAM]
        if derived:
            source = msgspec.structs.replace(source, type=type_column(source))
        named = [name.text for name in streams_read(query)]
        known = {one.name.text for one in self.stages if one.name is not None}
        base = next((name for name in named if name not in known), "")
        feed = Feed(
            rows={self._name(place - 1): self._listing(place - 1) for place in derived},
            base=BASE_STREAM in planned.reads,
            # The sides of a join have names; so has the stream that others are joined with.
            names=tuple(dict.fromkeys(named)) if len(set(named)) > 1 else (),
            base_name=base,
            columns=planned.plan.columns,
            time=self.plan.time,
            type=type_column(source),
        )
        unknown = msgspec.structs.replace(source, schema=None, tiebreak=())
        own = RelaxedQuery.of(query, self.question.text, unknown)
        return self.counting.why_fed(own, feed)


def why_pipelines(question: Question, counting: Counting) -> WhyNot:
    """Explain why a pipeline has no or few rows."""
    return PipelineWhy(question, counting).answer()


def count_rows(question: Question, counting: Counting) -> list[str]:
    """Tell how many rows each stage has."""
    return PipelineWhy(question, counting).partial()
