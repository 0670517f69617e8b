"""Convert a merged system to kernel arrays; kinds of events are numbered as they appear.

A *kind* is everything that a group distinguishes about an event: its type, and the local predicates
of this type that hold. A code is the number of a kind that has been seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kinds.workload.shared_system import UNIT
from cepheid.kinds.workload.sharing import Group, Method
from cepheid.language import tree
from cepheid.patterns.symbols import Symbol

KINDS_KNOWN_MAX = 256
"""Up to this number, all kinds are learned at once: then kinds are codes, and fit into bytes."""


SOURCES_MAX = 4
"""With more sources per node, the count-only kernel would add too many zeros."""


class SharedTables(NamedTuple):
    """The kernel arrays of a group; nodes are those of the merged system and a few more.

    Where a group keeps a vector, each heap has its own unit, and one node stays zero.
    """

    target_ptr: NDArray[np.int32]
    target: NDArray[np.int32]
    clear_ptr: NDArray[np.int32]
    clear: NDArray[np.int32]
    idle: NDArray[np.bool_]
    source_ptr: NDArray[np.int32]
    source: NDArray[np.int32]
    kept: NDArray[np.bool_]
    initial: NDArray[np.bool_]
    unit: NDArray[np.bool_]
    heap: NDArray[np.int32]
    heap_ptr: NDArray[np.int32]
    heap_node: NDArray[np.int32]
    heap_unit: NDArray[np.int32]
    weight_row: NDArray[np.int32]
    value_row: NDArray[np.int32]
    output_ptr: NDArray[np.int32]
    output: NDArray[np.int32]
    product_ptr: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    once: NDArray[np.bool_]


class Counts(NamedTuple):
    """The arrays of the count-only kernel: for every code the nodes that grow, contiguously.

    ``source`` has the sources of each, padded with a node that is always zero; ``unit`` is the unit
    among them, or -1. Unsigned indexes avoid the check for negative ones.
    """

    target_ptr: NDArray[np.int32]
    target: NDArray[np.uint32]
    source: NDArray[np.uint32]
    unit: NDArray[np.int32]
    clear_ptr: NDArray[np.int32]
    clear: NDArray[np.uint32]


class Kinds:
    """The classes of events in a group: by type, and by the local predicates of each type."""

    def __init__(self, symbols: Sequence[Symbol]) -> None:
        self.types: dict[str | None, int] = {}
        conditions: dict[frozenset[tree.Expression], int] = {}
        # For each type its conditions, and its symbols with the bit of their condition, or -1.
        own: dict[str | None, dict[int, int]] = {}
        self._symbols: dict[str | None, list[tuple[int, int]]] = {}
        for number, symbol in enumerate(symbols):
            name = symbol.event_type
            self.types.setdefault(name, len(self.types) + 1)
            bits = own.setdefault(name, {})
            bit = -1
            if symbol.conditions:
                condition = conditions.setdefault(symbol.conditions, len(conditions))
                bit = bits.setdefault(condition, len(bits))
            self._symbols.setdefault(name, []).append((number, bit))
        self.conditions = list(conditions)
        # Kind 0: events of irrelevant types. Types follow, each with 2^conditions kinds.
        self.base = np.zeros(len(self.types) + 1, np.int64)
        self.shift = np.zeros((len(conditions), len(self.types) + 1), np.int64)
        self.count = 1
        for name, number in self.types.items():
            self.base[number] = self.count
            for condition, bit in own[name].items():
                self.shift[condition, number] = 1 << bit
            self.count += 1 << len(own[name])
        self.dtype: Any = np.uint8 if self.count <= KINDS_KNOWN_MAX else np.int64

    def symbols_of(self, kind: int) -> list[int]:
        """List the symbols of events of a kind."""
        if kind == 0:
            return []
        number = int(np.searchsorted(self.base[1:], kind, side="right"))
        bits = kind - int(self.base[number])
        own = self._symbols[list(self.types)[number - 1]]
        return [symbol for symbol, bit in own if bit < 0 or bits >> bit & 1]


class SharedProgram:
    """The merged system of a group as arrays; it grows with the kinds in the data.

    ``modulus`` is that of residues, 0 for the default numbers, and ``output`` the number of their
    rows among those of a query.
    """

    def __init__(self, group: Group, modulus: int = 0, output: int = 0) -> None:
        self.group, self.modulus, self.output = group, modulus, output
        self.kinds = Kinds(group.symbols)
        self.scaled = group.method is Method.VECTOR
        system = group.system
        nodes = system.nodes
        self.heaps = _heaps([n.sources for n in nodes]) if self.scaled else [0] * len(nodes)
        count = max(self.heaps) + 1
        self.size = len(nodes) + count + 1 if self.scaled else len(nodes)
        self.zero = self.size - 1
        self.units = [len(nodes) + h for h in range(count)] if self.scaled else [UNIT]
        self.code_of_kind = np.full(self.kinds.count, -1, np.int32)
        self.history: list[int] = []
        self._by_symbol: dict[int, list[int]] = {}
        self._cleared: dict[int, list[int]] = {}
        for number, node in enumerate(nodes):
            if node.sources:
                self._by_symbol.setdefault(node.symbol, []).append(number)
            for symbol in node.clears:
                self._cleared.setdefault(symbol, []).append(number)
        self._targets: list[list[int]] = []
        self._clears: list[list[int]] = []
        self._fixed = self._build_fixed()
        self._tables: SharedTables | None = None
        self._counts: Counts | None = None
        if self.kinds.count <= KINDS_KNOWN_MAX:
            self.learn(list(range(self.kinds.count)))

    def code(self, kinds: NDArray[Any]) -> NDArray[Any]:
        """Look up the codes of events by their kinds; add new kinds to the tables."""
        if self.kinds.count <= KINDS_KNOWN_MAX:
            return kinds
        seen = np.flatnonzero(np.bincount(kinds, minlength=1))
        self.learn([int(kind) for kind in seen if self.code_of_kind[kind] < 0])
        return np.asarray(self.code_of_kind[kinds])

    def learn(self, kinds: list[int]) -> None:
        """Assign codes to kinds that have none."""
        for kind in kinds:
            self.code_of_kind[kind] = len(self._targets)
            self.history.append(kind)
            symbols = self.kinds.symbols_of(kind)
            self._targets.append([q for s in symbols for q in self._by_symbol.get(s, ())])
            self._clears.append(
                list(dict.fromkeys(q for s in symbols for q in self._cleared.get(s, ())))
            )
            self._tables = self._counts = None

    def targets_of(self, code: int) -> list[int]:
        """List the nodes that events of a code add to."""
        return self._targets[code]

    def clears_of(self, code: int) -> list[int]:
        """List the nodes that events of a code reset."""
        return self._clears[code]

    def tables(self) -> SharedTables:
        """Build the arrays for all kinds seen so far."""
        if self._tables is None:
            target_ptr, target = csr(self._targets)
            clear_ptr, clear = csr(self._clears)
            idle = np.array(
                [not t and not c for t, c in zip(self._targets, self._clears, strict=True)],
                np.bool_,
            )
            self._tables = SharedTables(target_ptr, target, clear_ptr, clear, idle, *self._fixed)
        return self._tables

    def counts(self) -> Counts | None:
        """Build the arrays of the count-only kernel; None if they would need much padding."""
        if self._counts is None:
            tables = self.tables()
            sources = [self._sources(q) for targets in self._targets for q in targets]
            width = max([1, *map(len, sources)])
            if width > SOURCES_MAX:
                return None
            units = set(self.units)
            padded = [own + [self.zero] * (width - len(own)) for own in sources]
            unit = [next((s for s in own if s in units), -1) for own in sources]
            self._counts = Counts(
                tables.target_ptr,
                tables.target.astype(np.uint32),
                np.array(padded, np.uint32).reshape(-1, width),
                np.array(unit, np.int32),
                tables.clear_ptr,
                tables.clear.astype(np.uint32),
            )
        return self._counts

    def _sources(self, node: int) -> list[int]:
        unit = self.units[self.heaps[node]]
        return [unit if s == UNIT else s for s in self.group.system.nodes[node].sources]

    def _build_fixed(self) -> tuple[NDArray[Any], ...]:
        group, nodes = self.group, self.group.system.nodes
        more = self.size - len(nodes)
        units = set(self.units)
        source_ptr, source = csr([self._sources(n) for n in range(len(nodes))] + [[]] * more)
        kept = np.array([n.kept for n in nodes] + [True] * more, np.bool_)
        initial = np.array([n.initial for n in nodes] + [False] * more, np.bool_)
        once = np.array([n.once for n in nodes] + [False] * more, np.bool_)
        unit = np.array([n in units for n in range(self.size)], np.bool_)
        initial |= unit
        heaps = np.zeros(self.size, np.int32)
        heaps[: len(nodes)] = self.heaps
        heaps[self.units] = range(len(self.units))
        in_heap: list[list[int]] = [[] for _ in self.units]
        for number in range(self.size - more):
            in_heap[heaps[number]].append(number)
        heap_ptr, heap_node = csr(
            [[*found, unit_] for found, unit_ in zip(in_heap, self.units, strict=True)]
        )
        weight_row = np.full((self.size, len(group.parts)), -1, np.int32)
        value_row = np.full((self.size, len(group.extremes)), -1, np.int32)
        for number, node in enumerate(nodes):
            for a in node.adds[0]:
                weight_row[number, a] = a - 1
            for a in node.adds[1]:
                value_row[number, a] = a
        output_ptr, output = csr([list(nodes_) for nodes_ in group.system.outputs])
        products = group.system.products or [()] * len(nodes)
        product_ptr, left = csr([[x for x, _ in pairs] for pairs in products])
        _, right = csr([[y for _, y in pairs] for pairs in products])
        return (
            source_ptr, source, kept, initial, unit, heaps, heap_ptr, heap_node,
            np.array(self.units, np.int32), weight_row, value_row, output_ptr, output,
            product_ptr, left, right, once,
        )  # fmt: skip


def csr(lists: list[list[int]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Convert lists of numbers to pointers and values (CSR)."""
    pointers = np.zeros(len(lists) + 1, np.int32)
    pointers[1:] = np.cumsum([len(row) for row in lists])
    return pointers, np.array([value for row in lists for value in row], np.int32)


def _heaps(sources: list[tuple[int, ...]]) -> list[int]:
    """Find the heap of every node: nodes that depend on each other, except by the unit."""
    parent = list(range(len(sources)))

    def root(n: int) -> int:
        while parent[n] != n:
            parent[n] = parent[parent[n]]
            n = parent[n]
        return n

    for node, own in enumerate(sources):
        for source in own:
            if source != UNIT:
                parent[root(node)] = root(source)
    numbers: dict[int, int] = {}
    return [numbers.setdefault(root(n), len(numbers)) for n in range(len(sources))]
