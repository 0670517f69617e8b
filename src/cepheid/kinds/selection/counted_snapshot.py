"""Serialize a CountedState: versioned, without pickle, for restarts and state stores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from cepheid.events.schema import ValueKind
from cepheid.jobs.state_format import Format, Meant, meaning_of, read_own, text_of, write_state
from cepheid.jobs.tables import pack_table, unpack_table
from cepheid.kernels.window_folds import SUM
from cepheid.kinds.selection.bags import Bags, bags_from_table, bags_to_columns
from cepheid.kinds.selection.counted import CountedJob, CountedState
from cepheid.kinds.selection.groups import plain_array
from cepheid.kinds.selection.moments import OPERATIONS, Moments
from cepheid.kinds.selection.operators import Measured
from cepheid.kinds.selection.sketches import Sketches, sketches_from_table, sketches_to_columns
from cepheid.kinds.selection.windows import Stretches

FORMAT = Format("counted", 2, "a SELECT")
_NUMBERS = ("first", "last", "rows")


class _Snapshot(Meant):
    """The fields of a serialized state: a row for every group, and for every stretch."""

    groups: bytes
    stretches: bytes | None
    kinds: tuple[ValueKind, ...]


def counted_to_bytes(job: CountedJob, state: CountedState) -> bytes:
    """Serialize a state."""
    keys: dict[str, Any] = {f"k{n}": key for n, key in enumerate(state.keys)}
    groups = pa.table({"seen": pa.array(state.seen), **keys})
    stretches: bytes | None = None
    kinds: tuple[ValueKind, ...] = ()
    if state.stretches is not None:
        stretches = pack_table(stretches_to_table(state.groups, state.stretches))
        kinds = tuple(moment.kind for moment in state.stretches.moments)
    snapshot = _Snapshot((meaning_of(job.plan),), pack_table(groups), stretches, kinds)
    return write_state(FORMAT, snapshot)


def counted_from_bytes(job: CountedJob, data: bytes) -> CountedState:
    """Deserialize a state that ``counted_to_bytes`` wrote.

    Raises
    ------
    DataError
        E524 if the bytes are no state, of another version, or of another query; E546 if they are
        damaged.
    """
    snapshot = read_own(FORMAT, data, _Snapshot, (meaning_of(job.plan),), text_of(job.plan))
    start = CountedState.start(job)
    groups = unpack_table(snapshot.groups)
    keys = [plain_array(groups[f"k{n}"]) for n in range(len(start.keys))]
    state = start._replace(keys=keys, seen=np.array(groups["seen"]))
    if snapshot.stretches is None:
        return state
    table = unpack_table(snapshot.stretches)
    # Older states also store bounds of the sums, after the moments of arguments.
    kinds = snapshot.kinds[: len(job.arguments)]
    moments = [moments_from_table(table, n, kind) for n, kind in enumerate(kinds)]
    first, last, rows = (np.array(table[name]) for name in _NUMBERS)
    return state._replace(
        groups=np.array(table["group"]), stretches=Stretches([], first, last, rows, moments)
    )


def stretches_to_table(groups: Any, stretches: Stretches) -> pa.Table:
    """Convert stretches to a table, with the numbers of their groups."""
    columns: dict[str, Any] = {"group": pa.array(groups)}
    columns |= {name: pa.array(getattr(stretches, name)) for name in _NUMBERS}
    for n, moment in enumerate(stretches.moments):
        if isinstance(moment, Bags):
            columns |= bags_to_columns(moment, n)
            continue
        if isinstance(moment, Sketches):
            columns |= sketches_to_columns(moment, n)
            continue
        columns[f"known{n}"] = pa.array(moment.known)
        for operation, part in zip(OPERATIONS, moment.parts, strict=True):
            if part is not None:
                whole = part if part.ndim == 1 else part[:, 0]
                columns[f"part{n} {operation}"] = pa.array(whole)
                if part.ndim == 2:
                    columns[f"low{n} {operation}"] = pa.array(part[:, 1])
    return pa.table(columns)


def moments_from_table(table: pa.Table, number: int, kind: ValueKind) -> Measured:
    """Read the moments, or the values, of an argument back."""
    if (sketches := sketches_from_table(table, number)) is not None:
        return sketches
    if f"bag{number}" in table.column_names:
        return bags_from_table(table, number)
    names = [f"part{number} {operation}" for operation in OPERATIONS]
    total, least, largest = (
        np.array(table[name]) if name in table.column_names else None for name in names
    )
    low = f"low{number} {SUM}"
    if total is not None and low in table.column_names:
        total = np.stack([total, np.array(table[low])], axis=1)
    moments = Moments(np.array(table[f"known{number}"]), (total, least, largest), kind)
    return moments.widened()
