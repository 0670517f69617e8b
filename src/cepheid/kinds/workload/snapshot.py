"""Serialize a WorkloadState: a part for every group and every query that runs alone."""

from __future__ import annotations

import msgspec
import numpy as np

from cepheid.errors import DataError
from cepheid.jobs.misfits import misfit
from cepheid.jobs.state_format import Format, Meant, read_own, text_of, write_state
from cepheid.jobs.tables import pack_table, unpack_table
from cepheid.kinds.trend.windows.snapshot import (
    PackedArray,
    keys_to_bytes,
    pack,
    restore_keys,
    state_from_bytes,
    state_to_bytes,
    unpack,
)
from cepheid.kinds.workload.pane_snapshot import pack_panes, restore_panes
from cepheid.kinds.workload.shared_reading import SharedEvents
from cepheid.kinds.workload.shared_run import SharedRun
from cepheid.kinds.workload.shared_tables import SharedProgram
from cepheid.kinds.workload.shared_trailing import SharedTrailingRun
from cepheid.kinds.workload.step import WorkloadJob, WorkloadState

FORMAT = Format("workload", 3, "a workload")


class OtherGroupsError(DataError):
    """A state of the same queries in other groups, as earlier versions formed them."""


class _Group(msgspec.Struct):
    """The counts of one group, and the kinds of events that it has seen, in order."""

    texts: tuple[str, ...]
    dtype: str
    keys: int
    kinds: tuple[int, ...]
    arrays: dict[str, PackedArray]
    block: tuple[PackedArray, ...]
    """All panes; earlier states have them here."""
    panes: tuple[PackedArray, ...] = ()
    """The panes that later windows read (``pane_snapshot.py``)."""


class _Admission(msgspec.Struct):
    """Buffered events."""

    time: str
    whole_times: bool
    held: bytes | None
    last: int | None


class _Snapshot(Meant):
    """The serialized state of a workload."""

    keys: tuple[tuple[tuple[str, ...], bytes], ...]
    admissions: tuple[_Admission, ...]
    groups: tuple[_Group, ...]
    alone: dict[int, bytes]
    listing: dict[int, bytes]
    waiting: dict[int, bytes] = msgspec.field(default_factory=dict)
    looking: tuple[tuple[str, ...], ...] = ()
    """The texts of the queries that look back together; the first one has the events of all."""


def workload_to_bytes(job: WorkloadJob, state: WorkloadState) -> bytes:
    """Serialize the state of a workload."""
    groups = tuple(_pack_group(_members(job, run.program), run) for run in state.runs)
    snapshot = _Snapshot(
        job.meaning,
        tuple((names, keys_to_bytes(keys)) for names, keys in state.keys.items()),
        tuple(
            _Admission(
                *admission, None if held is None else pack_table(held), state.last[admission]
            )
            for admission, held in state.held.items()
        ),
        groups,
        {n: state_to_bytes(job.jobs[n], lone) for n, lone in state.alone.items()},
        {n: state_to_bytes(job.jobs[n], lone) for n, lone in state.listing.items()},
        {n: state_to_bytes(job.jobs[n], lone) for n, lone in state.waiting.items()},
        _looking(job),
    )
    return write_state(FORMAT, snapshot)


def workload_from_bytes(job: WorkloadJob, data: bytes) -> WorkloadState:
    """Deserialize a state that ``workload_to_bytes`` wrote.

    Raises
    ------
    DataError
        E524 if the bytes are no state, of another version, or of other queries, and as
        ``OtherGroupsError`` of queries in other groups; E546 if they are damaged.
    """
    snapshot = read_own(FORMAT, data, _Snapshot, job.meaning, _texts(job))
    groups = [group.texts for group in snapshot.groups]
    if groups != [_members(job, p) for p in job.programs] or snapshot.looking != _looking(job):
        raise OtherGroupsError(misfit("its queries were grouped in another way").diagnostics)
    state = WorkloadState(job)
    for names, keys in snapshot.keys:
        restore_keys(state.keys[names], keys)
    for entry in snapshot.admissions:
        admission = (entry.time, entry.whole_times)
        state.held[admission] = None if entry.held is None else unpack_table(entry.held)
        state.last[admission] = entry.last
    for run, group in zip(state.runs, snapshot.groups, strict=True):
        _restore_group(run, group)
    for n, lone in snapshot.alone.items():
        if n not in state.alone:
            # Earlier versions kept the events of each of several twins.
            continue
        restored = state_from_bytes(job.jobs[n], lone)
        restored.keys = state.keys[job.jobs[n].plan.partition.attributes]
        state.alone[n] = restored
    state.listing = {n: state_from_bytes(job.jobs[n], lone) for n, lone in snapshot.listing.items()}
    state.waiting = {n: state_from_bytes(job.jobs[n], lone) for n, lone in snapshot.waiting.items()}
    return state


def _members(job: WorkloadJob, program: SharedProgram) -> tuple[str, ...]:
    """List the texts of the queries of a group."""
    return tuple(job.shared.plans[n].text for n in program.group.members)


def _looking(job: WorkloadJob) -> tuple[tuple[str, ...], ...]:
    """List the texts of the queries of each group that looks back."""
    plans = job.shared.plans
    return tuple(tuple(plans[n].text for n in group.members) for group in job.shared.looking)


def _pack_group(texts: tuple[str, ...], run: SharedRun | SharedTrailingRun) -> _Group:
    kinds = tuple(run.program.history)
    if isinstance(run, SharedTrailingRun):
        arrays = {"reported": pack(np.array(run.reported))}
        if run.events is not None:
            arrays |= {name: pack(array) for name, array in run.events._asdict().items()}
        return _Group(texts, "", 0, kinds, arrays, ())
    return _Group(
        texts,
        run.dtype.str,
        run.keys,
        kinds,
        {name: pack(getattr(run, name)) for name in run.ARRAYS},
        (),
        pack_panes(run) if run.block else (),
    )


def _restore_group(run: SharedRun | SharedTrailingRun, group: _Group) -> None:
    known = set(run.program.history)
    run.program.learn([kind for kind in group.kinds if kind not in known])
    arrays = {name: unpack(array) for name, array in group.arrays.items()}
    if isinstance(run, SharedTrailingRun):
        run.reported = int(arrays.pop("reported"))
        run.events = SharedEvents(**arrays) if arrays else None
        return
    run.dtype, run.keys = np.dtype(group.dtype), group.keys
    for name, array in arrays.items():
        setattr(run, name, array)
    if group.panes:
        restore_panes(run, group.panes)
    else:
        run.block = tuple(unpack(array) for array in group.block)


def _texts(job: WorkloadJob) -> tuple[str, ...]:
    """Collect what identified a workload in earlier states."""
    texts = (text_of(plan) for plan in job.shared.plans)
    return tuple(msgspec.json.encode(text).decode() for text in texts)
