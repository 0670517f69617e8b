"""Queries that differ in conditions between neighbours alone: events are kept and read once.

Which events there are, their keys, windows and segments do not depend on such a condition. Where
only counts are asked, ``edge_lanes.py`` counts for all values at once; else the segments are
evaluated for one value after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from cepheid.kinds.sweep.edge_lanes import EdgeLanes
from cepheid.kinds.trend.look_back.question import Question
from cepheid.kinds.trend.look_back.relations import read_relations
from cepheid.kinds.trend.program.job import Job, lower
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows.open_windows import (
    answer_closed,
    close_events,
    keep_events,
    segments_of,
)
from cepheid.kinds.trend.windows.step import PartitionState, admit, known_until, release
from cepheid.plans.plan import TrendPlan, WindowKind


class SameEvents:
    """Such queries over bounded input."""

    def __init__(self, plans: Sequence[TrendPlan]) -> None:
        self.jobs: list[Job] = [lower(plan) for plan in plans]
        self.state = PartitionState(self.jobs[0])
        self._found: list[list[list[Rows]]] = [
            [[] for _ in range(job.outputs)] for job in self.jobs
        ]
        self._lanes = EdgeLanes.of(self.jobs)

    def feed(self, batch: pa.Table) -> None:
        """Process a batch; windows that are not closed wait."""
        job = self.jobs[0]
        ready = admit(job, self.state, batch)
        if ready is not None:
            self._process(ready, known_until(job, self.state))

    def finish(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """Return the rows of every query; no more events come."""
        last = release(self.jobs[0], self.state, None)
        if last is None and self.state.events is not None:
            last = self.state.events.slice(0, 0)
        if last is not None:
            self._process(last, None)
        for job, rows in zip(self.jobs, self._found, strict=True):
            yield build_table(job, rows, self.state.keys, schema)

    def _process(self, batch: pa.Table, until: int | None) -> None:
        job, state = self.jobs[0], self.state
        table = keep_events(job, state, batch)
        closed = close_events(job, state, table, until) if len(table) else None
        if closed is None:
            return
        question, first, last = closed
        # Sliding windows have too many segments to keep; they are evaluated in one pass anyway.
        slides = job.plan.window.kind is WindowKind.SLIDING
        segments = None if slides else list(segments_of(job, question.arrays, first, last))
        if segments is not None and self._lanes is not None:
            (whole,) = segments
            for found, rows in zip(self._found, self._lanes.rows(question, whole), strict=True):
                found[0] += rows
            return
        for found, own in zip(self._found, self.jobs, strict=True):
            asked = self._asked(question, own)
            for all_rows, new in zip(
                found, answer_closed(own, asked, first, last, segments), strict=True
            ):
                all_rows += new

    @staticmethod
    def _asked(question: Question, job: Job) -> Question:
        relations = read_relations(job.plan.edges, question.columns)
        return question._replace(relations=relations, evaluator=job.plan.choice.evaluator)
