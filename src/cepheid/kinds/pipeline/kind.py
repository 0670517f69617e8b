"""Pipelines as a kind of query: one job made of jobs, which every runtime can run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cepheid.jobs.derived import early_rows
from cepheid.jobs.explain_spark import describe_strategies
from cepheid.jobs.kind import Described, NamedType, kind_of
from cepheid.jobs.stepped import SteppedKind
from cepheid.kinds.pipeline.bind import compile_pipeline
from cepheid.kinds.pipeline.continuing import continued_pipeline, meaning_of_pipelines
from cepheid.kinds.pipeline.explain import describe_pipeline, mermaid_of, title_of
from cepheid.language import tree
from cepheid.patterns.scope import Source
from cepheid.plans.meaning import Meaning
from cepheid.plans.needs import Needs, needs_by_key
from cepheid.plans.plan import BASE_STREAM, PipelinePlan

if TYPE_CHECKING:
    import pyarrow as pa

    from cepheid.jobs.device_jobs import DeviceJob
    from cepheid.jobs.local_jobs import LocalJob
    from cepheid.kinds.pipeline.steps import PipelineSteps

NOT_STEPPED = (
    "a GPU runs pipelines of situations, SELECT over one stream, and aggregates with SLIDE"
)
"""Other stages need all of their events at once."""


class PipelineKind(SteppedKind):
    """Queries that feed queries."""

    plans = PipelinePlan
    reads = tree.PipelineQuery

    def compile(self, query: tree.PipelineQuery, text: str, source: Source) -> PipelinePlan:
        """Plan the queries of a pipeline."""
        return compile_pipeline(query, text, source)

    def needs(self, plan: PipelinePlan) -> Needs:
        """Describe the requirements of a pipeline: all events of a common key in one task."""
        return needs_by_key(plan.partition.group_by, plan.why_keys)

    def steps(self, plan: PipelinePlan, schema: pa.Schema) -> PipelineSteps:
        """Create the step function of all stages over base events of a schema."""
        from cepheid.kinds.pipeline.steps import PipelineSteps

        return PipelineSteps.of(plan, schema)

    def local_job(self, plan: PipelinePlan) -> LocalJob:
        """Create the job of a pipeline over bounded input."""
        from cepheid.kinds.pipeline.steps import LocalPipeline

        return LocalPipeline(plan)

    def why_not_on_device(self, plan: PipelinePlan) -> str:
        """Explain why a pipeline cannot run on a GPU; empty if all of its stages can live."""
        plans = [stage.plan for stage in plan.stages]
        return NOT_STEPPED if any(kind_of(p).why_not_live_on_device(p) for p in plans) else ""

    def device_job(self, plan: PipelinePlan) -> DeviceJob:
        """Create the job that a GPU runs, stage by stage."""
        from cepheid.kinds.pipeline.device import DevicePipeline

        return DevicePipeline(plan)

    def rows_behind(self, plan: PipelinePlan, schema: pa.Schema) -> int:
        """Compute how far behind the watermark rows may still come, in ticks."""
        return self.steps(plan, schema).behind

    def check_live(self, plan: PipelinePlan) -> None:
        """Refuse a stage without rows before the stream ends (E405), or with early rows (E413)."""
        for stage in plan.stages:
            if stage.plan.emits_early:
                early_rows(stage.plan)
            kind_of(stage.plan).check_live(stage.plan)

    def named_types(self, plan: PipelinePlan) -> tuple[NamedType, ...]:
        """List the variables of all stages whose types are those of base events."""
        derived = {stage.name for stage in plan.stages}
        return tuple(
            one
            for stage in plan.stages
            if BASE_STREAM in stage.reads
            for one in kind_of(stage.plan).named_types(stage.plan)
            if one.event_type not in derived
        )

    def meaning(self, plan: PipelinePlan) -> Meaning:
        """Collect the parts of all stages that shape their states."""
        return meaning_of_pipelines(plan)

    def memory(self, plan: PipelinePlan) -> Any:
        """Describe the last query for a changed one that continues with its state."""
        last = plan.stages[-1].plan
        return kind_of(last).memory(last)

    def continued(self, plan: PipelinePlan, before: Meaning, memory: Any) -> PipelinePlan:
        """Adapt the last query to the state of an earlier one; E524 if a stage does not fit."""
        return continued_pipeline(plan, before, memory)

    def why_not(self, question: Any, counting: Any) -> Any:
        """Explain why a pipeline has no or few rows: its first stage without any."""
        from cepheid.kinds.pipeline.why import why_pipelines

        return why_pipelines(question, counting)

    def partial_results(self, question: Any, counting: Any) -> list[str]:
        """Tell how many rows each stage has."""
        from cepheid.kinds.pipeline.why import count_rows

        return count_rows(question, counting)

    def describe(self, plan: PipelinePlan, *, spark: bool) -> Described:
        """Describe a plan in words; ``spark`` adds how Spark runs it."""
        sections = describe_pipeline(plan)
        if spark:
            sections.append(
                ("on Spark", [*describe_strategies(self.needs(plan)), *_ways_out(plan)])
            )
        return Described(title_of(plan), sections)

    def mermaid(self, plan: PipelinePlan) -> str:
        """Draw the streams and the queries between them as a Mermaid flowchart."""
        return mermaid_of(plan)


def _ways_out(plan: PipelinePlan) -> list[str]:
    """Say how stages without a common key run in several tasks."""
    if plan.partition.group_by or len(plan.stages) == 1:
        return []
    return [
        "to split stages by keys of their own: run them as live queries, with a folder or a topic",
        "  between them that carries the watermark (`--marks`, `--watermark carried`)",
    ]
