"""Sweeps as a kind of query: one job that answers a query for every value of a constant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.jobs.explain_spark import describe_strategies
from cepheid.jobs.kind import Described, NamedType, TaskKind, kind_of
from cepheid.jobs.picture import Graph
from cepheid.kinds.sweep.bind import compile_sweep
from cepheid.kinds.sweep.explain import describe_sweep, query_of, title_of
from cepheid.language import tree
from cepheid.patterns.scope import Source
from cepheid.plans.needs import Needs, needs_by_key
from cepheid.plans.sweep import SweepPlan

if TYPE_CHECKING:
    from cepheid.jobs.device_jobs import DeviceJob
    from cepheid.jobs.local_jobs import LocalJob
    from cepheid.jobs.microbatch import LiveJob
    from cepheid.jobs.task_jobs import TaskJob
    from cepheid.jobs.work import Work


class SweepKind(TaskKind):
    """Queries with SWEEP."""

    plans = SweepPlan
    reads = tree.SweepQuery

    def compile(self, query: tree.SweepQuery, text: str, source: Source) -> SweepPlan:
        """Plan the queries of a sweep."""
        return compile_sweep(query, text, source)

    def needs(self, plan: SweepPlan) -> Needs:
        """Describe the requirements of a sweep: all events of a group in one task."""
        keys = plan.partition.group_by
        why = "a group has all its rows in one task" if keys else "there are no groups to split by"
        return needs_by_key(keys, why)

    def local_job(self, plan: SweepPlan) -> LocalJob:
        """Create the job of a sweep over bounded input."""
        from cepheid.kinds.sweep.local import LocalSweep

        return LocalSweep(plan)

    def task_job(self, work: Work) -> TaskJob:
        """Create the job that Spark tasks run for a sweep."""
        from cepheid.kinds.sweep.tasks import SweepTasks

        return SweepTasks(work)

    def why_not_on_device(self, plan: SweepPlan) -> str:
        """Explain why a sweep cannot run on a GPU; empty if it can."""
        if plan.thresholds:
            return ""
        return next(filter(None, (kind_of(p).why_not_on_device(p) for p in plan.plans)), "")

    def device_job(self, plan: SweepPlan) -> DeviceJob:
        """Create the job that a GPU runs: a thread for every value, or a query for each."""
        from cepheid.kinds.sweep.device import DeviceSweep

        return DeviceSweep(plan)

    def live_job(self, work: Work) -> LiveJob[Any]:
        """Refuse to run on a stream (E432)."""
        _refuse_live(SweepPlan.of(work.planned()))

    def check(self, plan: SweepPlan) -> None:
        """Refuse a plan whose query cannot run (E404)."""
        kind = kind_of(plan.plans[0])
        assert isinstance(kind, TaskKind), "patterns and funnels run in tasks"
        kind.check(plan.plans[0])

    def check_live(self, plan: SweepPlan) -> None:
        """Refuse to run on a stream (E432)."""
        _refuse_live(plan)

    def describe(self, plan: SweepPlan, *, spark: bool) -> Described:
        """Describe a plan in words; ``spark`` adds how Spark runs it."""
        inner = kind_of(plan.plans[0]).describe(query_of(plan), spark=False)
        sections = describe_sweep(plan) + inner.sections
        if spark:
            sections.append(("on Spark", describe_strategies(self.needs(plan))))
        return Described(title_of(plan, inner.title), sections)

    def mermaid(self, plan: SweepPlan) -> str:
        """Draw the pattern as a Mermaid flowchart."""
        return kind_of(plan.plans[0]).mermaid(plan.plans[0])

    def graphs(self, plan: SweepPlan) -> tuple[Graph, ...]:
        """Build the automata of the pattern."""
        return kind_of(plan.plans[0]).graphs(plan.plans[0])

    def shows_whole_events(self, plan: SweepPlan) -> bool:
        """Check whether rows show all columns of events."""
        return kind_of(plan.plans[0]).shows_whole_events(plan.plans[0])

    def encoded(self, plan: SweepPlan) -> tuple[str, ...]:
        """List the columns whose texts may be read as dictionaries."""
        # Workloads list events as they are read.
        one = plan.plans[0]
        return () if one.lists_matches else kind_of(one).encoded(one)

    def event_types(self, plan: SweepPlan) -> tuple[str, ...] | None:
        """List the event types that the query names."""
        return kind_of(plan.plans[0]).event_types(plan.plans[0])

    def named_types(self, plan: SweepPlan) -> tuple[NamedType, ...]:
        """List the variables of the pattern with their types."""
        return kind_of(plan.plans[0]).named_types(plan.plans[0])


def _refuse_live(plan: SweepPlan) -> NoReturn:
    message = "a sweep over a live stream would keep the state of every one of its queries"
    helps = (
        "choose a value by a sweep over events that are stored, and run the query with it",
        "to watch a few values, write a workload of a query for each",
    )
    raise UnsupportedError([Diagnostic("E432", message, helps=helps)], plan.text)
