"""The bucket of a live join over windows of events: two streams in, pairs out (§10.7).

Events of both streams wait until the common watermark passes them: that of the stream that is
further behind. Then all events are in one order, and an event is joined with the last ones of the
other stream. Those are kept even if ON or WHERE reject them, because windows count them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns, read_times
from cepheid.jobs.bucket import Bucket, Outcome, read_bucket, take_in, write_bucket
from cepheid.jobs.spill import Spilling
from cepheid.jobs.state_format import (
    Format,
    Meant,
    meaning_of,
    read_own,
    read_state,
    text_of,
    write_state,
)
from cepheid.jobs.tables import pack_table, unpack_table
from cepheid.jobs.work import Work
from cepheid.kinds.selection.join import ManyPairsError, in_one_unit, join_tables
from cepheid.plans.plan import SelectPlan

KIND = "a JOIN over windows of events"
FORMAT = Format("join", 2, "a JOIN")
PAIR = Format("buckets", 2, KIND)
PAIRS_AT_ONCE = 5_000_000
"""Pairs that are built at once; more of them are built in parts, which wait on disk."""


class _Snapshot(Meant):
    """The state of a stream besides the events that wait."""

    latest: int | None
    last: bytes


class _Side(NamedTuple):
    """A stream: its latest time, and the last events before the watermark that windows hold."""

    bucket: Bucket
    latest: int | None
    last: pa.Table


def turn_joined(
    works: tuple[Work, Work],
    data: bytes | None,
    arrived: list[list[pa.Table]],
    latest: list[int | None],
) -> tuple[bytes, Outcome]:
    """Process a micro-batch of both streams, up to their common watermark.

    O(events that arrive, wait or are kept, and pairs that ON is evaluated on).

    Raises
    ------
    DataError
        E524 if the state was written by another query, or for other columns; E513 if the pairs need
        more room than the disk has; E5xx for errors in the events.
    """
    plan = SelectPlan.from_json(works[0].plan)
    select = plan.select
    sides = [_read(work, plan, saved) for work, saved in zip(works, _apart(data), strict=True)]
    told = [_later(side.latest, last) for side, last in zip(sides, latest, strict=True)]
    known = [last for last in told if last is not None]
    # Until both streams have had an event, there is no common watermark and nothing is final.
    behind = min(known) if len(known) == len(told) else None
    came = [
        take_in(work, plan, side.bucket, tables, behind)
        for work, side, tables in zip(works, sides, arrived, strict=True)
    ]
    tables = [pa.concat_tables([s.last, c.ready]) for s, c in zip(sides, came, strict=True)]
    begins = (len(sides[0].last), len(sides[1].last))
    found = Spilling()
    for pairs in _pairs(plan, tables, begins):
        found.add(works[0].shown(pairs))
    kept = [
        table.slice(max(len(table) - within, 0))
        for table, within in zip(tables, select.window.lengths, strict=True)
    ]
    saved = [
        write_bucket(work, KIND, one, _to_bytes(plan, last, table))
        for work, one, last, table in zip(works, came, told, kept, strict=True)
    ]
    until = came[0].until
    lag = max(max(known) - until, 0) if until is not None else 0
    events, waiting = sum(one.events for one in came), sum(len(one.waiting) for one in came)
    late = sum(len(one.late_events) for one in came)
    results = pa.concat_tables(found.tables())
    # Late events of two streams have columns of their own, so none are returned.
    nothing = works[0].schema.empty_table()
    return write_state(PAIR, saved), Outcome(results, events, late, waiting, 1, 1, lag, nothing)


def _pairs(plan: SelectPlan, tables: list[pa.Table], begins: tuple[int, int]) -> Iterator[pa.Table]:
    """Join two streams, in two halves of the new events if they have too many pairs for one."""
    middle = _middle(plan, tables, begins)
    if middle is None:
        for part, begin in _parts_of_one(plan, tables, begins):
            yield join_tables(plan.select, plan.time, part, begin, PAIRS_AT_ONCE)
        return
    try:
        yield join_tables(plan.select, plan.time, tables, begins, PAIRS_AT_ONCE)
    except ManyPairsError:
        # The later event of a pair is a new one: the first half needs nothing of the second one.
        first = [table.slice(0, end) for table, end in zip(tables, middle, strict=True)]
        yield from _pairs(plan, first, begins)
        yield from _pairs(plan, tables, middle)


def _parts_of_one(
    plan: SelectPlan, tables: list[pa.Table], begins: tuple[int, int]
) -> Iterator[tuple[list[pa.Table], tuple[int, int]]]:
    """Cut what a single new event is joined with: all of it came before.

    Windows count events, so only the last ones of the other stream count, however it is cut.
    """
    side = 0 if len(tables[0]) > begins[0] else 1
    one, others = tables[side].slice(begins[side]), tables[1 - side]
    others = others.slice(max(len(others) - plan.select.window.lengths[1 - side], 0))
    for begin in range(0, max(len(others), 1), PAIRS_AT_ONCE):
        part = others.slice(begin, PAIRS_AT_ONCE)
        yield ([one, part], (0, len(part))) if side == 0 else ([part, one], (len(part), 0))


def _middle(
    plan: SelectPlan, tables: list[pa.Table], begins: tuple[int, int]
) -> tuple[int, int] | None:
    """Return where the second half of the new events begins in both streams; None for one event.

    Of equal times, events of the first stream come first, as in the join.
    """
    times = [
        in_one_unit(read_times(Columns(table), plan.time), tables, place, plan.time)[begin:]
        for place, (table, begin) in enumerate(zip(tables, begins, strict=True))
    ]
    count = sum(map(len, times))
    if count < 2:
        return None
    half = np.argsort(np.concatenate(times), kind="stable")[: count // 2]
    left = int(np.count_nonzero(half < len(times[0])))
    return begins[0] + left, begins[1] + len(half) - left


def _later(one: int | None, other: int | None) -> int | None:
    known = [time for time in (one, other) if time is not None]
    return max(known, default=None)


def _apart(data: bytes | None) -> tuple[bytes | None, bytes | None]:
    return (None, None) if data is None else read_state(PAIR, data, tuple[bytes, bytes])


def _read(work: Work, plan: SelectPlan, data: bytes | None) -> _Side:
    bucket = read_bucket(work, data, KIND)
    if bucket.engine is None:
        return _Side(bucket, None, work.schema.empty_table())
    found = read_own(FORMAT, bucket.engine, _Snapshot, (meaning_of(plan),), text_of(plan))
    return _Side(bucket, found.latest, unpack_table(found.last))


def _to_bytes(plan: SelectPlan, latest: int | None, last: pa.Table) -> bytes:
    return write_state(FORMAT, _Snapshot((meaning_of(plan),), latest, pack_table(last)))


def empty_pairs(plan: SelectPlan, schemas: list[pa.Schema]) -> pa.Table:
    """Create an empty result."""
    tables: list[Any] = [schema.empty_table() for schema in schemas]
    return join_tables(plan.select, plan.time, tables)
