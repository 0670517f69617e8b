"""SELECT: rows, windowed aggregates and windowed joins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.jobs.derived import whole_answer
from cepheid.jobs.kind import Described, Kind
from cepheid.kinds.selection.bind import compile_select
from cepheid.kinds.selection.explain import (
    describe_select,
    is_ordered,
    mermaid_of_select,
    runs_as_stage,
    title_of_select,
    why_not_live,
)
from cepheid.kinds.selection.pairs import following
from cepheid.language import tree
from cepheid.patterns.scope import Source
from cepheid.plans.meaning import Meaning, fingerprint, times_of
from cepheid.plans.needs import LIVE_ON_DEVICE
from cepheid.plans.plan import SelectPlan
from cepheid.plans.selection import Extent
from cepheid.plans.selection import SelectKind as Operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from cepheid.jobs.derived import Derivation, Splits
    from cepheid.jobs.device_jobs import DeviceJob
    from cepheid.jobs.local_jobs import LocalJob
    from cepheid.jobs.microbatch import LiveJob
    from cepheid.jobs.work import Work
    from cepheid.patterns.thresholds import Threshold


class SelectKind(Kind):
    """Queries without a pattern. Spark runs most of them as its own operators, but live windows."""

    plans = SelectPlan
    reads = tree.SelectQuery
    null_is_key = True

    def compile(self, query: tree.SelectQuery, text: str, source: Source) -> SelectPlan:
        """Plan a parsed query; report all its mistakes at once."""
        return compile_select(query, text, source)

    def describe(self, plan: SelectPlan, *, spark: bool) -> Described:
        """Describe a plan in words; ``spark`` adds how Spark runs it."""
        return Described(title_of_select(plan.select), describe_select(plan.select, spark=spark))

    def mermaid(self, plan: SelectPlan) -> str:
        """Draw the inputs and the result as a Mermaid flowchart."""
        return mermaid_of_select(plan.select)

    def why_not(self, question: Any, counting: Any) -> Any:
        """Explain why a query finds no or few rows."""
        from cepheid.kinds.selection.why import why_select

        return why_select(question, counting)

    def event_filters(self, question: Any) -> dict[str, list[Any]]:
        """Name the conditions that events pass: those of WHERE."""
        select = question.plan.select
        if len(select.streams) > 1 or select.where is None:
            return {}
        return {"satisfy WHERE": [select.where]}

    def local_job(self, plan: SelectPlan) -> LocalJob:
        """Create the job of a query over bounded input."""
        from cepheid.kinds.selection.local import LocalSelect

        return LocalSelect(plan)

    def why_not_on_device(self, plan: SelectPlan) -> str:
        """Give no reason: a device filters, folds and pairs the events of every SELECT."""
        del plan
        return ""

    def device_job(self, plan: SelectPlan) -> DeviceJob:
        """Create the job that a GPU runs: filters, folds and pairs."""
        from cepheid.kinds.selection.device import DeviceSelect

        return DeviceSelect(plan)

    def why_not_live_on_device(self, plan: SelectPlan) -> str:
        """Explain why a live query cannot use a GPU in this process; empty if it can."""
        if len(plan.select.streams) > 1:
            return LIVE_ON_DEVICE
        return ""

    def device_steps(self, plan: SelectPlan, schema: Any, *, forced: bool) -> Any:
        """Create the step function whose micro-batches a GPU filters and folds."""
        from cepheid.accelerator.schedule import Place, Scheduler
        from cepheid.kinds.selection.device import DeviceOperators
        from cepheid.kinds.selection.device_live import PlacedSteps
        from cepheid.kinds.selection.steps import steps_of_select

        scheduler = Scheduler(Place.GPU if forced else None)
        there = steps_of_select(plan, schema, DeviceOperators())
        return PlacedSteps(steps_of_select(plan, schema), there, scheduler)

    def live_job(self, work: Work) -> LiveJob[Any]:
        """Create the job that a bucket of a live stream runs for windows; WHERE is behind it."""
        from cepheid.accelerator.assigned import scheduler_of
        from cepheid.jobs.steps import LiveSteps
        from cepheid.kinds.selection.live import LiveSelect
        from cepheid.kinds.selection.steps import WindowSteps
        from cepheid.spark.task_device import task_address

        plan = SelectPlan.from_json(work.plan)
        if plan.select.window.extent is Extent.EVENTS:
            return LiveSelect.of(work)
        kept = msgspec.structs.replace(plan.select, where=None)
        scheduler = scheduler_of(task_address())
        steps = WindowSteps(plan, work.schema, kept)
        if scheduler is None:
            return LiveSteps(work, steps)
        # Loads numba.cuda, which takes a moment.
        from cepheid.kinds.selection.device import DeviceOperators
        from cepheid.kinds.selection.device_live import PlacedSteps

        there = replace(steps, by=DeviceOperators())
        return LiveSteps(work, PlacedSteps(steps, there, scheduler))

    def alternatives(self, plan: SelectPlan) -> tuple[tuple[Threshold, ...], ...] | None:
        """List the comparisons of WHERE; None for a join, and without any."""
        from cepheid.kinds.selection.store import conditions_of
        from cepheid.store.filter_plan import thresholds_in

        if len(plan.select.streams) > 1:
            return None
        found = tuple(t for part in conditions_of(plan, 0) for t in thresholds_in(part))
        return (found,) if found else None

    def keeps(self, plan: SelectPlan) -> Callable[[Any], Any] | None:
        """Build a function that marks the events for which WHERE is true."""
        from cepheid.kinds.selection.rows import holds, lookup_in

        condition = plan.select.condition
        if not condition:
            return None
        return lambda columns: holds(condition, lookup_in(columns), len(columns.batch))

    def meaning(self, plan: SelectPlan) -> Meaning:
        """Collect the parts of a query that shape its state; names of columns may change."""
        found = plan.select
        return {
            "the time or the order of events": times_of(plan),
            "FROM or JOIN": fingerprint([(s.name, s.alias) for s in found.streams]),
            "WHERE or ON": fingerprint([found.where, found.on]),
            "GROUP BY": fingerprint([key.attribute for key in found.keys]),
            "an aggregate": fingerprint([(a.function, a.argument) for a in found.aggregates]),
            "WINDOW": fingerprint(found.window),
        } | self._following(plan)

    def _following(self, plan: SelectPlan) -> Meaning:
        """Collect the parts of the aggregation over the pairs of a join, which have one window."""
        if plan.select.then is None:
            return {}
        parts = self.meaning(following(plan))
        return {f"{part} of pairs": text for part, text in parts.items()}

    def stage_steps(self, plan: SelectPlan, schema: Any) -> Any:
        """Create the step function of a query that is a stage of a pipeline."""
        from cepheid.kinds.selection.joined_steps import JoinedSteps
        from cepheid.kinds.selection.steps import steps_of_select

        if is_ordered(plan.select.then or plan.select):
            whole_answer(plan)
        if plan.select.then is not None:
            return JoinedSteps.of(plan, schema)
        return steps_of_select(plan, schema)

    def derive(self, plan: SelectPlan) -> Derivation:
        """Plan a query whose rows are events."""
        from cepheid.kinds.selection.derive import derive_select

        return derive_select(plan)

    def splits(self, plan: SelectPlan) -> Splits:
        """List the attributes by which a stage of a pipeline can be split."""
        from cepheid.kinds.selection.derive import splits_of_select

        return splits_of_select(plan)

    def reach(self, plan: SelectPlan) -> int | None:
        """Return the length of a window; a row of a filter is about one event."""
        if plan.select.kind is Operator.FILTER:
            return 0
        return plan.select.window.within if plan.select.window.extent is Extent.TIME else None

    def limits_rows(self, plan: SelectPlan) -> bool:
        """Check whether a query has LIMIT, which is over the whole answer (§10.10)."""
        return plan.select.limit is not None

    def row_key(self, plan: SelectPlan) -> tuple[str, ...] | None:
        """List the columns that rows are known by: those of GROUP BY and of the window."""
        if plan.select.kind is not Operator.AGGREGATE:
            return None
        whole = plan.select.window.extent is Extent.NONE
        keys = tuple(key.name for key in plan.select.keys)
        return keys + (() if whole else ("window_start", "window_end"))

    def lives_as_stage(self, plan: SelectPlan) -> bool:
        """Check for a join whose rows follow from a state, and not from Spark's join alone."""
        names = {stream.name for stream in plan.select.streams}
        return runs_as_stage(plan.select) and len(names) == 1

    def check_live(self, plan: SelectPlan) -> None:
        """Refuse aggregates without a window, which are known at the end of a stream (E405)."""
        why = why_not_live(plan.select)
        if why:
            helps = ("add `WINDOW 10 minutes`, or `WINDOW 1000 EVENTS`",)
            if is_ordered(plan.select.then or plan.select):
                helps = ("leave `ORDER BY` and `LIMIT` out, or run the query over what has come",)
            raise UnsupportedError([Diagnostic("E405", why, helps=helps)], plan.text)

    def replay(self, plan: SelectPlan, snapshot: Any, method: str) -> Any:
        """Plan which part of a store a query must read."""
        from cepheid.kinds.selection.store import plan_reading

        return plan_reading(plan, snapshot, method)

    def from_index(self, plan: SelectPlan, snapshot: Any, method: str) -> Any:
        """Answer aggregates from the blocks of a store; None if events must be read."""
        from cepheid.kinds.selection.store import answer_from_index

        return answer_from_index(plan, snapshot, method)
