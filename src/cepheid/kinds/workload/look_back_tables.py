"""Convert the nodes of a pass to kernel arrays: bundles of lanes, and how they feed each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.prefix import EQUAL, PREFIX
from cepheid.kinds.workload.look_back_sharing import LookBackGroup
from cepheid.kinds.workload.look_back_system import NO_RELATION, WAITING, BackSystem, Pass
from cepheid.kinds.workload.shared_tables import Kinds

Pairs = list[tuple[int, int]]


class LaneTables(NamedTuple):
    """The arrays of a pass; see ``kernels/shared_lanes.py``. Nodes are numbered by bundles.

    ``first`` is the first node of a bundle, ``bundle`` that of a node. An *ask* is a look-up of
    all lanes of an index, with pairs of lanes; it is plain if lane n goes to lane n. Bundles that
    wait are bound to no event: rows of others are added to them (*tally*), and rows of some kinds
    empty them.
    """

    kind_ptr: NDArray[np.int64]
    kind_bundle: NDArray[np.int64]
    first: NDArray[np.int64]
    bundle: NDArray[np.int64]
    begins: NDArray[np.float64]
    adds: NDArray[np.float64]
    takes: NDArray[np.bool_]
    pull_ptr: NDArray[np.int64]
    pull_from: NDArray[np.int64]
    pull_to: NDArray[np.int64]
    push_ptr: NDArray[np.int64]
    push_from: NDArray[np.int64]
    push_to: NDArray[np.int64]
    tally_ptr: NDArray[np.int64]
    tally_from: NDArray[np.int64]
    tally_to: NDArray[np.int64]
    waits: NDArray[np.bool_]
    clear_ptr: NDArray[np.int64]
    clear_bundle: NDArray[np.int64]
    ask_ptr: NDArray[np.int64]
    ask_lookup: NDArray[np.int64]
    ask_index: NDArray[np.int64]
    ask_plain: NDArray[np.bool_]
    pair_ptr: NDArray[np.int64]
    pair_from: NDArray[np.int64]
    pair_to: NDArray[np.int64]
    enter_ptr: NDArray[np.int64]
    enter_index: NDArray[np.int64]
    index_bundle: NDArray[np.int64]
    index_lookup: NDArray[np.int64]
    index_equal: NDArray[np.bool_]


class LanePlaces(NamedTuple):
    """Where numbers are in flat arrays: in those of nodes by bundle, window, lane and part.

    Pulls read and pushes write at a place in the first window, ``…_step`` further in the next one;
    lanes of rows and indexes are counted from the first one of their bundle.
    """

    base: NDArray[np.int64]
    step: NDArray[np.int64]
    pull_from: NDArray[np.int64]
    pull_step: NDArray[np.int64]
    pull_to: NDArray[np.int64]
    push_from: NDArray[np.int64]
    push_to: NDArray[np.int64]
    push_step: NDArray[np.int64]
    tally_from: NDArray[np.int64]
    tally_to: NDArray[np.int64]
    tally_step: NDArray[np.int64]
    pair_from: NDArray[np.int64]
    pair_to: NDArray[np.int64]
    tree_at: NDArray[np.int64]
    tree_step: NDArray[np.int64]


def places_of(tables: LaneTables, windows: int, parts: int, room: int) -> LanePlaces:
    """Compute the places of numbers, for windows, parts and the places of an index."""
    first, bundle = tables.first, tables.bundle
    step = np.diff(first) * parts
    base = first[:-1] * windows * parts

    def of_nodes(nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        mine = bundle[nodes]
        return np.asarray(base[mine] + (nodes - first[mine]) * parts)

    tree_step = step[tables.index_bundle]
    ends = np.cumsum(tree_step) * windows * room
    return LanePlaces(
        base, step, of_nodes(tables.pull_from), step[bundle[tables.pull_from]],
        tables.pull_to * parts, tables.push_from * parts, of_nodes(tables.push_to),
        step[bundle[tables.push_to]], tables.tally_from * parts, of_nodes(tables.tally_to),
        step[bundle[tables.tally_to]], tables.pair_from * parts, tables.pair_to * parts,
        ends - tree_step * windows * room, tree_step,
    )  # fmt: skip


class LanePass(NamedTuple):
    """A pass ready to run: its members, tables, and the nodes that count for each member.

    ``relations`` are those whose look-ups the tables number, in order, and ``lanes`` the lanes of
    all indexes together.
    """

    backwards: bool
    members: tuple[int, ...]
    tables: LaneTables
    outputs: tuple[tuple[int, ...], ...]
    relations: tuple[int, ...]
    lanes: int


def lookup_kinds(operator: str) -> list[int]:
    """List the kinds of the look-ups of a predicate, as ``prefix_sums.lookups_of`` orders them."""
    if operator == "<>":
        return [PREFIX, PREFIX]
    return [EQUAL if operator == "=" else PREFIX]


def tables_of(group: LookBackGroup, one: Pass, kinds: Kinds) -> LanePass:
    """Build the arrays of a pass."""
    builder = _Builder(group, one.system)
    return LanePass(
        one.backwards,
        one.members,
        builder.build(kinds),
        tuple(tuple(builder.number[n] for n in own) for own in one.system.outputs),
        tuple(builder.relations),
        sum(len(builder.bundles[b]) for b, _ in builder.indexes),
    )


class _Builder:
    """Numbers the bundles, nodes, look-ups and indexes of a system."""

    def __init__(self, group: LookBackGroup, system: BackSystem) -> None:
        self.group, self.system = group, system
        leaving: list[set[int]] = [set() for _ in system.nodes]
        for node in system.nodes:
            for source, relation in node.sources:
                if relation != NO_RELATION:
                    leaving[source].add(relation)
        named: dict[tuple[object, ...], list[int]] = {}
        for n, node in enumerate(system.nodes):
            coming = frozenset(r for _, r in node.sources if r != NO_RELATION)
            name = (node.symbol, node.clears, coming, frozenset(leaving[n]))
            named.setdefault(name, []).append(n)
        self.bundles = list(named.values())
        order = [n for lanes in self.bundles for n in lanes]
        self.number = {old: new for new, old in enumerate(order)}
        self.place = {
            n: (b, lane) for b, lanes in enumerate(self.bundles) for lane, n in enumerate(lanes)
        }
        self.nodes = [system.nodes[n] for n in order]
        self.relations = sorted({r for own in leaving for r in own})
        self.lookups: dict[int, list[tuple[int, int]]] = {}
        for relation in self.relations:
            at = sum(len(own) for own in self.lookups.values())
            found = lookup_kinds(group.relations[relation].operator)
            self.lookups[relation] = [(at + n, kind) for n, kind in enumerate(found)]
        # An index for every look-up of the events of a bundle.
        self.indexes: dict[tuple[int, int], int] = {}
        for b, lanes in enumerate(self.bundles):
            for relation in sorted(leaving[lanes[0]]):
                for lookup, _ in self.lookups[relation]:
                    self.indexes[b, lookup] = len(self.indexes)

    def build(self, kinds: Kinds) -> LaneTables:
        """Build the arrays."""
        group, nodes, bundles = self.group, self.nodes, self.bundles
        symbols = [self.system.nodes[lanes[0]].symbol for lanes in bundles]
        found = [set(kinds.symbols_of(kind)) for kind in range(kinds.count)]
        bound = [[b for b, symbol in enumerate(symbols) if symbol in own] for own in found]
        adds = np.zeros((len(nodes), len(group.parts) + 1))
        takes = np.zeros((len(nodes), len(group.extremes)), np.bool_)
        for n, node in enumerate(nodes):
            adds[n, list(node.adds[0])] = 1.0
            takes[n, list(node.adds[1])] = True
        pulls, pushes, tallies = self._totals()
        clears = [self.system.nodes[lanes[0]].clears for lanes in bundles]
        cleared = [[b for b, own in enumerate(clears) if kind & set(own)] for kind in found]
        asks = self._asks()
        flat = [ask for own in asks for ask in own]
        kind_of = {lookup: kind for own in self.lookups.values() for lookup, kind in own}
        return LaneTables(
            _pointers(bound), _whole([b for own in bound for b in own]),
            _pointers(bundles), _whole([b for b, own in enumerate(bundles) for _ in own]),
            np.array([float(node.begins) for node in nodes]), adds, takes,
            _pointers(pulls), *_columns(pulls), _pointers(pushes), *_columns(pushes),
            _pointers(tallies), *_columns(tallies),
            np.array([symbol == WAITING for symbol in symbols], np.bool_),
            _pointers(cleared), _whole([b for own in cleared for b in own]),
            _pointers(asks), _whole([lookup for lookup, _, _ in flat]),
            _whole([index for _, index, _ in flat]),
            np.array([self._is_plain(*ask) for ask in flat], np.bool_),
            _pointers([pairs for _, _, pairs in flat]), *_columns([pairs for _, _, pairs in flat]),
            _pointers([self._entered(b) for b in range(len(bundles))]),
            _whole([index for b in range(len(bundles)) for index in self._entered(b)]),
            _whole([b for b, _ in self.indexes]), _whole([lookup for _, lookup in self.indexes]),
            np.array([kind_of[lookup] == EQUAL for _, lookup in self.indexes], np.bool_),
        )  # fmt: skip

    def _totals(self) -> tuple[list[Pairs], list[Pairs], list[Pairs]]:
        """List the transitions without a predicate, bundle by bundle.

        Those are (node, lane) to pull, (lane, node) to push, and (lane, waiting node) to tally.
        """
        pulls: list[Pairs] = [[] for _ in self.bundles]
        pushes: list[Pairs] = [[] for _ in self.bundles]
        tallies: list[Pairs] = [[] for _ in self.bundles]
        for n, node in enumerate(self.system.nodes):
            bundle, lane = self.place[n]
            for source, relation in node.sources:
                if relation != NO_RELATION:
                    continue
                other, origin = self.place[source]
                if node.symbol == WAITING:
                    tallies[other].append((origin, self.number[n]))
                elif self.system.nodes[source].symbol == WAITING:
                    # What was pushed could not be emptied any more.
                    pulls[bundle].append((self.number[source], lane))
                elif len(self.bundles[other]) < len(self.bundles[bundle]):
                    pushes[other].append((origin, self.number[n]))
                else:
                    pulls[bundle].append((self.number[source], lane))
        return pulls, pushes, tallies

    def _asks(self) -> list[list[tuple[int, int, list[tuple[int, int]]]]]:
        """List for each bundle its look-ups: their number, index, and pairs of lanes."""
        asks: list[list[tuple[int, int, list[tuple[int, int]]]]] = []
        for lanes in self.bundles:
            pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}
            for lane, n in enumerate(lanes):
                for source, relation in self.system.nodes[n].sources:
                    if relation == NO_RELATION:
                        continue
                    other, origin = self.place[source]
                    for lookup, _ in self.lookups[relation]:
                        pairs.setdefault((lookup, self.indexes[other, lookup]), []).append(
                            (origin, lane)
                        )
            asks.append([(*name, found) for name, found in pairs.items()])
        return asks

    def _is_plain(self, lookup: int, index: int, pairs: Sequence[tuple[int, int]]) -> bool:
        source = list(self.indexes)[index][0]
        lanes = len(self.bundles[source])
        return sorted(pairs) == [(n, n) for n in range(lanes)] and lookup >= 0

    def _entered(self, bundle: int) -> list[int]:
        return [index for (b, _), index in self.indexes.items() if b == bundle]


def _whole(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def _pointers(rows: Sequence[Sequence[Any]]) -> NDArray[np.int64]:
    return np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)


def _columns(
    rows: Sequence[Sequence[tuple[int, int]]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    flat = [pair for row in rows for pair in row]
    return _whole([one for one, _ in flat]), _whole([two for _, two in flat])
