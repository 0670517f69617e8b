"""One bucket of a live stream with many rules: its state and what arrived in, rows out.

The same shape as ``stream_state.turn``. The state knows which rules it has counted for: rules that
are new begin with the events from the watermark on, those that are no longer there are dropped, and
all others go on as if nothing had happened.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
import pyarrow as pa

from cepheid.engine.idle import forget_idle_keys
from cepheid.engine.running import Generation, Rules, RunningRules, Tables
from cepheid.engine.running_snapshot import plan_of, rules_from_bytes, rules_to_bytes
from cepheid.engine.united import QUERY, unite
from cepheid.engine.workload import Found, advance_workload, feed
from cepheid.engine.workload_idle import forget_idle_keys_of_all
from cepheid.planner.plan import TrendPlan
from cepheid.runtime.bucket import (
    Bucket,
    Outcome,
    read_bucket,
    restored,
    take_in,
    write_bucket,
)
from cepheid.runtime.local import LOOK_BACK_ROWS
from cepheid.runtime.ordering import STEP_ROWS, slices
from cepheid.runtime.stream_matches import list_until
from cepheid.runtime.stream_state import open_windows
from cepheid.runtime.work import Work

KIND = "rules"


class RulesWork(msgspec.Struct, frozen=True):
    """What every task of a class of rules knows: rules whose groups lie in the same buckets."""

    rules: Rules
    merge: bool
    work: Work
    whole: tuple[str, ...] = ()
    """The columns of whole events, for rules that list them; other rules may read parts of them."""

    def columns_of(self, plan: TrendPlan) -> tuple[str, ...]:
        """Return the columns that a rule is given."""
        names = self.work.schema.names
        return tuple(n for n in names if n in self.whole) if plan.columns is None else tuple(names)


def turn_rules(
    shared: RulesWork,
    data: bytes | None,
    arrived: list[pa.Table],
    latest: int | None,
    passed: int | None = None,
) -> tuple[bytes, Outcome]:
    """Take in what arrived, up to the watermark that follows from the latest time.

    ``passed`` is the watermark of the whole stream before this micro-batch. A bucket that is behind
    it had no rules for a while, and begins anew.

    Raises
    ------
    DataError
        E524 if the state has columns of other types, or other buckets; E5xx for what is wrong
        with the events.
    """
    work = shared.work
    plan = TrendPlan.from_json(work.plan)
    bucket = read_bucket(work, data, KIND, same_columns=False)
    if passed is not None and (bucket.until is None or bucket.until < passed):
        bucket = Bucket(passed, None, work.schema.empty_table())
    rules = restored(work.schema, bucket.engine, RunningRules, _restore)
    exchange_rules(rules, shared)
    bucket = bucket._replace(buffer=_with_columns(bucket.buffer, work.schema))
    came = take_in(work, plan, bucket, arrived, latest)
    found: Tables = {}
    if came.until is not None:
        found = _until(shared, rules, came.ready, came.until)
    keys = max((len(k) for g in rules.generations for k in g.state.keys.values()), default=0)
    if came.until is not None:
        for generation in rules.generations:
            _forget(generation, came.until)
    windows = [p.window for g in rules.generations for p in g.job.shared.plans]
    outcome = Outcome(
        results_of(found, work.result_schema), came.events, came.late, len(came.waiting), keys,
        sum(open_windows(w, came.until, came.lag, keys) for w in windows), came.lag,
    )  # fmt: skip
    return write_bucket(work, KIND, came, rules_to_bytes(rules)), outcome


def exchange_rules(rules: RunningRules, shared: RulesWork) -> None:
    """Drop the rules that are gone or changed, and let those come that are new."""
    known = {
        name: _meaning(plan)
        for g in rules.generations
        for name, plan in zip(g.names, g.job.shared.plans, strict=True)
    }
    wanted = {name: _meaning(plan_from(plan)) for name, plan in shared.rules}
    rules.remove_all({name for name, meaning in known.items() if wanted.get(name) != meaning})
    new = tuple((name, plan) for name, plan in shared.rules if known.get(name) != wanted[name])
    if new:
        rules.add(plan_of(new, (), merge=shared.merge), merge=shared.merge)


@lru_cache(maxsize=4096)
def plan_from(data: bytes) -> TrendPlan:
    """Return a plan; there may be hundreds, and they are the same in every micro-batch."""
    return TrendPlan.from_json(data)


def _meaning(plan: TrendPlan) -> tuple[object, ...]:
    """Return what makes a rule another one; not its plan, which knows the columns of the events."""
    return plan.text, plan.time, plan.type, plan.tiebreak, plan.tick_ns


def _until(shared: RulesWork, rules: RunningRules, events: pa.Table, until: int) -> Tables:
    """Return what is complete at a time, after events before it."""
    tables: Tables = {}
    for generation in rules.generations:
        job, state = generation.job, generation.state
        back = any(job.jobs[n].looks_back for n in job.alone)
        found = Found.nothing(job)
        for part in slices(events, LOOK_BACK_ROWS if back else STEP_ROWS):
            found.add(feed(job, state, part, listing=False))
        found.add(advance_workload(job, state, until))
        tables |= generation.tables(found, rules.schema)
        for n in job.listing:
            own = events.select(shared.columns_of(job.shared.plans[n]))
            state.listing[n], listed = list_until(
                job.jobs[n], state.listing[n], own, until, own.schema
            )
            tables[generation.names[n]] = listed
    return tables


def _forget(generation: Generation, until: int) -> None:
    job, state = generation.job, generation.state
    forget_idle_keys_of_all(job, state, until)
    for n in job.listing:
        state.listing[n] = forget_idle_keys(job.jobs[n], state.listing[n], until)


def results_of(tables: Tables, schema: pa.Schema) -> pa.Table:
    """Return the rows of all rules with the columns of the stream, NULL where a rule has none."""
    rows = unite({name: table for name, table in tables.items() if len(table)})
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    assert QUERY in schema.names
    return pa.table(columns, schema=schema)


def _restore(schema: pa.Schema, engine: bytes) -> RunningRules:
    return rules_from_bytes(engine, schema)


def _with_columns(events: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return events with the columns that the rules read now.

    Events that came before a rule did have NULL in columns that it is the first to read. What
    rules themselves keep has the columns that they read, which stay the same and in one order.
    """
    if events.schema.equals(schema):
        return events
    known = set(events.column_names)
    columns = [
        events[field.name] if field.name in known else pa.nulls(len(events), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
