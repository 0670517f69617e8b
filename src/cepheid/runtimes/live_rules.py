"""A live workload in one process: feed batches, get the rows of complete windows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cepheid.errors import DataError
from cepheid.events.arriving import as_table, plain_schema
from cepheid.events.nanoseconds import in_units_of
from cepheid.events.text_times import timed_schema, timed_table
from cepheid.kinds.workload.combine_results import unite
from cepheid.kinds.workload.live_rules import RunningRules
from cepheid.runtimes.workload import WorkloadLike


class LiveRules:
    """Rules that run over a stream batch by batch; made by :meth:`Workload.live`.

    Batches are sorted by time, and each is later than those before it. Rules can be added and
    removed between batches without any effect on the others.
    """

    def __init__(self, workload: WorkloadLike, schema: pa.Schema) -> None:
        self._times = workload.times
        self._running = RunningRules(timed_schema(plain_schema(schema), self._times))
        self.add(workload)

    @property
    def names(self) -> list[str]:
        """Return the names of the rules."""
        return self._running.names

    def add(self, workload: WorkloadLike) -> None:
        """Add rules; they see the events of the batches that follow.

        Raises
        ------
        ValueError
            If there is already a rule with this name.
        DataError
            E531 if their rows do not fit those of the other rules; none of them is added.
        """
        schema, before = self._running.schema, set(self.names)
        self._running.add(workload.shared(schema), merge=workload.merge)
        try:
            unite(self._running.feed(schema.empty_table()))
        except DataError:
            for name in set(self.names) - before:
                self._running.remove(name)
            raise

    def remove(self, name: str) -> None:
        """Remove a rule and discard its state; its open windows are not reported.

        Raises
        ------
        KeyError
            If there is no such rule.
        """
        self._running.remove(name)

    def feed(self, events: Any) -> pa.Table:
        """Process a batch; return the rows of complete windows, as ``Workload.run`` does."""
        table = timed_table(as_table(events), self._times)
        return unite(self._running.feed(in_units_of(table, self._running.schema)))

    def close(self) -> pa.Table:
        """End the stream and return the rows of all windows that are still open."""
        return unite(self._running.finish())
