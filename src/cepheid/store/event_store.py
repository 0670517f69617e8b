"""The event store: append events in any order, read them in the order of time.

A store is a folder::

    manifest-0000000007.json   the files of version 7, with their checksums
    segments/                  events, as Parquet files that never change
    index/                     for each segment its blocks, and its secondary indexes

Writers need no lock: each prepares its files and then tries to commit the next version. The writer
that loses the race rebases on the winner's version and retries with the next number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from cepheid.errors import DataError, Diagnostic
from cepheid.events.arriving import as_table
from cepheid.events.text_times import timed_table
from cepheid.events.time_formats import TextTimes, as_format
from cepheid.store.arriving import fitted, in_order, merged_schema
from cepheid.store.checking import Report, check_files, remove_leftovers
from cepheid.store.compaction import compact_segments, replaced
from cepheid.store.file_system import Files
from cepheid.store.in_place import read_directory
from cepheid.store.indexing import Terms, index_segment, marked, with_all_indexes, with_index
from cepheid.store.manifest import (
    Manifest,
    Segment,
    StoredFile,
    commit,
    pack_schema,
)
from cepheid.store.reader import StoreReader, check_columns
from cepheid.store.secondary import JOINT, can_index, can_join
from cepheid.store.segments import DATA_FOLDER, INDEX_FOLDER, Place, write_segments
from cepheid.store.snapshot import Snapshot
from cepheid.store.times import tick_of

TRIES = 10
"""The maximum number of retries after another writer's commit."""


class EventStore(StoreReader):
    """A folder of events, kept in the order of time.

    Parameters
    ----------
    path
        The folder; the first append creates it.
    time
        The column that holds an event's time. A store remembers it.

    Raises
    ------
    DataError
        E544 if the store has another time column, or was written by a later version.

    Examples
    --------
    >>> import tempfile
    >>> store = EventStore(tempfile.mkdtemp())
    >>> store.append(pa.table({"ts": [2, 1], "price": [20.0, 10.0]}))
    2
    >>> store.append(pa.table({"ts": [3], "price": [30.0]}))
    1
    >>> store.scan(start=2).read_all().to_pydict()
    {'ts': [2, 3], 'price': [20.0, 30.0]}
    """

    @classmethod
    def open_directory(
        cls,
        folder: str | PathLike[str],
        *,
        time: str = "ts",
        index_at: str | PathLike[str] | None = None,
        files: Files | None = None,
    ) -> EventStore:
        """Index existing Parquet files in place, and open a store that reads them.

        Each file must be sorted by time; different files may overlap. When it is opened again, the
        store adds new files and drops deleted ones.

        Parameters
        ----------
        folder
            The folder of the files.
        time
            The column that holds an event's time.
        index_at
            The folder of the manifest and the indexes; ``_cepheid`` in the folder without it.

        Raises
        ------
        DataError
            E501 if there are no files or one cannot be read, E509 if one is not in order, E543 if
            their columns do not fit together.
        """
        beside = Path(folder) / "_cepheid" if index_at is None else index_at
        store = cls(beside, time=time, files=files)

        def read(before: Manifest | None) -> Manifest | None:
            place = store._place(before)
            return read_directory(place, Path(folder), time, before)

        store._change(read, in_place=True)
        return store

    # -----------------------------------------------------------------------------------
    # Writing

    def append(
        self,
        events: Any,
        *,
        source: str = "",
        batch: int | None = None,
        time_format: str | None = None,
    ) -> int:
        """Store events and return their number.

        Events may be unsorted and older than stored ones: late events go to a side segment, which
        reads and :meth:`compact` merge. New columns are added to the store; older events have NULL
        in them.

        Parameters
        ----------
        events
            Events in this process, as ``CompiledQuery.run`` takes them: Arrow, pandas, Polars,
            lists of dicts.
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
        times = TextTimes(self._time, as_format(time_format))
        table = timed_table(as_table(events), times)
        written: tuple[list[Segment], Manifest | None] = ([], None)

        def add(before: Manifest | None) -> Manifest | None:
            nonlocal written
            if batch is not None and self.has_batch(source, batch):
                written = ([], None)
                return None
            segments, schema = self._write(table, before, written)
            written = (segments, before)
            first = Manifest(0, self._time, "") if before is None else before
            batches = first.batches if batch is None else {**first.batches, source: batch}
            return msgspec.structs.replace(
                first,
                columns=pack_schema(schema),
                segments=(*first.segments, *segments),
                batches=batches,
            )

        self._change(add)
        return sum(segment.rows for segment in written[0])

    def has_batch(self, source: str, batch: int) -> bool:
        """Check whether a batch of a source is stored already."""
        known = self._latest()
        done = None if known is None else known.batches.get(source)
        return done is not None and batch <= done

    def terms(self) -> Terms:
        """Read the schema, floor and indexes that writers of segments must respect."""
        known = self._latest()
        self._place(known)
        if known is None:
            return Terms(None, None, ())
        return Terms(known.schema, known.floor, known.indexed)

    def add_segments(
        self,
        segments: Sequence[Segment],
        schema: pa.Schema,
        terms: Terms,
        *,
        source: str = "",
        batch: int | None = None,
    ) -> int:
        """Commit segments written under some terms, and return the number of events."""
        added = True

        def add(before: Manifest | None) -> Manifest | None:
            nonlocal added
            added = batch is None or not self.has_batch(source, batch)
            if not added:
                return None
            first = Manifest(0, self._time, pack_schema(schema)) if before is None else before
            merged = merged_schema(schema, None if before is None else before.schema)
            after = msgspec.structs.replace(
                first,
                columns=pack_schema(merged),
                segments=(*first.segments, *marked(segments, first)),
                batches=first.batches if batch is None else {**first.batches, source: batch},
            )
            place = self._place(after)
            return with_all_indexes(Snapshot(after, self.path, self._cache), place, terms.indexed)

        self._change(add)
        return sum(segment.rows for segment in segments) if added else 0

    def _write(
        self,
        table: pa.Table,
        before: Manifest | None,
        written: tuple[list[Segment], Manifest | None],
    ) -> tuple[list[Segment], pa.Schema]:
        """Write the segments of new events; a retry reuses its files if the terms still fit."""
        known = None if before is None else before.schema
        fitting, schema = fitted(table, known)
        segments, earlier = written
        if segments and before is not None and _same_terms(earlier, before):
            return segments, schema
        ordered, times = in_order(fitting, self._time)
        if before is not None and before.floor is not None:
            keep = int(np.searchsorted(times, before.floor, side="left"))
            ordered, times = ordered.slice(keep), times[keep:]
        newest = max((s.last for s in before.segments), default=None) if before else None
        late = 0 if newest is None else int(np.searchsorted(times, newest, side="left"))
        place = self._place(before)
        segments = write_segments(place, ordered.slice(0, late), times[:late], side=True)
        segments += write_segments(place, ordered.slice(late), times[late:])
        return segments, schema

    def _place(self, manifest: Manifest | None) -> Place:
        for folder in (DATA_FOLDER, INDEX_FOLDER):
            self._files.make_folder(self.path / folder)
        return Place(self._files, self.path, () if manifest is None else manifest.indexed)

    def _change(
        self, change: Callable[[Manifest | None], Manifest | None], *, in_place: bool = False
    ) -> None:
        """Apply a function to the latest version and commit the result; None commits nothing."""
        for _ in range(TRIES):
            before = self._latest()
            if before is not None and before.folder is not None and not in_place:
                message = f"`{self.path}` indexes existing files in place and is read-only"
                helps = ("append to a store of its own: `EventStore(path)`",)
                raise DataError([Diagnostic("E545", message, helps=helps)])
            after = change(before)
            if after is None:
                return
            if self._commit(before, after):
                return
        message = f"other writers of `{self.path}` were first, {TRIES} times"
        helps = ("try again, or let one process write",)
        raise DataError([Diagnostic("E541", message, helps=helps)])

    def _commit(self, before: Manifest | None, after: Manifest) -> bool:
        version = 1 if before is None else before.version + 1
        after = msgspec.structs.replace(after, version=version)
        self._files.make_folder(self.path)
        self._files.sync_folder(self.path)
        for folder in (DATA_FOLDER, INDEX_FOLDER):
            if (self.path / folder).is_dir():
                self._files.sync_folder(self.path / folder)
        if not commit(self._files, self.path, after):
            return False
        self._manifest = after
        return True

    def compact(self) -> int:
        """Merge overlapping and small segments, and return the number of merged segments.

        The old files stay for readers of older versions, until :meth:`clean`.
        """
        gone = 0

        def merge(before: Manifest | None) -> Manifest | None:
            nonlocal gone
            if before is None:
                return None
            snapshot = Snapshot(before, self.path, self._cache)
            changes = compact_segments(snapshot, self._place(before))
            gone = sum(len(old) for old, _ in changes)
            return replaced(before, changes) if changes else None

        self._change(merge)
        return gone

    def drop_before(self, time: Any) -> None:
        """Delete all events before a time, together with files that hold nothing else.

        Later appends discard events that are older than this time.
        """

        def drop(before: Manifest | None) -> Manifest | None:
            if before is None:
                return None
            floor = tick_of(time, before.schema.field(self._time).type)
            if before.floor is not None and before.floor >= floor:
                return None
            left = tuple(segment for segment in before.segments if segment.last >= floor)
            return msgspec.structs.replace(before, segments=left, floor=floor)

        self._change(drop)

    def clean(self, *, older_than_s: float = 3_600.0) -> list[Path]:
        """Remove files that no version needs, such as those of a crash, and return their names.

        Younger files stay, because another writer may be about to commit them, or a reader may
        still use an older version.
        """
        known = self._latest()
        return remove_leftovers(self._files, self.path, known, older_than_s)

    def index(self, *attributes: str) -> None:
        """Build a secondary index, which later appends keep up to date.

        Parameters
        ----------
        attributes
            A column that queries compare with constants; or several whole numbers and texts, for
            queries that ask for a value of each of them (``type = 'ROBBERY' AND beat = 7``).

        Raises
        ------
        DataError
            E505 if there is no such column, E503 if its type cannot be indexed.
        """
        schema = self.schema
        check_columns(schema, attributes)
        fits = can_index if len(attributes) == 1 else can_join
        for name in attributes:
            kind = schema.field(name).type
            if not fits(kind):
                message = f"column `{name}` of type {kind} cannot be in this index"
                helps = (
                    "one column can be numbers, times or text, several only whole numbers or text",
                )
                raise DataError([Diagnostic("E503", message, helps=helps)])
        attribute = JOINT.join(sorted(attributes))
        built: dict[str, StoredFile] = {}

        def add(before: Manifest | None) -> Manifest | None:
            if before is None or attribute in before.indexed:
                return None
            snapshot = Snapshot(before, self.path, self._cache)
            for segment in before.segments:
                if segment.blocks.name not in built:
                    built.update(index_segment(snapshot, self._place(before), segment, attribute))
            return with_index(before, attribute, built)

        self._change(add, in_place=True)

    def verify(self) -> Report:
        """Read all files and compare them with their checksums."""
        return check_files(self.snapshot())


def _same_terms(one: Manifest | None, other: Manifest) -> bool:
    """Check whether segments written for one version also fit another."""
    if one is None:
        return False
    newest = [max((s.last for s in m.segments), default=None) for m in (one, other)]
    return (
        newest[0] == newest[1]
        and one.floor == other.floor
        and one.indexed == other.indexed
        and one.columns == other.columns
    )
