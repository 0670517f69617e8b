"""Strategies by which Spark splits a query into tasks, and the requirements of a query.

scan slices   files in time order: tasks read time ranges and own the windows in them
combine       stretches of events become matrices in place; only these are shuffled.
              For situations, a stretch without a change of any condition becomes one row
key shuffle   events are shuffled by the partition attributes
time shuffle  events are shuffled by time, and tasks own the windows in their ranges
one task      nothing splits the query: one task runs all of it
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

LIVE_ON_DEVICE = (
    "live, a GPU runs situations, SELECT but joins of one stream, and aggregates of patterns "
    "with SLIDE"
)
"""Why other live queries run on the CPU."""

NO_CHANGES_ON_DEVICE = "live, a GPU follows no table that changes"


class Strategy(StrEnum):
    """A strategy to split a query into tasks."""

    SCAN_SLICES = "scan slices"
    COMBINE = "combine"
    KEY_SHUFFLE = "key shuffle"
    TIME_SHUFFLE = "time shuffle"
    ONE_TASK = "one task"


class StrategyChoice(msgspec.Struct, frozen=True):
    """A strategy and its reason."""

    strategy: Strategy
    reason: str


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements of a query for a runtime that splits it; an empty reason means no obstacle.

    Attributes
    ----------
    files, frames
        How files in time order are split, and DataFrames whose order is unknown.
    one_window
        Whether the whole stream is one window.
    from_start
        Whether windows are counted from the first event of the stream, not aligned to time.
    reach
        How far a task reads before and after its time range, to see the windows it owns completely.
    leads_in
        Whether a task reads one extra event before all others.
    keys, buckets
        The attributes by which events are shuffled, and those of a live query.
    live
        How the state of a live query is partitioned, and why.
    not_composed, not_by_time, no_panes, not_on_device
        Why stretches of events cannot be summarised, why the query cannot be split by time, why the
        panes of a live query cannot be summarised independently, why no GPU can run the query.
    pane, within
        The length of the panes that tasks of a live query summarise, and that of its windows, in
        ticks of the events.
    not_split
        Why hot keys of a live query cannot be split by panes.
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
    within: int = 0
    not_split: str = "only aggregates of trends are split"


def needs_by_key(keys: tuple[str, ...], why: str) -> Needs:
    """Require all events of a key in one task; without keys, all events."""
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


def pane_length(ticks: int, tick_ns: int) -> str:
    """Format the length of a pane."""
    nanoseconds = ticks * tick_ns
    return f"{nanoseconds / 1e6:,g} ms" if nanoseconds >= 1000 else f"{nanoseconds} ns"
