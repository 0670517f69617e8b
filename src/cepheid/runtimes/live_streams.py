"""A live join of several streams in one process: feed events of each, get the rows (§10.13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import suggest_names
from cepheid.events.arriving import as_table, form_of, in_form, plain_schema
from cepheid.events.nanoseconds import in_units_of
from cepheid.events.text_times import timed_schema, timed_table
from cepheid.jobs.kind import kind_of
from cepheid.jobs.room import roomy
from cepheid.jobs.streams import named_streams
from cepheid.kinds.selection.live_streams import StreamsJob, check_number, columns_of
from cepheid.options import refuse
from cepheid.plans.plan import SelectPlan
from cepheid.runtimes.device import pairs_on
from cepheid.runtimes.live_query import fitted, length_of
from cepheid.runtimes.local import CompiledQueryLike
from cepheid.runtimes.two_streams import with_schemas


class LiveStreams:
    """A join that runs over several streams, batch by batch; made by :meth:`CompiledQuery.live`.

    Each stream has a watermark: its latest time so far, less the allowed lateness. Events wait
    until the least of them passes, and there is none before every stream has had an event. Those
    behind it are late: they are dropped and counted.
    """

    def __init__(
        self,
        compiled: CompiledQueryLike,
        schemas: Mapping[str, pa.Schema] | pa.Schema,
        watermark: str,
        state: bytes | None,
        device: str = "cpu",
    ) -> None:
        kind_of(compiled.plan).check_live(compiled.plan)
        self._times = compiled.times
        names = list(dict.fromkeys(compiled.plan.streams))
        check_number(names, compiled.plan.text)
        given = named_streams(compiled.plan, schemas)
        columns = [timed_schema(plain_schema(schema), self._times) for schema in given]
        planned = with_schemas(compiled, columns)
        by_name = dict(zip(planned.streams, columns, strict=True))
        self._schemas = {name: _read(planned, name, by_name[name]) for name in names}
        delay = length_of(watermark)
        by = pairs_on(device)
        self._job = StreamsJob.of(planned, list(self._schemas.values()), delay, by)
        self._state = self._job.read(state)
        self.late = 0
        """The number of events that were behind the watermark."""

    @property
    def waiting(self) -> int:
        """Count the events that wait for the watermark."""
        return sum(len(bucket.buffer) for bucket in self._state.buckets)

    def feed(self, events: Any) -> Any:
        """Process events of some streams, by name; return the rows that are final.

        Events of a stream that is joined with itself need no name. Rows are in the container of the
        events, if all have the same. Events of other columns or types are refused, and change
        nothing.
        """
        events = self._by_name(events)
        arrived: list[list[pa.Table]] = []
        latest: list[int | None] = []
        for name, schema in self._schemas.items():
            table = self._converted(events[name], schema) if name in events else None
            if table is None or not len(table):
                arrived.append([])
                latest.append(None)
                continue
            arrived.append([table])
            latest.append(int(read_times(Columns(table), self._job.plan.time).max()))
        self._state, outcome = roomy(self._job.take)(self._state, arrived, latest)
        self.late += outcome.late
        forms = {form_of(table) for table in events.values()}
        return in_form(forms.pop(), outcome.results) if len(forms) == 1 else outcome.results

    def _by_name(self, events: Any) -> Mapping[str, Any]:
        """Find the stream of events; E592 if there is none."""
        names = list(self._schemas)
        named = isinstance(events, Mapping)
        if len(names) == 1 and not (named and list(events) == names):
            return {names[0]: events}
        if not named:
            message = "events of a join of several streams are a dict, by the names of the streams"
            refuse("E592", message, f"the streams are: {', '.join(names)}")
        for name in events:
            if name not in self._schemas:
                near = suggest_names(str(name), names, owner="it")
                refuse("E592", f"the query reads no stream `{name}`", near)
        return dict(events)

    def _converted(self, events: Any, schema: pa.Schema) -> pa.Table:
        came = [events] if isinstance(events, dict) else events
        if isinstance(came, list) and not came:
            came = schema.empty_table()
        table = in_units_of(timed_table(as_table(came), self._times), schema)
        return fitted(table, schema, whole=not isinstance(came, list))

    def close(self) -> pa.Table:
        """End all streams: return the rows of events that still wait and windows still open."""
        rows = self._job.works[0].shown(self._job.finish(self._state))
        self._state = self._job.start()
        return rows

    def save(self) -> bytes:
        """Serialize the state, for ``q.live(schemas, state=...)``; late events count anew."""
        return self._job.write(self._state)


def _read(plan: SelectPlan, name: str, schema: pa.Schema) -> pa.Schema:
    return pa.schema([schema.field(column) for column in columns_of(plan, name, schema.names)])
