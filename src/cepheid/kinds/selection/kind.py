"""SELECT: rows, windowed aggregates and windowed joins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cepheid.jobs.kind import Described, Kind
from cepheid.kinds.selection.bind import compile_select
from cepheid.kinds.selection.explain import describe_select, mermaid_of_select, title_of_select
from cepheid.language import tree
from cepheid.patterns.scope import Source
from cepheid.plans.plan import SelectPlan

if TYPE_CHECKING:
    from cepheid.jobs.local_jobs import LocalJob
    from cepheid.jobs.microbatch import LiveJob
    from cepheid.jobs.work import Work


class SelectKind(Kind):
    """Queries without a pattern. Spark runs most of them as its own operators."""

    plans = SelectPlan
    reads = tree.SelectQuery

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

    def live_job(self, work: Work) -> LiveJob[Any]:
        """Create the job that a bucket of a live stream runs for windows of events."""
        from cepheid.kinds.selection.live import LiveSelect

        return LiveSelect.of(work)

    def replay(self, plan: SelectPlan, snapshot: Any, method: str) -> Any:
        """Plan which part of a store a query must read."""
        from cepheid.kinds.selection.store import plan_reading

        return plan_reading(plan, snapshot, method)

    def from_index(self, plan: SelectPlan, snapshot: Any, method: str) -> Any:
        """Answer aggregates from the blocks of a store; None if events must be read."""
        from cepheid.kinds.selection.store import answer_from_index

        return answer_from_index(plan, snapshot, method)
