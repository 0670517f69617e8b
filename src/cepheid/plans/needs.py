"""How Spark cuts a query into tasks, and what a query asks of whoever cuts it.

scan slices   files in the order of time: tasks read time ranges and own the windows in them
combine       stretches of events become matrices where they lie; only these are shuffled.
              Of situations, stretches in which no condition turns become one row each
key shuffle   events are shuffled by the partition attributes
time shuffle  events are shuffled by time, and tasks own the windows in their ranges
one task      nothing cuts the query: one task does everything
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Strategy(StrEnum):
    """How work is cut into tasks."""

    SCAN_SLICES = "scan slices"
    COMBINE = "combine"
    KEY_SHUFFLE = "key shuffle"
    TIME_SHUFFLE = "time shuffle"
    ONE_TASK = "one task"


class StrategyChoice(msgspec.Struct, frozen=True):
    """A strategy and why."""

    strategy: Strategy
    reason: str


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a query asks of a runtime that cuts its work; a reason that is empty is none.

    Attributes
    ----------
    files, frames
        How files in the order of time are cut, and DataFrames of which nothing is known.
    one_window
        Whether the whole stream is one window.
    from_start
        Whether windows begin where the stream begins, not at a time.
    reach
        How far a task reads before and after its range of time, to own windows as a whole.
    leads_in
        Whether a task reads one event more, before all others.
    keys, buckets
        The attributes by which events are shuffled, and those of a live query.
    live
        How the state of a live query is cut, and why.
    not_composed, not_by_time, no_panes, not_on_device
        Why stretches of events cannot be summarised, no range of time has windows of its own, the
        panes of a live query cannot be summarised apart, no GPU can run the query.
    pane
        The length of panes that tasks of a live query summarise, in the time of events.
    """

    files: StrategyChoice
    frames: StrategyChoice
    one_window: bool
    from_start: bool
    reach: tuple[int, int]
    leads_in: bool
    keys: tuple[str, ...]
    buckets: tuple[str, ...]
    live: tuple[str, str]
    not_composed: str
    not_by_time: str
    no_panes: str
    not_on_device: str
    pane: int = 0


def needs_by_key(keys: tuple[str, ...], why: str) -> Needs:
    """Tell that all events of a key must be in one task, without keys all events."""
    strategy = Strategy.KEY_SHUFFLE if keys else Strategy.ONE_TASK
    choice = StrategyChoice(strategy, why)
    live = f"buckets by {', '.join(keys)}" if keys else "one bucket"
    return Needs(
        files=choice,
        frames=choice,
        one_window=True,
        from_start=True,
        reach=(0, 0),
        leads_in=False,
        keys=keys,
        buckets=keys,
        live=(live, why),
        not_composed=why,
        not_by_time=why,
        no_panes=why,
        not_on_device="only aggregates of matches run on a GPU",
    )
