"""Merge a group with trailing windows to one number for each configuration, where sums count it.

Sums over all starts (``kernels/shared_start_sums.py``) take matches away again that an event added.
That needs events that do not add to a number that they also add from.
"""

from __future__ import annotations

from cepheid.kinds.workload.look_back_sharing import needs_expiries
from cepheid.kinds.workload.shared_system import UNIT, SharedSystem, merge_vectors
from cepheid.kinds.workload.sharing import Group, Method

NODES_MAX = 512
"""The products of all events are two square matrices of nodes."""


def summed_system(group: Group) -> SharedSystem | None:
    """Merge the queries of a group as where windows do not overlap; None if sums cannot count it.

    A common part after different prefixes is not one number then.
    """
    if (
        group.method is not Method.STACKS
        or len(group.parts) != 1
        or group.extremes
        or needs_expiries(group.plan)
    ):
        return None
    system = merge_vectors(group.cells)
    nodes = system.nodes
    if len(nodes) > NODES_MAX or any(
        node.clears or node.once or not node.kept for node in nodes[1:]
    ):
        return None
    # One event may fulfil all conditions on events of its type.
    types = [group.symbols[node.symbol].event_type for node in nodes]
    for node, kind in zip(nodes, types, strict=True):
        if any(r != UNIT and types[r] == kind for r in node.sources):
            return None
    return system
