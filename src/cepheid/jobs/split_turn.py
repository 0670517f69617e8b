"""The micro-batch of a bucket of a live query whose hot keys are split (``hot_keys``).

The bucket is the home of some keys, and has some panes of the keys that are split. Both have a
state of their own. Rows of windows leave at home; panes leave for the task that multiplies them.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from cepheid.events.temporal import FOREVER
from cepheid.jobs.bucket import Outcome
from cepheid.jobs.hot_keys import HotKey, HotKeys, Split, Warmth, warmed
from cepheid.jobs.kind import TaskKind
from cepheid.jobs.microbatch import turn
from cepheid.jobs.misfits import misfit
from cepheid.jobs.state_format import Format, read_state, write_state
from cepheid.jobs.watermarks import MILLISECOND, in_microseconds, in_ticks
from cepheid.jobs.work import Work

FORMAT = Format("split", 1, "a query whose hot keys are split")
_LINE = b"CEPHEID split "


class SplitState(msgspec.Struct, array_like=True):
    """The state of a bucket: of its keys, of panes of hot keys, and keys that may become hot."""

    home: bytes | None
    panes: bytes | None = None
    warm: dict[int, Warmth] = {}
    latest: int | None = None
    """No event of any bucket was later so far, rounded up."""
    split: list[int] = []
    """The hashes of keys that were split."""


class SplitArrived(NamedTuple):
    """The events of a micro-batch: those of keys, those of panes, and what tasks counted."""

    home: list[pa.Table]
    panes: list[pa.Table]
    heat: list[pa.Table]


def read_split(data: bytes | None) -> SplitState:
    """Read the state of a bucket, also one of a query that did not split keys."""
    if data is None:
        return SplitState(None)
    if not data.startswith(_LINE):
        return SplitState(data)
    return read_state(FORMAT, data, SplitState)


def split_turn(
    work: Work, split: Split, data: bytes | None, came: SplitArrived, latest: int | None
) -> tuple[bytes, Outcome]:
    """Process a micro-batch, and note keys that became hot."""
    assert isinstance(work.kind, TaskKind), "only such kinds have panes"
    saved, hot = read_split(data), split.read()
    if not set(saved.split) <= set(hot.hashes.tolist()):
        why = f"`{split.folder}` does not have the notes of its hot keys any more"
        raise misfit(why)
    home, outcome = turn(work.kind.live_job(work), work, saved.home, came.home, latest)
    rows = outcome.results
    outcome = outcome._replace(results=rows.filter(pa.array(~_by_panes(work, hot, rows))))
    panes = None
    if len(hot) or saved.panes is not None:
        job = work.kind.pane_job(work)
        panes, more = turn(job, work, saved.panes, came.panes, latest)
        outcome = _added(outcome, more)
    told = None if latest is None else in_ticks(work, _rounded_up(work, latest))
    times = [time for time in (saved.latest, told) if time is not None]
    warm, found = warmed(saved.warm, came.heat, split.names, split.buckets)
    if found:
        since = (max(times) // split.pane + 1) * split.pane
        split.note([HotKey(code, since, names) for code, names in found.items()])
    state = SplitState(home, panes, warm, max(times, default=None), hot.hashes.tolist())
    return write_state(FORMAT, state), outcome


def _rounded_up(work: Work, latest: int) -> int:
    """Return a time of whole milliseconds after the latest event, in microseconds."""
    return (in_microseconds(work, latest) // MILLISECOND + 1) * MILLISECOND


def _added(outcome: Outcome, panes: Outcome) -> Outcome:
    """Add the counts of panes to those of keys."""
    return outcome._replace(
        events=outcome.events + panes.events,
        late=outcome.late + panes.late,
        buffered=outcome.buffered + panes.buffered,
        late_events=pa.concat_tables([outcome.late_events, panes.late_events]),
        panes=panes.results,
    )


def rows_of_split(work: Work, split: Split, sent: list[pa.Table]) -> pa.Table:
    """Compute the rows of hot keys from the panes of all buckets."""
    assert isinstance(work.kind, TaskKind), "only such kinds have panes"
    rows = work.kind.rows_of_panes(work, sent)
    return rows.filter(pa.array(_by_panes(work, split.read(), rows)))


def _by_panes(work: Work, hot: HotKeys, rows: pa.Table) -> np.ndarray:
    """Mark rows of windows that are computed from panes: those that begin when a key is split."""
    since = hot.since(rows)
    begins = rows["window_start"]
    if pa.types.is_timestamp(begins.type):
        micros = begins.cast(pa.timestamp("us", begins.type.tz)).cast(pa.int64()).to_numpy()
        begins_at = -(-micros * 1000 // work.tick_ns)
    else:
        begins_at = begins.to_numpy()
    return np.asarray((since < FOREVER) & (begins_at >= since))
