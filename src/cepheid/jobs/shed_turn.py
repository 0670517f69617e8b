"""The micro-batch of a bucket of a live query that may shed events (``jobs.shedding``).

The bucket keeps, beside the state of the query, the counts of dropped events whose windows are
open. One bucket also looks at how long micro-batches take, and decides what is dropped next.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from cepheid.jobs.bucket import Outcome
from cepheid.jobs.microbatch import turn
from cepheid.jobs.shedding import (
    COUNT,
    KEEP_MAX,
    QUICK_MIN,
    SHED,
    SLOW_MIN,
    Level,
    Numbers,
    Shed,
    compact,
    keep_at,
)
from cepheid.jobs.state_format import Format, read_state, write_state
from cepheid.jobs.tables import table_from_bytes, table_to_bytes
from cepheid.jobs.watermarks import watermark_after
from cepheid.jobs.work import Work

FORMAT = Format("shed", 1, "a query that may shed events")
_LINE = b"CEPHEID shed "


class ShedState(msgspec.Struct, array_like=True):
    """The state of a bucket: of the query, dropped events of open windows, and the last pace.

    ``slow`` and ``quick`` count micro-batches in a row that took too long, or little;
    ``longest_ms`` are what the two longest of the slow ones took, the shorter one first.
    """

    home: bytes | None
    counted: bytes = b""
    until: int | None = None
    latest: int | None = None
    started_ms: int = 0
    slow: int = 0
    quick: int = 0
    longest_ms: tuple[int, int] = (0, 0)


class ShedArrived(NamedTuple):
    """The input of a micro-batch: events, counts of dropped ones, and when it began.

    ``decides`` is true in the one bucket that decides what is dropped.
    """

    home: list[pa.Table]
    dropped: list[pa.Table]
    bucket: int
    started_ms: int
    decides: bool


def read_shed(data: bytes | None) -> ShedState:
    """Read the state of a bucket, also one of a query that did not shed."""
    if data is None or not data.startswith(_LINE):
        return ShedState(data)
    return read_state(FORMAT, data, ShedState)


def shed_turn(
    work: Work, by: Shed, data: bytes | None, came: ShedArrived, latest: int | None
) -> tuple[bytes, Outcome]:
    """Process a micro-batch; rows have the number of events that they lack."""
    saved = read_shed(data)
    home, outcome = turn(work.kind.live_job(work), work, saved.home, came.home, latest)
    until = watermark_after(work, saved.until, latest)
    tables = ([table_from_bytes(saved.counted)] if saved.counted else []) + came.dropped
    counted = compact(pa.concat_tables(tables)) if tables else None
    shed = np.zeros(len(outcome.results), np.int64)
    if counted is not None:
        starts = _starts(work, outcome.results)
        shed = by.of_rows(outcome.results, starts, counted)
        if until is not None:
            begins, counts = by.closed(counted, saved.until, until)
            if len(begins):
                by.note_windows(came.bucket, begins, counts)
        counted = by.open(counted, until)
    rows = outcome.results.append_column(SHED, pa.array(shed))
    dropped = sum(int(table[COUNT].to_numpy().sum()) for table in came.dropped)
    state = ShedState(
        home,
        table_to_bytes(counted) if counted is not None and len(counted) else b"",
        until,
        max((time for time in (saved.latest, latest) if time is not None), default=None),
        came.started_ms,
        saved.slow,
        saved.quick,
        saved.longest_ms,
    )
    if came.decides:
        _decide(by, saved, state)
    return write_state(FORMAT, state), outcome._replace(results=rows, shed=dropped)


def _decide(by: Shed, before: ShedState, state: ShedState) -> None:
    """Look at how long the micro-batch before took, and note a level if it is time for another."""
    if not before.started_ms or state.latest is None:
        return
    took = by.pace(before.started_ms)
    state.slow = before.slow + 1 if took > by.allowed_ms else 0
    state.quick = before.quick + 1 if not took else 0
    _, *longest = sorted([took, *(before.longest_ms if before.slow else (0, 0))])
    state.longest_ms = longest[0], longest[1]
    keep = keep_at(by.levels(), before.latest)
    wanted = keep
    if state.slow >= SLOW_MIN:
        # Not the longest: one that is repeated after a crash has taken all the time until then.
        too_much = max(state.longest_ms[0] / by.allowed_ms, 2)
        wanted = min(keep << math.ceil(math.log2(too_much)), KEEP_MAX)
    elif state.quick >= QUICK_MIN:
        wanted = max(keep // 2, 1)
    if wanted != keep:
        # No event so far is as late as this, so a micro-batch that is repeated drops the same.
        by.note_level(Level((state.latest // by.pane + 1) * by.pane, wanted))
        state.slow = state.quick = 0


def _starts(work: Work, rows: pa.Table) -> Numbers:
    """Return the begins of the windows of rows, in ticks of the events."""
    begins = rows["window_start"]
    if pa.types.is_timestamp(begins.type):
        micros = begins.cast(pa.timestamp("us", begins.type.tz)).cast(pa.int64()).to_numpy()
        return np.asarray(-(-micros * 1000 // work.tick_ns))
    return np.asarray(begins.to_numpy())
