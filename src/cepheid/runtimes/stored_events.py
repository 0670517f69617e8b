"""The public event store, which also accepts Spark DataFrames."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from cepheid.events.time_formats import TextTimes, as_format
from cepheid.store import event_store


class EventStore(event_store.EventStore):
    """A folder of events, kept in the order of time; see ``docs/store.md``.

    Parameters
    ----------
    path
        The folder; the first append creates it.
    time
        The column that holds an event's time, ``"ts"`` by default. A store remembers it.

    Raises
    ------
    DataError
        E544 if the store has another time column, or was written by a later version.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> store = EventStore(tempfile.mkdtemp())
    >>> store.append(pa.table({"ts": [1, 2], "price": [10.0, 20.0]}))
    2
    """

    def append(
        self,
        events: Any,
        *,
        source: str = "",
        batch: int | None = None,
        time_format: str | None = None,
    ) -> int:
        """Store events and return their number.

        Events may be unsorted, and older than stored ones. New columns are added to the store;
        older events have NULL in them.

        Parameters
        ----------
        events
            A pyarrow Table, RecordBatch or RecordBatchReader, a list of RecordBatches, a pandas or
            a Spark DataFrame. Spark's tasks write to the store's folder, so all must see it.
        source, batch
            The number of a batch of a source. A batch whose number is not above the last one of its
            source is stored already and skipped, so a batch can be sent again after a crash.
        time_format
            The format of times that are text, as in ``cepheid.query``; they are stored as
            timestamps.

        Raises
        ------
        DataError
            E505, E506 if the time column is missing or unfit, E541 if other writers won every
            commit, E543 if a column has another type than in the store, E545 if the store is
            read-only.
        """
        if type(events).__module__.partition(".")[0] == "pyspark":
            spark_store = importlib.import_module("cepheid.runtimes.spark.store")
            times = TextTimes(self.time, as_format(time_format))
            count: int = spark_store.append_frame(self, events, times, source=source, batch=batch)
            return count
        return super().append(events, source=source, batch=batch, time_format=time_format)

    def sink(self, name: str, *, time_format: str | None = None) -> Callable[[Any, int], None]:
        """Build a function for Spark's ``foreachBatch`` that stores every batch exactly once.

        ``name`` identifies the source: a query that restarts from its checkpoint keeps its name.
        ``time_format`` is that of :meth:`append`.
        """

        def store_batch(frame: Any, batch: int) -> None:
            self.append(frame, source=name, batch=batch, time_format=time_format)

        return store_batch
