"""Hold a latency goal of a live query in a program of one's own, by restarts from its checkpoint.

Spark reads the limit of a source when a query starts, so another limit needs another start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cepheid.events.temporal import length_us
from cepheid.jobs.latency_goal import Change, LatencyGoal, judge
from cepheid.options import refuse, texts, whole

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("cepheid")

LOOK_S = 0.5
"""Seconds between two looks at the progress."""


def hold_latency(
    start: Callable[[int | None], StreamingQuery],
    goal: str,
    *,
    limit: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
) -> list[Change]:
    """Run a live query until it ends, and change the limit of its source to hold a goal.

    Parameters
    ----------
    start
        Starts the query with a limit for its source, or without one, and returns it. It is called
        again with another limit after the query was stopped, and goes on from its checkpoint.
    goal
        How long a row may wait, such as ``"2 seconds"``: a micro-batch may take half of it.
    limit
        The limit to begin with, in records of the source or, with a checkpoint, in files.
    checkpoint
        The local folder of the checkpoint, if the source is a folder whose limit is
        ``maxFilesPerTrigger``: the files of a micro-batch are counted there.

    Returns
    -------
    list
        The changes, each with its limit and reason; the logger ``cepheid`` tells them too.
    """
    texts(goal=goal)
    length = length_us(goal)
    if not length:
        refuse("E590", f"goal is a length of time such as '2 seconds', not {goal!r}")
    unit = "records" if checkpoint is None else "files"
    held = LatencyGoal(length / 1e6, whole("limit", limit), unit)
    folder = None if checkpoint is None else Path(checkpoint)
    changes: list[Change] = []
    last = -1
    while True:
        live = start(held.limit)
        try:
            change, last = _watch(live, held, last, folder)
        except KeyboardInterrupt:
            live.stop()
            return changes
        if change is None:
            return changes
        log.info("%s", change.reason)
        changes.append(change)
        live.stop()


def _watch(
    live: Any, held: LatencyGoal, last: int, folder: Path | None
) -> tuple[Change | None, int]:
    """Wait for the end of a query, or for a change; return also the last micro-batch judged."""
    while True:
        ended = live.awaitTermination(LOOK_S)
        change, last = judge(held, live.recentProgress, last, folder)
        if ended:
            return None, last
        if change is not None:
            return change, last
