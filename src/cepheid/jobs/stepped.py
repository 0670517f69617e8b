"""Kinds of query that need only a step function to run everywhere."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from cepheid.jobs.kind import TaskKind

if TYPE_CHECKING:
    import pyarrow as pa

    from cepheid.jobs.local_jobs import LocalJob
    from cepheid.jobs.microbatch import LiveJob
    from cepheid.jobs.steps import Steps
    from cepheid.jobs.task_jobs import TaskJob
    from cepheid.jobs.work import Work


class SteppedKind(TaskKind):
    """A kind whose jobs are derived from ``steps``; it overrides those that it can run faster."""

    @abstractmethod
    def steps(self, plan: Any, schema: pa.Schema) -> Steps[Any]:
        """Create the step function of a query over events of a schema."""

    def stepped(self, plan: Any, schema: pa.Schema) -> Steps[Any]:
        """Create the step function of a query, to measure its state."""
        return self.steps(plan, schema)

    def local_job(self, plan: Any) -> LocalJob:
        """Create the job of a query over bounded input."""
        from cepheid.jobs.steps import LocalSteps

        return LocalSteps(lambda schema: self.steps(plan, schema))

    def task_job(self, work: Work) -> TaskJob:
        """Create the job that Spark tasks run for a query."""
        from cepheid.jobs.steps import TaskSteps

        return TaskSteps(work, self.steps(work.planned(), work.schema))

    def live_job(self, work: Work) -> LiveJob[Any]:
        """Create the job that a bucket of a live stream runs for a query."""
        from cepheid.jobs.steps import LiveSteps

        return LiveSteps(work, self.steps(work.planned(), work.schema))
