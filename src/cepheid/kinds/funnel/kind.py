"""Funnels as a kind of query: a step function, which every runtime can run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.jobs.kind import Described, NamedType
from cepheid.jobs.stepped import SteppedKind
from cepheid.kinds.funnel.bind import compile_funnel
from cepheid.kinds.funnel.explain import describe_funnel, mermaid_of, title_of
from cepheid.language import tree
from cepheid.patterns.scope import Source
from cepheid.plans.needs import Needs, needs_by_key
from cepheid.plans.plan import FunnelPlan

if TYPE_CHECKING:
    import pyarrow as pa

    from cepheid.jobs.derived import Derivation, Splits
    from cepheid.jobs.task_jobs import TaskJob
    from cepheid.jobs.work import Work
    from cepheid.kinds.funnel.tasks import FunnelSteps


class FunnelKind(SteppedKind):
    """Queries that return a funnel."""

    plans = FunnelPlan
    reads = tree.FunnelQuery

    def compile(self, query: tree.FunnelQuery, text: str, source: Source) -> FunnelPlan:
        """Plan a parsed query; report all its mistakes at once."""
        return compile_funnel(query, text, source)

    def needs(self, plan: FunnelPlan) -> Needs:
        """Describe the requirements of a query for a runtime that splits it into tasks."""
        groups = plan.partition.group_by
        why = "a chain is a matter of one key; the levels of all keys are counted at the end"
        needs = needs_by_key(plan.partition.attributes, why)
        live = f"buckets by {', '.join(groups)}" if groups else "one bucket"
        why = "one table counts the keys of " + ("a group" if groups else "the whole stream")
        return msgspec.structs.replace(needs, buckets=groups, live=(live, why))

    def steps(self, plan: FunnelPlan, schema: pa.Schema) -> FunnelSteps:
        """Create the step function of a query over events of a schema."""
        if plan.funnel.slide:
            from cepheid.kinds.funnel.windows import WindowSteps

            return WindowSteps(plan, schema)
        from cepheid.kinds.funnel.whole import WholeSteps

        return WholeSteps(plan, schema)

    def event_types(self, plan: FunnelPlan) -> tuple[str, ...] | None:
        """List the event types of the steps."""
        types = {step.event_type for step in plan.funnel.steps}
        if plan.type is None or tree.ANY_TYPE in types:
            return None
        return tuple(sorted(types))

    def named_types(self, plan: FunnelPlan) -> tuple[NamedType, ...]:
        """List the steps with their types."""
        if plan.type is None:
            return ()
        return tuple(NamedType(s.variable, s.event_type, True) for s in plan.funnel.steps)

    def encoded(self, plan: FunnelPlan) -> tuple[str, ...]:
        """List the columns whose texts may be read as dictionaries: types and counted keys."""
        shown = plan.partition.group_by
        keys = [name for name in plan.partition.attributes if name not in shown]
        return (*keys, *([plan.type] if plan.type is not None else []))

    def task_job(self, work: Work) -> TaskJob:
        """Create the job that Spark tasks run for a query."""
        from cepheid.kinds.funnel.tasks import FunnelTasks

        plan = FunnelPlan.of(work.planned())
        return FunnelTasks(work, plan, self.steps(plan, work.schema))

    def check_live(self, plan: FunnelPlan) -> None:
        """Refuse a funnel without windows: its numbers are known at the end of the stream."""
        if not plan.funnel.slide:
            message = "without `SLIDE`, a funnel is known at the end of the stream"
            helps = ("add windows: `WITHIN 1 hour SLIDE 1 hour` gives a table for every hour",)
            raise UnsupportedError([Diagnostic("E405", message, helps=helps)], plan.text)

    def derive(self, plan: FunnelPlan) -> Derivation:
        """Plan a funnel whose rows are events, at the ends of windows."""
        from cepheid.jobs.derived import Derivation, no_window

        if not plan.funnel.slide:
            way_out = "add windows: `WITHIN 1 hour SLIDE 1 hour`"
            no_window(plan, "without `SLIDE`, a funnel is known at the end of the stream", way_out)
        return Derivation(plan, ("window_end",))

    def splits(self, plan: FunnelPlan) -> Splits:
        """List the attributes by which a stage of a pipeline can be split: the groups."""
        from cepheid.jobs.derived import Split, Splits

        return Splits(tuple(Split((name,), (name,)) for name in plan.partition.group_by))

    def row_key(self, plan: FunnelPlan) -> tuple[str, ...]:
        """List the columns that rows are known by: the group, the window and the step."""
        window = ("window_start", "window_end") if plan.funnel.slide else ()
        return (*plan.partition.group_by, *window, "step")

    def why_not(self, question: Any, counting: Any) -> Any:
        """Explain why few keys, or none, reach the steps."""
        from cepheid.kinds.funnel.why import why_funnels

        return why_funnels(question, counting)

    def event_filters(self, question: Any) -> dict[str, list[Any]]:
        """Name the conditions that events pass: types, conditions of steps, keys."""
        from cepheid.jobs.why_patterns import event_filters
        from cepheid.kinds.funnel.why import local_conditions

        return event_filters(question, local_conditions(FunnelPlan.of(question.plan)))

    def partial_results(self, question: Any, counting: Any) -> list[str]:
        """Tell how many keys reach each step."""
        from cepheid.kinds.funnel.why import count_keys

        return count_keys(question, counting)

    def describe(self, plan: FunnelPlan, *, spark: bool) -> Described:
        """Describe a plan in words; ``spark`` adds how Spark runs it."""
        sections = describe_funnel(plan) + self.on_spark(plan, spark=spark)
        return Described(title_of(plan), sections)

    def mermaid(self, plan: FunnelPlan) -> str:
        """Draw the steps as a Mermaid flowchart."""
        return mermaid_of(plan)
