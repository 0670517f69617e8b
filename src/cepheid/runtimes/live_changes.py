"""A live query over a table that changes, in one process: feed changes, get those of its rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cepheid.events.arriving import as_table, like, plain_schema
from cepheid.events.nanoseconds import in_units_of
from cepheid.events.text_times import timed_schema, timed_table
from cepheid.jobs.changes.asked import Changes
from cepheid.jobs.changes.follow import Follower
from cepheid.jobs.ticks import TICKS_NS
from cepheid.runtimes.live_query import fitted, length_of
from cepheid.runtimes.local import CompiledQueryLike


class LiveChanges:
    """A query that follows a changelog batch by batch; made by :meth:`CompiledQuery.live` (§18).

    Every batch returns a changelog of rows: applied one after the other, they give the rows of the
    query over the current table. With a watermark, events behind it are final and forgotten.
    """

    def __init__(
        self,
        compiled: CompiledQueryLike,
        schema: pa.Schema,
        watermark: str | None,
        state: bytes | None,
        changes: Changes,
    ) -> None:
        self._times = compiled.times
        self._schema = timed_schema(plain_schema(schema), self._times)
        changes.check_columns(self._schema.names)
        names = changes.attributes(self._schema.names)
        events = pa.schema([self._schema.field(name) for name in names])
        plan = compiled.with_schema(events).plan
        self._follower = Follower(plan, events, changes)
        self._delay: int | None = None
        if watermark is not None:
            self._delay = -(-length_of(watermark) * TICKS_NS["us"] // plan.tick_ns)
        if state is not None:
            self._follower.read(state)

    @property
    def bad(self) -> int:
        """Count the changes that could not be applied (§18.3)."""
        return self._follower.counts.bad

    @property
    def odd(self) -> int:
        """Count the changes that do not fit the table (§18.4)."""
        return self._follower.counts.odd

    @property
    def late(self) -> int:
        """Count the changes behind the watermark (§18.7)."""
        return self._follower.counts.late

    def feed(self, changes: Any) -> Any:
        """Apply changes; return those of the rows, in the same kind of container."""
        came = [changes] if isinstance(changes, dict) else changes
        if isinstance(came, pa.Table) and came.schema.equals(self._schema):
            table = came
        else:
            if isinstance(came, list) and not came:
                came = self._schema.empty_table()
            table = in_units_of(timed_table(as_table(came), self._times), self._schema)
            # A delete may lack what only an event has.
            table = fitted(table, self._schema, whole=not isinstance(came, list))
        follower = self._follower
        rows = follower.take(table)
        if self._delay is not None:
            follower.advance(follower.latest - self._delay)
        return like(changes, rows)

    def save(self) -> bytes:
        """Serialize the table, for ``q.live(schema, changes=..., state=...)``."""
        return self._follower.to_bytes()
