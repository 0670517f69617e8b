"""Situations: intervals in which conditions hold, and the temporal relations between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cepheid.jobs.kind import Described
from cepheid.jobs.stepped import SteppedKind
from cepheid.kinds.situation.bind import compile_situations
from cepheid.kinds.situation.explain import describe_situations, mermaid_of, title_of
from cepheid.kinds.situation.needs import needs_of_situations
from cepheid.language import tree
from cepheid.patterns.scope import Source
from cepheid.plans.meaning import Meaning, fingerprint, times_of
from cepheid.plans.needs import Needs
from cepheid.plans.plan import SituationPlan

if TYPE_CHECKING:
    import pyarrow as pa

    from cepheid.jobs.derived import Derivation, Splits
    from cepheid.jobs.device_jobs import DeviceJob
    from cepheid.jobs.microbatch import LiveJob
    from cepheid.jobs.steps import Steps
    from cepheid.jobs.task_jobs import TaskJob
    from cepheid.jobs.work import Work


class SituationKind(SteppedKind):
    """Queries that define situations. Spark tasks may also summarise stretches of events."""

    plans = SituationPlan
    reads = tree.SituationQuery

    def compile(self, query: tree.SituationQuery, text: str, source: Source) -> SituationPlan:
        """Plan a parsed query; report all its mistakes at once."""
        return compile_situations(query, text, source)

    def needs(self, plan: SituationPlan) -> Needs:
        """Describe the requirements of a query for a runtime that splits it into tasks."""
        return needs_of_situations(plan)

    def steps(self, plan: SituationPlan, schema: pa.Schema) -> Steps[Any]:
        """Create the step function of a query over events of a schema."""
        from cepheid.kinds.situation.steps import SituationSteps

        return SituationSteps.of(plan, schema)

    def why_not_on_device(self, plan: SituationPlan) -> str:
        """Give no reason: a device cuts the events of every query about situations."""
        del plan
        return ""

    def device_job(self, plan: SituationPlan) -> DeviceJob:
        """Create the job that a GPU runs: conditions, stretches and their aggregates."""
        from cepheid.kinds.situation.device import DeviceSituations

        return DeviceSituations(plan)

    def why_not_live_on_device(self, plan: SituationPlan) -> str:
        """Give no reason: the state is that of the CPU."""
        del plan
        return ""

    def device_steps(self, plan: SituationPlan, schema: pa.Schema, *, forced: bool) -> Any:
        """Create the step function whose micro-batches a GPU cuts."""
        from cepheid.accelerator.schedule import Place, Scheduler
        from cepheid.kinds.situation.device import PlacedCut
        from cepheid.kinds.situation.steps import SituationSteps

        scheduler = Scheduler(Place.GPU if forced else None)
        return SituationSteps.of(plan, schema, PlacedCut(scheduler))

    def meaning(self, plan: SituationPlan) -> Meaning:
        """Collect the parts of a query that shape its state; names of columns may change."""
        found = plan.situations
        columns = [(c.function, c.situation, c.attribute) for c in found.columns]
        defined = [found.definitions, found.relative] if found.relative else found.definitions
        return {
            "the time or the order of events": times_of(plan),
            "PARTITION BY": fingerprint(plan.partition),
            "DEFINE": fingerprint(defined),
            "PATTERN or WITHIN": fingerprint(
                [found.constraints, found.within, found.early, found.where]
            ),
            "the columns": fingerprint([found.listed, columns]),
        }

    def describe(self, plan: SituationPlan, *, spark: bool) -> Described:
        """Describe a plan in words; ``spark`` adds how Spark runs it."""
        sections = describe_situations(plan) + self.on_spark(plan, spark=spark)
        return Described(title_of(plan.situations), sections)

    def mermaid(self, plan: SituationPlan) -> str:
        """Draw the relations of situations as a Mermaid flowchart."""
        return mermaid_of(plan.situations)

    def why_not(self, question: Any, counting: Any) -> Any:
        """Explain why a query finds no or few rows."""
        from cepheid.kinds.situation.why import why_situations

        return why_situations(question, counting)

    def event_filters(self, question: Any) -> dict[str, list[Any]]:
        """Name the conditions that events pass: WHERE, keys, and a definition."""
        from cepheid.kinds.situation.why import event_filters

        return event_filters(question)

    def partial_results(self, question: Any, counting: Any) -> list[str]:
        """Tell how many situations of each definition there are."""
        from cepheid.kinds.situation.why import count_situations

        return count_situations(question, counting)

    def task_job(self, work: Work) -> TaskJob:
        """Create the job that Spark tasks run for a query."""
        from cepheid.kinds.situation.tasks import SituationTasks

        return SituationTasks.of(work)

    def live_job(self, work: Work) -> LiveJob[Any]:
        """Create the job that a bucket of a live stream runs for a query."""
        from cepheid.jobs.steps import LiveSteps
        from cepheid.kinds.situation.steps import SituationSteps
        from cepheid.kinds.situation.tasks import task_cutting

        plan = SituationPlan.from_json(work.plan)
        return LiveSteps(work, SituationSteps.of(plan, work.schema, task_cutting()))

    def pane_job(self, work: Work) -> LiveJob[Any]:
        """Create the job of a bucket that has some panes of a stream."""
        from cepheid.kinds.situation.live_by_panes import SituationPanes

        return SituationPanes.of(work)

    def rows_of_panes(self, work: Work, sent: list[pa.Table]) -> pa.Table:
        """Pair the situations of all buckets."""
        from cepheid.kinds.situation.live_by_panes import rows_of_panes

        return rows_of_panes(work, sent)

    def derive(self, plan: SituationPlan) -> Derivation:
        """Plan a query whose rows are events: matches when they are certain, situations at end."""
        from cepheid.jobs.derived import Derivation

        return Derivation(plan, ("te",) if plan.situations.listed else ("ts",))

    def splits(self, plan: SituationPlan) -> Splits:
        """List the attributes by which a stage of a pipeline can be split: PARTITION BY."""
        from cepheid.jobs.derived import Split, Splits

        return Splits(tuple(Split((name,), (name,)) for name in plan.partition.attributes))

    def replay(self, plan: SituationPlan, snapshot: Any, method: str) -> Any:
        """Plan which part of a store a query must read."""
        from cepheid.kinds.situation.replay import plan_situations

        return plan_situations(snapshot, plan, method)

    def from_index(self, plan: SituationPlan, snapshot: Any, method: str) -> Any:
        """Answer a query from the part of a store where conditions can hold; None to read all."""
        from cepheid.kinds.situation.from_store import answer_from_store

        return answer_from_store(plan, snapshot, method)
