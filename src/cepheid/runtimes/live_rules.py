"""Rules over a stream in one process: batches in, rows of complete windows out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cepheid.events.arriving import as_table, plain_schema
from cepheid.events.nanoseconds import in_units_of
from cepheid.kinds.workload.combine_results import unite
from cepheid.kinds.workload.live_rules import RunningRules
from cepheid.runtimes.workload import WorkloadLike


class LiveRules:
    """Rules that run over a stream batch by batch; made by :meth:`Workload.live`.

    Batches are in the order of time, and each is later than those before it. Rules come and go
    between batches; the others go on as if nothing had happened.
    """

    def __init__(self, workload: WorkloadLike, schema: pa.Schema) -> None:
        self._running = RunningRules(plain_schema(schema))
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
            If there is a rule of such a name.
        """
        self._running.add(workload.shared(self._running.schema), merge=workload.merge)

    def remove(self, name: str) -> None:
        """Remove a rule; what it has counted and not reported is forgotten.

        Raises
        ------
        KeyError
            If there is no such rule.
        """
        self._running.remove(name)

    def feed(self, events: Any) -> pa.Table:
        """Process a batch; return the rows of windows that are complete, as ``Workload.run``."""
        return unite(self._running.feed(in_units_of(as_table(events), self._running.schema)))

    def close(self) -> pa.Table:
        """Return the rows of all windows that are still open; the stream has ended."""
        return unite(self._running.finish())
