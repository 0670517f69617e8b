"""One step of a query about situations: state and batch in, state and rows out.

``step_situations`` is pure. Events of equal time are processed together, so those of the latest
time wait for the next step; a match that is final at a time is final after all its events (§9.5).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, KeyTable, read_times
from cepheid.errors import DataError, Diagnostic
from cepheid.kernels.columns import scan_times
from cepheid.kernels.derive import FOREVER
from cepheid.kernels.distinct import distinct
from cepheid.kernels.temporal_join import join, next_partners
from cepheid.kinds.situation.job import SituationJob
from cepheid.kinds.situation.relative import with_masks
from cepheid.kinds.situation.results import Matches, empty_rows, list_rows, match_rows
from cepheid.kinds.situation.runs import Derived, Kept, Step, derive, keep
from cepheid.kinds.situation.stretches import Cutting, Stretches, cut
from cepheid.kinds.situation.tuning import Tuning, observe
from cepheid.memory_limits import VARIABLE, current, too_much_state

LOOKS_A_SITUATION = 1 << 14
"""Looks at other situations for one that may complete a match, beside one for 8 bytes of state."""


class SituationState(NamedTuple):
    """The state of a query about situations between batches; immutable."""

    keys: KeyTable
    kept: tuple[Kept, ...]
    tuning: Tuning
    held: pa.Table | None = None
    last: int | None = None
    before: pa.Table | None = None
    """The state of relative conditions (§9.10), by partition."""

    @staticmethod
    def start(job: SituationJob) -> SituationState:
        """Create the state before the first event."""
        kept = tuple(Kept.none(job, number) for number in range(len(job.definitions)))
        return SituationState(KeyTable(job.plan.partition.attributes), kept, Tuning.start(job))

    @property
    def situation_count(self) -> int:
        """Count the situations in the state."""
        return sum(len(kept.key) for kept in self.kept)


def step_situations(
    job: SituationJob, state: SituationState, batch: pa.Table, *, complete: bool = False,
    cutting: Cutting = cut,
) -> tuple[SituationState, pa.Table]:  # fmt: skip
    """Process a batch; return the new state and the final rows.

    Parameters
    ----------
    complete
        No more events of the batch's latest time will come.

    Raises
    ------
    DataError
        E505 and E506 if a column is missing or has a wrong type, E509 if the batch is not in order.
    """
    rows = empty_rows(job, batch.schema)
    if state.held is not None:
        batch = pa.concat_tables([state.held, batch], promote_options="permissive")
    if not len(batch):
        return state, rows
    times = read_times(Columns(batch), job.plan.time)
    check_order(job, times, state.last)
    ready = len(batch) if complete else int(np.searchsorted(times, times[-1], side="left"))
    held = batch.slice(ready) if ready < len(batch) else None
    if not ready:
        return state._replace(held=held), rows
    keys = state.keys.copy()
    part = batch.slice(0, ready)
    state = state._replace(keys=keys, held=held, last=int(times[ready - 1]))
    if job.relative:
        state, part = _look_back(job, state, part)
    stretches = cutting(job, keys, Columns(part), times[:ready])
    return step_stretches(job, state, stretches, batch.schema)


def _look_back(
    job: SituationJob, state: SituationState, batch: pa.Table
) -> tuple[SituationState, pa.Table]:
    """Evaluate the conditions that look at more than one event."""
    columns = Columns(batch)
    key = state.keys.number(columns)
    if job.situations.where is not None:
        key = np.where(columns.mask(job.situations.where), key, -1)
    count = max(len(state.keys), 1)
    before, batch = with_masks(job, state.before, batch, key, count)
    return state._replace(before=before), batch


def step_stretches(
    job: SituationJob, state: SituationState, stretches: Stretches, schema: pa.Schema
) -> tuple[SituationState, pa.Table]:
    """Process stretches of complete times, whose partitions the state knows.

    Raises
    ------
    DataError
        E515 if the state would hold too many situations.
    """
    if not len(stretches.ts):
        return state, empty_rows(job, schema)
    step, derived = _derive_all(job, state, stretches)
    tuning = state.tuning
    if job.relates:
        tuning, rows = _match(job, state, step, derived, schema)
    else:
        rows = list_rows(job, state.keys, step, derived, schema)
    return _keep_all(job, state, step, derived)._replace(tuning=tuning), rows


def absorb_stretches(
    job: SituationJob, state: SituationState, stretches: Stretches
) -> SituationState:
    """Process stretches whose rows have left: derive their situations, and join nothing."""
    if not len(stretches.ts):
        return state
    return _keep_all(job, state, *_derive_all(job, state, stretches))


def _derive_all(
    job: SituationJob, state: SituationState, stretches: Stretches
) -> tuple[Step, list[Derived]]:
    step = Step.of(stretches, len(state.keys))
    return step, [derive(job, number, kept, step) for number, kept in enumerate(state.kept)]


def _keep_all(
    job: SituationJob, state: SituationState, step: Step, derived: list[Derived]
) -> SituationState:
    """Build the state after a step."""
    last = int(step.stretches.ts[-1])
    kept = tuple(
        keep(job, number, old, new, step, _chosen(job, old, new, last))
        for number, (old, new) in enumerate(zip(state.kept, derived, strict=True))
    )
    state = state._replace(kept=kept)
    if state.situation_count > (most := current().situations):
        raise _too_many(job, most)
    return state


def _too_many(job: SituationJob, most: int) -> DataError:
    message = f"the query keeps more than {most:,} situations"
    change = "add a window: `DETECTED WITHIN 10 minutes`"
    if job.within >= 0:
        change = "make the window shorter, or bound situations with `AT LEAST`"
    more = f"or, with the memory for it, raise the limit: `{VARIABLE}=situations={2 * most}`"
    return DataError([Diagnostic("E515", message, helps=(change, more))])


def finish_situations(
    job: SituationJob, state: SituationState, schema: pa.Schema
) -> tuple[SituationState, pa.Table]:
    """Process the buffered events: the stream has ended."""
    # Events that tasks read from files have texts as codes, and so have those that are held.
    last = schema if state.held is None else state.held.schema
    return step_situations(job, state, last.empty_table(), complete=True)


def forget_idle_partitions(job: SituationJob, state: SituationState) -> SituationState:
    """Drop the keys of partitions that have no situation left, and no previous event (§9.10)."""
    if job.previous:
        return state
    used = distinct(np.concatenate([kept.key for kept in state.kept]))
    if not state.keys.names or len(used) == len(state.keys):
        return state
    keys = state.keys.take(used)
    kept = tuple(k._replace(key=np.searchsorted(used, k.key)) for k in state.kept)
    before = None if state.before is None else state.before.take(pa.array(used))
    return state._replace(keys=keys, kept=kept, before=before)


def check_order(job: SituationJob, times: NDArray[np.int64], last: int | None) -> None:
    """Report events that are out of time order, or before the time of the last batch."""
    back, _ = scan_times(times)
    if back < 0 and (last is None or times[0] >= last):
        return
    row = max(int(back), 0)
    message = (
        f"the events are not in the order of `{job.plan.time}`: row {row} comes before the one "
        "above it"
    )
    helps = ("sort the events by time, or pass them as one table, which Cepheid sorts itself",)
    raise DataError([Diagnostic("E509", message, helps=helps)])


def _chosen(
    job: SituationJob, old: Kept, new: Derived, last: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Mark the situations to keep: open ones, and those that a later match can contain."""
    ts, te = old.ts[new.resting], old.te[new.resting]
    stays, rests = new.te == FOREVER, te == FOREVER
    if job.relates and job.within < 0:
        return np.ones_like(stays), np.ones_like(rests)
    if job.relates:
        stays |= new.ts >= last - job.within
        rests |= ts >= last - job.within
    return stays, rests


def _match(
    job: SituationJob, state: SituationState, step: Step, derived: list[Derived], schema: pa.Schema
) -> tuple[Tuning, pa.Table]:
    """Join the situations of a step to the matches that become final, in time order."""
    ts, te, known = (
        np.concatenate([getattr(d, name) for d in derived]) for name in ("ts", "te", "known")
    )
    sizes = np.cumsum([0, *(len(d.key) for d in derived)])
    bounds = np.stack([d.starts + base for d, base in zip(derived, sizes, strict=False)])
    following = np.zeros(0, np.int64)
    if state.tuning.prunes:
        following = next_partners(job.partners, ts, te, bounds)
    found: list[Any] = []
    # A match takes an index per definition and a time, and later as much again for its row.
    bound = current().state // (16 * (len(derived) + 1))
    most = bound + 1
    for number, here in enumerate(derived):
        rows, times = _triggers(job, number, here)
        if not len(rows):
            continue
        arrays = job.join_arrays(number, state.tuning.orders[number])
        looks = current().state // 8 + LOOKS_A_SITUATION * len(rows)
        *matches, looked = (
            join(number, rows + sizes[number], times, here.key, arrays.steps, arrays.ranges,
                 job.constraints, job.alone, job.known_counts, ts, te, known, bounds,
                 following, job.within, job.waits, most, looks)
        )  # fmt: skip
        found.append(matches)
        most -= len(matches[1])
        if not most:
            too_much_state("matches of situations", bound)
        if looked == looks:
            too_much_state("situations that may be part of a match", looks, verb="looks at")
    tuning = observe(job, state.tuning, bounds, ts, te)
    if not found:
        return tuning, empty_rows(job, schema)
    chosen = np.concatenate([rows for rows, _ in found]) - sizes[:-1]
    matches = Matches(chosen, np.concatenate([times for _, times in found]))
    return tuning, match_rows(job, state.keys, step, derived, matches, schema)


def _triggers(
    job: SituationJob, number: int, derived: Derived
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the situations that can make a match final in this step, and when."""
    triggers = job.situations.triggers[number]
    none = np.zeros(0, np.int64)
    rows, times = [none], [none]
    if triggers.start:
        began = np.flatnonzero(derived.began)
        rows, times = [began], [derived.ts[began]]
    if triggers.lasted:
        became = np.flatnonzero(derived.became)
        rows.append(became)
        times.append(derived.known[became])
    if triggers.end:
        at_end = derived.fresh & (derived.te != FOREVER)
        if triggers.lasted:
            at_end &= ~(derived.became & (derived.known == derived.te))
        ended = np.flatnonzero(at_end)
        rows.append(ended)
        times.append(derived.te[ended])
    return np.concatenate(rows), np.concatenate(times)
