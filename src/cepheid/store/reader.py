"""Read a store: its latest version, ranges of its events, and windowed aggregates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from cepheid.errors import DataError, Diagnostic, suggest_names
from cepheid.events.nanoseconds import PER_MICROSECOND, is_nanoseconds
from cepheid.store.aggregates import Aggregate, WindowSpec, read_aggregates, read_windows
from cepheid.store.aggregation import attributes_of, plan_aggregate, run_aggregate
from cepheid.store.file_system import Files, LocalFiles
from cepheid.store.manifest import Manifest, load_newest
from cepheid.store.secondary import parts_of
from cepheid.store.snapshot import Interval, Snapshot
from cepheid.store.times import tick_of


class StoreReader:
    """The read-only operations of a store; :class:`EventStore` adds the writing ones."""

    def __init__(
        self, path: str | PathLike[str], *, time: str | None = None, files: Files | None = None
    ) -> None:
        self.path = Path(path)
        self._files: Files = LocalFiles() if files is None else files
        self._time = "ts" if time is None else time
        self._manifest: Manifest | None = None
        self._cache: dict[str, Any] = {}
        known = self._latest()
        if known is not None:
            if time is not None and time != known.time:
                message = f"the store `{path}` has the time column `{known.time}`, not `{time}`"
                raise DataError([Diagnostic("E544", message)])
            self._time = known.time

    def __repr__(self) -> str:
        return f"EventStore({str(self.path)!r}, time={self._time!r})"

    def __len__(self) -> int:
        known = self._latest()
        if known is None:
            return 0
        if known.floor is None:
            return known.rows
        return sum(len(table) for table in self.snapshot().scan(Interval(), [known.time]))

    def __bool__(self) -> bool:
        return True

    @property
    def time(self) -> str:
        """Return the name of the time column."""
        return self._time

    @property
    def version(self) -> int:
        """Return the number of the latest version, 0 for a store without events."""
        known = self._latest()
        return 0 if known is None else known.version

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the events."""
        return self.snapshot().manifest.schema

    @property
    def indexes(self) -> list[tuple[str, ...]]:
        """Return the attributes of each secondary index."""
        return [tuple(parts_of(name)) for name in self.snapshot().manifest.indexed]

    def _latest(self) -> Manifest | None:
        """Return the latest version; others may have written it."""
        found = self._manifest = load_newest(self.path, self._manifest)
        return found

    def snapshot(self) -> Snapshot:
        """Return the latest version, to be read; later changes do not touch it.

        Raises
        ------
        DataError
            E544 if nothing was stored yet.
        """
        known = self._latest()
        if known is None:
            message = f"there are no events in the store `{self.path}` yet"
            helps = ("append some: `store.append(table)`",)
            raise DataError([Diagnostic("E544", message, helps=helps)])
        return Snapshot(known, self.path, self._cache)

    def scan(
        self, start: Any = None, end: Any = None, columns: Iterable[str] | None = None
    ) -> pa.RecordBatchReader:
        """Read the events of a range of time [start, end) in order, as a stream of batches.

        Parameters
        ----------
        start, end
            Times, texts such as ``"2026-01-31 13:30:00"`` (UTC), or whole microseconds.
        columns
            The columns to read; all by default.

        Raises
        ------
        DataError
            E505 if there is no such column, E542 if a file is damaged.
        """
        snapshot = self.snapshot()
        schema = snapshot.manifest.schema
        names = list(schema.names if columns is None else columns)
        check_columns(schema, names)
        kind = schema.field(self._time).type
        begin, until = (None if t is None else tick_of(t, kind) for t in (start, end))
        needed = names if self._time in names else [*names, self._time]
        shown = pa.schema([schema.field(name) for name in names])
        tables = snapshot.scan(Interval(begin, until), needed)
        batches = (batch for t in tables for batch in t.select(names).combine_chunks().to_batches())
        return pa.RecordBatchReader.from_batches(shown, batches)

    def aggregate(
        self,
        aggregates: Iterable[str] | Mapping[str, str],
        *,
        within: Any,
        slide: Any = None,
        start: Any = None,
        end: Any = None,
        method: str = "auto",
    ) -> pa.Table:
        """Aggregate windows; the result has one row for each window that holds an event.

        Parameters
        ----------
        aggregates
            Texts such as ``"COUNT(*)"``, ``"AVG(price)"``, ``"MAX(price)"``; or a dict of them by
            the names of the result columns.
        within, slide
            Windows [i * slide, i * slide + within) for all whole i: lengths such as
            ``"15 minutes"``, microseconds, or ``"1000 events"``. Without slide, windows tumble. Any
            slide can be combined with any length.
        start, end
            Only events of [start, end), as for :meth:`scan`.
        method
            ``"index"`` uses the index as far as possible, ``"replay"`` reads all events; ``"auto"``
            chooses the cheaper one. Sums of doubles may differ in the last digits.

        Raises
        ------
        ValueError
            If an aggregate or a length cannot be parsed.
        DataError
            E504 if a sum overflows 64 bits, E505 and E506 if a column is missing or unfit, E511 if
            there are too many windows.

        Examples
        --------
        >>> import tempfile
        >>> from cepheid.store.event_store import EventStore
        >>> store = EventStore(tempfile.mkdtemp())
        >>> _ = store.append(pa.table({"ts": [1, 12, 13, 25], "price": [1.0, 2.0, 4.0, 8.0]}))
        >>> store.aggregate(["COUNT(*)", "SUM(price)"], within=10).to_pydict()["sum_price"]
        [1.0, 6.0, 8.0]
        """
        snapshot, spec, interval, wanted = self._aggregate(aggregates, within, slide, start, end)
        plan = plan_aggregate(snapshot, spec, interval, attributes_of(wanted), method)
        return run_aggregate(snapshot, spec, interval, wanted, plan)

    def explain_aggregate(
        self,
        aggregates: Iterable[str] | Mapping[str, str],
        *,
        within: Any,
        slide: Any = None,
        start: Any = None,
        end: Any = None,
    ) -> str:
        """Explain how :meth:`aggregate` would compute its result, and why."""
        snapshot, spec, interval, wanted = self._aggregate(aggregates, within, slide, start, end)
        plan = plan_aggregate(snapshot, spec, interval, attributes_of(wanted), "auto")
        return f"{plan.method}: {plan.reason}"

    def _aggregate(
        self,
        aggregates: Iterable[str] | Mapping[str, str],
        within: Any,
        slide: Any,
        start: Any,
        end: Any,
    ) -> tuple[Snapshot, WindowSpec, Interval, list[Aggregate]]:
        snapshot = self.snapshot()
        schema = snapshot.manifest.schema
        kind = schema.field(self._time).type
        begin, until = (None if t is None else tick_of(t, kind) for t in (start, end))
        wanted = read_aggregates(aggregates, schema)
        spec = read_windows(within, slide)
        if is_nanoseconds(kind) and not spec.counted:
            spec = spec.scaled(PER_MICROSECOND)
        return snapshot, spec, Interval(begin, until), wanted


def check_columns(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise E505 if a store has no such column."""
    for name in names:
        if name not in schema.names:
            message = f"the store has no column `{name}`"
            helps = (suggest_names(name, schema.names, owner="the store"),)
            raise DataError([Diagnostic("E505", message, helps=helps)])
