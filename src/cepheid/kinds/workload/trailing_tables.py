"""Convert the merged system of a group with trailing windows to the further arrays of its kernel.

An event behind a stretch adds to the entries that end in its configurations; the tables of all
groups say how. An event before a stretch adds to the entries that begin in configurations which it
extends: the entry from r to q gains the entry from t to q, if the event leads from r to t.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kinds.workload.look_back_sharing import needs_expiries
from cepheid.kinds.workload.shared_system import UNIT, Place
from cepheid.kinds.workload.shared_tables import SOURCES_MAX, SharedProgram, csr


class TrailingTables(NamedTuple):
    """The kernel arrays; those with two names are lists for every code of events.

    Attributes
    ----------
    end_query
        The queries of which a match may end; where events that leave are reported, all whose
        matches an event may change.
    before, after, bound
        Entries that grow by an event before the stretch, the entries that they gain, and nodes that
        tell what the event adds to sums and extremes.
    reset
        Entries that an event before the stretch empties.
    row
        Whether a node is an entry of the empty match, which results read.
    rows_touched
        For every code the number of such nodes that an event before the stretch changes.
    left_query
        For every node the queries that read it as part of their matches.
    """

    end_ptr: NDArray[np.int32]
    end_query: NDArray[np.int32]
    before_ptr: NDArray[np.int32]
    before: NDArray[np.int32]
    after: NDArray[np.int32]
    bound: NDArray[np.int32]
    reset_ptr: NDArray[np.int32]
    reset: NDArray[np.int32]
    row: NDArray[np.bool_]
    rows_touched: NDArray[np.int64]
    left_ptr: NDArray[np.int32]
    left_query: NDArray[np.int32]


Arrays = tuple[NDArray[Any], ...]


class TrailingCounts(NamedTuple):
    """The arrays of the count-only kernel; unsigned indexes avoid the check for negative ones.

    What events add behind the back, what they add before the front, and what results read.
    """

    behind: Arrays
    ahead: Arrays
    results: Arrays


class TrailingProgram:
    """The arrays of a group for all kinds of events that its program knows."""

    def __init__(self, program: SharedProgram) -> None:
        self._program = program
        self.expiries = needs_expiries(program.group.plan)
        system = program.group.system
        self._queries_of: dict[int, list[int]] = {}
        for query, outputs in enumerate(system.outputs):
            for node in outputs:
                self._queries_of.setdefault(node, []).append(query)
        self._row = np.zeros(len(system.nodes), np.bool_)
        for outputs in system.outputs:
            for node in outputs:
                self._row[[left for left, _ in system.products[node]]] = True
        self._row[UNIT] = False
        self._readers = csr([self._readers_of(node) for node in range(len(system.nodes))])
        self._before: dict[int, list[tuple[int, int, int]]] = {}
        self._reset: dict[int, list[int]] = {}
        self._prepare()
        self._tables: TrailingTables | None = None
        self._counts: TrailingCounts | None = None
        self._known = -1

    def _prepare(self) -> None:
        """List for every symbol what its events change before a stretch."""
        group = self._program.group
        places = group.system.places
        # Merged entries are equal over every stretch, so one of them tells of all.
        first: dict[int, Place] = {}
        for place, node in places.items():
            first.setdefault(node, place)
        followers = [_followers([cell.sources for cell in cells]) for cells in group.cells]
        for node, (n, r, q) in first.items():
            if node == UNIT:
                continue
            cells = group.cells[n]
            for symbol in cells[r].clears:
                self._reset.setdefault(symbol, []).append(node)
            for t in followers[n][r]:
                if (n, t, q) in places:
                    found = (node, places[n, t, q], places[n, r, t])
                    self._before.setdefault(cells[t].symbol, []).append(found)

    def _readers_of(self, node: int) -> list[int]:
        """List the queries with a match that may begin with a row of the front."""
        system = self._program.group.system
        return [
            query
            for query, outputs in enumerate(system.outputs)
            if self._row[node] and any(node == x for o in outputs for x, _ in system.products[o])
        ]

    def tables(self) -> TrailingTables:
        """Build the arrays for all kinds seen so far."""
        history = self._program.history
        if self._tables is None or self._known != len(history):
            self._known, self._counts = len(history), None
            symbols = [self._program.kinds.symbols_of(kind) for kind in history]
            changes = [[c for s in own for c in self._before.get(s, ())] for own in symbols]
            resets = [
                list(dict.fromkeys(q for s in own for q in self._reset.get(s, ())))
                for own in symbols
            ]
            before_ptr, before = csr([[x for x, _, _ in own] for own in changes])
            _, after = csr([[y for _, y, _ in own] for own in changes])
            _, bound = csr([[b for _, _, b in own] for own in changes])
            touched = [
                sum(self._row[q] for q in [*(x for x, _, _ in own), *gone])
                for own, gone in zip(changes, resets, strict=True)
            ]
            self._tables = TrailingTables(
                *csr([self._ends(code) for code in range(len(history))]),
                before_ptr, before, after, bound, *csr(resets), self._row,
                np.array(touched, np.int64), *self._readers,
            )  # fmt: skip
        return self._tables

    def counts(self) -> TrailingCounts | None:
        """Build the arrays of the count-only kernel; None if they would need much padding."""
        tables, common = self.tables(), self._program.tables()
        if self._counts is None:
            targets = [self._program.targets_of(code) for code in range(self._known)]
            lists = np.split(common.source, common.source_ptr[1:-1])
            sources = [lists[q].tolist() for own in targets for q in own]
            width = max([1, *map(len, sources)])
            if width > SOURCES_MAX:
                return None
            # One node more stays zero.
            padded = [own + [self._program.size] * (width - len(own)) for own in sources]
            unsigned = np.array(padded, np.uint32).reshape(-1, width)
            behind = (
                common.target_ptr, common.target.astype(np.uint32), unsigned, common.clear_ptr,
                common.clear.astype(np.uint32), common.initial.astype(np.float64), common.idle,
                common.once,
            )  # fmt: skip
            ahead = (
                tables.end_ptr, tables.end_query, tables.before_ptr,
                tables.before.astype(np.uint32), tables.after.astype(np.uint32), tables.reset_ptr,
                tables.reset.astype(np.uint32), tables.row, tables.rows_touched, tables.left_ptr,
                tables.left_query,
            )  # fmt: skip
            results = (
                common.output_ptr, common.output, common.product_ptr,
                common.left.astype(np.uint32), common.right.astype(np.uint32),
            )  # fmt: skip
            self._counts = TrailingCounts(behind, ahead, results)
        return self._counts

    def _ends(self, code: int) -> list[int]:
        """List the queries of which an event may end a match, or change one."""
        nodes = self._program.group.system.nodes
        changed = self._program.targets_of(code)
        if self.expiries:
            # Partitions are added up at times of each other, so every change of one counts.
            changed = [*changed, *self._program.clears_of(code)]
        else:
            # Events of a negated pattern move matches that have ended before.
            changed = [q for q in changed if not nodes[q].once]
        return sorted({n for q in changed for n in self._queries_of.get(q, ())})


def _followers(sources: list[tuple[int, ...]]) -> list[list[int]]:
    """List for each configuration those that it leads to, once for each transition."""
    found: list[list[int]] = [[] for _ in sources]
    for target, own in enumerate(sources):
        for source in own:
            found[source].append(target)
    return found
