"""Queries on a device: events of one stream in, one table out, or None where the CPU should run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa


class DeviceJob(Protocol):
    """A query that a GPU can run in this process."""

    @property
    def in_order(self) -> bool:
        """Check whether events must come in time order."""

    @property
    def whole(self) -> bool:
        """Check whether all events must be there at once."""

    def answer(self, events: pa.Table | pa.RecordBatchReader, *, forced: bool) -> pa.Table | None:
        """Run over events; None if the CPU should do it.

        Unless ``forced``, batches may run on the CPU, too, where that is faster.
        """

    def answer_streams(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Join the events of two streams."""
