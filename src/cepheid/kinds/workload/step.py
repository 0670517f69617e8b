"""The step of a workload: many queries, one pass.

    feed(job, state, batch)   ->  rows of complete windows, query by query
    finish_workload(job, state)

Columns are read once, masks of equal predicates are computed once, and keys are numbered once for
all queries with the same partition. Queries that could be merged (``sharing.py``) run as one
system; the others run one by one over the same arrays.
"""

from __future__ import annotations

from collections.abc import Set
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns, KeyTable
from cepheid.arrays.sharing import sharing_columns
from cepheid.errors import CepheidError
from cepheid.events.temporal import FOREVER
from cepheid.jobs.state_format import meaning_of
from cepheid.kernels.columns import scan_times
from cepheid.kinds.trend.program.job import Job, moduli_of
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.kinds.trend.program.results import Groups, build_table, groups_of
from cepheid.kinds.trend.windows.list_step import finish_matches, is_enough, step_matches
from cepheid.kinds.trend.windows.step import (
    PartitionState,
    admit_events,
    advance,
    finish,
    process,
    step,
    waits,
)
from cepheid.kinds.workload.look_back_evaluate import LookBackProgram
from cepheid.kinds.workload.look_back_run import process_together
from cepheid.kinds.workload.shared_reading import SharedEvents, read_shared
from cepheid.kinds.workload.shared_run import SharedRows, SharedRun, rows_by_member
from cepheid.kinds.workload.shared_tables import SharedProgram
from cepheid.kinds.workload.shared_trailing import SharedTrailingRun, report_expiries
from cepheid.kinds.workload.sharing import Method, SharedPlan
from cepheid.language import tree
from cepheid.memory_limits import collect
from cepheid.plans.plan import TrendPlan, WindowKind

Admission = tuple[str, bool]
"""The time column, and whether the events of the last time wait."""


class WorkloadJob:
    """A workload with everything that can be precomputed before the data comes."""

    def __init__(self, shared: SharedPlan) -> None:
        self.shared = shared
        self.programs = [
            SharedProgram(group, modulus, output)
            for group in shared.groups
            for output, modulus in enumerate((0, *moduli_of(group.plan)))
        ]
        self.jobs = [
            _lowered(name, plan, reports_only=number not in shared.alone)
            for number, (name, plan) in enumerate(zip(shared.names, shared.plans, strict=True))
        ]
        self.listing = [n for n in shared.alone if shared.plans[n].lists_matches]
        aggregates = [n for n in shared.alone if n not in self.listing]
        # Events wait for their marks (§2.12), so these queries are at a time of their own.
        self.waiting = [n for n in aggregates if shared.plans[n].has_deadlines]
        lone = [n for n in aggregates if n not in self.waiting]
        # The first member of a group that looks back has the events of all.
        self.looking = {
            group.members[0]: LookBackProgram(group, [self.jobs[n] for n in group.members])
            for group in shared.looking
        }
        self.alone = sorted([*(n for n in lone if n not in shared.twins), *self.looking])

    @cached_property
    def meaning(self) -> tuple[str, ...]:
        """Collect what identifies the workload: the meanings of its queries, one by one."""
        return tuple(meaning_of(plan) for plan in self.shared.plans)

    def plans_of_units(self) -> list[TrendPlan]:
        """List one plan for each unit that runs: groups, then queries that run alone."""
        return [p.group.plan for p in self.programs] + [self.shared.plans[n] for n in self.alone]


def _lowered(name: str, plan: TrendPlan, *, reports_only: bool) -> Job:
    try:
        return Job(plan, reports_only=reports_only)
    except CepheidError as error:
        error.file = error.file or name
        raise


class Found(NamedTuple):
    """The output of a step: rows of each query, as ``build_table`` expects, and listed matches."""

    rows: list[list[list[Rows]]]
    matches: list[list[pa.Table]]

    @staticmethod
    def nothing(job: WorkloadJob) -> Found:
        """Create the output of no events."""
        return Found([[[] for _ in range(j.outputs)] for j in job.jobs], [[] for _ in job.jobs])

    def add(self, more: Found) -> None:
        """Append the output of a later step."""
        for mine, new in zip(self.rows, more.rows, strict=True):
            for rows, others in zip(mine, new, strict=True):
                rows += others
        for tables, others_ in zip(self.matches, more.matches, strict=True):
            tables += others_


class WorkloadState:
    """The state of a workload between batches: a part for every group and every lone query."""

    def __init__(self, job: WorkloadJob) -> None:
        self.keys: dict[tuple[str, ...], KeyTable] = {}
        self.held: dict[Admission, pa.Table | None] = {}
        self.last: dict[Admission, int | None] = {}
        for plan in job.plans_of_units():
            names = plan.partition.attributes
            self.keys.setdefault(names, KeyTable(names))
            self.held.setdefault((plan.time, waits(plan)), None)
            self.last.setdefault((plan.time, waits(plan)), None)
        self.runs: list[SharedRun | SharedTrailingRun] = [
            SharedTrailingRun(program)
            if program.group.method is Method.STACKS
            else SharedRun(program)
            for program in job.programs
        ]
        self.alone = {n: self._alone(job.jobs[n]) for n in job.alone}
        self.listing = {n: PartitionState(job.jobs[n]) for n in job.listing}
        self.waiting = {n: PartitionState(job.jobs[n]) for n in job.waiting}

    def _alone(self, job: Job) -> PartitionState:
        state = PartitionState(job)
        state.keys = self.keys[job.plan.partition.attributes]
        return state

    def copy(self) -> WorkloadState:
        """Copy the state, so that both can continue independently."""
        other = object.__new__(WorkloadState)
        other.keys = {names: keys.copy() for names, keys in self.keys.items()}
        other.held, other.last = dict(self.held), dict(self.last)
        other.runs = [run.copy() for run in self.runs]
        other.alone = {
            n: state.copy(other.keys[state.keys.names]) for n, state in self.alone.items()
        }
        other.listing = {n: state.copy() for n, state in self.listing.items()}
        other.waiting = {n: state.copy() for n, state in self.waiting.items()}
        return other


def step_workload(
    job: WorkloadJob, state: WorkloadState, batch: pa.Table
) -> tuple[WorkloadState, Found]:
    """Process a batch; return the new state and the output. Changes neither argument."""
    state = state.copy()
    return state, feed(job, state, batch)


def feed(job: WorkloadJob, state: WorkloadState, batch: pa.Table, *, listing: bool = True) -> Found:
    """Process a batch in place; return the rows of the windows that are complete.

    Without ``listing``, the caller passes the batch to queries that list matches.

    Raises
    ------
    DataError
        E505 and E506 if a column is missing or has a wrong type, E509 if the batch is not in order.
    """
    with sharing_columns():
        return _feed(job, state, batch, listing=listing)


def _feed(job: WorkloadJob, state: WorkloadState, batch: pa.Table, *, listing: bool) -> Found:
    found = Found.nothing(job)
    for admission in state.held:
        time, whole_times = admission
        ready, held, last = admit_events(
            batch, state.held[admission], state.last[admission], time, whole_times=whole_times
        )
        if ready is not None:
            state.held[admission], state.last[admission] = held, last
            _process(job, state, admission, Columns(ready), last, found)
    for n in job.waiting:
        state.waiting[n], rows = step(job.jobs[n], state.waiting[n], batch)
        _add(found.rows[n], rows)
    for n in job.listing if listing else ():
        if not is_enough(job.jobs[n], state.listing[n]):
            state.listing[n], tables = step_matches(job.jobs[n], state.listing[n], batch)
            found.matches[n] += collect(tables)
    return found


def advance_workload(job: WorkloadJob, state: WorkloadState, until: int) -> Found:
    """Close, in place, the windows that end by a time; no earlier event comes.

    All events so far are earlier than ``until``. Queries that list matches are skipped.
    """
    found = Found.nothing(job)
    for admission, held in state.held.items():
        state.last[admission] = until
        if held is not None:
            state.held[admission] = None
            _process(job, state, admission, Columns(held), until, found)
            continue
        for program, run in zip(job.programs, state.runs, strict=True):
            plan = program.group.plan
            bounded = plan.window.kind is not WindowKind.NONE
            if bounded and (plan.time, waits(plan)) == admission:
                _flush(job, state, program, run, until, found)
        for n in job.alone:
            if lone_admission(job.jobs[n]) == admission and n in job.looking:
                state.alone[n].last = until
                _look_back(job, state, n, None, until, found)
            elif lone_admission(job.jobs[n]) == admission:
                # The keys are those of all queries with this partition; ``advance`` adds none.
                keys = state.keys[job.jobs[n].plan.partition.attributes]
                state.alone[n], rows = advance(job.jobs[n], state.alone[n], until, keys)
                _add_to_all(job, n, rows, found)
    for n in job.waiting:
        state.waiting[n], rows = advance(job.jobs[n], state.waiting[n], until)
        _add(found.rows[n], rows)
    return found


def finish_workload(job: WorkloadJob, state: WorkloadState) -> Found:
    """Return the rows of all open windows; the stream has ended."""
    found = Found.nothing(job)
    for admission, held in state.held.items():
        last = state.last[admission]
        if held is not None and last is not None:
            state.held[admission] = None
            _process(job, state, admission, Columns(held), last + 1, found)
    for program, run in zip(job.programs, state.runs, strict=True):
        plan = program.group.plan
        last = state.last[plan.time, waits(plan)]
        if last is not None:
            bounded = plan.window.kind is not WindowKind.NONE
            end = last + plan.window.within + 1 if bounded else FOREVER
            _flush(job, state, program, run, end, found)
    for n, lone in state.alone.items():
        lone.last = state.last[lone_admission(job.jobs[n])]
        if n in job.looking:
            _look_back(job, state, n, None, None, found)
            continue
        state.alone[n], rows = finish(job.jobs[n], lone)
        _add_to_all(job, n, rows, found)
    for n in job.waiting:
        state.waiting[n], rows = finish(job.jobs[n], state.waiting[n])
        _add(found.rows[n], rows)
    for n in job.listing:
        state.listing[n], tables = finish_matches(job.jobs[n], state.listing[n])
        found.matches[n] += collect(tables)
    return found


def lone_admission(job: Job) -> Admission:
    """Compute the admission of events for a query that runs alone."""
    return job.plan.time, waits(job.plan)


def _process(
    job: WorkloadJob,
    state: WorkloadState,
    admission: Admission,
    columns: Columns,
    until: int | None,
    found: Found,
) -> None:
    """Pass events to all groups and lone queries with this admission."""
    ordered = _Order(columns)
    read: dict[int, SharedEvents] = {}
    for program, run in zip(job.programs, state.runs, strict=True):
        plan = program.group.plan
        if (plan.time, waits(plan)) != admission:
            continue
        keys = state.keys[plan.partition.attributes]
        # Programs of one group differ in the format of their numbers only.
        if program.output == 0:
            read[id(program.group)] = read_shared(program.group, program.kinds, keys, columns)
        events = read[id(program.group)]
        if isinstance(run, SharedTrailingRun):
            assert until is not None, "the stream has a last time when it has events"
            _feed_trailing(job, keys, run, events, until, found)
            continue
        events, grouped = ordered.together(plan, keys, events)
        run.grow(len(keys))
        rows = run.feed(events, grouped=grouped) if len(events.ts) else []
        if until is not None and plan.window.kind is not WindowKind.NONE:
            rows += run.flush(until)
        _report(program, rows, found)
    for n in job.alone:
        if lone_admission(job.jobs[n]) == admission:
            lone = state.alone[n]
            lone.last = state.last[admission]
            if n in job.looking:
                _look_back(job, state, n, columns.batch, until, found)
                continue
            rows_ = process(job.jobs[n], lone, columns, flush_until=until)
            _add_to_all(job, n, rows_, found)


def _look_back(
    job: WorkloadJob,
    state: WorkloadState,
    n: int,
    batch: pa.Table | None,
    until: int | None,
    found: Found,
) -> None:
    """Pass events, or none, to a group that looks back; its state is that of its first member."""
    own, program = state.alone[n], job.looking[n]
    if batch is None:
        if own.events is None:
            return
        batch = own.events.slice(0, 0)
    rows = process_together(program, own, batch, until)
    for member, mine in zip(program.group.members, rows, strict=True):
        found.rows[member][0] += mine


def _flush(
    job: WorkloadJob,
    state: WorkloadState,
    program: SharedProgram,
    run: SharedRun | SharedTrailingRun,
    until: int,
    found: Found,
) -> None:
    """Close the windows of a group that end by a time."""
    if isinstance(run, SharedTrailingRun):
        keys = state.keys[program.group.plan.partition.attributes]
        _feed_trailing(job, keys, run, None, until, found)
    else:
        _report(program, run.flush(until), found)


def _feed_trailing(
    job: WorkloadJob,
    keys: KeyTable,
    run: SharedTrailingRun,
    events: SharedEvents | None,
    until: int,
    found: Found,
) -> None:
    """Pass events, or none, to a group over trailing windows; all are before a time."""
    fresh = run.reported
    rows = run.feed(events, len(keys), until)
    if not run.expiries:
        _report(run.program, rows, found)
        return
    members = run.program.group.members
    of_members = report_expiries(run, [job.jobs[n] for n in members], keys, fresh, rows)
    for member, mine in zip(members, of_members, strict=True):
        found.rows[member][0] += mine


class _Order:
    """Makes ties of a key adjacent, once for all groups with the same keys."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._known: dict[tuple[str, ...], tuple[Any, bool]] = {}

    def together(
        self, plan: TrendPlan, keys: KeyTable, events: SharedEvents
    ) -> tuple[SharedEvents, bool]:
        """Sort the events, and check whether some of one key have equal times."""
        if plan.ties is not tree.Ties.STRICT or len(events.ts) < 2:
            return events, False
        if keys.names not in self._known:
            back, ties = scan_times(events.ts)
            order = np.lexsort((events.key, events.ts)) if ties or back >= 0 else None
            grouped = False
            if order is not None:
                ts, key = events.ts[order], events.key[order]
                grouped = bool(((ts[1:] == ts[:-1]) & (key[1:] == key[:-1])).any())
            self._known[keys.names] = (order if grouped else None, grouped)
        order, grouped = self._known[keys.names]
        return (events if order is None else events.take(order)), grouped


def _report(program: SharedProgram, rows: list[SharedRows], found: Found) -> None:
    for member, own in zip(program.group.members, rows_by_member(program, rows), strict=True):
        found.rows[member][program.output] += own


def _add_to_all(job: WorkloadJob, n: int, rows: list[list[Rows]], found: Found) -> None:
    """Add the rows of a query that runs alone to it and to its twins."""
    for query in [n, *(twin for twin, first in job.shared.twins.items() if first == n)]:
        _add(found.rows[query], rows)


def _add(rows: list[list[Rows]], more: list[list[Rows]]) -> None:
    for mine, new in zip(rows, more, strict=True):
        mine += new


def build_tables(
    job: WorkloadJob,
    state: WorkloadState,
    found: Found,
    schema: pa.Schema,
    only: Set[int] | None = None,
) -> dict[int, pa.Table]:
    """Build the result table of every query that does not list matches, or of some of them."""
    known: dict[tuple[tuple[str, ...], tuple[str, ...]], Groups] = {}
    tables = {}
    for n, own in enumerate(job.jobs):
        if n in job.listing or (only is not None and n not in only):
            continue
        if n in job.waiting:
            tables[n] = build_table(own, found.rows[n], state.waiting[n].keys, schema)
            continue
        partition = own.plan.partition
        keys = state.keys[partition.attributes]
        name = (partition.attributes, partition.group_by)
        if name not in known:
            known[name] = groups_of(own, keys)
        tables[n] = build_table(own, found.rows[n], keys, schema, known[name])
    return tables
