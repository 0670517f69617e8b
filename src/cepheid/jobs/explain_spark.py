"""Describe in words how Spark runs a query."""

from __future__ import annotations

from cepheid.plans.needs import Needs, Strategy


def describe_strategies(needs: Needs) -> list[str]:
    """Describe how Spark partitions files, DataFrames and streams, and why."""
    files, frames = needs.files, needs.frames
    lines = [f"files in order: {files.strategy.value}", f"  because {files.reason}"]
    lines += [f"DataFrames: {frames.strategy.value}", f"  because {frames.reason}"]
    if frames.strategy is Strategy.COMBINE:
        otherwise = "events go by time where partitions overlap and a key is heavy"
        lines.append(
            f"  {otherwise}" + (f", else by {', '.join(needs.keys)}" if needs.keys else "")
        )
    elif frames.strategy is Strategy.KEY_SHUFFLE:
        heavy = "has a task of its own" if needs.not_by_time else "is cut by time"
        lines.append(f"  tasks get equal numbers of events, and a key that is too heavy {heavy}")
    live, reason = needs.live
    lines += [f"live streams: {live}", f"  because {reason}"]
    why = needs.not_on_device
    return [*lines, f"tasks with a GPU: on the {'CPU' if why else 'GPU'}", *_because(why)]


def _because(reason: str) -> list[str]:
    return [f"  because {reason}"] if reason else []
