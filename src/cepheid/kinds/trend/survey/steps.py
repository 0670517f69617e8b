"""Surveys as step functions, over bounded input and in tasks: closed windows are surveyed (§17)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from cepheid.arrays.columns import Columns
from cepheid.jobs import local_jobs
from cepheid.jobs.blobs import Batches
from cepheid.jobs.local_jobs import slices_of
from cepheid.jobs.owned import EVERYTHING, Owned
from cepheid.jobs.steps import REPORT_ROWS
from cepheid.jobs.work import Work
from cepheid.kinds.trend.program.job import Job, job_of
from cepheid.kinds.trend.steps import Stepped, TrendSteps
from cepheid.kinds.trend.survey.answer import survey_segments
from cepheid.kinds.trend.windows.marker import Marker
from cepheid.kinds.trend.windows.open_windows import ask, close_windows
from cepheid.kinds.trend.windows.step import PartitionState, admit, known_until, release
from cepheid.memory_limits import collect
from cepheid.patterns.segments import tumbling_segments


class SurveySteps(TrendSteps):
    """A survey over events of a schema."""

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return local_jobs.LOOK_BACK_ROWS

    def step(self, state: PartitionState, events: pa.Table) -> Stepped:
        """Process events; return the rows of windows that they close."""
        state = state.copy()
        ready = admit(self.job, state, events)
        until = known_until(self.job, state)
        return state, self._gathered(() if ready is None else self.close(state, ready, until))

    def advance(self, state: PartitionState, until: int) -> Stepped:
        """Close the windows that end by a time."""
        state = state.copy()
        waiting = release(self.job, state, until)
        state.last = until
        return state, self._gathered(self.close(state, waiting, until - self.job.horizon))

    def finish(self, state: PartitionState) -> Stepped:
        """Close all windows."""
        state = state.copy()
        return state, self._gathered(self.close(state, release(self.job, state, None), None))

    def close(
        self,
        state: PartitionState,
        waiting: pa.Table | None,
        until: int | None,
        owned: Owned = EVERYTHING,
    ) -> Iterable[pa.Table]:
        """Add events to the state, and survey the windows that end by a time."""
        if waiting is None:
            if state.events is None:
                return ()
            waiting = state.events.slice(0, 0)
        found = close_windows(self.job, state, waiting, until)
        return () if found is None else survey_segments(self.job, state.keys, *found, owned)

    def _gathered(self, tables: Iterable[pa.Table]) -> pa.Table:
        return pa.concat_tables([self.nothing(), *tables])

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        job, table = self.job, self.schema.empty_table()
        if job.plan.columns is not None:
            table = table.select([name for name in table.column_names if job.reads(name)])
        if job.marked is not None:
            table = Marker(job.marked).mark(table)
        state = self.start()
        question = ask(job, state, Columns(table))
        arrays = question.arrays
        empty = tumbling_segments(arrays.key, arrays.ts, arrays.bits, 1)
        return next(survey_segments(job, state.keys, question, iter([empty])))

    def all_rows(
        self, batches: Iterable[pa.Table], owned: Owned = EVERYTHING
    ) -> Iterator[pa.Table]:
        """Survey all windows of batches in time order that start in a range."""
        state = self.start()
        for batch in batches:
            ready = admit(self.job, state, batch)
            if ready is not None:
                yield from self.close(state, ready, known_until(self.job, state), owned)
        yield from self.close(state, release(self.job, state, None), None, owned)


class LocalSurvey(NamedTuple):
    """A survey over bounded input."""

    job: Job

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return local_jobs.LOOK_BACK_ROWS

    @property
    def in_order(self) -> bool:
        """Require events in time order."""
        return True

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """Compute the result over no events of a schema."""
        return SurveySteps(self.job, schema).nothing()

    def answer_table(self, table: pa.Table, rows: int) -> pa.Table:
        """Run over a table, in steps of about ``rows`` rows."""
        return self.answer(slices_of(table, rows), table.schema)

    def answer(self, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
        """Survey all windows."""
        steps = SurveySteps(self.job, schema)
        return pa.concat_tables([steps.nothing(), *collect(steps.all_rows(batches))])


class SurveyTasks(NamedTuple):
    """The job of tasks for a survey: each has all events of its groups, or of its windows."""

    work: Work
    job: Job

    @staticmethod
    def of(work: Work) -> SurveyTasks:
        """Create the tasks of a plan."""
        return SurveyTasks(work, job_of(work.plan))

    def rows(self, tables: Iterable[pa.Table], owned: Owned, number: int) -> Batches:
        """Survey the windows that the task owns."""
        del number
        for rows in SurveySteps(self.job, self.work.schema).all_rows(tables, owned):
            yield from self.work.shown(rows).combine_chunks().to_batches(REPORT_ROWS)
