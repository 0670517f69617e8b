"""Plan the replay of only those partitions (keys) that hold a candidate.

A partition has no match if it lacks a candidate for a row that every match needs. All other
partitions are read completely, so no event that a match depends on is missing. This pays off where
the events of a partition are close in time, as in sessions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.store.chains import Chain, described, find_symbol
from cepheid.store.replay_intervals import merged
from cepheid.store.replay_plan import Keys, ReplayPlan, count_groups, total_groups
from cepheid.store.secondary import can_join
from cepheid.store.snapshot import Cover, Snapshot

KEYS_MAX = 5_000
"""The maximum number of partitions that are looked up one by one."""

CANDIDATES_SHARE_MAX = 0.01
"""More candidates are likely to cover all partitions."""

GROUPS_SHARE_MAX = 0.8
"""The maximum share of row groups that the partitions may leave to read."""


def plan_partitions(snapshot: Snapshot, chain: Chain, key: str) -> ReplayPlan | None:
    """Plan the replay of partitions with a candidate of the rarest symbol, if it saves reads."""
    manifest = snapshot.manifest
    kind = manifest.schema.field(key).type
    known = [place for place, own in enumerate(chain.costs) if own]
    if key not in manifest.indexed or not can_join(kind) or not known:
        return None
    rarest = min(known, key=lambda place: chain.costs[place][-1].candidates)
    cost = chain.costs[rarest][-1]
    if cost.candidates > CANDIDATES_SHARE_MAX * manifest.rows:
        return None
    times = np.unique(find_symbol(chain, rarest, len(chain.costs[rarest])).low)
    values = _values_at(snapshot, key, Cover(times, times + 1))
    if values is None:
        return None
    cover = _times_of(snapshot, key, values)
    groups, total = count_groups(snapshot, cover), total_groups(snapshot)
    if groups > GROUPS_SHARE_MAX * total:
        return None
    names = tuple(described(chain, [rarest]))
    reason = f"{len(values):,} partitions have {names[0]}, which every match has"
    return ReplayPlan(cover, reason, names, groups, groups, total, keys=Keys(key, values))


def _values_at(snapshot: Snapshot, key: str, cover: Cover) -> pa.Array[Any] | None:
    """Read the keys of events at some times; None if one is NULL, or there are too many."""
    names = list(dict.fromkeys([key, snapshot.manifest.time]))
    parts = [pc.unique(table.column(key)) for table in snapshot.scan(cover, names)]
    kind = snapshot.manifest.schema.field(key).type
    found: Any = pc.unique(pa.concat_arrays([pa.array([], kind), *parts]))
    return None if found.null_count or len(found) > KEYS_MAX else found


def _times_of(snapshot: Snapshot, key: str, values: pa.Array[Any]) -> Cover:
    """Find the times of all events of some keys."""
    wanted = values.to_pylist()
    times = [np.zeros(0, np.int64)]
    for segment in snapshot.manifest.segments:
        index = snapshot.secondary(segment, key)
        if index is not None:
            ranges = sorted({part for value in wanted for part in index.find("=", value)})
            times.append(snapshot.look_up(segment, key, ranges).times)
    found = np.unique(np.concatenate(times))
    return merged(found, found + 1)
