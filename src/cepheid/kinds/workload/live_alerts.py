"""Rules of a rules log over a live stream: records and events in, alerts out.

Records of a micro-batch are applied first, in the order of their numbers; then its events are
processed. So a rule begins with the events that the watermark had not passed when it came. A rule
whose query stays the same keeps its state, whatever else of it changes.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import msgspec
import pyarrow as pa

from cepheid.decoding import from_msgpack
from cepheid.framing import digest_of
from cepheid.jobs.bucket import Arrived, Bucket
from cepheid.jobs.microbatch import Size
from cepheid.jobs.misfits import misfit
from cepheid.jobs.state_format import Format, read_state, write_state
from cepheid.jobs.tables import pack_table, unpack_table, with_columns
from cepheid.jobs.work import Work
from cepheid.kinds.trend.match_tasks import number_matches
from cepheid.kinds.workload.alerts import Limits, alerts_of
from cepheid.kinds.workload.beside import Beside, BesideRule
from cepheid.kinds.workload.live import forget_keys, rows_until, size_of
from cepheid.kinds.workload.live_rules import Rules, RunningRules
from cepheid.kinds.workload.live_snapshot import generation_of, plan_of
from cepheid.kinds.workload.rule_records import Drop, Numbered, Put
from cepheid.kinds.workload.snapshot import workload_to_bytes
from cepheid.plans.plan import PipelinePlan, Plan

FORMAT = Format("alerts", 1, "rules")
KIND = "rules of a log"
CODEC: Final = "lz4"
STATES_KEPT = 32
"""States that a process remembers, so that they need not be read again."""


class _Together(msgspec.Struct, array_like=True):
    """Rules that came together, and those of them that have gone."""

    came: Rules
    gone: tuple[str, ...]


class _Known(msgspec.Struct, array_like=True):
    """The rules of a bucket: what only records change."""

    puts: tuple[Put, ...]
    together: tuple[_Together, ...]


class _Saved(msgspec.Struct, array_like=True):
    """The state of a bucket: its rules, compressed, and their counts."""

    known: bytes
    states: tuple[bytes, ...]
    beside: dict[str, bytes]
    recent: dict[str, tuple[dict[str, list[int]], ...]]
    until: int
    twins: dict[str, str] = {}
    """All rules beside in their order, and the one that has the state; not in earlier states."""
    sizes: tuple[int, ...] = ()
    """The bytes of ``states`` before they were compressed; earlier ones are not."""
    held: dict[str, bytes] = {}
    """Rows that wait until limits can be applied to them."""

    def workloads(self) -> list[bytes]:
        """Decompress the states of rules that came together."""
        if not self.sizes:
            return list(self.states)
        pairs = zip(self.states, self.sizes, strict=True)
        return [pa.decompress(s, size, codec=CODEC, asbytes=True) for s, size in pairs]


class RunningAlerts:
    """The rules of a bucket, their counts, and the limits of their alerts."""

    def __init__(self, schema: pa.Schema) -> None:
        self.rules = RunningRules(schema)
        self.puts: dict[str, Put] = {}
        self.limits: dict[str, Limits] = {}
        self.held: dict[str, pa.Table] = {}
        """Rows of rules with limits that leave before all rows of earlier times have (§15.3)."""
        self.until = 0
        self._known: bytes | None = None

    def apply(self, records: Iterable[Numbered]) -> None:
        """Let rules come, change and go."""
        wanted = dict(self.puts)
        anew: set[str] = set()
        for one in sorted(records, key=lambda record: record.number):
            record = one.record
            if isinstance(record, Drop):
                wanted.pop(record.name, None)
                anew.add(record.name)
            else:
                wanted[record.name] = record
        if not anew and wanted == self.puts:
            return
        kept = {
            name
            for name, put in self.puts.items()
            if name in wanted and name not in anew and wanted[name].meaning == put.meaning
        }
        for name in kept:
            # The plan may depend on columns that are new to the source; the state does not.
            wanted[name] = msgspec.structs.replace(wanted[name], plan=self.puts[name].plan)
        self.rules.remove_all(self.puts.keys() - kept)
        self._add({name: put for name, put in wanted.items() if name not in kept})
        self.limits = {n: self._limits(put, n in kept) for n, put in wanted.items()}
        self.held = {name: rows for name, rows in self.held.items() if name in kept}
        self.puts, self._known = wanted, None

    def _limits(self, put: Put, kept: bool) -> Limits:  # noqa: FBT001  # one call
        """Go on with the limits of a rule that has the same ones, else begin anew."""
        before = self.puts.get(put.name) if kept else None
        if before is None:
            return Limits(put)
        same = (before.deduplicate, before.rate_limit) == (put.deduplicate, put.rate_limit)
        return self.limits[put.name] if same else Limits(put)

    def _add(self, puts: dict[str, Put]) -> None:
        plans = {name: put.planned for name, put in puts.items()}
        beside = {name: plan for name, plan in plans.items() if isinstance(plan, PipelinePlan)}
        self.rules.beside.rules |= Beside(beside, self.rules.schema).rules
        came = tuple((name, plan.to_json()) for name, plan in plans.items() if name not in beside)
        if came:
            self.rules.add(plan_of(came, (), merge=True))

    def in_order(self, name: str, rows: pa.Table, until: int) -> pa.Table:
        """Hold the rows of a rule with limits until all rows of earlier times are there.

        Limits apply in the order of time, and rows of row patterns leave in another one.
        """
        lag = self._lag(name)
        if not lag:
            return rows
        put = self.puts[name]
        before = self.held.pop(name, None)
        rows = rows if before is None else pa.concat_tables([before, rows])
        times = put.dated.read(rows, until)
        if times is None or not put.is_limited:
            return rows
        ready = times < until - lag
        if not ready.all():
            self.held[name] = rows.filter(pa.array(~ready))
        return rows.filter(pa.array(ready))

    def _lag(self, name: str) -> int:
        """Return the largest output delay of a row of a rule, in ticks."""
        rule = self.rules.beside.rules.get(name)
        return 0 if rule is None else rule.steps.lag

    @property
    def known(self) -> bytes:
        """Serialize what only records change; cached until they come."""
        if self._known is None:
            together = tuple(_Together(g.came, tuple(g.gone)) for g in self.rules.generations)
            found = _Known(tuple(self.puts.values()), together)
            self._known = zlib.compress(msgspec.msgpack.encode(found))
        return self._known

    def to_bytes(self) -> bytes:
        """Serialize the state."""
        recent = {n: one.recent(self.until - self._lag(n)) for n, one in self.limits.items()}
        beside = self.rules.beside.together()
        first = {id(rule): names[0] for rule, names in beside}
        states = [workload_to_bytes(g.job, g.state) for g in self.rules.generations]
        saved = _Saved(
            self.known,
            # Spark copies a state several times; counts of few events shrink to less than half.
            tuple(pa.compress(state, codec=CODEC, asbytes=True) for state in states),
            {names[0]: rule.steps.write(rule.state) for rule, names in beside},
            {name: times for name, times in recent.items() if any(times)},
            self.until,
            {name: first[id(rule)] for name, rule in self.rules.beside.rules.items()},
            tuple(map(len, states)),
            {name: pack_table(rows) for name, rows in self.held.items()},
        )
        return write_state(FORMAT, saved)

    @staticmethod
    def from_bytes(data: bytes, schema: pa.Schema) -> RunningAlerts:
        """Deserialize a state.

        Raises
        ------
        DataError
            E524 if the bytes hold no rules, or those of another version; E546 if they are damaged.
        """
        saved = read_state(FORMAT, data, _Saved)
        state = RunningAlerts(schema)
        try:
            known = _known_from(saved.known)
            for one, own in zip(known.together, saved.workloads(), strict=True):
                found = generation_of(one.came, one.gone, own, merge=True)
                state.rules.generations.append(found)
            state.puts = {put.name: put for put in known.puts}
            beside = {}
            for name, own in saved.beside.items():
                plan = state.puts[name].planned
                assert isinstance(plan, PipelinePlan), "other rules share"
                beside[name] = rule = BesideRule(plan, schema)
                rule.state = rule.steps.read(own)
            twins = saved.twins or {name: name for name in beside}
            state.rules.beside.rules = {twin: beside[name] for twin, name in twins.items()}
        except (ValueError, msgspec.MsgspecError, zlib.error) as error:
            why = "its rules were planned by another version of Cepheid"
            raise misfit(why) from error
        none: tuple[dict[str, list[int]], ...] = ({}, {})
        state.limits = {n: Limits(p, saved.recent.get(n, none)) for n, p in state.puts.items()}
        state.held = {name: unpack_table(rows) for name, rows in saved.held.items()}
        state.until, state._known = saved.until, saved.known
        return state


@lru_cache(maxsize=64)
def _known_from(data: bytes) -> _Known:
    return from_msgpack(zlib.decompress(data), _Known)


class _Remembered:
    """States that this process wrote: the next micro-batch of the bucket needs not read them.

    They are known by their digests, which the frame around them has been checked to be. A state is
    handed out once, so one that a failed task has changed is not used again.
    """

    def __init__(self) -> None:
        self._states: OrderedDict[str, RunningAlerts] = OrderedDict()

    def add(self, data: bytes, state: RunningAlerts) -> None:
        self._states[digest_of(data)] = state
        while len(self._states) > STATES_KEPT:
            self._states.popitem(last=False)

    def take(self, data: bytes, schema: pa.Schema) -> RunningAlerts | None:
        found = self._states.pop(digest_of(data), None)
        return found if found is not None and found.rules.schema.equals(schema) else None


_REMEMBERED = _Remembered()


class LiveAlerts:
    """The job of a bucket: its rules, and records of a micro-batch that change them.

    Parameters
    ----------
    work
        The columns of events and of alerts, and the delay of the watermark.
    whole
        The columns of whole events; others are parts of them.
    place
        The place of the bucket in its class.
    records
        The records of this micro-batch.
    """

    kind = KIND

    def __init__(
        self, work: Work, whole: Sequence[str], place: int, records: Sequence[Numbered]
    ) -> None:
        self._work, self._whole, self._place = work, frozenset(whole), place
        self._records = records
        self._schema, self._results = work.schema, work.result_schema
        self.suppressed: dict[tuple[str, str], int] = {}
        """The rows that were suppressed in this micro-batch, by rule and reason."""

    @property
    def plan(self) -> Plan:
        """Return a plan that reads the time column of all rules."""
        return self._work.planned()

    def adapt(self, bucket: Bucket) -> Bucket:
        """Convert a bucket to the columns that the source has now."""
        return bucket._replace(buffer=with_columns(bucket.buffer, self._schema))

    def start(self) -> RunningAlerts:
        """Create the state before the first event."""
        return self._changed(RunningAlerts(self._schema))

    def read(self, data: bytes) -> RunningAlerts:
        """Deserialize a state that ``write`` wrote, and apply the records."""
        known = _REMEMBERED.take(data, self._schema)
        return self._changed(known or RunningAlerts.from_bytes(data, self._schema))

    def _changed(self, state: RunningAlerts) -> RunningAlerts:
        if self._records:
            state.apply(self._records)
        return state

    def write(self, state: RunningAlerts) -> bytes:
        """Serialize a state."""
        data = state.to_bytes()
        _REMEMBERED.add(data, state)
        return data

    def take(
        self, state: RunningAlerts, events: pa.Table, since: int | None, until: int
    ) -> tuple[RunningAlerts, list[pa.Table]]:
        """Process events before a watermark; return the alerts that it makes final."""
        del since
        found = rows_until(state.rules, events, until, self._columns_of)
        tables = []
        for name, new in found.items():
            rows = state.in_order(name, new, until)
            if not len(rows):
                continue
            put = state.puts[name]
            numbered = number_matches(rows, self._place)
            alerts, counts = alerts_of(put, state.limits[name], numbered, until, self._results)
            tables.append(alerts)
            for why, count in counts.items():
                self.suppressed[put.rule, why] = self.suppressed.get((put.rule, why), 0) + count
        state.until = until
        return state, tables

    def _columns_of(self, plan: Plan) -> tuple[str, ...]:
        names = self._schema.names
        return tuple(n for n in names if n in self._whole) if plan.columns is None else tuple(names)

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return self._results.empty_table()

    def forget(self, state: RunningAlerts, until: int) -> RunningAlerts:
        """Drop keys whose windows have closed."""
        forget_keys(state.rules, until)
        return state

    def measure(self, state: RunningAlerts, came: Arrived) -> Size:
        """Measure the size of a state."""
        return size_of(state.rules, came)
