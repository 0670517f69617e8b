"""A plan in, how Spark runs it in words out."""

from __future__ import annotations

from cepheid.planner.plan import PatternPlan
from cepheid.planner.strategies import (
    Strategy,
    choose_for_files,
    choose_for_frames,
    describe_live,
    shuffle_attributes,
    why_not_on_device,
)


def describe_strategies(plan: PatternPlan) -> list[str]:
    """Return how Spark cuts files, DataFrames and streams, and why."""
    files, frames = choose_for_files(plan), choose_for_frames(plan)
    lines = [f"files in order: {files.strategy.value}", f"  because {files.reason}"]
    lines += [f"DataFrames: {frames.strategy.value}", f"  because {frames.reason}"]
    if frames.strategy is Strategy.COMBINE:
        otherwise = "events go by time where partitions overlap and a key is heavy"
        names = shuffle_attributes(plan)
        lines.append(f"  {otherwise}" + (f", else by {', '.join(names)}" if names else ""))
    live, reason = describe_live(plan)
    lines += [f"live streams: {live}", f"  because {reason}"]
    why = why_not_on_device(plan)
    return [*lines, f"tasks with a GPU: on the {'CPU' if why else 'GPU'}", *_because(why)]


def _because(reason: str) -> list[str]:
    return [f"  because {reason}"] if reason else []
