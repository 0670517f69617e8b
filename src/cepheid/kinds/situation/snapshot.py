"""Serialize a SituationState: versioned, without pickle, for restarts and state stores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from cepheid.jobs.state_format import Format, Meant, meaning_of, read_own, text_of, write_state
from cepheid.jobs.tables import pack_table, table_from_bytes, table_to_bytes, unpack_table
from cepheid.kinds.situation.job import SituationJob
from cepheid.kinds.situation.runs import Kept
from cepheid.kinds.situation.step import SituationState

FORMAT = Format("situations", 3, "a query about situations")

_NUMBERS = ("key", "ts", "te", "known")


class _Snapshot(Meant):
    """The fields of a serialized state; join orders are recomputed."""

    keys: bytes
    kept: tuple[bytes, ...]
    held: bytes | None
    last: int | None
    before: bytes | None = None


def situations_to_bytes(job: SituationJob, state: SituationState) -> bytes:
    """Serialize a state."""
    keys = pa.table({f"{n}": array for n, array in enumerate(state.keys.arrays())})
    snapshot = _Snapshot(
        (meaning_of(job.plan),),
        table_to_bytes(keys),
        tuple(pack_table(_table_of(kept)) for kept in state.kept),
        None if state.held is None else pack_table(state.held),
        state.last,
        None if state.before is None else pack_table(state.before),
    )
    return write_state(FORMAT, snapshot)


def situations_from_bytes(job: SituationJob, data: bytes) -> SituationState:
    """Deserialize a state that ``situations_to_bytes`` wrote.

    Raises
    ------
    DataError
        E524 if the bytes are no state, of another version, or of another query; E546 if they are
        damaged.
    """
    snapshot = read_own(FORMAT, data, _Snapshot, (meaning_of(job.plan),), text_of(job.plan))
    start = SituationState.start(job)
    if start.keys.names:
        table = table_from_bytes(snapshot.keys)
        start.keys.restore(column.combine_chunks() for column in table.columns)
    kept = tuple(
        _kept_of(job, number, unpack_table(part)) for number, part in enumerate(snapshot.kept)
    )
    held = None if snapshot.held is None else unpack_table(snapshot.held)
    before = None if snapshot.before is None else unpack_table(snapshot.before)
    return start._replace(kept=kept, held=held, last=snapshot.last, before=before)


def _table_of(kept: Kept) -> pa.Table:
    columns: dict[str, Any] = {name: pa.array(getattr(kept, name)) for name in _NUMBERS}
    columns |= {f"t{n}": pa.array(total) for n, total in enumerate(kept.totals)}
    values = {f"v{n}": value for n, value in enumerate(kept.values) if value is not None}
    return pa.table(columns | values)


def _kept_of(job: SituationJob, number: int, table: pa.Table) -> Kept:
    totals = tuple(np.array(table[f"t{n}"]) for n in range(len(job.accumulators[number])))
    names = [f"v{n}" for n in range(len(job.values[number]))]
    values = tuple(table[name] if name in table.column_names else None for name in names)
    return Kept._make([*(np.array(table[name]) for name in _NUMBERS), totals, values])
