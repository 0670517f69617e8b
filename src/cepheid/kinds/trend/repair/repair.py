"""Aggregates of a table that changes: changes in, rows before and after them out (§18.6).

Every key and pane has a tree of matrices over its events. A change replaces the blocks that it
touches and the products above them, so it costs a block of events and O(log n) products; the rows
of the windows that it is in are products of the matrices of their panes. What other queries need
for this, ``jobs/changes/recompute.py`` computes anew.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, EventArrays
from cepheid.decoding import from_msgpack
from cepheid.jobs.changes.engine import Answer, Came, Left
from cepheid.jobs.tables import pack_table, table_from_bytes, table_to_bytes, unpack_table
from cepheid.kinds.trend.planning.needs import drops_events
from cepheid.kinds.trend.program.job import Job, lower
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.kinds.trend.program.partials import key_table
from cepheid.kinds.trend.program.reading import read_arrays
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.repair.cells import Cells
from cepheid.kinds.trend.repair.events import EventPool
from cepheid.kinds.trend.repair.level import Items, Level, Recut, distinct
from cepheid.kinds.trend.repair.matrices import Matrices
from cepheid.kinds.trend.steps import TrendSteps
from cepheid.kinds.trend.windows.summaries import pane_window
from cepheid.plans.plan import TrendPlan, WindowKind

Numbers = NDArray[np.int64]

LEAF_EVENTS, FAN = 32, 16
"""Events of a block, and blocks of a block above it."""

KEYS_AT_ONCE = 1 << 14
"""So many keys are answered at once: a bound of memory."""

NO_ROW = -1


class Repairs:
    """The rows of a query that follow changes."""

    def __init__(self, plan: TrendPlan, schema: pa.Schema) -> None:
        self.job: Job = lower(plan)
        self.schema = schema
        window = pane_window(plan.window)
        self._within = 0 if plan.window.kind is WindowKind.NONE else window.within
        self.cells = Cells(plan.partition, window.pane, window.within // window.pane)
        self.pool, self.matrices = EventPool(), Matrices(self.job)
        self.levels = [Level(LEAF_EVENTS)]
        self._drops = drops_events(plan)

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return TrendSteps(self.job, self.schema).nothing()

    def change(self, left: Left, came: Came) -> Answer:
        """Apply changes; return notes of the events that came, and rows before and after."""
        columns = Columns(came.events)
        arrays = read_arrays(self.job, self.cells.keys, columns)
        rows = np.flatnonzero(columns.numbers(self.cells.keys) >= 0)
        if self._drops:
            fits = np.flatnonzero(arrays.bits != 0)
            arrays, rows = arrays.take(fits), rows[fits]
        if not self.cells.whole and len(rows) < len(came.events):
            columns = Columns(came.events.take(rows))
        cells = self.cells.number(columns, arrays.key, arrays.ts)
        notes = np.full(len(came.events), NO_ROW, np.int64)
        gone = left.notes[left.notes != NO_ROW]
        touched = distinct(len(self.cells), self.pool.cell[gone], cells)
        needed = self.cells.needed(touched)
        before = self._rows(needed, touched)
        order = np.lexsort((arrays.ts, cells))
        notes[rows] = self.pool.add(arrays, cells)
        come = Items(cells[order], arrays.ts[order], notes[rows][order])
        leave = Items(self.pool.cell[gone], self.pool.ts[gone], gone)
        self._repair(leave, come)
        self.pool.free(gone)
        return Answer(notes, before, self._rows(needed, touched))

    def _repair(self, leave: Items, come: Items) -> None:
        """Replace blocks from the lowest level up."""
        for number, level in enumerate(self.levels):
            recut = level.change(leave, come)
            nodes = self._made(recut, number)
            level.put_nodes(recut, nodes)
            leave, come = recut.gone, Items(recut.cell, recut.first, nodes)
            self.matrices.free(recut.gone.item)
        while self.levels[-1].most > FAN:
            below, nothing = self.levels[-1], np.zeros(0, np.int64)
            above = Level(FAN)
            recut = above.change(
                Items(nothing, nothing, nothing), Items(below.cell, below.first, below.node)
            )
            above.put_nodes(recut, self._made(recut, len(self.levels)))
            self.levels.append(above)

    def _made(self, recut: Recut, number: int) -> Numbers:
        """Make the matrices of new blocks."""
        if not len(recut.starts):
            return np.zeros(0, np.int64)
        if number == 0:
            events = self.pool.arrays(recut.item, recut.time, recut.block)
            return self.matrices.of_events(events, recut.starts)
        return self.matrices.of_nodes(recut.item, recut.block, len(recut.starts))

    def _rows(self, needed: Numbers, touched: Numbers) -> pa.Table:
        """Compute the rows of the windows of touched cells from the cells that they need."""
        if not self.levels[0].used:
            return self.nothing()
        nodes, counts = self.levels[-1].nodes_of(needed)
        cells = np.repeat(needed, counts)
        keys, number = np.unique(self.cells.key[cells], return_inverse=True)
        found: list[list[Rows]] = [[] for _ in range(self.matrices.runs)]
        pane = self.cells.at[cells]
        cuts = np.searchsorted(number, np.arange(0, len(keys) + KEYS_AT_ONCE, KEYS_AT_ONCE))
        for turn, begin in enumerate(cuts[:-1]):
            here, first = slice(int(begin), int(cuts[turn + 1])), turn * KEYS_AT_ONCE
            some = self.matrices.rows(number[here] - first, pane[here], nodes[here])
            for own, rows in zip(found, some, strict=True):
                own += [one._replace(key=one.key + first) for one in rows]
        if self.cells.per_window > 1:
            found = [[self._changed(one, keys, touched) for one in own] for own in found]
        return build_table(self.job, found, self.cells.keys.take(keys), self.schema)

    def _changed(self, rows: Rows, keys: Numbers, touched: Numbers) -> Rows:
        """Keep the rows of windows that touched cells are in; others lack some of their panes."""
        kept = self.cells.changed(keys[rows.key], rows.window, touched)
        return Rows(*(column[kept] for column in rows))

    # Saving and forgetting -----------------------------------------------------------------------

    def forget(self, until: int) -> None:
        """Forget the cells of windows that no later change can be in."""
        if not self._within:
            return
        last = (self.cells.at[: len(self.cells)] + 1) * self.cells.pane
        gone = last + self._within - self.cells.pane <= until
        if 2 * gone.sum() <= len(gone):
            return  # Packing costs as much as is kept.
        rows, nodes = self.levels[0].drop(gone)
        self.pool.free(rows)
        self.matrices.free(nodes)
        for level in self.levels[1:]:
            self.matrices.free(level.drop(gone)[1])
        numbers = self.cells.keep(~gone)
        for level in self.levels:
            level.cell = numbers[level.cell]
        self.pool.cell = numbers[np.minimum(self.pool.cell, len(numbers) - 1)]

    def to_bytes(self) -> bytes:
        """Serialize the events; matrices are made anew."""
        items = self.levels[0].everything()
        arrays = self.pool.arrays(*items[::-1]) if len(items) else None
        keys = key_table(self.cells.keys, np.arange(len(self.cells.keys)), self.schema)
        events = {
            "row": items.item,
            "time": items.time,
            "key": self.cells.key[items.cell],
        }
        if arrays is not None:
            events["bits"] = arrays.bits
            events |= {f"w{n}": row for n, row in enumerate(arrays.weights)}
            events |= {f"v{n}": row for n, row in enumerate(arrays.values)}
        table = pa.table({name: pa.array(own) for name, own in events.items()})
        packed = pack_table(table, jumps=True)
        return msgspec.msgpack.encode(_Saved(table_to_bytes(keys), packed))

    def read(self, data: bytes) -> None:
        """Deserialize what ``to_bytes`` wrote."""
        saved = from_msgpack(data, _Saved)
        names, table = table_from_bytes(saved.keys), unpack_table(saved.events)
        if not len(table):
            return
        own = {name: table[name].to_numpy() for name in table.column_names}
        number = self.cells.keys.number(Columns(names))[own["key"]]
        weights, values = (_stacked(own, letter, len(table)) for letter in "wv")
        arrays = EventArrays(own["time"], number, own["bits"], weights, values)
        of_key = names.take(own["key"]) if not self.cells.whole else names
        cells = self.cells.number(Columns(of_key), number, arrays.ts)
        self.pool.put(own["row"], arrays, cells)
        order = np.lexsort((np.arange(len(cells)), arrays.ts, cells))
        come = Items(cells[order], arrays.ts[order], own["row"][order])
        nothing = np.zeros(0, np.int64)
        self._repair(Items(nothing, nothing, nothing), come)


class _Saved(msgspec.Struct, array_like=True):
    keys: bytes
    events: bytes


def _stacked(columns: dict[str, Any], letter: str, length: int) -> NDArray[Any]:
    """Put rows of weights or values together again."""
    names = sorted(
        (n for n in columns if n[0] == letter and n[1:].isdecimal()), key=lambda n: int(n[1:])
    )
    if not names:
        return np.zeros((0, length), np.float64 if letter == "w" else np.int64)
    return np.stack([columns[name] for name in names])
