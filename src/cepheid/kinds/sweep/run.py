"""All values of one or two parameters in one pass: batches in, rows of every value out."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns
from cepheid.events.temporal import LONG_AGO
from cepheid.kernels.compose import add_rows
from cepheid.kinds.sweep.grid import Grid
from cepheid.kinds.sweep.leaves import Leaves, Scale, nodes_of, reach_of
from cepheid.kinds.sweep.segments import (
    Segments,
    firsts,
    fold,
    multiplied,
    numbered,
    shares,
    windows_of,
)
from cepheid.kinds.sweep.steps import Ints, Nodes, Product, add_nodes, pointers, reduce_nodes
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import NO_VALUE
from cepheid.kinds.trend.program.reading import read_arrays
from cepheid.kinds.trend.program.results import Added, build_added, groups_of
from cepheid.kinds.trend.program.wide import wide_of
from cepheid.kinds.trend.windows.step import PartitionState, admit, release
from cepheid.language import tree
from cepheid.memory_limits import check_rows
from cepheid.plans.plan import TrendPlan, WindowKind
from cepheid.plans.sweep import SweepPlan

BLOCK_EVENTS = 1 << 14
"""Events whose step functions are built together: their cells are in memory at once."""

GRID_EVENTS = 64
"""Events of a grid that become one node. The cells of a grid grow with the square of its events, so
longer stretches are not multiplied with each other, but one after the other with what began."""

CELLS_MAX = 1 << 17
"""Cells of panes whose windows are computed together, unless one key has more."""

ROW_BYTES = 32
"""The least size of a row: a value, a window and a number."""


class OnePass:
    """A query with one or two conditions on a parameter, over bounded input."""

    def __init__(self, sweep: SweepPlan, plan: TrendPlan) -> None:
        left = {threshold.local for threshold in sweep.thresholds}
        local = tuple(p for number, p in enumerate(plan.local) if number not in left)
        self.job = Job(plan)
        # Reads events without the conditions on a parameter.
        self._reader = Job(msgspec.structs.replace(plan, local=local), reports_only=True)
        (self.program,) = self.job.programs
        self.parameters = [threshold.parameter for threshold in sweep.thresholds]
        self.scales = [
            Scale.of(sweep.parameters[t.parameter], t, self.job.variables) for t in sweep.thresholds
        ]
        self.state = PartitionState(self.job)
        self._product = Product(self.program.start_size, reach_of(self.program))
        self._sliding = plan.window.kind is WindowKind.SLIDING
        self._grid = Grid.of(self.job, self.program, self.scales, matrices=self._sliding)
        self._closed: list[Segments] = []
        self._open: Segments | None = None
        self._last = np.zeros(1, np.int64)

    def feed(self, batch: pa.Table) -> None:
        """Process a batch; the events of the last time may wait for others."""
        self._process(admit(self.job, self.state, batch))

    def finish(self, schema: pa.Schema) -> tuple[pa.Table, dict[int, Ints]]:
        """Return the rows of all windows, and for each parameter the numbers of their values."""
        self._process(release(self.job, self.state, None))
        if self._open is not None:
            self._close(self._open)
        if self._closed:
            return self._rows(self._windows(Segments.joined(self._closed)), schema)
        nothing = Added(
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
            np.zeros((0, len(self.job.parts)), np.complex128),
            np.zeros((0, len(self.job.extremes)), np.int64),
        )
        groups = groups_of(self.job, self.state.keys)[1]
        rows = build_added(self.job, nothing, groups, schema)
        return rows, dict.fromkeys(self.parameters, np.zeros(0, np.int64))

    # Events to nodes -----------------------------------------------------------------------------

    def _process(self, ready: pa.Table | None) -> None:
        if ready is None or not len(ready):
            return
        columns = Columns(ready)
        leaves = self.leaves_of(columns)
        if leaves is not None:
            self._add(leaves, int(self._panes(self._last)[0]))

    def leaves_of(self, columns: Columns) -> Leaves | None:
        """Read the events that change something, by key; None if there are none."""
        arrays = read_arrays(self._reader, self.state.keys, columns)
        ranks = tuple(scale.ranks(columns) for scale in self.scales)
        numbers = columns.numbers(self.state.keys)
        if len(arrays.ts) < len(numbers):
            ranks = tuple(rank[numbers >= 0] for rank in ranks)
        if not len(arrays.ts):
            return None
        self._last = arrays.ts[-1:]
        leaves = Leaves(arrays, ranks)
        ignores = self.job.plan.semantics in (tree.Semantics.ANY_MATCH, tree.Semantics.NEXT_MATCH)
        if ignores and not arrays.bits.all():
            # Events that fit no variable change nothing.
            leaves = leaves.take(np.flatnonzero(arrays.bits != 0))
        if len(self.state.keys) > 1:
            leaves = leaves.take(np.argsort(leaves.arrays.key, kind="stable"))
        return leaves if len(leaves.arrays.ts) else None

    def _panes(self, times: Ints) -> Ints:
        """Compute the pane of every time."""
        window = self.job.plan.window
        if window.kind is WindowKind.NONE:
            return np.zeros(len(times), np.int64)
        return times // (window.pane if self._sliding else window.within)

    def _add(self, leaves: Leaves, last_pane: int) -> None:
        """Multiply the events of a batch with those before, and close panes that have ended."""
        before = self._open
        if self._grid is not None:
            before, leaves = self._on_grid(self._grid, leaves)
        if not len(leaves.arrays.ts):
            whole = before
        elif self._sliding:
            found = self._blocks(leaves)
            both = found if before is None else [before, *found]
            whole = multiplied(Segments.joined(both), self._product)
        else:
            whole = fold(before, Segments.joined(self._blocks(leaves)), self._product)
        assert whole is not None, "there are events"
        still = whole.pane >= last_pane
        self._open = whole.take(np.flatnonzero(still)) if still.any() else None
        if not still.all():
            self._close(whole.take(np.flatnonzero(~still)))

    def _on_grid(self, grid: Grid, leaves: Leaves) -> tuple[Segments | None, Leaves]:
        """Count on a grid, if it pays; return what began, and the events that are left."""
        key, ts = leaves.arrays.key, leaves.arrays.ts
        pane = self._panes(ts)
        tied = self.job.plan.ties is tree.Ties.STRICT and bool(
            ((key[1:] == key[:-1]) & (ts[1:] == ts[:-1])).any()
        )
        if tied or not grid.takes(int(numbered(key, pane)[-1]) + 1, leaves):
            return self._open, leaves
        found, done = grid.run(self._open, leaves, key, pane)
        return found, leaves.take(slice(done, None))

    def _blocks(self, leaves: Leaves) -> list[Segments]:
        """Build the nodes of a batch, block by block, and multiply those of a block."""
        key, ts = leaves.arrays.key, leaves.arrays.ts
        pane = self._panes(ts)
        new = np.ones(len(ts), np.bool_)
        if self.job.plan.ties is tree.Ties.STRICT:
            new[1:] = (key[1:] != key[:-1]) | (ts[1:] != ts[:-1])
        starts = np.append(np.flatnonzero(new), len(ts))
        group = np.cumsum(new) - 1
        short = GRID_EVENTS if len(self.scales) > 1 and not self._sliding else BLOCK_EVENTS
        found = []
        begin = 0
        while begin < len(starts) - 1:
            end = int(np.searchsorted(starts, starts[begin] + BLOCK_EVENTS, side="right")) - 1
            end = max(end, begin + 1)
            here = slice(int(starts[begin]), int(starts[end]))
            nodes = nodes_of(
                self.job, self.program, self.scales, leaves.take(here), group[here] - begin
            )
            heads = starts[begin:end]
            part = np.arange(end - begin) // short
            block = Segments(nodes, key[heads], pane[heads])
            found.append(multiplied(block, self._product, part))
            begin = end
        return found

    def _close(self, segments: Segments) -> None:
        """Keep of finished segments what their windows need."""
        if not self._sliding:
            segments = segments._replace(nodes=self._results(segments.nodes))
        self._closed.append(segments)

    # Nodes to rows -------------------------------------------------------------------------------

    def _windows(self, segments: Segments) -> Segments:
        """Compute the results of windows; ``pane`` is then what rows call their window."""
        window = self.job.plan.window
        if window.kind is WindowKind.NONE:
            return segments._replace(pane=np.full(len(segments.pane), LONG_AGO))
        if not self._sliding:
            return segments._replace(pane=segments.pane * window.within)
        # Keys by keys: matrices of all windows at once would be gigabytes of new memory.
        found = [self._overlapping(part) for part in shares(segments, CELLS_MAX)]
        return Segments.joined(found)

    def _overlapping(self, segments: Segments) -> Segments:
        """Compute the results of windows that overlap."""
        window = self.job.plan.window
        segments = multiplied(segments, self._product)
        panes, slide = window.within // window.pane, window.slide // window.pane
        segments = windows_of(segments, self._product, panes, slide)
        return segments._replace(nodes=self._results(segments.nodes))

    def _results(self, nodes: Nodes) -> Nodes:
        """Add up the configurations that count, for what began with the segment."""
        counted = np.flatnonzero(self.program.tables().counts)
        numbers, values = (array[counted, :, 0] for array in nodes.arrays[:2])
        if numbers.dtype.kind == "f":
            numbers = wide_of(numbers)
        several, parts, cells = numbers.shape
        mins = values.shape[1]
        total = np.zeros((cells, parts), np.complex128)
        least = np.full((cells, mins), NO_VALUE, np.int64)
        place = np.tile(np.arange(cells), several)
        rows = (
            np.moveaxis(numbers, -1, 1).reshape(cells * several, parts),
            np.moveaxis(values, -1, 1).reshape(cells * several, mins),
        )
        add_rows(*map(np.ascontiguousarray, rows), place, total, least, np.uint64(1))
        return nodes._replace(arrays=tuple(np.ascontiguousarray(a.T) for a in (total, least)))

    def _rows(self, segments: Segments, schema: pa.Schema) -> tuple[pa.Table, dict[int, Ints]]:
        """Add up the partitions of groups, and repeat every cell for the values in it."""
        group_of, values_of = groups_of(self.job, self.state.keys)
        group = group_of[segments.key]
        order = np.lexsort((segments.key, group, segments.pane))
        window, group = segments.pane[order], group[order]
        segment = numbered(window, group)
        nodes, _ = reduce_nodes(segments.nodes, order, segment, add_nodes)
        window, group = window[firsts(segment)], group[firsts(segment)]
        owner = np.repeat(np.arange(nodes.total), nodes.counts)
        numbers, extremes = (array.T for array in nodes.arrays)
        some = np.flatnonzero(numbers[:, 0].real != 0)
        added = Added(window[owner[some]], group[owner[some]], numbers[some], extremes[some])
        sides = _sides(nodes, self.scales, owner, some)
        lengths = [end - begin for begin, end in sides]
        repeats = np.prod(lengths, axis=0)
        check_rows(int(repeats.sum()), ROW_BYTES)
        ptr = pointers(repeats)
        row = np.repeat(np.arange(len(some)), repeats)
        inside = np.arange(int(ptr[-1])) - ptr[:-1][row]
        found: dict[int, Ints] = {}
        for number in reversed(range(len(self.scales))):
            inside, place = np.divmod(inside, lengths[number][row])
            rank = sides[number][0][row] + place
            found[self.parameters[number]] = self.scales[number].order[rank]
        return build_added(self.job, added, values_of, schema).take(row), found


def _sides(nodes: Nodes, scales: list[Scale], owner: Ints, cells: Ints) -> list[tuple[Ints, Ints]]:
    """Compute for cells, on each scale, where their interval begins and ends."""
    inside = np.arange(len(owner)) - nodes.cell[:-1][owner]
    width = nodes.second.counts[owner]
    places = (inside // width, inside % width)
    found = []
    for axis, place, scale in zip(nodes[:2], places, scales, strict=False):
        last = np.zeros(len(axis.begin), np.bool_)
        last[axis.ptr[1:] - 1] = True
        end = np.where(last, len(scale.values), np.append(axis.begin[1:], 0))
        here = (axis.ptr[:-1][owner] + place)[cells]
        found.append((axis.begin[here], end[here]))
    return found
