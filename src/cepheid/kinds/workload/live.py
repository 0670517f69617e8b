"""Rules over a live stream, partitioned into buckets by their groups.

The state records the rules that it belongs to: new rules start with the events from the watermark
on, removed rules are dropped, and all others continue unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pyarrow as pa

from cepheid.arrays.sharing import sharing_columns
from cepheid.jobs.bucket import Arrived, Bucket
from cepheid.jobs.local_jobs import LOOK_BACK_ROWS
from cepheid.jobs.microbatch import Size
from cepheid.jobs.ordering import STEP_ROWS, slices
from cepheid.jobs.steps import take_until
from cepheid.jobs.tables import with_columns
from cepheid.jobs.work import Work
from cepheid.kinds.trend.live import open_windows
from cepheid.kinds.trend.steps import MatchSteps
from cepheid.kinds.trend.windows.key_expiry import forget_idle_keys
from cepheid.kinds.workload.beside import Beside
from cepheid.kinds.workload.combine_results import QUERY, unite, widened
from cepheid.kinds.workload.key_expiry import forget_idle_keys_of_all
from cepheid.kinds.workload.live_rules import Generation, Rules, RunningRules, Tables
from cepheid.kinds.workload.live_snapshot import plan_of, rules_from_bytes, rules_to_bytes
from cepheid.kinds.workload.rule_records import plan_from
from cepheid.kinds.workload.step import Found, advance_workload, feed
from cepheid.plans.plan import PipelinePlan, Plan


class RulesWork(msgspec.Struct, frozen=True):
    """The parameters of every task of a class of rules: rules that share buckets."""

    rules: Rules
    merge: bool
    work: Work
    whole: tuple[str, ...] = ()
    """The columns of whole events, for rules that list them; other rules may read parts of them."""

    def columns_of(self, plan: Plan) -> tuple[str, ...]:
        """List the columns that a rule reads."""
        names = self.work.schema.names
        return tuple(n for n in names if n in self.whole) if plan.columns is None else tuple(names)


class LiveWorkload(NamedTuple):
    """The job of rules that share buckets.

    ``passed`` is the watermark of the whole stream before this micro-batch. A bucket whose own
    watermark is behind it had no rules for a while, and restarts.
    """

    shared: RulesWork
    passed: int | None = None
    kind: str = "rules"

    @property
    def plan(self) -> Plan:
        """Return the plan of one of the rules; all of them read the same events."""
        return plan_from(self.shared.work.plan)

    def adapt(self, bucket: Bucket) -> Bucket:
        """Convert a bucket to the columns that the rules read now."""
        schema = self.shared.work.schema
        if self.passed is not None and (bucket.until is None or bucket.until < self.passed):
            return Bucket(self.passed, None, schema.empty_table())
        return bucket._replace(buffer=with_columns(bucket.buffer, schema))

    def start(self) -> RunningRules:
        """Create the state before the first event."""
        return self._exchanged(RunningRules(self.shared.work.schema))

    def read(self, data: bytes) -> RunningRules:
        """Deserialize a state that ``write`` wrote, and update it to the current rules."""
        wanted = {name: _meaning(plan_from(plan)) for name, plan in self.shared.rules}

        def keeps(name: str, plan: Plan) -> bool:
            return wanted.get(name) == _meaning(plan)

        return self._exchanged(rules_from_bytes(data, self.shared.work.schema, keeps))

    def _exchanged(self, rules: RunningRules) -> RunningRules:
        exchange_rules(rules, self.shared)
        return rules

    def write(self, state: RunningRules) -> bytes:
        """Serialize a state."""
        return rules_to_bytes(state)

    def take(
        self, state: RunningRules, events: pa.Table, since: int | None, until: int
    ) -> tuple[RunningRules, list[pa.Table]]:
        """Process events before a watermark; return the rows of all rules that it makes final."""
        del since
        found = rows_until(state, events, until, self.shared.columns_of)
        return state, [results_of(found, self.shared.work.result_schema)]

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return self.shared.work.result_schema.empty_table()

    def forget(self, state: RunningRules, until: int) -> RunningRules:
        """Drop keys whose windows have closed."""
        forget_keys(state, until)
        return state

    def measure(self, state: RunningRules, came: Arrived) -> Size:
        """Measure the size of a state."""
        return size_of(state, came)


def forget_keys(rules: RunningRules, until: int) -> None:
    """Drop keys whose windows have closed."""
    for generation in rules.generations:
        _forget(generation, until)
    rules.beside.forget(until)


def size_of(rules: RunningRules, came: Arrived) -> Size:
    """Measure the size of a state."""
    counts = (len(k) for g in rules.generations for k in g.state.keys.values())
    keys = max(counts, default=0)
    windows = Counter(p.window for g in rules.generations for p in g.job.shared.plans)
    count = sum(n * open_windows(w, came.until, came.lag, keys) for w, n in windows.items())
    for rule, names in rules.beside.together():
        size = rule.steps.size(rule.state)
        keys = max(keys, size.partitions)
        count += len(names) * size.open_windows
    return Size(keys, count)


def exchange_rules(rules: RunningRules, shared: RulesWork) -> None:
    """Drop rules that were removed or changed, and add new ones."""
    known = {
        name: _meaning(plan)
        for g in rules.generations
        for name, plan in zip(g.names, g.job.shared.plans, strict=True)
    }
    known |= {name: _meaning(rule.plan) for name, rule in rules.beside.rules.items()}
    wanted = {name: _meaning(plan_from(plan)) for name, plan in shared.rules}
    rules.remove_all({name for name, meaning in known.items() if wanted.get(name) != meaning})
    new = tuple((name, plan) for name, plan in shared.rules if known.get(name) != wanted[name])
    plans = {name: plan_from(plan) for name, plan in new}
    beside = {name: plan for name, plan in plans.items() if isinstance(plan, PipelinePlan)}
    rules.beside.rules |= Beside(beside, rules.schema).rules
    merged = tuple(rule for rule in new if rule[0] not in beside)
    if merged:
        rules.add(plan_of(merged, (), merge=shared.merge), merge=shared.merge)


def _meaning(plan: Plan) -> tuple[object, ...]:
    """Collect the properties that identify a rule; its plan also depends on the event columns."""
    return plan.text, plan.time, plan.type, plan.tiebreak, plan.tick_ns


def rows_until(
    rules: RunningRules,
    events: pa.Table,
    until: int,
    columns_of: Callable[[Plan], tuple[str, ...]],
) -> Tables:
    """Process events before a time; return the rows of windows that are complete at it."""
    with sharing_columns():
        # All rules read the same columns, of the same memory.
        return _rows_until(rules, events.combine_chunks(), until, columns_of)


def _rows_until(
    rules: RunningRules,
    events: pa.Table,
    until: int,
    columns_of: Callable[[Plan], tuple[str, ...]],
) -> Tables:
    tables: Tables = {}
    for generation in rules.generations:
        job, state = generation.job, generation.state
        back = any(job.jobs[n].looks_back for n in (*job.alone, *job.waiting))
        found = Found.nothing(job)
        for part in slices(events, LOOK_BACK_ROWS if back else STEP_ROWS):
            found.add(feed(job, state, part, listing=False))
        found.add(advance_workload(job, state, until))
        tables |= generation.tables_with_rows(found, rules.schema)
        for n in job.listing:
            own = events.select(columns_of(job.shared.plans[n]))
            steps = MatchSteps(job.jobs[n], own.schema)
            state.listing[n], listed = take_until(steps, state.listing[n], own, until)
            tables[generation.names[n]] = pa.concat_tables(listed)
    return tables | rules.beside.advance(events, until)


def _forget(generation: Generation, until: int) -> None:
    job, state = generation.job, generation.state
    forget_idle_keys_of_all(job, state, until)
    for own in (state.listing, state.waiting):
        for n, lone in own.items():
            own[n] = forget_idle_keys(job.jobs[n], lone, until)


def results_of(tables: Tables, schema: pa.Schema) -> pa.Table:
    """Combine the rows of all rules in the columns of the stream; NULL where a rule has none."""
    rows = unite({name: table for name, table in tables.items() if len(table)})
    columns = [
        widened(rows[field.name], field)
        if field.name in rows.column_names
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    assert QUERY in schema.names
    return pa.table(columns, schema=schema)
