"""Describe the replay plan of a store query and its I/O cost in words."""

from __future__ import annotations

from cepheid.store.replay_plan import ReplayPlan
from cepheid.store.snapshot import Effort


def explain_replay(replay: ReplayPlan, effort: Effort | None) -> str:
    """Describe a replay plan in words; with ``effort`` also the I/O cost."""
    how = "full replay" if replay.cover is None else "replay of intervals"
    lines = [f"store  {how}", f"  because {replay.reason}"]
    if replay.cover is not None:
        lines.append(f"  intervals  {len(replay.cover.begins):,}")
        lines += [f"  shortened  {bound}" for bound in replay.bounds]
    lines.append(
        f"  row groups  estimated {replay.expected:,.0f}, planned {replay.groups:,} of "
        f"{replay.total:,}"
    )
    if effort is not None:
        lines.append(
            f"  read  {effort.groups:,} row groups, {effort.data_bytes:,} bytes; "
            f"{effort.entries:,} index entries, {effort.index_bytes:,} bytes"
        )
    return "\n".join(lines)
