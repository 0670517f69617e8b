"""Remove queries from a workload; the others keep their counts.

Whether two states have identical incoming transitions does not depend on other queries, so the
nodes of the smaller system are a subset of those of the larger one, and their values are copied.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cepheid.kinds.workload.look_back_sharing import group_of
from cepheid.kinds.workload.shared_run import SharedRun
from cepheid.kinds.workload.shared_system import UNIT
from cepheid.kinds.workload.shared_tables import SharedProgram
from cepheid.kinds.workload.shared_trailing import SharedTrailingRun
from cepheid.kinds.workload.sharing import Group, SharedPlan
from cepheid.kinds.workload.step import WorkloadJob, WorkloadState


def without_queries(
    job: WorkloadJob, state: WorkloadState, numbers: Set[int]
) -> tuple[WorkloadJob, WorkloadState]:
    """Remove queries from a workload and its state; the arguments must not be used any more."""
    kept = _kept(job.shared, numbers)
    smaller = WorkloadJob(narrower(job.shared, numbers))
    # The states of queries that run alone refer to the programs of their jobs.
    smaller.jobs = [job.jobs[n] for n in kept]
    other = WorkloadState(smaller)
    other.keys |= {names: keys for names, keys in state.keys.items() if names in other.keys}
    for admission in other.held:
        other.held[admission] = state.held[admission]
        other.last[admission] = state.last[admission]
    places = [_places(run.program.group, numbers) for run in state.runs]
    taken = [(run, own) for run, own in zip(state.runs, places, strict=True) if own]
    other.runs = [
        _taken_over(run, program, own)
        for program, (run, own) in zip(smaller.programs, taken, strict=True)
    ]
    # Of twins, and of queries that look back together, one has the state of all.
    owners = job.shared.twins | {
        n: group.members[0] for group in job.shared.looking for n in group.members
    }
    other.alone = {n: state.alone[owners.get(kept[n], kept[n])] for n in smaller.alone}
    other.listing = {kept.index(n): lone for n, lone in state.listing.items() if n not in numbers}
    other.waiting = {kept.index(n): lone for n, lone in state.waiting.items() if n not in numbers}
    return smaller, other


def narrower(shared: SharedPlan, numbers: Set[int]) -> SharedPlan:
    """Build the plan of a workload without some queries."""
    kept = _kept(shared, numbers)
    moved = {n: place for place, n in enumerate(kept)}
    groups = []
    for group in shared.groups:
        if places := _places(group, numbers):
            smaller = _smaller(group, places)
            groups.append(replace(smaller, members=tuple(moved[n] for n in smaller.members)))
    looking = [
        [(moved[n], shared.plans[n]) for n in group.members if n not in numbers]
        for group in shared.looking
    ]
    return SharedPlan(
        tuple(shared.names[n] for n in kept),
        tuple(shared.plans[n] for n in kept),
        tuple(groups),
        {moved[n]: why for n, why in shared.alone.items() if n not in numbers},
        tuple(group_of(members) for members in looking if members),
    )


def _kept(shared: SharedPlan, numbers: Set[int]) -> list[int]:
    return [n for n in range(len(shared.names)) if n not in numbers]


def _places(group: Group, numbers: Set[int]) -> list[int]:
    """List the indexes of the remaining members of a group."""
    return [place for place, n in enumerate(group.members) if n not in numbers]


def _smaller(group: Group, places: list[int]) -> Group:
    return replace(
        group,
        members=tuple(group.members[p] for p in places),
        orders=tuple(group.orders[p] for p in places),
        cells=tuple(group.cells[p] for p in places),
    )


def _taken_over(
    run: SharedRun | SharedTrailingRun, program: SharedProgram, places: list[int]
) -> SharedRun | SharedTrailingRun:
    """Build a run of the smaller system with the values of the larger one."""
    old = run.program
    known = set(program.history)
    program.learn([kind for kind in old.history if kind not in known])
    if isinstance(run, SharedTrailingRun):
        smaller = SharedTrailingRun(program)
        smaller.events, smaller.reported = run.events, run.reported
        return smaller
    nodes, heaps = _origins(old, program, places)
    other = SharedRun(program)
    other.dtype, other.keys, other.limit = run.dtype, run.keys, run.limit
    other.V, other.M = np.take(run.V, nodes, axis=1), np.take(run.M, nodes, axis=1)
    other.exponent = np.take(run.exponent, heaps, axis=1)
    contiguous = run.stamp.shape[1] > 1
    other.stamp = (
        np.take(run.stamp, np.append(nodes, old.size), axis=1) if contiguous else run.stamp
    )
    if run.block:
        panes, least, has, product, product_least, begun, tails, tails_least, tail, sealed = (
            run.block
        )
        other.block = (
            np.take(panes, nodes, axis=2), np.take(least, nodes, axis=2), has,
            np.take(product, nodes, axis=1), np.take(product_least, nodes, axis=1), begun,
            np.take(tails, nodes, axis=2), np.take(tails_least, nodes, axis=2), tail, sealed,
        )  # fmt: skip
    return other


def _origins(
    old: SharedProgram, new: SharedProgram, places: list[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Map every node and every heap of the new program to its index in the old one."""
    before = old.group.system.places
    nodes = np.full(new.size, old.zero, np.int64)
    nodes[UNIT] = UNIT
    for (query, r, q), node in new.group.system.places.items():
        nodes[node] = before[places[query], r, q]
    if not new.scaled:
        return nodes, np.zeros(1, np.int64)
    heaps = np.zeros(len(new.units), np.int64)
    for node, heap in enumerate(new.heaps):
        heaps[heap] = old.heaps[nodes[node]]
    for heap, unit in enumerate(new.units):
        nodes[unit] = old.units[heaps[heap]]
    return nodes, heaps
