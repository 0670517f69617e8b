"""Which events are there, by id: batches of changes in, events that leave and come out (§18.2).

    settle(changes)  ->  Settled: the places of events that leave, the rows that come

Every event that comes gets a *place*, a number that counts up. The ledger has, for every id, the
place and the time of its event. It has no events: those belong to whoever keeps it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, KeyTable, read_times
from cepheid.arrays.key_values import KeyValues, join
from cepheid.decoding import from_msgpack
from cepheid.errors import DataError, Diagnostic
from cepheid.events.temporal import LONG_AGO, TIME_MAX
from cepheid.jobs.changes.asked import Changes
from cepheid.jobs.changes.hashing import hash_rows
from cepheid.jobs.changes.ops import BAD, BEFORE, DELETE, INSERT, SPELLINGS, UPDATE, read_ops
from cepheid.jobs.ordering import ranks
from cepheid.jobs.tables import pack_table, unpack_table

Numbers = NDArray[np.int64]

NOWHERE = -1
"""The place of an id without an event."""

_HASHED = ("__first", "__second")
"""The columns by which events without an id are known."""

_ARRAYS = ("place", "at", "note")
"""The columns of every id."""

_EQUAL = "__equal"
"""The column with the number of equal events."""


class Counts(NamedTuple):
    """Counts of changes in a batch that had no effect, or an unusual one (§18.3, §18.4, §18.7)."""

    bad: int = 0
    odd: int = 0
    late: int = 0

    def plus(self, other: Counts) -> Counts:
        """Add the numbers of another batch."""
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))


class Settled(NamedTuple):
    """The edits of a batch: places of events to remove, and rows of the batch to insert."""

    left: Numbers
    """The places, times and notes of the events that leave."""
    left_times: Numbers
    left_notes: Numbers
    rows: Numbers
    """The rows of the batch that come, in order; then their ids, places and times."""
    ids: Numbers
    places: Numbers
    times: Numbers
    counts: Counts
    latest: int
    """The latest time that a change adds, whatever becomes of its event."""


class Batch(NamedTuple):
    """Changes as numbers: operations, ids and times; ``row`` is where each one stands."""

    op: NDArray[np.int8]
    id: Numbers
    time: Numbers
    row: Numbers

    def where(self, chosen: NDArray[np.bool_]) -> Batch:
        """Select the changes of a mask."""
        return self if chosen.all() else self.take(chosen)

    def take(self, chosen: NDArray[Any]) -> Batch:
        """Select some of the changes."""
        return Batch(*(column[chosen] for column in self))


class Ledger:
    """The ids of a table that changes; ``strict`` refuses bad changes."""

    def __init__(self, changes: Changes, time: str, *, strict: bool) -> None:
        self.changes, self.time, self.strict = changes, time, strict
        self.keys = KeyTable(changes.id or _HASHED)
        # Equal events have a number each: pairs of what they are and the how many-th.
        self._several = KeyValues()
        self._equal = np.zeros(0, np.int64)
        self.place = np.zeros(0, np.int64)
        self.at = np.zeros(0, np.int64)
        self._turn = np.zeros(0, np.int64)
        self.note = np.zeros(0, np.int64)
        """A number that the owner gives to every event."""
        self.next = 0

    def __len__(self) -> int:
        """Count the ids that have an event."""
        return int((self.place[: self._size] >= 0).sum())

    @property
    def known(self) -> int:
        """Count the ids that are known, whether they have an event or not."""
        return len(self.keys)

    def write(self, ids: Numbers, notes: Numbers) -> None:
        """Keep the notes of events."""
        self.note[ids] = notes

    def settle(self, table: pa.Table, until: int = LONG_AGO) -> Settled:
        """Apply changes in order; events before a time are final.

        Raises
        ------
        DataError
            E505 if a column is missing, E583 if a change is bad and that is not allowed.
        """
        self.changes.check_columns(table.column_names)
        if self.changes.order:
            turned = _order(table, self.changes.order)
            found = self._settle(table.take(turned), until)
            return found._replace(rows=turned[found.rows])
        return self._settle(table, until)

    def _settle(self, table: pa.Table, until: int) -> Settled:
        batch, bad = self._read(table)
        adds = (batch.op != DELETE) & (batch.op != BEFORE)
        late = adds & (batch.time < until)
        latest = int(batch.time[adds].max(initial=LONG_AGO))
        batch, odd = batch.where(~late), 0
        self._let_go(until)
        if not self.changes.id:
            batch, odd = self._by_occurrence(batch)
        return self._settled(batch, Counts(bad, odd, int(late.sum())), latest)

    def _read(self, table: pa.Table) -> tuple[Batch, int]:
        """Read the changes that are not bad, and count the others."""
        op = read_ops(table[self.changes.op])
        number = self.keys.number(Columns(self._known_by(table)))
        wrong = {
            f"the operation is none of {SPELLINGS}": op == BAD,
            "the id is NULL": (number < 0) & (op != BAD),
        }
        if not self.changes.id:
            wrong["an update without an id does not say what it replaces"] = op == UPDATE
        adds = (op != DELETE) & (op != BEFORE)
        times = np.zeros(len(table), np.int64)
        rows = np.flatnonzero(adds & (op != BAD))
        if len(rows):
            times[rows], valid = read_added(table, rows, self.time, strict=self.strict)
            unread = np.zeros(len(table), np.bool_)
            unread[rows] = ~valid
            wrong["the time is NULL or out of range"] = unread
        bad = np.zeros(len(table), np.bool_)
        for why, here in wrong.items():
            if self.strict and here.any():
                _refuse(why, int(np.flatnonzero(here)[0]), table, self.changes)
            bad |= here
        says_nothing = (op == BEFORE) & bool(self.changes.id)
        batch = Batch(op, number, times, np.arange(len(table)))
        return batch.where(~bad & ~says_nothing), int(bad.sum())

    def _known_by(self, table: pa.Table) -> pa.Table:
        """Return the columns that tell events apart; without an id, two numbers for all of them."""
        if self.changes.id:
            return table.select(list(self.changes.id))
        names = sorted(self.changes.attributes(table.column_names))
        lanes = hash_rows([table[name] for name in names], len(table))
        arrays = (pa.array(lane.view(np.int64)) for lane in lanes)
        return pa.table(dict(zip(_HASHED, arrays, strict=True)))

    def _let_go(self, until: int) -> None:
        """Free the ids of final events."""
        if until > LONG_AGO:
            final = (self.place >= 0) & (self.at < until)
            self.place[final] = NOWHERE
            if not self.changes.id:
                left, _ = self._pairs()
                self._equal[left[np.flatnonzero(final)]] = 0

    def _pairs(self) -> tuple[Numbers, Numbers]:
        codes = np.asarray(self._several.known, np.int64) if len(self._several) else self.place
        return codes >> 32, codes & 0xFFFFFFFF

    def _by_occurrence(self, batch: Batch) -> tuple[Batch, int]:
        """Give equal events numbers, so that each has an id; deletes take the last (§18.2)."""
        self._equal = _longer(self._equal, len(self.keys), 0)
        order = np.argsort(batch.id, kind="stable")
        kind = batch.id[order]
        adds = ~np.isin(batch.op[order], (DELETE, BEFORE))
        first = _firsts(kind)
        group = np.cumsum(first) - 1
        total = np.cumsum(np.where(adds, 1, -1))
        starts = np.flatnonzero(first)
        before = np.where(starts > 0, total[starts - 1], 0)
        running = total - before[group] + self._equal[kind]
        # The least number so far in each group: later groups lie lower than all before them.
        step = 2 * len(kind) + int(self._equal.max(initial=0)) + 1
        lowest = np.minimum.accumulate(running - group * step) + group * step
        count = running - np.minimum(lowest, 0)
        previous = np.where(first, self._equal[kind], np.roll(count, 1))
        if len(kind):
            last = np.append(starts[1:], len(kind)) - 1
            self._equal[kind[last]] = count[last]
        there = adds | (previous > 0)
        occurrence = np.where(adds, count, previous)
        ids = np.full(len(batch.id), NOWHERE, np.int64)
        ids[order[there]] = self._several.add_pairs(kind[there], occurrence[there])
        found = batch._replace(id=ids)
        return found.take(ids >= 0), int((~there).sum())

    def _settled(self, batch: Batch, counts: Counts, latest: int) -> Settled:
        """Find the last change of every id; the ones before it only count."""
        size = len(self.keys) if self.changes.id else len(self._several)
        self.place = _longer(self.place, size, NOWHERE)
        self.at = _longer(self.at, size, 0)
        self.note = _longer(self.note, size, 0)
        adds = batch.op != DELETE
        if not self.changes.id:
            adds &= batch.op != BEFORE
        there = self.place[batch.id] >= 0
        first, last = np.ones((2, len(batch.id)), np.bool_)
        # Few ids have several changes in a batch; only these are sorted.
        several = self._with_others(batch.id, size)
        if len(several):
            several = several[np.argsort(batch.id[several], kind="stable")]
            begins = _firsts(batch.id[several])
            first[several], last[several] = begins, np.append(begins[1:], True)  # a value
            there[several] = np.where(begins, there[several], np.roll(adds[several], 1))
        odd = np.where(batch.op == INSERT, there, ~there)
        if self.changes.id:
            counts = counts._replace(odd=counts.odd + int(odd.sum()))
        touched = batch.id[first]
        leaves = touched[self.place[touched] >= 0]
        left = self.place[leaves], self.at[leaves], self.note[leaves]
        self.place[touched] = NOWHERE
        comes = batch.where(last & adds)
        places = self.next + np.arange(len(comes.id))
        self.next += len(comes.id)
        self.place[comes.id], self.at[comes.id] = places, comes.time
        return Settled(*left, comes.row, comes.id, places, comes.time, counts, latest)

    def _with_others(self, ids: Numbers, size: int) -> Numbers:
        """Find the changes whose ids have other changes in the batch."""
        order = np.arange(len(ids))
        self._turn = _longer(self._turn, size, 0)
        self._turn[ids] = order
        earlier = self._turn[ids] != order
        if not earlier.any():
            return np.zeros(0, np.int64)
        self._turn[ids[earlier]] = -1
        return np.flatnonzero(self._turn[ids] < 0)

    # Saving --------------------------------------------------------------------------------------

    @property
    def _size(self) -> int:
        return len(self.keys) if self.changes.id else len(self._several)

    def compact(self) -> None:
        """Forget the ids that have no event, if most have none."""
        kept = np.flatnonzero(self.place[: self._size] >= 0)
        if 2 * len(kept) >= self._size:
            return  # Numbering the others anew costs as much as is kept.
        if self.changes.id:
            self.keys = self.keys.take(kept)
        else:
            kinds, numbers = (part[kept] for part in self._pairs())
            seen, renumbered = np.unique(kinds, return_inverse=True)
            self.keys, self._equal = self.keys.take(seen), self._equal[seen]
            self._several = KeyValues()
            self._several.add(pa.array(join(renumbered, numbers)))
        self.place, self.at, self.note = self.place[kept], self.at[kept], self.note[kept]

    def to_bytes(self) -> bytes:
        """Serialize the ids that have an event."""
        kept = np.flatnonzero(self.place[: self._size] >= 0)
        own = {name: pa.array(getattr(self, name)[kept]) for name in _ARRAYS}
        kinds = kept
        if not self.changes.id:
            of_event, number = (part[kept] for part in self._pairs())
            kinds, renumbered = np.unique(of_event, return_inverse=True)
            own["pair"] = pa.array(join(renumbered, number))
        keys = {
            name: values.take(pa.array(kinds)) if len(kinds) else values.slice(0, 0)
            for name, values in zip(self.keys.names, self.keys.arrays(), strict=True)
        }
        if not self.changes.id:
            keys[_EQUAL] = pa.array(self._equal[kinds])
        tables = (pack_table(pa.table(one), jumps=True) for one in (keys, own))
        return msgspec.msgpack.encode(_Saved(self.next, *tables))

    def read(self, data: bytes) -> None:
        """Deserialize what ``to_bytes`` wrote."""
        saved = from_msgpack(data, _Saved)
        keys, events = unpack_table(saved.keys), unpack_table(saved.events)
        self.next = saved.next
        if len(keys):
            self.keys.restore([_array(keys[name]) for name in self.keys.names])
        self.place, self.at, self.note = (events[name].to_numpy().copy() for name in _ARRAYS)
        if not self.changes.id:
            self._equal = keys[_EQUAL].to_numpy().copy()
            if len(events):
                self._several.add(_array(events["pair"]))


class _Saved(msgspec.Struct, array_like=True):
    next: int
    keys: bytes
    events: bytes


def _array(column: Any) -> Any:
    return pa.concat_arrays([*column.chunks, pa.array([], column.type)])


def _firsts(numbers: Numbers) -> NDArray[np.bool_]:
    """Mark the first of equal neighbours."""
    first = np.ones(len(numbers), np.bool_)
    first[1:] = numbers[1:] != numbers[:-1]
    return first


def _longer(array: Numbers, size: int, fill: int) -> Numbers:
    if size <= len(array):
        return array
    longer = np.full(max(size, 2 * len(array)), fill, np.int64)
    longer[: len(array)] = array
    return longer


def _order(table: pa.Table, names: tuple[str, ...]) -> Numbers:
    """Return where each row stands in the order of some columns, NULL first."""
    found = []
    for name in reversed(names):
        column = table[name]
        found.append(np.where(np.asarray(column.is_null()), -1, ranks(column)))
    return np.lexsort(found)


def read_added(
    table: pa.Table, rows: Numbers, name: str, *, strict: bool
) -> tuple[Numbers, NDArray[np.bool_]]:
    """Read the times of rows, and mark those that are times of events."""
    outer = name if name in table.column_names else name.partition(".")[0]
    part = table.select([outer]) if outer in table.column_names else table
    columns = Columns(part.take(rows) if len(rows) < len(table) else part)
    if strict:
        return read_times(columns, name), np.ones(len(rows), np.bool_)
    vector = columns.ticks(name)
    times = np.asarray(vector.data, np.int64)
    valid = np.ones(len(rows), np.bool_) if vector.valid is None else vector.valid.copy()
    valid &= (times >= -TIME_MAX) & (times <= TIME_MAX)
    return np.where(valid, times, 0), valid


def _refuse(why: str, row: int, table: pa.Table, changes: Changes) -> None:
    op = table[changes.op][row].as_py()
    message = f"the change in row {row} is bad: {why}; `{changes.op}` is {op!r}"
    helps = ['name the columns that tell events apart: changes={"op": ..., "id": [...]}']
    raise DataError([Diagnostic("E583", message, helps=tuple(helps) if "id" in why else ())])
