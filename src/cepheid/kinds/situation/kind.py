"""Situations: how long conditions hold, and how such times lie to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cepheid.jobs.kind import Described
from cepheid.jobs.stepped import SteppedKind
from cepheid.kinds.situation.bind import compile_situations
from cepheid.kinds.situation.explain import describe_situations, mermaid_of, title_of
from cepheid.kinds.situation.needs import needs_of_situations
from cepheid.language import tree
from cepheid.patterns.scope import Source
from cepheid.plans.needs import Needs
from cepheid.plans.plan import SituationPlan

if TYPE_CHECKING:
    import pyarrow as pa

    from cepheid.jobs.steps import Steps
    from cepheid.jobs.task_jobs import TaskJob
    from cepheid.jobs.work import Work


class SituationKind(SteppedKind):
    """Queries that define situations. Tasks of Spark may also summarise stretches of events."""

    plans = SituationPlan
    reads = tree.SituationQuery

    def compile(self, query: tree.SituationQuery, text: str, source: Source) -> SituationPlan:
        """Plan a parsed query; all its mistakes are reported at once."""
        return compile_situations(query, text, source)

    def needs(self, plan: SituationPlan) -> Needs:
        """Tell what a query asks of a runtime that cuts its work."""
        return needs_of_situations(plan)

    def steps(self, plan: SituationPlan, schema: pa.Schema) -> Steps[Any]:
        """Make the step function of a query over events of a schema."""
        from cepheid.kinds.situation.steps import SituationSteps

        return SituationSteps.of(plan, schema)

    def describe(self, plan: SituationPlan, *, spark: bool) -> Described:
        """Describe a plan in words, with ``spark`` also how it runs there."""
        sections = describe_situations(plan) + self.on_spark(plan, spark=spark)
        return Described(title_of(plan.situations), sections)

    def mermaid(self, plan: SituationPlan) -> str:
        """Draw the relations of situations as a Mermaid flowchart."""
        return mermaid_of(plan.situations)

    def task_job(self, work: Work) -> TaskJob:
        """Make what tasks of Spark do for a query."""
        from cepheid.kinds.situation.tasks import SituationTasks

        return SituationTasks.of(work)

    def replay(self, plan: SituationPlan, snapshot: Any, method: str) -> Any:
        """Find out which part of a store a query must read."""
        from cepheid.kinds.situation.replay import plan_situations

        return plan_situations(snapshot, plan, method)
