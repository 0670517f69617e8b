"""SELECT: rows, windowed aggregates and windowed joins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cepheid.jobs.kind import Described, Kind
from cepheid.planner.explain_select import describe_select, mermaid_of_select, title_of_select
from cepheid.planner.plan import SelectPlan

if TYPE_CHECKING:
    from cepheid.jobs.local_jobs import LocalJob
    from cepheid.jobs.microbatch import LiveJob
    from cepheid.jobs.work import Work


class SelectKind(Kind):
    """Queries without a pattern. Spark runs most of them with operators of its own."""

    plans = SelectPlan

    def describe(self, plan: SelectPlan, *, spark: bool) -> Described:
        """Describe a plan in words, with ``spark`` also how it runs there."""
        return Described(title_of_select(plan.select), describe_select(plan.select, spark=spark))

    def mermaid(self, plan: SelectPlan) -> str:
        """Draw what is read and made as a Mermaid flowchart."""
        return mermaid_of_select(plan.select)

    def local_job(self, plan: SelectPlan) -> LocalJob:
        """Make the job of a query over events that are all there."""
        from cepheid.runtime.local_select import LocalSelect

        return LocalSelect(plan)

    def live_job(self, work: Work) -> LiveJob[Any]:
        """Make what a bucket of a live stream does for windows of events."""
        from cepheid.runtime.live_select import LiveSelect

        return LiveSelect.of(work)

    def replay(self, plan: SelectPlan, snapshot: Any, method: str) -> Any:
        """Find out which part of a store a query must read."""
        from cepheid.runtime.select_store import plan_reading

        return plan_reading(plan, snapshot, method)

    def from_index(self, plan: SelectPlan, snapshot: Any, method: str) -> Any:
        """Answer aggregates from the blocks of a store; None if events must be read."""
        from cepheid.runtime.select_store import answer_from_index

        return answer_from_index(plan, snapshot, method)

    def run_streams(self, query: Any, streams: list[Any], strategy: str | None) -> Any:
        """Join two streams in process."""
        from cepheid.runtime.select_run import run_streams

        return run_streams(query, streams, strategy)

    def explain_stores(self, query: Any, stores: Any, *, analyze: bool) -> str:
        """Tell which part of stores a query reads, and why."""
        from cepheid.runtime.select_run import explain_select

        return explain_select(query, stores, analyze=analyze)

    def run_frames(self, query: Any, streams: list[Any], spark: Any, strategy: str | None) -> Any:
        """Run a query over DataFrames, files or stores with operators of Spark."""
        from cepheid.runtime.spark_select import run_frames

        return run_frames(query, streams, spark, strategy)

    def stream_frames(self, query: Any, streams: list[Any], watermark: str, late: str) -> Any:
        """Run a query over live streams with operators of Spark."""
        from cepheid.runtime.spark_select_stream import stream_select

        return stream_select(query, streams, watermark=watermark, late=late)
