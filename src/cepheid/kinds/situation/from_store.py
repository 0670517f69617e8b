"""Answer a query about situations from the part of a store where its conditions can hold.

``replay`` finds that part, and explains the two ways to read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns
from cepheid.kernels.derive import FOREVER
from cepheid.kinds.situation.job import SituationJob
from cepheid.kinds.situation.replay import Groups, Way, look_up_situations
from cepheid.kinds.situation.results import empty_rows
from cepheid.kinds.situation.step import SituationState, finish_situations, step_situations
from cepheid.plans.plan import SituationPlan
from cepheid.plans.situations import SituationColumn
from cepheid.store.snapshot import Cover, Interval, Snapshot
from cepheid.store.times import read_ticks

START = "\0start "
"""Begins the names of columns with the starts of situations, which rows need not have."""

READ_MAX = 0.5
"""More than planned is read for at most this share of all row groups, else everything is."""


def answer_from_store(plan: SituationPlan, snapshot: Snapshot, method: str) -> pa.Table | None:
    """Answer a query from a part of a store; None if all events must be read."""
    found = look_up_situations(snapshot, plan, method)
    cover = found.replay.cover
    if found.way is None or cover is None:
        return None
    reading = _Reading(plan, snapshot, found.needed, cover)
    tables = reading.until_ended() if found.way is Way.UNTIL_ENDED else reading.near()
    return None if tables is None else pa.concat_tables(tables)


class _Reading:
    """The reading of a part of a store."""

    def __init__(
        self, plan: SituationPlan, snapshot: Snapshot, needed: tuple[int, ...], cover: Cover
    ) -> None:
        self._plan, self._snapshot, self._needed = plan, snapshot, needed
        self._cover = cover
        self._schema = snapshot.manifest.schema
        names = self._schema.names
        wanted = set(names if plan.columns is None else plan.columns) | {snapshot.manifest.time}
        # A field of a structure comes with the whole.
        wanted |= {name.partition(".")[0] for name in wanted if name not in names}
        self._columns = [name for name in names if name in wanted]
        groups = Groups.of(snapshot, snapshot.clip_cover(Cover.of(Interval())))
        self._first, self._last = np.sort(groups.first), np.sort(groups.last)

    def _scan(self, begin: int, end: int) -> Iterator[pa.Table]:
        cover = Cover(np.array([begin]), np.array([end]))
        return self._snapshot.scan(cover, self._columns)

    # -----------------------------------------------------------------------------------
    # Until all situations have ended

    def until_ended(self) -> list[pa.Table]:
        """Read every interval and what follows, until no situation goes on."""
        job = SituationJob(self._plan)
        state, found = SituationState.start(job), [empty_rows(job, self._schema)]
        begins, ends = self._cover
        place = 0
        for here, table in self._by_interval():
            if here > place:
                state = self._end_all(job, state, found, int(ends[place]), int(begins[here]))
                place = here
            state, rows = step_situations(job, state, table)
            found.append(rows)
        if len(ends):
            end = int(self._last[-1]) + 1
            state = self._end_all(job, state, found, int(ends[place]), end)
        found.append(finish_situations(job, state, self._schema)[1])
        return found

    def _by_interval(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield the events of the intervals in order, each with the number of its interval."""
        for table in self._snapshot.scan(self._cover, self._columns):
            times = read_ticks(table, self._snapshot.manifest.time)
            places = np.searchsorted(self._cover.begins, times, side="right") - 1
            cuts = np.flatnonzero(np.diff(places, prepend=-1))
            ends = [*cuts[1:].tolist(), len(table)]
            for begin, end in zip(cuts.tolist(), ends, strict=True):
                yield int(places[begin]), table.slice(begin, end - begin)

    def _end_all(
        self, job: SituationJob, state: SituationState, found: list[pa.Table], begin: int, end: int
    ) -> SituationState:
        """Read on after an interval, until no situation goes on or the next interval begins."""
        state, rows = step_situations(job, state, self._schema.empty_table(), complete=True)
        found.append(rows)
        ahead = 1
        while begin < end and self._goes_on(state):
            place = int(np.searchsorted(self._last, begin, side="left")) + ahead - 1
            until = end if place >= len(self._last) else min(end, int(self._last[place]) + 1)
            for table in self._scan(begin, until):
                state, rows = step_situations(job, state, table)
                found.append(rows)
            state, rows = step_situations(job, state, self._schema.empty_table(), complete=True)
            found.append(rows)
            begin, ahead = until, 2 * ahead
        return state

    def _goes_on(self, state: SituationState) -> bool:
        return any(bool((state.kept[n].te == FOREVER).any()) for n in self._needed)

    # -----------------------------------------------------------------------------------
    # Near each other

    def near(self) -> list[pa.Table] | None:
        """Read the intervals, each on its own; None if that turns out to need too much."""
        situations = self._plan.situations
        starts = tuple(
            SituationColumn(f"{START}{number}", "START", number)
            for number in range(len(situations.definitions))
        )
        wider = msgspec.structs.replace(situations, columns=situations.columns + starts)
        job = SituationJob(msgspec.structs.replace(self._plan, situations=wider))
        names = [column.name for column in starts]
        found = [empty_rows(job, self._schema).drop_columns(names)]
        left = READ_MAX * len(self._first)
        for begin, end in zip(*self._cover, strict=True):
            back = 1
            while True:
                place = int(np.searchsorted(self._first, begin, side="left")) - back
                # With the first event of the store, all situations begin where they seem to.
                low = int(self._first[max(place, 0)])
                rows, unsure = self._rows_near(job, names, low, int(begin), int(end))
                if place <= 0 or not unsure:
                    break
                back *= 4
                left -= back
                if left < 0:
                    return None
            found.append(rows.drop_columns(names))
        return found

    def _rows_near(
        self, job: SituationJob, names: list[str], low: int, begin: int, end: int
    ) -> tuple[pa.Table, bool]:
        """Compute the matches in an interval, and whether a situation may have begun before.

        Events from ``low`` on are read. A situation that begins with another event than the first
        one of its partition has really begun there.
        """
        state, found, first = SituationState.start(job), [], list[Any]()
        known: dict[Any, None] = {}
        for table in self._scan(min(low, begin), end):
            first += self._first_times(job, table, known)
            state, rows = step_situations(job, state, table)
            found.append(rows)
        found.append(finish_situations(job, state, self._schema)[1])
        rows = pa.concat_tables(found)
        starts = [read_ticks(rows, name) for name in names]
        held = np.logical_and.reduce([own >= begin for own in starts])
        rows = rows.filter(pa.array(held))
        unsure = any(bool(np.isin(own[held], first).any()) for own in starts)
        return rows, unsure

    def _first_times(self, job: SituationJob, table: pa.Table, known: dict[Any, None]) -> list[int]:
        """Find when the first events of partitions are, but of those that are known."""
        where = job.situations.where
        if where is not None:
            table = table.filter(pa.array(Columns(table).mask(where)))
        names = list(self._plan.partition.attributes)
        times = read_ticks(table, self._snapshot.manifest.time)
        found: list[int] = []
        if not names:
            if len(times) and not known:
                known[None] = None
                found.append(int(times[0]))
            return found
        columns: dict[str, Any] = {
            str(n): Columns(table).arrow(name) for n, name in enumerate(names)
        }
        keys = pa.table({**columns, "ts": pa.array(times)})
        least = keys.group_by(list(columns)).aggregate([("ts", "min")]).to_pylist()
        for row in least:
            key = tuple(row[name] for name in columns)
            if key not in known:
                known[key] = None
                found.append(row["ts_min"])
        return found
