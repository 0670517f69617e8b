"""Count what relaxed queries find, wherever the events are, to explain why a query finds little.

Patterns are counted together, as a workload, in one pass over the events. On Spark the counts are
aggregates of DataFrames, and nothing but them is collected.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid import runtimes
from cepheid.arrays.columns import Columns
from cepheid.errors import CepheidError
from cepheid.events.arriving import as_table
from cepheid.events.time_formats import TextTimes
from cepheid.jobs.kind import kind_of
from cepheid.jobs.relaxed import RelaxedQuery, with_schema
from cepheid.jobs.sources import source_of
from cepheid.jobs.why import Counted, Counting, Feed, Question, Range, Sample, Tally, WhyNot, amount
from cepheid.kinds.pipeline.inputs import one_stream
from cepheid.kinds.workload.sharing import SharedPlan, share
from cepheid.memory_limits import current, limits
from cepheid.options import Held, holder_of
from cepheid.plans.plan import Plan, TrendPlan
from cepheid.runtimes.notices import NOTICES

SAMPLE_SLACK = 2
"""So many times the wanted rows are taken of keys that have very many events."""

ROWS_MAX = 5_000_000
"""Rows that one relaxed query may gather; without a condition there can be many more matches."""

NOT_COUNTED = ("E404", "E504", "E511", "E512", "E513", "E514", "E518", "E519", "E570")
"""A query that ends so needs too much, or computes with values that a condition kept out."""


class Relaxations:
    """Queries that run together; see ``cepheid.workload``."""

    merge = True

    def __init__(self, queries: Mapping[str, RelaxedQuery]) -> None:
        self.names = tuple(queries)
        self.queries = tuple(queries.values())

    @property
    def times(self) -> TextTimes:
        """Return the format of text times, which all queries share."""
        return self.queries[0].times

    def shared(self, schema: object = None) -> SharedPlan:
        """Plan the queries for events with these columns."""
        plans = [TrendPlan.of(query.with_schema(schema).plan) for query in self.queries]
        return share(self.names, plans, merge=self.merge)


class LocalCounting:
    """Counts in this process: events are a table, files or a store, which are read again."""

    def __init__(self, events: Any, times: TextTimes) -> None:
        self._events = events
        self._times = times
        self._notices: dict[str, None] = {}

    def tally(self, queries: Mapping[str, Counted]) -> dict[str, Tally | None]:
        """Measure the results of queries, in one pass if they can share one."""
        if all(asked.query.plan.shares_passes for asked in queries.values()):
            try:
                with self._quiet():
                    together = Relaxations({name: one.query for name, one in queries.items()})
                    asked = runtimes.Request(together, self._events, separate=True)
                    tables = runtimes.WORKLOADS[asked.place](asked)
                return {name: _tally(tables[name], one) for name, one in queries.items()}
            except CepheidError as error:
                if error.diagnostics[0].code not in NOT_COUNTED:
                    raise
        found: dict[str, Tally | None] = {}
        for name, one in queries.items():
            table = self._run(one.query)
            found[name] = None if table is None else _tally(table, one)
        return found

    def ranges(self, query: RelaxedQuery, columns: Sequence[str]) -> dict[str, Range] | None:
        """Find the least and the largest values of columns of a result."""
        table = self._run(query)
        if table is None:
            return None
        found = {}
        for name in columns:
            values = pc.min_max(table[name])
            found[name] = Range(values["min"].as_py(), values["max"].as_py())
        return found

    def sums(self, query: RelaxedQuery, by: str, column: str) -> dict[Any, float] | None:
        """Add up a column of a result for each value of another one."""
        table = self._run(query)
        if table is None:
            return None
        found = table.group_by(by).aggregate([(column, "sum")])
        pairs = zip(found[by].to_pylist(), found[f"{column}_sum"].to_pylist(), strict=True)
        return {value: float(total or 0) for value, total in pairs}

    def least_gap(self, query: RelaxedQuery, first: str, last: str) -> int | None:
        """Find the least difference of two times of a result, in microseconds."""
        table = self._run(query)
        if table is None or not len(table):
            return None
        begin, end = (_whole(table[name], query.plan) for name in (first, last))
        least = pc.min(pc.subtract(end, begin)).as_py()
        return None if least is None else int(least) * query.plan.tick_ns // 1000

    def common(self, left: RelaxedQuery, right: RelaxedQuery) -> int | None:
        """Count the rows that two results have in common, by their columns in order."""
        first, second = self._run(left), self._run(right)
        if first is None or second is None:
            return None
        names = first.column_names
        try:
            kinds = pa.schema(
                [pa.field(n, f.type) for n, f in zip(names, first.schema, strict=True)]
            )
            same = second.rename_columns(names).cast(kinds)
            return len(first.join(same, keys=names, join_type="inner"))
        except pa.ArrowException:
            return None

    def why_fed(self, query: RelaxedQuery, feed: Feed) -> WhyNot | None:
        """Explain a query over the rows of other queries; None if these take too much."""
        if not feed.rows:
            return explain_with(query, self, [source_of(self._events, self._times).schema])
        rows = {name: self._run(asked) for name, asked in feed.rows.items()}
        made = {name: table for name, table in rows.items() if table is not None}
        if len(made) < len(rows):
            return None
        if feed.names:
            sides = [made.get(name, self._events) for name in feed.names]
            given = dict(zip(feed.names, sides, strict=True))
            schemas = [source_of(one, self._times).schema for one in sides]
            return explain_with(query, LocalCounting(given, self._times), schemas)
        base = [self._base_events(feed)] if feed.base else []
        whole = one_stream([*base, *made.values()], feed.columns, feed.time, feed.type)
        return explain_with(query, LocalCounting(whole, self._times), [whole.schema])

    def _base_events(self, feed: Feed) -> pa.Table:
        """Read the base events that a stage sees: none of the types of derived streams (§15.4)."""
        source = source_of(self._events, self._times)
        table = source.whole(source.schema.names if feed.columns is None else feed.columns)
        if feed.type not in table.column_names:
            return table
        hidden = pa.array(list(feed.rows), pa.string())
        return table.filter(
            pc.invert(pc.is_in(table[feed.type].cast(pa.string()), value_set=hidden))
        )

    def notices(self) -> list[str]:
        """Tell what is odd about the events that were counted."""
        return list(self._notices)

    def sampled(self, keys: Sequence[str], events: int, rows: int) -> Sample | None:
        """Take the events of some keys, else the first events."""
        if isinstance(self._events, dict):
            return None
        source = source_of(self._events, self._times)
        every, most = -(-events // rows), SAMPLE_SLACK * rows if keys else rows
        found, taken = [], 0
        for table in source.tables(source.schema.names):
            part = _of_some_keys(table, keys, every) if keys else table
            found.append(part.slice(0, most - taken))
            taken += len(found[-1])
            if taken >= most:
                break
        sample = pa.concat_tables(found, promote_options="permissive")
        if keys and len(sample) < rows // 4:
            # There are few keys, and none or only small ones were chosen.
            return self.sampled((), events, rows)
        text = f"{len(sample):,} of {events:,} events"
        if not keys:
            text = f"the first {text}"
        else:
            text += (
                f", those of one in {every:,} {'keys' if len(keys) > 1 else f'values of {keys[0]}'}"
            )
        return Sample(LocalCounting(sample, self._times), text)

    def _run(self, query: RelaxedQuery) -> pa.Table | None:
        try:
            with self._quiet():
                table: pa.Table = runtimes.run(runtimes.Request(query, self._events))
        except CepheidError as error:
            if error.diagnostics[0].code not in NOT_COUNTED:
                raise
            return None
        return table

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Keep what is odd about the events, and limit what a relaxed query gathers."""
        rows = min(ROWS_MAX, current().rows)
        with warnings.catch_warnings(record=True) as told, limits(rows=rows):
            warnings.simplefilter("always")
            yield
        messages = (str(one.message) for one in told)
        self._notices |= dict.fromkeys(text for text in messages if text.endswith(NOTICES))


def _of_some_keys(table: pa.Table, keys: Sequence[str], every: int) -> pa.Table:
    """Keep one in so many keys, by a checksum of their values."""
    for name in keys:
        # An event without a key takes part in no match.
        table = table.filter(pc.is_valid(table[name]))
    columns = Columns(table)
    mixed = np.zeros(len(table), np.uint64)
    for name in keys:
        place = 0
        for chunk in columns.arrow(name).chunks:
            values = chunk.dictionary_encode()
            known = [crc32(repr(value).encode()) for value in values.dictionary.to_pylist()]
            sums = np.array([*known, 0], np.uint64)
            indices = values.indices.cast(pa.int64()).fill_null(len(known)).to_numpy()
            end = place + len(chunk)
            mixed[place:end] = mixed[place:end] * np.uint64(0x9E3779B97F4A7C15) + sums[indices]
            place = end
    # The last bits of a product of two odd numbers are not mixed.
    return table.filter(pa.array((mixed >> np.uint64(7)) % np.uint64(every) == 0))


def _tally(table: pa.Table, asked: Counted) -> Tally:
    keys = len(table)
    if asked.keys:
        keys = len(table.group_by(list(asked.keys)).aggregate([]))
    total = float(len(table))
    if asked.total is not None:
        total = float(pc.sum(table[asked.total]).as_py() or 0)
    return Tally(len(table), keys, total)


def _whole(times: Any, plan: Plan) -> Any:
    """Convert times to whole ticks of a plan."""
    if not pa.types.is_temporal(times.type):
        return times.cast(pa.int64())
    zone = getattr(times.type, "tz", None)
    kind = pa.timestamp("ns", zone) if plan.tick_ns == 1 else pa.timestamp("us", zone)
    return times.cast(kind).cast(pa.int64())


def question_of(query: Any, schemas: Sequence[Any]) -> Question:
    """Plan a query for the columns of its events."""
    two = len(schemas) > 1
    schema = dict(zip(query.plan.streams, schemas, strict=True)) if two else schemas[0]
    source = with_schema(query.source, query.tree, schema)
    plan = RelaxedQuery.of(query.tree, query.text, source).plan
    return Question(query.tree, query.text, source, plan)


def explain_with(query: Any, counting: Counting, schemas: Sequence[Any]) -> WhyNot:
    """Let the kind of a query explain it, with what counts its relaxed queries."""
    question = question_of(query, schemas)
    answer: WhyNot | None = kind_of(question.plan).why_not(question, counting)
    if answer is not None:
        return answer
    found = counting.tally({"whole": Counted(question.relaxed(query.tree))})["whole"]
    rows = 0 if found is None else found.rows
    told = (f"The query has {amount(rows, 'row')}.",)
    return WhyNot("row", rows, 0, (), (), (), tuple(counting.notices()), told)


def why_in_process(query: Any, streams: Sequence[Any]) -> WhyNot:
    """Explain why a query finds no or few rows of events that this process reads."""
    opened = {id(one): _again(one) for one in streams}
    given = [opened[id(one)] for one in streams]
    names = query.plan.streams
    many = len(set(names)) > 1
    events = dict(zip(names, given, strict=True)) if many else given[0]
    counting = LocalCounting(events, query.times)
    return explain_with(query, counting, [source_of(one, query.times).schema for one in given])


def _again(events: Any) -> Any:
    """Convert events to what can be read more than once."""
    return as_table(events) if holder_of(events) is Held.TABLE else events
