"""The event store: append events in any order, read them in the order of time.

A store is a folder::

    newest                     the number of the newest version
    manifest-0000000007.json   the files of version 7, with their checksums
    segments/                  events, as Parquet files that never change
    index/                     for each segment its blocks, and its secondary indexes

    writers/                   a file for each writer at work

Each writer prepares its files, waits for its turn, rebases on the latest version if there is a new
one, and commits the next. Even without turns exactly one writer gets a number; one that loses
rebases and retries.
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
from cepheid.store.checking import (
    Report,
    check_files,
    find_leftovers,
    find_old_notes,
    missing_files,
)
from cepheid.store.compaction import Changes, compact_segments, fits, replaced
from cepheid.store.file_system import Files, LocalFiles
from cepheid.store.in_place import read_directory
from cepheid.store.indexing import Terms, index_segment, marked, with_all_indexes, with_index
from cepheid.store.manifest import (
    Manifest,
    Segment,
    StoredFile,
    commit,
    is_committed,
    pack_schema,
)
from cepheid.store.reader import StoreReader, check_columns
from cepheid.store.recovery import Recovered, recover_store
from cepheid.store.secondary import JOINT, can_index, can_join
from cepheid.store.segments import DATA_FOLDER, INDEX_FOLDER, Place, write_segments
from cepheid.store.snapshot import Snapshot
from cepheid.store.times import tick_of
from cepheid.store.turns import Writer

Change = Callable[[Manifest | None, Writer], Manifest | None]
"""Makes the next version from the latest one; None if there is nothing to change."""

TRIES = 10
"""The maximum number of attempts if a writer that takes no turns commits in between."""


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

        def read(before: Manifest | None, writer: Writer) -> Manifest | None:
            place = store._place(before, writer)
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
            commit, E543 if a column has another type than in the store, E545 if the store indexes
            files of others, E556 if the disk is full, E557 if the folder is read-only.
        """
        times = TextTimes(self._time, as_format(time_format))
        table = timed_table(as_table(events), times)
        written: tuple[list[Segment], Manifest | None] = ([], None)

        def add(before: Manifest | None, writer: Writer) -> Manifest | None:
            nonlocal written
            if batch is not None and self.has_batch(source, batch):
                written = ([], None)
                return None
            segments, schema = self._write(table, before, written, writer)
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

    def writing(self) -> Writer:
        """Begin a change whose segments others write, under terms; use it in a ``with``."""
        return Writer(self._files, self.path)

    def terms(self, writer: Writer) -> Terms:
        """Read the schema, floor and indexes that writers of segments must respect."""
        known = self._latest()
        self._place(known, writer)
        writer.enter()
        if known is None:
            return Terms(None, None, ())
        return Terms(known.schema, known.floor, known.indexed)

    def add_segments(
        self,
        segments: Sequence[Segment],
        schema: pa.Schema,
        terms: Terms,
        writer: Writer,
        *,
        source: str = "",
        batch: int | None = None,
    ) -> int:
        """Commit segments written under some terms, and return the number of events."""
        added = True

        def add(before: Manifest | None, writer: Writer) -> Manifest | None:
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
            place = self._place(after, writer)
            return with_all_indexes(Snapshot(after, self.path, self._cache), place, terms.indexed)

        self._change_with(add, writer)
        return sum(segment.rows for segment in segments) if added else 0

    def _write(
        self,
        table: pa.Table,
        before: Manifest | None,
        written: tuple[list[Segment], Manifest | None],
        writer: Writer,
    ) -> tuple[list[Segment], pa.Schema]:
        """Write the segments of new events; a retry reuses its files if the terms still fit."""
        known = None if before is None else before.schema
        fitting, schema = fitted(table, known)
        segments, earlier = written
        if segments and before is not None and _same_terms(earlier, before):
            return marked(segments, before), schema
        ordered, times = in_order(fitting, self._time)
        if before is not None and before.floor is not None:
            keep = int(np.searchsorted(times, before.floor, side="left"))
            ordered, times = ordered.slice(keep), times[keep:]
        newest = max((s.last for s in before.segments), default=None) if before else None
        late = 0 if newest is None else int(np.searchsorted(times, newest, side="left"))
        place = self._place(before, writer)
        segments = write_segments(place, ordered.slice(0, late), times[:late], side=True)
        segments += write_segments(place, ordered.slice(late), times[late:])
        return segments, schema

    def _place(self, manifest: Manifest | None, writer: Writer) -> Place:
        for folder in (DATA_FOLDER, INDEX_FOLDER):
            self._files.make_folder(self.path / folder)
        indexed = () if manifest is None else manifest.indexed
        return Place(writer, self.path, indexed, writer.key)

    def _change(self, change: Change, *, in_place: bool = False) -> None:
        """Apply a function to the latest version and commit the result; None commits nothing."""
        with self.writing() as writer:
            self._change_with(change, writer, in_place=in_place)

    def _change_with(self, change: Change, writer: Writer, *, in_place: bool = False) -> None:
        """Prepare a change at once, and commit it when it is this writer's turn."""
        after: Manifest | None = None
        try:
            before = self._latest_to_change(in_place=in_place)
            wanted = change(before, writer)
            tries = 0
            while wanted is not None:
                writer.wait_for_turn()
                latest = self._latest_to_change(in_place=in_place)
                if _number(latest) != _number(before):
                    before, wanted = latest, change(latest, writer)
                if wanted is not None:
                    after = msgspec.structs.replace(
                        wanted, version=_number(before) + 1, pointed=True
                    )
                    if self._commit(before, after):
                        break
                tries += 1
                self._check_tries(tries)
        except BaseException:
            if after is None or not is_committed(self.path, after):
                writer.discard(set())
            raise
        writer.discard(set() if wanted is None else {file.name for file in wanted.files()})

    def _latest_to_change(self, *, in_place: bool) -> Manifest | None:
        found = self._latest()
        if found is not None and found.folder is not None and not in_place:
            message = f"`{self.path}` indexes existing files in place and is read-only"
            helps = ("append to a store of its own: `EventStore(path)`",)
            raise DataError([Diagnostic("E545", message, helps=helps)])
        return found

    def _commit(self, before: Manifest | None, after: Manifest) -> bool:
        had = set() if before is None else {file.name for file in before.own_files()}
        new = [file for file in after.own_files() if file.name not in had]
        condemned = set() if before is None else set(before.condemned)
        if any(file.name in condemned for file in new) or missing_files(self.path, new):
            # This writer stood still for so long that others took it for dead.
            raise _beaten(self.path, "removed files of this change, which stood still")
        self._files.make_folder(self.path)
        for folder in (DATA_FOLDER, INDEX_FOLDER):
            if (self.path / folder).is_dir():
                self._files.sync_folder(self.path / folder)
        if not commit(self._files, self.path, after):
            return False
        self._manifest = after
        return True

    def _check_tries(self, tries: int) -> None:
        if tries >= TRIES:
            raise _beaten(self.path, f"were first, {tries} times")

    def compact(self) -> int:
        """Merge overlapping and small segments, and return the number of merged segments.

        The old files stay for readers of older versions, until :meth:`clean`.
        """
        gone = 0

        changes: Changes = []

        def merge(before: Manifest | None, writer: Writer) -> Manifest | None:
            nonlocal gone, changes
            if before is None:
                return None
            if not changes or not fits(before, changes):
                snapshot = Snapshot(before, self.path, self._cache)
                changes = compact_segments(snapshot, self._place(before, writer))
            gone = sum(len(old) for old, _ in changes)
            return replaced(before, changes) if changes else None

        self._change(merge)
        return gone

    def drop_before(self, time: Any) -> None:
        """Delete all events before a time, together with files that hold nothing else.

        Later appends discard events that are older than this time.
        """

        def drop(before: Manifest | None, _: Writer) -> Manifest | None:
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

        Younger files stay, because a reader may still use an older version, and so do those of
        living writers. A new version names the files before they go, so that a writer that was
        taken for dead cannot add them any more.
        """
        found: list[Path] = []
        now = 0.0

        def condemn(before: Manifest | None, writer: Writer) -> Manifest | None:
            nonlocal found, now
            if before is None:
                return None
            now = writer.now()
            found = find_leftovers(self.path, before, now, older_than_s)
            names = tuple(path.relative_to(self.path).as_posix() for path in found)
            return msgspec.structs.replace(before, condemned=names) if names else None

        self._change(condemn, in_place=True)
        found += find_old_notes(self.path, now, older_than_s)
        for path in found:
            self._files.remove(path)
        return found

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

        def add(before: Manifest | None, writer: Writer) -> Manifest | None:
            if before is None or attribute in before.indexed:
                return None
            snapshot = Snapshot(before, self.path, self._cache)
            for segment in before.segments:
                if segment.blocks.name not in built:
                    place = self._place(before, writer)
                    built.update(index_segment(snapshot, place, segment, attribute))
            return with_index(before, attribute, built)

        self._change(add, in_place=True)

    def verify(self) -> Report:
        """Read all files and compare them with their checksums."""
        return check_files(self.snapshot())

    @classmethod
    def recover(cls, path: str | PathLike[str], *, files: Files | None = None) -> Recovered:
        """Go back to the newest whole version of a store that has lost a manifest or its pointer.

        Its content becomes a new version, so that no number has two meanings. Nothing is removed.
        The events of the lost versions may be in the ``spare`` files of the result, together with
        events of compactions and crashes; :meth:`clean` removes these files later.

        Raises
        ------
        DataError
            E544 if no version is whole.
        """
        folder = Path(path)
        return recover_store(LocalFiles() if files is None else files, folder)


def _beaten(path: Path, what: str) -> DataError:
    message = f"other writers of `{path}` {what}"
    return DataError([Diagnostic("E541", message, helps=("try again, or let one process write",))])


def _number(manifest: Manifest | None) -> int:
    return 0 if manifest is None else manifest.version


def _same_terms(one: Manifest | None, other: Manifest) -> bool:
    """Check whether segments written for one version also fit another."""
    if one is None:
        return False
    return (
        one.floor == other.floor and one.indexed == other.indexed and one.columns == other.columns
    )
