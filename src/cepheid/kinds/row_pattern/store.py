"""MATCH_RECOGNIZE over an event store: a snapshot and a clause in, its matches out.

What the indexes rule out is not read. The rest is matched in stretches, each on its own.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.kinds.row_pattern.needs import needs_of
from cepheid.kinds.row_pattern.plan import MatchPlan
from cepheid.kinds.row_pattern.recognize import recognize
from cepheid.kinds.row_pattern.within import ticks_of
from cepheid.options import METHODS, one_of
from cepheid.store.partitions import plan_partitions
from cepheid.store.replay_plan import ReplayPlan, full_replay
from cepheid.store.row_plan import RowQuestion, chain_of, plan_rows
from cepheid.store.snapshot import Cover, Effort, Interval, Snapshot
from cepheid.store.times import read_ticks

STRETCH = "__cepheid_stretch"
"""The column that tells stretches apart, as if it stood in PARTITION BY."""


class ClauseRun(NamedTuple):
    """The matches of a clause, how they were come by, and what that has cost."""

    table: pa.Table
    replay: ReplayPlan
    effort: Effort


def plan_clause(
    snapshot: Snapshot, plan: MatchPlan, method: str | None = None, *, by_key: bool = True
) -> ReplayPlan:
    """Find out which part of a store a clause must read; with ``by_key`` also of some partitions.

    Raises
    ------
    ValueError
        If there is no such method.
    """
    method = method or "auto"
    one_of("strategy", method, METHODS)
    asked = question_of(snapshot, plan)
    replay = plan_rows(snapshot, asked, method)
    one_key = len(plan.partition_by) == 1 and plan.partition_by[0] in plan.columns
    if replay.cover is None and by_key and method != "replay" and one_key:
        chain = chain_of(snapshot, asked)[0]
        return plan_partitions(snapshot, chain, plan.partition_by[0]) or replay
    return replay


def question_of(snapshot: Snapshot, plan: MatchPlan) -> RowQuestion:
    """Collect the conditions that a clause puts on a store."""
    manifest = snapshot.manifest
    needs = needs_of(plan)
    keys = [key.column for key in plan.order_by]
    ascends = not keys or (keys[0] == manifest.time and not plan.order_by[0].descending)
    if not ascends:
        needs = needs._replace(whole=needs.whole or "rows are not in the order of time")
    kind = manifest.schema.field(manifest.time).type
    fine = not (pa.types.is_timestamp(kind) and kind.unit == "ns")
    placed = fine and not plan.partition_by and keys in ([], [manifest.time])
    return RowQuestion(
        needs.shape,
        needs.thresholds,
        needs.margin,
        ticks_of(plan.within, kind) if ascends else None,
        placed,
        needs.whole,
        "matches are numbered from the first one on" if needs.numbered else "",
        len(plan.read_columns),
    )


def run_clause(snapshot: Snapshot, plan: MatchPlan, method: str | None = None) -> ClauseRun:
    """Return the matches of a clause over a store, and what reading has cost."""
    return run_planned(snapshot, plan, plan_clause(snapshot, plan, method))


def run_planned(snapshot: Snapshot, plan: MatchPlan, replay: ReplayPlan) -> ClauseRun:
    """Return the matches in what is replayed."""
    time = snapshot.manifest.time
    columns = list(dict.fromkeys([*plan.read_columns, time]))
    cover = Cover.of(Interval()) if replay.cover is None else replay.cover
    empty = pa.schema([snapshot.manifest.schema.field(n) for n in columns]).empty_table()
    table = pa.concat_tables([empty, *snapshot.scan(cover, columns)])
    if replay.keys is not None:
        held = pc.is_in(table.column(replay.keys.column), value_set=replay.keys.values)
        table = table.filter(held)
    elif len(cover.begins) > 1:
        table, plan = in_stretches(table, cover, time), by_stretch(plan)
    found = recognize(plan, table, threads=pa.cpu_count())
    if STRETCH in found.column_names:
        found = found.drop_columns([STRETCH])
    return ClauseRun(found, replay, snapshot.effort)


def in_stretches(table: pa.Table, cover: Cover, time: str) -> pa.Table:
    """Return events with the number of their stretch."""
    number = np.searchsorted(cover.begins, read_ticks(table, time), side="right")
    return table.append_column(STRETCH, pa.array(number))


def by_stretch(plan: MatchPlan) -> MatchPlan:
    """Return a plan that matches every stretch on its own."""
    keys = (*plan.partition_by, STRETCH)
    return msgspec.structs.replace(plan, partition_by=keys, columns=(*plan.columns, STRETCH))


def read_whole(snapshot: Snapshot) -> ClauseRun:
    """Return all events of a store, for SQL that reads them otherwise than by a clause."""
    names = snapshot.manifest.schema.names
    tables = list(snapshot.scan(Interval(), names))
    whole = pa.concat_tables([snapshot.manifest.schema.empty_table(), *tables])
    return ClauseRun(whole, full_replay(snapshot, "SQL reads the table itself"), snapshot.effort)
