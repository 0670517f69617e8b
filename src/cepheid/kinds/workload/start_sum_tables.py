"""Convert a group with trailing windows to the arrays of ``kernels/shared_start_sums.py``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kinds.workload.shared_system import UNIT, SharedSystem
from cepheid.kinds.workload.shared_tables import SharedProgram, csr
from cepheid.kinds.workload.start_sum_system import summed_system
from cepheid.kinds.workload.trailing_tables import TrailingTables

SUM_MAX = 1 << 62
"""The largest sum over starts; two of them fit into 64 bits."""

STEP_NS, ENTRY_NS = 0.9, 4.0
"""Measured costs: of an entry of a product or of a vector; and for two stacks of an entry of the
shared matrix that an event changes, which is changed once behind and once before a stretch."""

Arrays = tuple[NDArray[Any], ...]


class StartSums(NamedTuple):
    """The kernel arrays, and for every code the numbers that an event computes and stores.

    ``kept`` has for every code how many numbers of a start are kept until it leaves.
    """

    adds: Arrays
    spread: Arrays
    results: Arrays
    steps: NDArray[np.int64]
    kept: NDArray[np.int64]


class StartSumProgram:
    """The arrays of a group for all kinds of events that its program knows."""

    def __init__(self, program: SharedProgram) -> None:
        self._program = program
        self._system = summed_system(program.group)
        self._by_symbol: dict[int, list[int]] = {}
        for number, node in enumerate(self._system.nodes if self._system else ()):
            if node.sources:
                self._by_symbol.setdefault(node.symbol, []).append(number)
        self._tables: StartSums | None = None
        self._known = -1

    @property
    def size(self) -> int:
        """Count the nodes."""
        return len(self._system.nodes) if self._system else 0

    def tables(self) -> StartSums | None:
        """Build the arrays for all kinds seen so far; None if the group cannot be counted so."""
        if self._system is not None and self._known != len(self._program.history):
            self._known, self._tables = len(self._program.history), self._build(self._system)
        return self._tables

    def _build(self, system: SharedSystem) -> StartSums:
        nodes = system.nodes
        targets = [
            [q for s in self._program.kinds.symbols_of(kind) for q in self._by_symbol.get(s, ())]
            for kind in self._program.history
        ]
        sources = {q: [r for r in nodes[q].sources if r != UNIT] for q in range(len(nodes))}
        above = _reaching(sources)
        below: list[list[int]] = [[] for _ in nodes]
        for q, reaching in enumerate(above):
            for r in reaching:
                below[r].append(q)
        begins = [[nodes[q].sources.count(UNIT) for q in own] for own in targets]
        readers: list[list[int]] = [[] for _ in nodes]
        for query, outputs in enumerate(system.outputs):
            for q in dict.fromkeys(outputs):
                readers[q].append(query)
        target_ptr, target = csr(targets)
        leaving = [sum(len(above[q]) for q in below[t]) for t in range(len(nodes))]
        kept = [
            sum(len(below[q]) for q, n in zip(own, starts, strict=True) if n)
            for own, starts in zip(targets, begins, strict=True)
        ]
        steps = [
            sum(len(above[r]) + len(below[q]) for q in own for r in sources[q])
            + sum(leaving[q] + len(below[q]) for q, n in zip(own, starts, strict=True) if n)
            for own, starts in zip(targets, begins, strict=True)
        ]
        return StartSums(
            (
                target_ptr, target, np.array([n for own in begins for n in own], np.int64),
                *csr([sources[q] for own in targets for q in own]),
            ),
            (*csr(below), *csr(above)),
            (*csr(readers), *csr([list(outputs) for outputs in system.outputs])),
            np.array(steps, np.int64),
            np.array(kept, np.int64),
        )  # fmt: skip

    def room(self, tables: StartSums, codes: NDArray[Any], seg: NDArray[np.int64]) -> Arrays:
        """Make products of no events, room for the starts of a partition, and buffers."""
        starts = _largest(tables.kept[codes] > 0, seg)
        numbers = _largest(tables.kept[codes], seg)
        queries = len(self._program.group.members)
        widest = int(np.diff(tables.adds[0]).max(initial=1))
        return (
            np.eye(self.size, dtype=np.int64), np.eye(self.size, dtype=np.int64),
            np.zeros(self.size, np.int64), np.empty(numbers, np.int64), np.empty(starts, np.int64),
            np.empty(starts, np.int32), np.zeros(max(widest, 1), np.int64),
            np.zeros(self.size, np.int64), np.zeros(queries, np.bool_),
            np.zeros(queries, np.int32),
        )  # fmt: skip


def are_cheaper(sums: StartSums, stacks: TrailingTables, codes: NDArray[Any]) -> bool:
    """Compare the costs of sums and of two stacks for events."""
    counts = np.bincount(codes, minlength=len(sums.steps))[: len(sums.steps)]
    entries = np.diff(stacks.before_ptr) + np.diff(stacks.end_ptr)
    return STEP_NS * float(counts @ sums.steps) <= ENTRY_NS * float(counts @ entries)


def _reaching(sources: dict[int, list[int]]) -> list[list[int]]:
    """List for every node those that lead to it, itself included."""
    found = []
    for node in sources:
        seen, waiting = {node}, [node]
        while waiting:
            for r in sources[waiting.pop()]:
                if r not in seen:
                    seen.add(r)
                    waiting.append(r)
        found.append(sorted(seen))
    return found


def _largest(numbers: NDArray[Any], seg: NDArray[np.int64]) -> int:
    """Return the largest sum of a partition, all of which have events."""
    return int(np.add.reduceat(numbers.astype(np.int64), seg[:-1]).max(initial=0))
