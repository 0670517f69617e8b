"""Format the plan of a pipeline: its streams, what flows where, and how each stage runs."""

from __future__ import annotations

from cepheid.events.temporal import format_duration
from cepheid.jobs.derived import TIME
from cepheid.jobs.explain_parts import Section, describe_columns
from cepheid.jobs.kind import kind_of
from cepheid.plans.plan import BASE_STREAM, PipelinePlan, StagePlan

EVENTS = "events"
RESULT = "result"


def title_of(plan: PipelinePlan) -> str:
    """Describe the rows of the result."""
    return kind_of(plan.stages[-1].plan).describe(plan.stages[-1].plan, spark=False).title


def describe_pipeline(plan: PipelinePlan) -> list[Section]:
    """Build a section for each stage: what it reads, when its events are, and how it runs."""
    sections: list[Section] = []
    for number, stage in enumerate(plan.stages, 1):
        last = number == len(plan.stages)
        name = RESULT if last else stage.name
        _, parts = kind_of(stage.plan).describe(stage.plan, spark=False)
        reads = ", ".join(name_of(plan, place) for place in stage.reads)
        lines = [f"{title_of_stage(stage)}, from {reads}"]
        if not last:
            lines.append(f"an event for every row, at {describe_time(stage)}")
        lines += [line for part, texts in parts if part == "evaluator" for line in texts[:1]]
        sections.append((name, lines))
    sections.append(("split", [plan.why_keys]))
    sections.append(("reads", describe_columns(plan)))
    return sections


def title_of_stage(stage: StagePlan) -> str:
    """Describe the rows of a stage, without what it adds for their times."""
    title = kind_of(stage.plan).describe(stage.plan, spark=False).title
    for name in stage.hidden:
        title = title.replace(f", {name}", "").replace(name, "")
    return title or stage.plan.what


def name_of(plan: PipelinePlan, place: int) -> str:
    """Name a stream."""
    return EVENTS if place == BASE_STREAM else plan.stages[place - 1].name


def describe_time(stage: StagePlan) -> str:
    """Describe the time of the events of a stage; a deadline makes rows certain later (§15.3)."""
    if stage.at:
        return stage.at
    if len(stage.times) > 1:
        return "the later event of the pair"
    told = f"`{stage.times[0]}`"
    if stage.times[0].startswith(TIME):
        filled = "the event that fills the window"
        one = "its event" if stage.plan.what == "a SELECT" else "its last event"
        told = one if stage.at_end else filled
    if not stage.delay:
        return told
    delay = format_duration(stage.delay * stage.plan.tick_ns // 1000)
    return f"{delay} after {told}"


def mermaid_of(plan: PipelinePlan) -> str:
    """Draw the streams and the queries between them as a Mermaid flowchart."""
    lines = ["flowchart LR", f"    s0([{EVENTS}])"]
    for number, stage in enumerate(plan.stages, 1):
        last = number == len(plan.stages)
        shown = f"<b>{_text(stage.name)}</b><br/>" if stage.name else ""
        shape = ("[[", "]]") if last else ("[", "]")
        lines.append(f'    s{number}{shape[0]}"{shown}{_text(title_of_stage(stage))}"{shape[1]}')
        for place in stage.reads:
            label = "" if place == BASE_STREAM else f'|"{_text(_flow(plan.stages[place - 1]))}"|'
            lines.append(f"    s{place} -->{label} s{number}")
    return "\n".join(lines)


def _flow(stage: StagePlan) -> str:
    return f"at {describe_time(stage).replace('`', '')}"


def _text(text: str) -> str:
    """Escape what would end a label."""
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
