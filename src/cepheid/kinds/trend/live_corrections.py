"""A live pattern query that corrects the rows of closed windows when late events come (§13.5).

Rows leave when the watermark passes the end of their window, as without corrections. State stays
for the allowed lateness: the events of windows that may still change, and the last version of every
row. A late event within it changes the windows that hold it:

    closed already      its group is computed again, and rows that differ leave as a new version
    still open          its group is computed again when the window closes

All other rows come from the state of the query, which has seen the events in time. So late events
cost time, and others do not.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, KeyTable, read_times
from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.jobs.bucket import Arrived
from cepheid.jobs.microbatch import Size
from cepheid.jobs.ordering import ordered
from cepheid.jobs.state_format import Format, Meant, read_own, text_of, write_state
from cepheid.jobs.steps import take_until
from cepheid.jobs.tables import pack_table, table_from_bytes, table_to_bytes, unpack_table
from cepheid.jobs.watermarks import in_ticks
from cepheid.jobs.work import Work
from cepheid.kinds.trend.live import LiveTrends
from cepheid.kinds.trend.local import LocalTrends
from cepheid.kinds.trend.program.job import job_of
from cepheid.plans.plan import Plan, TrendPlan, WindowKind

VERSION, OP = "version", "op"
INSERT, UPDATE, DELETE = "insert", "update", "delete"
START, END = "window_start", "window_end"
FORMAT = Format("corrections", 1, "a query that corrects rows")


class _Snapshot(Meant):
    engine: bytes
    kept: bytes
    late: bytes
    sent: bytes


class Corrections(NamedTuple):
    """The state: the query's own, events of windows that may change, and the rows that left."""

    engine: Any
    kept: pa.Table
    late: pa.Table
    """Late events that are in open windows, which the query's own state lacks."""
    sent: pa.Table
    """The last version of every row."""


def with_versions(results: pa.Schema) -> pa.Schema:
    """Add the columns of corrections to those of rows."""
    return results.append(pa.field(VERSION, pa.int64())).append(pa.field(OP, pa.string()))


def why_no_versions(plan: TrendPlan) -> str:
    """Say why rows have no group and window by which a version finds them; empty if they have."""
    if plan.lists_matches:
        return "a match has no group and window of its own by which a correction would find it"
    if plan.window.kind not in (WindowKind.SLIDING, WindowKind.TUMBLING):
        return "only windows with SLIDE have fixed bounds by which a correction finds its row"
    if plan.has_deadlines:
        return "a late event could end a deadline that has passed, and change other windows"
    if plan.skip is not None:
        return "a late event would change which matches `AFTER MATCH SKIP` chooses ever after"
    return ""


def check_corrections(plan: TrendPlan) -> None:
    """Refuse queries whose rows change anyway, or leave no names for the columns of versions.

    Raises
    ------
    UnsupportedError
        E407.
    """
    why, help_ = "", "leave `EMIT EARLY` out"
    if plan.emits_early:
        why = "`EMIT EARLY` has rows that replace others already"
    elif {VERSION, OP} & {*plan.partition.group_by, *(c.name for c in plan.output.columns)}:
        why = f"corrections add the columns `{VERSION}` and `{OP}`, and RETURN has such a name"
        help_ = "rename the column: `... AS my_op`"
    if why:
        raise UnsupportedError([Diagnostic("E407", why, helps=(help_,))], plan.text)


class CorrectedTrends(NamedTuple):
    """The job of a pattern query that corrects its rows."""

    work: Work
    inner: LiveTrends
    lateness: int
    """In ticks."""

    @staticmethod
    def of(work: Work) -> CorrectedTrends:
        """Create the job of a plan."""
        names = work.result_schema.names[:-2]
        plain = pa.schema([work.result_schema.field(name) for name in names])
        own = msgspec.structs.replace(work, results=plain.serialize().to_pybytes())
        return CorrectedTrends(work, LiveTrends.of(own), in_ticks(work, work.lateness))

    @property
    def kind(self) -> str:
        """Return the name of the kind of query, for messages."""
        return f"{self.inner.kind} with corrections"

    @property
    def plan(self) -> Plan:
        """Return the plan."""
        return self.inner.plan

    @property
    def _window(self) -> tuple[int, int]:
        window = TrendPlan.of(self.plan).window
        return window.within, window.slide or window.within

    def start(self) -> Corrections:
        """Create the state before the first event."""
        nothing = self.work.schema.empty_table()
        return Corrections(self.inner.start(), nothing, nothing, self.nothing())

    def read(self, data: bytes) -> Corrections:
        """Deserialize a state; E524 if it belongs to another query."""
        # Rows that have left are part of the state, so nothing of the query may change.
        saved = read_own(FORMAT, data, _Snapshot, text_of(self.plan), text_of(self.plan))
        kept, late = (unpack_table(one) for one in (saved.kept, saved.late))
        engine = self.inner.read(saved.engine)
        return Corrections(engine, kept, late, table_from_bytes(saved.sent))

    def write(self, state: Corrections) -> bytes:
        """Serialize a state."""
        parts = (pack_table(state.kept), pack_table(state.late), table_to_bytes(state.sent))
        engine = self.inner.write(state.engine)
        return write_state(FORMAT, _Snapshot(text_of(self.plan), engine, *parts))

    def take(
        self, state: Corrections, events: pa.Table, since: int | None, until: int
    ) -> tuple[Corrections, list[pa.Table]]:
        """Process events before a watermark, late ones first; return rows and corrections."""
        times = read_times(Columns(events), self.plan.time)
        cut = 0 if since is None else int(np.searchsorted(times, since))
        new, fresh = events.slice(0, cut), events.slice(cut)
        engine, found = take_until(self.inner.job, state.engine, fresh, until)
        rows = pa.concat_tables([self.inner.nothing(), *map(self.inner.work.shown, found)])
        kept = ordered(pa.concat_tables([state.kept, events]), self.plan)
        late = pa.concat_tables([state.late, new])
        changed = np.union1d(
            self._windows(new, None, until), self._windows(state.late, since, until)
        )
        if not len(changed):
            sent = _inserted(rows)
            total = pa.concat_tables([state.sent, sent])
            return Corrections(engine, kept, late, total), [sent]
        groups = Groups(self.plan.partition.group_by, late)
        again = self._again(kept, changed, groups)
        mine = _in_windows(rows, changed) & groups.hold(rows)
        before = _in_windows(state.sent, changed) & groups.hold(state.sent)
        versions = self._versions(state.sent.filter(pa.array(before)), again)
        unaffected = _inserted(rows.filter(pa.array(~mine)))
        # A row that did not change stays as it was sent.
        sent = _newest(state.sent, versions, self.plan.partition.group_by)
        total = pa.concat_tables([sent, unaffected, versions])
        return Corrections(engine, kept, late, total), [unaffected, versions]

    def _windows(self, late: pa.Table, since: int | None, until: int) -> NDArray[np.int64]:
        """List the starts of windows that hold late events and end in (since, until]."""
        within, slide = self._window
        times = np.unique(read_times(Columns(late), self.plan.time))
        last = times // slide * slide
        reach = np.arange(-(-within // slide), dtype=np.int64) * slide
        starts = np.unique((last[:, None] - reach[None, :]).ravel())
        ends = starts + within
        closed = ends <= until
        if since is not None:
            closed &= ends > since
        starts = starts[closed]
        # A window may hold none of them, if the slide does not divide the length.
        place = np.searchsorted(times, starts)
        holds = (place < len(times)) & (times[np.minimum(place, len(times) - 1)] < starts + within)
        return np.asarray(starts[holds] if len(times) else starts)

    def _again(self, kept: pa.Table, changed: NDArray[np.int64], groups: Groups) -> pa.Table:
        """Compute the rows of changed windows again, for the groups of late events."""
        within, _ = self._window
        times = read_times(Columns(kept), self.plan.time)
        begin = int(np.searchsorted(times, changed[0]))
        end = int(np.searchsorted(times, changed[-1] + within))
        part = kept.slice(begin, end - begin)
        part = part.filter(pa.array(groups.hold(part)))
        local = LocalTrends(job_of(self.work.plan))
        rows = self.inner.work.shown(local.answer_table(part, local.batch_rows))
        return rows.filter(pa.array(_in_windows(rows, changed)))

    def _versions(self, before: pa.Table, now: pa.Table) -> pa.Table:
        """Compare rows with those that were sent; return the new versions of what changed."""
        key = (*self.plan.partition.group_by, START)
        fields = self.inner.work.result_schema.names
        old = {_key(row, key): row for row in before.to_pylist()}
        versions: list[dict[str, Any]] = []
        for row in now.to_pylist():
            last = old.pop(_key(row, key), None)
            if last is None or last[OP] == DELETE:
                versions.append(row | {VERSION: 1 + (last[VERSION] if last else 0), OP: INSERT})
            elif any(not _equal(row[name], last[name]) for name in fields):
                versions.append(row | {VERSION: last[VERSION] + 1, OP: UPDATE})
        for last in old.values():
            if last[OP] != DELETE:
                gone = {name: last[name] for name in (*key, END)}
                versions.append(gone | {VERSION: last[VERSION] + 1, OP: DELETE})
        return pa.Table.from_pylist(versions, schema=self.work.result_schema)

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return self.work.result_schema.empty_table()

    def forget(self, state: Corrections, until: int) -> Corrections:
        """Drop the events and rows of windows that no accepted event can change."""
        within, _ = self._window
        final = until - self.lateness
        kept = state.kept.filter(pa.array(self._times(state.kept) >= final - within))
        late = state.late.filter(pa.array(self._times(state.late) + within > until))
        sent = state.sent.filter(pa.array(read_times(Columns(state.sent), END) > final))
        return Corrections(self.inner.forget(state.engine, until), kept, late, sent)

    def _times(self, events: pa.Table) -> NDArray[np.int64]:
        return read_times(Columns(events), self.plan.time)

    def measure(self, state: Corrections, came: Arrived) -> Size:
        """Count the partitions, and the windows that have begun."""
        return self.inner.measure(state.engine, came)


class Groups:
    """The groups of some events."""

    def __init__(self, names: tuple[str, ...], events: pa.Table) -> None:
        self._keys = KeyTable(names)
        self._keys.number(Columns(events))
        self._count = len(self._keys)

    def hold(self, table: pa.Table) -> NDArray[np.bool_]:
        """Mark the rows or events of these groups."""
        number = self._keys.copy().number(Columns(table))
        return np.asarray((number >= 0) & (number < self._count))


def _in_windows(rows: pa.Table, starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.isin(read_times(Columns(rows), START), starts)


def _inserted(rows: pa.Table) -> pa.Table:
    """Add the columns of first versions."""
    ones = pa.array(np.ones(len(rows), np.int64))
    inserts = pa.array([INSERT] * len(rows), pa.string())
    return rows.append_column(VERSION, ones).append_column(OP, inserts)


def _newest(sent: pa.Table, versions: pa.Table, groups: tuple[str, ...]) -> pa.Table:
    """Leave out the rows of which there is a newer version."""
    if not len(versions):
        return sent
    keys = KeyTable((*groups, START))
    keys.number(Columns(versions))
    count = len(keys)
    return sent.filter(pa.array(keys.number(Columns(sent)) >= count))


def _key(row: dict[str, Any], names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the values that identify a row; one NaN is like another, as groups are."""
    values = (row[name] for name in names)
    return tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in values)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)
