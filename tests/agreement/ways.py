"""The ways to run a query in this process: a registry of names, what they take, how they run."""

from __future__ import annotations

import atexit
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pyarrow as pa
from pyarrow import parquet
from tests.agreement.representations import plain_rows
from tests.agreement.thresholds import as_if_many
from tests.agreement.values import Trial
from tests.runtime.test_stream_state import Live
from tests.store.small_store import small_parts

import cepheid
from cepheid.api import CompiledQuery
from cepheid.errors import CepheidError
from cepheid.events import files
from cepheid.events.arriving import plain_table
from cepheid.jobs import local_jobs, side_by_side
from cepheid.jobs.ordering import order_of, ordered
from cepheid.kinds.funnel.kind import FunnelKind
from cepheid.kinds.selection import plain_folds
from cepheid.kinds.situation.job import SituationJob
from cepheid.kinds.situation.results import empty_rows
from cepheid.kinds.situation.snapshot import situations_from_bytes, situations_to_bytes
from cepheid.kinds.situation.step import SituationState, finish_situations, step_situations
from cepheid.kinds.trend.planning.granularity import legal_evaluators
from cepheid.kinds.trend.planning.needs import needs_no_window
from cepheid.kinds.trend.planning.variants import reach_of
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows import plain_windows
from cepheid.kinds.trend.windows.snapshot import state_from_bytes, state_to_bytes
from cepheid.kinds.trend.windows.step import PartitionState, finish, step
from cepheid.kinds.workload import answer as local_workload
from cepheid.plans.plan import TrendPlan, WindowKind
from cepheid.plans.template import UNLIMITED
from cepheid.runtimes import sifted
from cepheid.store.secondary import can_index

PATTERNS = ("trends", "matches")
SELECTS = ("filter", "aggregation", "join")
STEPPED = ("situations", "funnel")
SWEEPS = ("sweep",)
ALL = (*PATTERNS, *SELECTS, *STEPPED, *SWEEPS, "row pattern")


class Way(NamedTuple):
    """A way to run a query."""

    name: str
    kinds: tuple[str, ...]
    run: Callable[[Trial], Any]
    takes: Callable[[Trial], bool] = lambda _: True
    lossy: bool = False
    """Whether NULL and NaN are one on this way, as in pandas."""

    def takes_trial(self, trial: Trial) -> bool:
        """Return whether the query and its data can go this way."""
        return trial.kind in self.kinds and self.takes(trial)


WAYS: list[Way] = []


def way(
    name: str,
    kinds: tuple[str, ...] = ALL,
    *,
    takes: Callable[[Trial], bool] = lambda _: True,
    lossy: bool = False,
) -> Callable[[Callable[[Trial], Any]], Callable[[Trial], Any]]:
    """Register a way to run."""

    def register(run: Callable[[Trial], Any]) -> Callable[[Trial], Any]:
        WAYS.append(Way(name, kinds, run, takes, lossy))
        return run

    return register


# ---------------------------------------------------------------------------------------
# What ways share


@lru_cache(maxsize=4)
def _compiled(text: str, **options: Any) -> CompiledQuery:
    return cepheid.query(text, **options)


def compiled(trial: Trial) -> CompiledQuery:
    """Return the query of a trial, which all ways share: it never changes."""
    return _compiled(trial.text, **trial.options)


def run_over(trial: Trial, streams: dict[str, Any], **how: Any) -> Any:
    """Run a trial's query over streams in some form."""
    if trial.kind == "row pattern":
        return cepheid.sql(trial.text, tables=streams, **how)
    events = streams if trial.kind == "join" else streams["s"]
    return compiled(trial).run(events, **how)


def pieces(trial: Trial, table: pa.Table) -> Iterator[pa.Table]:
    """Yield a stream in the pieces of a trial."""
    offset = 0
    for rows in itertools.cycle(trial.cuts):
        if offset >= len(table):
            return
        yield table.slice(offset, rows)
        offset += rows


def chunked(trial: Trial, table: pa.Table) -> pa.Table:
    """Return a table whose columns have a chunk for each piece."""
    return pa.concat_tables([table.slice(0, 0), *pieces(trial, table)])


def small_steps() -> ExitStack:
    """Return a context in which the engine takes two events a step."""
    stack = ExitStack()
    for module, name in (
        (local_jobs, "BATCH_ROWS"),
        (local_jobs, "LOOK_BACK_ROWS"),
        (local_jobs, "SITUATION_ROWS"),
        (local_workload, "BATCH_ROWS"),
        (local_workload, "LOOK_BACK_ROWS"),
        (files, "BATCH_ROWS"),
    ):
        stack.enter_context(patch.object(module, name, 2))
    for module in (plain_windows, plain_folds):
        stack.enter_context(patch.object(module, "ROWS_MIN", 0))
    # However many events are relevant, the others are left out as files are read.
    stack.enter_context(patch.object(sifted, "SHARE_MAX", 1.0))
    return stack


def has_events_window(trial: Trial) -> bool:
    """Return whether windows are counted in events."""
    return "EVENT" in trial.text


# ---------------------------------------------------------------------------------------
# Arrow and pandas


@way("table")
def run_table(trial: Trial) -> Any:
    return run_over(trial, trial.tables)


@way("threads", PATTERNS)
def in_threads(trial: Trial) -> Any:
    small = patch.multiple(side_by_side, RANGE_ROWS=2, thread_count=lambda: 3)
    with small_steps(), small:
        return run_over(trial, {n: chunked(trial, t) for n, t in trial.tables.items()})


@way("chunked table")
def run_chunks(trial: Trial) -> Any:
    with small_steps():
        return run_over(trial, {n: chunked(trial, t) for n, t in trial.tables.items()})


@way("as if many")
def run_as_if_many(trial: Trial) -> Any:
    with as_if_many():
        return run_over(trial, trial.tables)


@way("chunks as if many")
def run_chunks_as_if_many(trial: Trial) -> Any:
    with as_if_many(), small_steps():
        return run_over(trial, {n: chunked(trial, t) for n, t in trial.tables.items()})


@way("reader")
def run_reader(trial: Trial) -> Any:
    readers = {
        n: pa.RecordBatchReader.from_batches(
            t.schema, [batch for piece in pieces(trial, t) for batch in piece.to_batches()]
        )
        for n, t in trial.tables.items()
    }
    with small_steps():
        return run_over(trial, readers)


def _survives_pandas(trial: Trial) -> bool:
    """Return whether pandas keeps all values: it has no whole numbers beside NULL, for one."""
    for table in trial.tables.values():
        try:
            back = pa.Table.from_pandas(table.to_pandas(), preserve_index=False)
        except (pa.ArrowException, ValueError, OverflowError, RuntimeError, TypeError):
            return False
        if repr(plain_rows(back)) != repr(plain_rows(table)):
            return False
        # A column of NULL alone becomes one of doubles, which exact numbers refuse (E321); dates
        # of an empty table are no dates any more, which may be added to numbers.
        if "NUMBERS exact" in trial.text or not len(table):
            whole = [_kind_in_pandas(field.type) for field in table.schema]
            if whole != [_kind_in_pandas(field.type) for field in back.schema]:
                return False
    return True


def _kind_in_pandas(kind: Any) -> tuple[bool, bool]:
    return pa.types.is_integer(kind), pa.types.is_null(kind)


@way("pandas", takes=_survives_pandas, lossy=True)
def run_pandas(trial: Trial) -> Any:
    found = run_over(trial, {n: t.to_pandas() for n, t in trial.tables.items()})
    return pa.Table.from_pandas(found, preserve_index=False)


def _unordered(trial: Trial) -> bool:
    return trial.kind in (*PATTERNS, *STEPPED, *SWEEPS, "aggregation")


@way("unordered table", takes=_unordered)
def run_unordered(trial: Trial) -> Any:
    """Run over pieces in reverse, cut so that events of one time stay in their order."""
    times = (
        trial.table.column(trial.time).to_pylist()
        if len(trial.table) < 2
        else [row[trial.time] for row in plain_rows(trial.table)]
    )
    cuts = [i for i in range(1, len(times)) if times[i] != times[i - 1]]
    runs = [trial.table.slice(a, b - a) for a, b in itertools.pairwise([0, *cuts, len(times)])]
    return run_over(trial, {"s": pa.concat_tables(runs[::-1])})


# ---------------------------------------------------------------------------------------
# Files


def parquet_holds(trial: Trial) -> bool:
    """Return whether Parquet has types for all columns."""
    kinds = [field.type for table in trial.tables.values() for field in table.schema]
    return not any(isinstance(kind, pa.RunEndEncodedType) for kind in kinds)


def write_pieces(trial: Trial, name: str, folder: str) -> str:
    """Write the pieces of a stream as files, and return their folder."""
    place = Path(folder) / name
    place.mkdir()
    table = trial.tables[name]
    for number, piece in enumerate([*pieces(trial, table)] or [table]):
        parquet.write_table(piece, place / f"{number:03}.parquet", row_group_size=2)
    return str(place)


@way("files", takes=parquet_holds)
def run_files(trial: Trial) -> Any:
    with tempfile.TemporaryDirectory() as folder, small_steps():
        return run_over(trial, {name: write_pieces(trial, name, folder) for name in trial.tables})


# ---------------------------------------------------------------------------------------
# Stores


def stored(trial: Trial, name: str, folder: str) -> cepheid.EventStore:
    """Return a store of a stream that was appended piece by piece, some columns indexed."""
    table = trial.tables[name]
    store = cepheid.EventStore(Path(folder) / name, time=trial.time)
    parts = [*pieces(trial, table)] or [table]
    for number, piece in enumerate(parts):
        store.append(piece)
        if number == 0:
            for column in table.column_names[:: sum(trial.cuts) % 3 + 1]:
                if can_index(table.schema.field(column).type):
                    store.index(column)
    return store


class LastStores:
    """Keeps the stores of a trial until the next trial: two ways read the same ones."""

    def __init__(self) -> None:
        self.trial: Trial | None = None
        self.stack = ExitStack()
        self.streams: dict[str, cepheid.EventStore] = {}

    def of(self, trial: Trial) -> dict[str, cepheid.EventStore]:
        """Return the stores of a trial."""
        if self.trial is not trial:
            self.close()
            folder = self.stack.enter_context(tempfile.TemporaryDirectory())
            self.streams = {name: stored(trial, name, folder) for name in trial.tables}
            self.trial = trial
        return self.streams

    def close(self) -> None:
        """Remove the files."""
        self.trial = None
        self.stack.close()


LAST_STORES = LastStores()
atexit.register(LAST_STORES.close)


def _run_store(trial: Trial, method: str) -> Any:
    with small_parts(), patch.object(os, "fsync", lambda _: None):
        return run_over(trial, dict(LAST_STORES.of(trial)), strategy=method)


def _has_time(trial: Trial) -> bool:
    return trial.kind != "row pattern" or _in_order_of_time(trial)


def _in_order_of_time(trial: Trial) -> bool:
    times = [row[trial.time] for row in plain_rows(trial.table)]
    return times == sorted(times)


@way("store by index", takes=_has_time)
def run_store_index(trial: Trial) -> Any:
    return _run_store(trial, "index")


@way("store by replay", takes=_has_time)
def run_store_replay(trial: Trial) -> Any:
    return _run_store(trial, "replay")


# ---------------------------------------------------------------------------------------
# Workloads, evaluators, live


OTHER = "RETURN COUNT(*) PATTERN SEQ(A+, B)"


def _workload(trial: Trial) -> cepheid.Workload:
    return cepheid.workload({"one": trial.text, "other": OTHER, "two": trial.text}, **trial.options)


@way("workload", (*PATTERNS, "funnel"))
def run_workload(trial: Trial) -> Any:
    with small_steps():
        return _workload(trial).run(trial.table, separate=True)["two"]


@way("live rules", PATTERNS)
def run_live_rules(trial: Trial) -> Any:
    rows = order_of(plain_table(trial.table), compiled(trial).with_schema(trial.table.schema).plan)
    table = trial.table
    if rows is not None:
        # Arrow has no rows to take of texts that are views.
        table = pa.concat_tables([table.slice(n, 1) for n in rows.tolist()])
    rules = cepheid.workload({"one": trial.text}, **trial.options).live(table.schema)
    found = [rules.feed(piece) for piece in pieces(trial, table)]
    found.append(rules.close())
    listed = [row for part in found for row in plain_rows(part)]
    return [{name: v for name, v in row.items() if name != "query"} for row in listed]


def _evaluators(trial: Trial) -> list[str]:
    try:
        plan = compiled(trial).with_schema(trial.table.schema).plan
        return sorted(str(e.value) for e in legal_evaluators(TrendPlan.of(plan)))
    except CepheidError:
        return []


def _register_evaluator(name: str) -> None:
    @way(f"evaluator {name}", ("trends",), takes=lambda trial: name in _evaluators(trial))
    def run(trial: Trial) -> Any:
        planned = compiled(trial).with_schema(trial.table.schema)
        return planned.with_evaluator(name).run(trial.table)


for _name in ("linear", "indexed", "previous", "pairwise"):
    _register_evaluator(_name)


@way("steps with restarts", ("trends", *STEPPED))
def run_steps(trial: Trial) -> Any:
    """Step through the pieces; between two of them everything but the state is made anew."""
    plain = plain_table(trial.table)
    plan = compiled(trial).with_schema(plain.schema).plan
    table = ordered(plain, plan)
    if trial.kind == "situations":
        return _situation_steps(trial, plan, table)
    if trial.kind == "funnel":
        return _funnel_steps(trial, plan, table)
    job = lower(TrendPlan.of(plan))
    state, rows = PartitionState(job), []
    for piece in pieces(trial, table):
        state, found = step(job, state, piece)
        rows.append(build_table(job, found, state.keys, table.schema))
        data = state_to_bytes(job, state)
        job = lower(TrendPlan.of(plan))
        state = state_from_bytes(job, data)
    state, found = finish(job, state)
    rows.append(build_table(job, found, state.keys, table.schema))
    return [row for part in rows for row in plain_rows(part)]


def _situation_steps(trial: Trial, plan: Any, table: pa.Table) -> Any:
    job = SituationJob(plan)
    state, rows = SituationState.start(job), [empty_rows(job, table.schema)]
    for piece in pieces(trial, table):
        state, found = step_situations(job, state, piece)
        rows.append(found)
        data = situations_to_bytes(job, state)
        job = SituationJob(plan)
        state = situations_from_bytes(job, data)
    rows.append(finish_situations(job, state, table.schema)[1])
    return pa.concat_tables(rows)


def _funnel_steps(trial: Trial, plan: Any, table: pa.Table) -> Any:
    job = FunnelKind().steps(plan, table.schema)
    state, rows = job.start(), [job.nothing()]
    for piece in pieces(trial, table):
        state, found = job.step(state, piece)
        rows.append(found)
        data = job.write(state)
        job = FunnelKind().steps(plan, table.schema)
        state = job.read(data)
    rows.append(job.finish(state)[1])
    return pa.concat_tables(rows)


def can_be_live(trial: Trial) -> bool:
    """Return whether all windows of a query close, and Spark can have the times of a stream."""
    return _closes(trial) and not has_events_window(trial) and is_near(trial)


def is_near(trial: Trial) -> bool:
    """Return whether Spark can have the times of a stream, with some others after them."""
    far = "int64" in trial.forms.get("ts", "") and any(
        abs(row[trial.time]) >= 2**60 for row in plain_rows(trial.table)
    )
    return not far and "[ns" not in trial.forms.get("ts", "")


def _closes(trial: Trial) -> bool:
    """Return whether a query has windows, or lists matches that need none, and NOT NEXT ends."""
    if trial.kind not in PATTERNS:
        return ("SLIDE" if trial.kind == "funnel" else "WITHIN") in trial.text
    plan = TrendPlan.of(compiled(trial).with_schema(plain_table(trial.table).schema).plan)
    ends = max(reach_of(plan)) < UNLIMITED
    return ends and (plan.window.kind is not WindowKind.NONE or needs_no_window(plan))


def _lives_in_process(trial: Trial) -> bool:
    """Return whether rows leave before the stream ends; a query that is wrong may show that."""
    try:
        compiled(trial).live(plain_table(trial.table).schema)
    except CepheidError as error:
        return error.diagnostics[0].code not in ("E404", "E405")
    return True


@way("live in process", (*PATTERNS, *STEPPED, "filter", "aggregation"), takes=_lives_in_process)
def run_live_in_process(trial: Trial) -> Any:
    """Feed the pieces, and restart between some of them, so that events are gathered or not."""
    query = compiled(trial)
    table = ordered(plain_table(trial.table), query.with_schema(trial.table.schema).plan)
    live, found = query.live(table.schema), []
    for number, piece in enumerate(pieces(trial, table)):
        found.append(live.feed(piece))
        if number % 3 == len(trial.cuts) % 3:
            live = query.live(table.schema, state=live.save())
    found.append(live.close())
    return [row for part in found for row in plain_rows(part)]


@way("live", (*PATTERNS, *STEPPED), takes=can_be_live)
def run_live(trial: Trial) -> Any:
    """Feed the pieces as micro-batches; the state is bytes between them."""
    plain = plain_table(trial.table)
    table = ordered(plain, compiled(trial).with_schema(plain.schema).plan)
    live = Live(compiled(trial), table.schema, delay=0, buckets=len(trial.cuts))
    for piece in pieces(trial, table):
        live.feed(piece)
    live.finish()
    return [row for part in live.tables for row in plain_rows(part)]
