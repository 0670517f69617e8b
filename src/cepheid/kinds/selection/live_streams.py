"""A live join of several streams: micro-batches of each in, rows out (§10.13).

Every stream goes on at its own pace. Events wait until the common watermark passes them, that of
the stream that is furthest behind. Then all streams are known up to there, and the join takes its
step, as it does over one stream with the events of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.jobs.bucket import Arrived, Bucket, Outcome, read_bucket, take_in, write_bucket
from cepheid.jobs.state_format import Format, Meant, meaning_of, read_own, text_of, write_state
from cepheid.jobs.work import Work
from cepheid.kinds.selection.joined_steps import JoinedSteps
from cepheid.kinds.selection.operators import ON_CPU, Operators
from cepheid.kinds.selection.pairs import following
from cepheid.kinds.selection.steps import JoinSteps, WindowSteps, places_of
from cepheid.plans.plan import SelectPlan

KIND = "a JOIN of live streams"
FORMAT = Format("streams", 1, KIND)

STREAMS_MAX = 8
"""Different streams of one live join; Spark's operator tells them apart by three bits."""


class _Snapshot(Meant):
    """The state of each stream, its latest time, and the state of the join."""

    buckets: tuple[bytes, ...]
    latest: tuple[int | None, ...]
    engine: bytes


class StreamsState(NamedTuple):
    """The events of each stream that wait, its latest time, and the state of the join."""

    buckets: tuple[Bucket, ...]
    latest: tuple[int | None, ...]
    engine: Any


class StreamsJob(NamedTuple):
    """The join of a plan over its different streams; ``works`` are those of each."""

    works: tuple[Work, ...]
    plan: SelectPlan
    steps: JoinSteps | JoinedSteps

    @staticmethod
    def of(
        plan: SelectPlan, schemas: Sequence[pa.Schema], delay: int, by: Operators = ON_CPU
    ) -> StreamsJob:
        """Make the job of a plan over streams of these schemas, in the order of their names."""
        steps = _steps(plan, schemas, by)
        results = steps.nothing().schema
        return StreamsJob(
            tuple(Work.of(plan, schema, results, 1, delay=delay) for schema in schemas),
            plan,
            steps,
        )

    @staticmethod
    def from_works(works: tuple[Work, ...]) -> StreamsJob:
        """Make the job in a task."""
        plan = SelectPlan.from_json(works[0].plan)
        return StreamsJob(works, plan, _steps(plan, [work.schema for work in works]))

    def start(self) -> StreamsState:
        """Create the state before the first event."""
        buckets = tuple(Bucket(None, None, work.schema.empty_table()) for work in self.works)
        return StreamsState(buckets, (None,) * len(self.works), self.steps.start())

    def take(
        self,
        state: StreamsState,
        arrived: Sequence[list[pa.Table]],
        latest: Sequence[int | None],
    ) -> tuple[StreamsState, Outcome]:
        """Process a micro-batch of all streams, up to their common watermark.

        O(events that arrive, wait or are kept, and tuples that ON is evaluated on).
        """
        told = tuple(map(_later, state.latest, latest))
        known = [time for time in told if time is not None]
        # Until all streams have had an event, there is no common watermark and nothing is final.
        behind = min(known) if len(known) == len(told) else None
        inputs = zip(self.works, state.buckets, arrived, strict=True)
        came = [take_in(work, self.plan, one, tables, behind) for work, one, tables in inputs]
        engine, rows = self._met(state.engine, [one.ready for one in came])
        until, found = came[0].until, [rows]
        if until is not None:
            engine, rows = self.steps.advance(engine, until)
            found.append(rows)
        buckets = tuple(Bucket(one.until, None, one.waiting) for one in came)
        outcome = self._outcome(found, came, max(known, default=0), engine)
        return StreamsState(buckets, told, engine), outcome

    def finish(self, state: StreamsState) -> pa.Table:
        """End all streams: give the rows of the events that wait, and of open windows."""
        engine, rows = self._met(state.engine, [bucket.buffer for bucket in state.buckets])
        _, last = self.steps.finish(engine)
        return pa.concat_tables([rows, last])

    def _met(self, engine: Any, ready: Sequence[pa.Table]) -> tuple[Any, pa.Table]:
        schemas = self._join.schemas
        sides = zip(places_of(self.plan), schemas, strict=True)
        return self.steps.met(engine, [ready[n].select(one.names).cast(one) for n, one in sides])

    @property
    def _join(self) -> JoinSteps:
        return self.steps if isinstance(self.steps, JoinSteps) else self.steps.join

    def _outcome(
        self, found: list[pa.Table], came: list[Arrived], latest: int, engine: Any
    ) -> Outcome:
        work, until = self.works[0], came[0].until
        size = self.steps.size(engine)
        return Outcome(
            work.shown(pa.concat_tables(found)),
            events=sum(one.events for one in came),
            late=sum(len(one.late_events) for one in came),
            buffered=sum(len(one.waiting) for one in came),
            partitions=1,
            open_windows=size.open_windows,
            lag=max(latest - until, 0) if until is not None else 0,
            # Late events of several streams have columns of their own, so none are returned.
            late_events=work.schema.empty_table(),
        )

    def write(self, state: StreamsState) -> bytes:
        """Serialize a state."""
        saved = tuple(
            write_bucket(work, KIND, _at_rest(one), b"")
            for work, one in zip(self.works, state.buckets, strict=True)
        )
        engine = self.steps.write(state.engine)
        means = (meaning_of(self.plan),)
        return write_state(FORMAT, _Snapshot(means, saved, state.latest, engine))

    def read(self, data: bytes | None) -> StreamsState:
        """Deserialize a state; E524 if it belongs to another query, or to other columns."""
        if data is None:
            return self.start()
        means = (meaning_of(self.plan),)
        found = read_own(FORMAT, data, _Snapshot, means, text_of(self.plan))
        pairs = zip(self.works, found.buckets, strict=True)
        buckets = tuple(read_bucket(work, one, KIND) for work, one in pairs)
        return StreamsState(buckets, found.latest, self.steps.read(found.engine))


def _at_rest(bucket: Bucket) -> Arrived:
    nothing = bucket.buffer.slice(0, 0)
    return Arrived(0, nothing, bucket.until, nothing, bucket.buffer, 0, nothing)


def _steps(
    plan: SelectPlan, schemas: Sequence[pa.Schema], by: Operators = ON_CPU
) -> JoinSteps | JoinedSteps:
    """Make the steps of a join whose streams are apart."""
    join = JoinSteps.apart(plan, [schemas[place] for place in places_of(plan)], by)
    if plan.select.then is None:
        return join
    then = following(plan)
    return JoinedSteps(join, WindowSteps(then, join.nothing().schema, then.select))


def _later(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)


def columns_of(plan: SelectPlan, name: str, given: Sequence[str]) -> list[str]:
    """List the columns that a join reads of a stream, which it may read more than once."""
    reads = [one.reads for one in plan.select.streams if one.name == name]
    wanted = {column for one in reads for column in (given if one is None else one)}
    return [column for column in given if column in wanted | {plan.time, *plan.tiebreak}]


def check_number(names: list[str], text: str) -> None:
    """Refuse more streams than a live join has place for (E405)."""
    if len(names) > STREAMS_MAX:
        message = f"a live join has {STREAMS_MAX} different streams at most, and this {len(names)}"
        helps = ("write the events of some into one stream, and tell them apart in `ON`",)
        raise UnsupportedError([Diagnostic("E405", message, helps=helps)], text)
