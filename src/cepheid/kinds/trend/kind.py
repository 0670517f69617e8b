"""Trends: patterns of events, aggregated or listed as matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cepheid.jobs.kind import Described, NamedType, TaskKind
from cepheid.jobs.picture import Graph
from cepheid.kinds.trend.planning.compile import compile_trends
from cepheid.kinds.trend.planning.explain import (
    describe_trends,
    mermaid_of_trends,
    title_of_trends,
)
from cepheid.kinds.trend.planning.granularity import force_evaluator
from cepheid.kinds.trend.planning.needs import (
    distance_of,
    needs_of_trends,
    why_no_trends_on_device,
    why_not_live_on_device,
    why_not_repaired,
)
from cepheid.kinds.trend.planning.picture import graphs_of_trends
from cepheid.language import tree
from cepheid.patterns.scope import Source
from cepheid.patterns.symbols import types_of
from cepheid.plans.meaning import Meaning
from cepheid.plans.needs import Needs
from cepheid.plans.plan import Evaluator, OutputKind, TrendPlan, WindowKind

if TYPE_CHECKING:
    import pyarrow as pa

    from cepheid.jobs.derived import Derivation, Splits
    from cepheid.jobs.device_jobs import DeviceJob
    from cepheid.jobs.local_jobs import LocalJob
    from cepheid.jobs.microbatch import LiveJob
    from cepheid.jobs.task_jobs import TaskJob
    from cepheid.jobs.work import Work
    from cepheid.patterns.thresholds import Threshold


class TrendKind(TaskKind):
    """Queries with a pattern of events. Each runtime has its own job for them."""

    plans = TrendPlan
    reads = tree.Query
    adapts_columns = True

    def compile(self, query: tree.Query, text: str, source: Source) -> TrendPlan:
        """Plan a parsed query; report all its mistakes at once."""
        plan = compile_trends(query, text, source)
        if plan.choice.evaluator is not Evaluator.LINEAR or not any(
            t.guards for t in plan.patterns
        ):
            return plan
        from cepheid.kinds.trend.program.job import choose_runnable

        return choose_runnable(plan)

    def needs(self, plan: TrendPlan) -> Needs:
        """Describe the requirements of a query for a runtime that splits it into tasks."""
        return needs_of_trends(plan)

    def describe(self, plan: TrendPlan, *, spark: bool) -> Described:
        """Describe a plan in words; ``spark`` adds how Spark runs it."""
        sections = describe_trends(plan) + self.on_spark(plan, spark=spark)
        return Described(title_of_trends(plan), sections)

    def mermaid(self, plan: TrendPlan) -> str:
        """Draw the pattern as a Mermaid flowchart."""
        return mermaid_of_trends(plan)

    def graphs(self, plan: TrendPlan) -> tuple[Graph, ...]:
        """Build the automata of the patterns."""
        return graphs_of_trends(plan)

    def check(self, plan: TrendPlan) -> None:
        """Refuse a plan that no evaluator can run (E404)."""
        from cepheid.kinds.trend.program.job import lower

        lower(plan)

    def check_live(self, plan: TrendPlan) -> None:
        """Refuse a plan whose windows never close on a stream (E405)."""
        from cepheid.kinds.trend.live import check_windows

        check_windows(plan)

    def local_job(self, plan: TrendPlan) -> LocalJob:
        """Create the job of a query over bounded input."""
        from cepheid.kinds.trend.local import LocalMatches, LocalTrends
        from cepheid.kinds.trend.program.job import lower

        job = lower(plan)
        if plan.output.survey is not None:
            from cepheid.kinds.trend.survey.steps import LocalSurvey

            return LocalSurvey(job)
        return LocalMatches(job) if plan.lists_matches else LocalTrends(job)

    def task_job(self, work: Work) -> TaskJob:
        """Create the job that Spark tasks run for a query."""
        from cepheid.kinds.trend.match_tasks import MatchTasks
        from cepheid.kinds.trend.tasks import TrendTasks

        plan = TrendPlan.of(work.planned())
        if plan.output.survey is not None:
            from cepheid.kinds.trend.survey.steps import SurveyTasks

            return SurveyTasks.of(work)
        return MatchTasks.of(work) if plan.lists_matches else TrendTasks.of(work)

    def live_job(self, work: Work) -> LiveJob[Any]:
        """Create the job that a bucket of a live stream runs for a query."""
        from cepheid.kinds.trend.live import LiveTrends
        from cepheid.kinds.trend.live_corrections import CorrectedTrends

        return CorrectedTrends.of(work) if work.lateness else LiveTrends.of(work)

    def pane_job(self, work: Work) -> LiveJob[Any]:
        """Create the job of a bucket that has some panes of a stream."""
        from cepheid.kinds.trend.live_by_panes import LiveByPanes

        return LiveByPanes.of(work)

    def rows_of_panes(self, work: Work, sent: list[pa.Table]) -> pa.Table:
        """Compute the rows of closed windows from the matrices of all buckets."""
        from cepheid.kinds.trend.live_by_panes import rows_of_panes

        return rows_of_panes(work, sent)

    def why_no_versions(self, plan: TrendPlan) -> str:
        """Say why late events change rows as changes do (§18), not by versions; empty else."""
        from cepheid.kinds.trend.live_corrections import why_no_versions

        return why_no_versions(plan)

    def check_corrections(self, plan: TrendPlan) -> None:
        """Refuse a plan whose corrected rows would have no names for their versions (E407)."""
        from cepheid.kinds.trend.live_corrections import check_corrections

        check_corrections(plan)

    def meaning(self, plan: TrendPlan) -> Meaning:
        """Collect the parts of a query that shape its state."""
        from cepheid.kinds.trend.continuing import meaning_of_trends

        return meaning_of_trends(plan)

    def shows_whole_events(self, plan: TrendPlan) -> bool:
        """Check whether rows show all columns of events."""
        return plan.output.kind in (OutputKind.MATCHES, OutputKind.SURVEY)

    def memory(self, plan: TrendPlan) -> Any:
        """Return the aggregates of a query, for one that goes on with its state."""
        from cepheid.kinds.trend.continuing import memory_of

        return memory_of(plan)

    def continued(self, plan: TrendPlan, before: Meaning, memory: Any) -> TrendPlan:
        """Adapt a plan to the state of an earlier query; E524 if it does not fit."""
        from cepheid.kinds.trend.continuing import continued_trends

        return continued_trends(plan, before, memory)

    def replay(self, plan: TrendPlan, snapshot: Any, method: str) -> Any:
        """Plan which part of a store a query must read."""
        from cepheid.kinds.trend.replay import plan_replay

        return plan_replay(snapshot, plan, method)

    def why_not(self, question: Any, counting: Any) -> Any:
        """Explain why a pattern has no or few matches."""
        from cepheid.kinds.trend.why.why import why_trends

        return why_trends(question, counting)

    def event_filters(self, question: Any) -> dict[str, list[Any]]:
        """Name the conditions that events pass: types, conditions of variables, keys."""
        from cepheid.jobs.why_patterns import event_filters

        local = [(p.variable, p.expression) for p in TrendPlan.of(question.plan).local]
        return event_filters(question, local)

    def partial_results(self, question: Any, counting: Any) -> list[str]:
        """Tell how many keys, windows or matches have each prefix of the pattern."""
        from cepheid.kinds.trend.why.why import partial_matches

        return partial_matches(question, counting)

    def stepped(self, plan: TrendPlan, schema: Any) -> Any:
        """Create the step function of a query, to measure its state."""
        from cepheid.kinds.trend.program.job import lower
        from cepheid.kinds.trend.stepping import steps_of

        return steps_of(lower(plan), schema)

    def derive(self, plan: TrendPlan) -> Derivation:
        """Plan a query whose rows are events."""
        from cepheid.kinds.trend.derive import derive_trends

        return derive_trends(plan)

    def splits(self, plan: TrendPlan) -> Splits:
        """List the attributes by which a stage of a pipeline can be split."""
        from cepheid.kinds.trend.derive import splits_of_trends

        return splits_of_trends(plan)

    def reach(self, plan: TrendPlan) -> int | None:
        """Add up the length of a window and its longest deadline."""
        return distance_of(plan)

    def row_key(self, plan: TrendPlan) -> tuple[str, ...] | None:
        """List the columns that rows are known by: those of groups and windows of aggregates."""
        if plan.output.kind is not OutputKind.AGGREGATES:
            return None
        whole = plan.window.kind is WindowKind.NONE
        return plan.partition.group_by + (() if whole else ("window_start", "window_end"))

    def shows(self, plan: TrendPlan) -> frozenset[str]:
        """Name the attributes that all rows show (§18.6)."""
        from cepheid.kinds.trend.derive import shown_by_trends

        return shown_by_trends(plan)

    def repairs(self, plan: TrendPlan, schema: Any) -> Any:
        """Create the trees of matrices of a query whose stretches compose."""
        from cepheid.kinds.trend.repair.repair import Repairs

        return Repairs(plan, schema)

    def why_not_repaired(self, plan: TrendPlan) -> str:
        """Explain why rows are not repaired after changes; empty if they are."""
        return why_not_repaired(plan)

    def fits(self, plan: TrendPlan, columns: Mapping[str, Any]) -> Any:
        """Build a Spark condition that holds for every relevant event; None if all are relevant."""
        from cepheid.kinds.trend.spark_filter import fits_a_variable

        return fits_a_variable(plan, columns)

    def with_evaluator(self, plan: TrendPlan, evaluator: str) -> TrendPlan:
        """Replan a query for another evaluator; ValueError if it cannot answer the query."""
        return force_evaluator(plan, Evaluator(evaluator))

    def why_not_on_device(self, plan: TrendPlan) -> str:
        """Explain why a query cannot run on a GPU in this process; empty if it can."""
        return why_no_trends_on_device(plan)

    def device_job(self, plan: TrendPlan) -> DeviceJob:
        """Create the job that a GPU runs: products of matrices, trends of windows, or joins."""
        if plan.lists_matches:
            from cepheid.kinds.trend.device.matches import DeviceMatches

            return DeviceMatches(plan)
        if plan.window.kind is WindowKind.TRAILING:
            from cepheid.kinds.trend.device.trailing import DeviceTrailing

            return DeviceTrailing(plan)
        if plan.window.kind is WindowKind.COUNT:
            from cepheid.kinds.trend.device.counted import DeviceCounted

            return DeviceCounted(plan)
        from cepheid.kinds.trend.device.run import DeviceTrends

        return DeviceTrends(plan)

    def why_not_live_on_device(self, plan: TrendPlan) -> str:
        """Explain why a live query cannot use a GPU; empty if it can."""
        return why_not_live_on_device(plan)

    def device_steps(self, plan: TrendPlan, schema: Any, *, forced: bool) -> Any:
        """Create the step function whose micro-batches a GPU turns into matrices."""
        from cepheid.kinds.trend.device.live import DeviceSteps

        return DeviceSteps(plan, schema, forced=forced)

    def encoded(self, plan: TrendPlan) -> tuple[str, ...]:
        """List columns whose texts may be read as dictionaries: types, and keys of aggregates."""
        keys = plan.partition.attributes if plan.output.kind is OutputKind.AGGREGATES else ()
        return keys if plan.type is None else (*keys, plan.type)

    def event_types(self, plan: TrendPlan) -> tuple[str, ...] | None:
        """List the event types of the pattern, negated ones included."""
        types = set(types_of(plan.patterns).values())
        if plan.type is None or tree.ANY_TYPE in types:
            return None
        return tuple(sorted(types))

    def named_types(self, plan: TrendPlan) -> tuple[NamedType, ...]:
        """List the variables of the patterns with their types."""
        from cepheid.kinds.trend.planning.named_types import types_in_patterns

        return types_in_patterns(plan)

    def alternatives(self, plan: TrendPlan) -> tuple[tuple[Threshold, ...], ...] | None:
        """List the comparisons of each variable; None if others than their events matter."""
        from cepheid.kinds.trend.planning.needs import drops_events
        from cepheid.patterns.thresholds import thresholds_of

        found = tuple(thresholds_of(plan).values()) if drops_events(plan) else ()
        return found if found and all(found) else None

    def sifts(self, plan: TrendPlan) -> Callable[[Any], Any] | None:
        """Build the function of ``keeps`` for a query whose events are kept, sorted and marked."""
        kept = plan.lists_matches or plan.has_deadlines
        # With SKIP, the order of all keys decides which mistake is reported first.
        return self.keeps(plan) if kept and plan.type is not None and plan.skip is None else None

    def keeps(self, plan: TrendPlan) -> Callable[[Any], Any] | None:
        """Build a function that marks events that fit a variable; None if others matter too."""
        from cepheid.arrays.columns import read_bits
        from cepheid.kinds.trend.planning.needs import drops_events

        if not drops_events(plan):
            return None
        # Of the query as it was written: its events have no marks yet (§2.12).
        types = types_of(plan.patterns)
        return lambda columns: read_bits(columns, plan, list(types), list(types.values())) != 0
