"""Find the base columns by which all stages of a pipeline can be split at once (§15.7)."""

from __future__ import annotations

from collections.abc import Sequence

from cepheid.jobs.derived import Splits
from cepheid.jobs.kind import kind_of
from cepheid.plans.plan import StagePlan

Traces = dict[str, str]
"""The base column that each column of a stream holds."""


def common_keys(stages: Sequence[StagePlan]) -> tuple[tuple[str, ...], str]:
    """Find the common keys, and say what the work is split by, or why it is not.

    A column of the base stream is its own trace. A stage passes a trace on in the columns that show
    a split whose attribute has the same trace in all streams that it reads.
    """
    traces: list[Traces | None] = [None]
    common: set[str] | None = None
    why = ""
    for number, stage in enumerate(stages):
        splits = kind_of(stage.plan).splits(stage.plan)
        held, shown = _traced(stage, splits, traces)
        if not splits.by_row:
            left = held if common is None else common & held
            if not left and not why:
                why = _why_not(stage, number, stages, held, common)
            common = left
        traces.append(shown)
    if common is None:
        return (), "every stage looks at one event at a time"
    keys = tuple(sorted(common))
    if keys:
        return keys, f"every stage has the key {', '.join(keys)}"
    return (), why


def _traced(
    stage: StagePlan, splits: Splits, traces: Sequence[Traces | None]
) -> tuple[set[str], Traces]:
    """Find the base columns that a stage can be split by, and those that its rows hold."""
    held: set[str] = set()
    shown: Traces = {}
    for split in splits.splits:
        places = stage.reads if len(split.inputs) == 1 else stage.reads * (3 - len(stage.reads))
        inputs = split.inputs * (len(places) if len(split.inputs) == 1 else 1)
        found = {
            name if (known := traces[place]) is None else known.get(name, "")
            for place, name in zip(places, inputs, strict=True)
        }
        if len(found) == 1 and "" not in found:
            (name,) = found
            held.add(name)
            shown |= dict.fromkeys(split.outputs, name)
    return held, shown


def _why_not(
    stage: StagePlan,
    number: int,
    stages: Sequence[StagePlan],
    held: set[str],
    common: set[str] | None,
) -> str:
    named = f"`{stage.name}`" if number < len(stages) - 1 else "the last query"
    if not held:
        return f"{named} has no key that comes from the events"
    earlier = ", ".join(sorted(common or ()))
    return f"{named} has the key {', '.join(sorted(held))}, and stages before it {earlier}"


def describe_keys(keys: tuple[str, ...]) -> str:
    """Describe the partition of a plan."""
    return f"the common key of all stages: {', '.join(keys)}" if keys else "no common key"
