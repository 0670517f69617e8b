"""Secondary indexes: a column in; its values in order, each with its row and its time, out.

An entry is (value, row, time), as in Körber, section 3.4.1: from the entries alone one can tell
how far two events are apart, in time and in events. NULLs have no entry. Pages of entries have
checksums of their own, since a look-up reads few of them.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cepheid.store.blocks import is_summed, values_of
from cepheid.store.times import Times, one_array

PAGE_ENTRIES = 4_096
"""Entries that share a checksum."""


SPARSE_MIN = 64
"""Fewer than one of so many entries are sorted."""


class Hits(NamedTuple):
    """Events that a look-up has found, in the order of their rows."""

    rows: NDArray[np.int64]
    times: Times


def index_name(attribute: str) -> str:
    """Return how the files of an index end.

    Examples
    --------
    >>> index_name("price/eur")
    'price%2Feur.index'
    """
    return f"{quote(attribute, safe='')}.index"


def can_index(kind: pa.DataType) -> bool:
    """Return whether columns of a type can have a secondary index."""
    types = pa.types
    return is_summed(kind) or types.is_string(kind) or types.is_large_string(kind)


JOINT = "\x1f"
"""Between the attributes of an index on several, and between their values."""


def parts_of(name: str) -> list[str]:
    """Return the attributes of an index."""
    return name.split(JOINT)


def can_join(kind: pa.DataType) -> bool:
    """Return whether a column can be part of an index on several attributes: its text is exact."""
    types = pa.types
    return types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind)


def indexed_values(table: pa.Table, name: str) -> Any:
    """Return the values of an index: a column, or the texts of several, NULL if one is."""
    if JOINT not in name:
        return table.column(name)
    texts: list[Any] = [table.column(part).cast(pa.string()) for part in parts_of(name)]
    return pc.binary_join_element_wise(*texts, JOINT)


def index_column(column: Any, times: Times) -> pa.Buffer:
    """Return the bytes of an index: an Arrow file, sorted by value, then by row."""
    array = one_array(column)
    if is_summed(array.type):
        values, valid = values_of(array)
        rows = np.arange(len(values)) if valid is None else np.flatnonzero(valid)
        # NaN sorts last, where it belongs: it is larger than every number.
        order = rows[np.argsort(values[rows], kind="stable")]
        keys: Any = values[order]
        texts: Any = None
    else:
        encoded = array.cast(pa.string()).dictionary_encode()
        ranks = np.asarray(pc.rank(encoded.dictionary, sort_keys="ascending")) - 1
        rows = np.flatnonzero(np.asarray(array.is_valid()))
        codes = ranks[encoded.indices.fill_null(0).to_numpy()] if len(ranks) else np.zeros(0, int)
        order = rows[np.argsort(codes[rows], kind="stable")]
        keys = codes[order].astype(np.int32)
        texts = encoded.dictionary.take(np.argsort(ranks, kind="stable"))
    return _pack(keys, order.astype(np.int32), times[order], texts)


def _pack(
    keys: NDArray[Any], rows: NDArray[np.int32], times: Times, texts: pa.Array[Any] | None
) -> pa.Buffer:
    """Lay an index out: the entries, and in the schema the texts and the checksums of pages."""
    metadata = {
        b"values": page_checksums(keys).tobytes(),
        b"events": page_checksums(rows, times).tobytes(),
    }
    if texts is not None:
        sink = pa.BufferOutputStream()
        named = pa.table({"text": texts})
        with pa.ipc.new_stream(sink, named.schema) as writer:
            writer.write_table(named)
        metadata[b"texts"] = sink.getvalue().to_pybytes()
    columns: dict[str, Any] = {"value": keys, "row": rows, "time": times}
    table = pa.table(columns).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def page_checksums(*columns: NDArray[Any]) -> NDArray[np.uint32]:
    """Return a checksum for every page of some columns."""
    pages = range(-(-len(columns[0]) // PAGE_ENTRIES))
    return np.array([page_checksum(page, *columns) for page in pages], np.uint32)


def page_checksum(page: int, *columns: NDArray[Any]) -> int:
    """Return the CRC-32 of a page."""
    begin = page * PAGE_ENTRIES
    found = 0
    for column in columns:
        found = zlib.crc32(column[begin : begin + PAGE_ENTRIES].tobytes(), found)
    return found


class DamagedIndexError(Exception):
    """Some entries of an index are not what was written."""


class SecondaryIndex:
    """An index of one attribute and segment, read from a mapped file as far as it is needed."""

    def __init__(self, source: Any) -> None:
        table = pa.ipc.open_file(source).read_all()
        metadata = table.schema.metadata
        arrays = [one_array(table.column(n)).to_numpy() for n in ("value", "row", "time")]
        self._values, self._rows, self._times = arrays
        self._value_checksums = np.frombuffer(metadata[b"values"], np.uint32)
        self._event_checksums = np.frombuffer(metadata[b"events"], np.uint32)
        self._texts: NDArray[Any] | None = None
        if b"texts" in metadata:
            texts = pa.ipc.open_stream(metadata[b"texts"]).read_all()["text"]
            self._texts = np.array(texts.to_pylist(), dtype=object)
        self._checked: set[int] = set()
        self._values_checked: set[int] = set()

    def __len__(self) -> int:
        return len(self._values)

    @property
    def entry_bytes(self) -> int:
        """Return what is read of an entry; its value is that of a range of entries."""
        return int(self._rows.itemsize + self._times.itemsize)

    def find(self, operator: str, value: Any) -> list[tuple[int, int]]:
        """Return the ranges of entries whose value compares so with a constant; NaN is largest.

        Nothing but a few values on the way is read.
        """
        size = len(self._values)
        if self._texts is not None:
            return self._find_text(operator, str(value))
        value = self._values.dtype.type(value)
        low = int(np.searchsorted(self._values, value, side="left"))
        high = int(np.searchsorted(self._values, value, side="right"))
        return ranges_of(operator, low, high, size)

    def _find_text(self, operator: str, text: str) -> list[tuple[int, int]]:
        assert self._texts is not None, "the caller has looked"
        # Code points, as Arrow and Python order text.
        # A number of another type would make a copy of all values.
        number = self._values.dtype.type
        first, after = (
            number(np.searchsorted(self._texts, text, side=side)) for side in ("left", "right")
        )
        low, high = (int(np.searchsorted(self._values, n, side="left")) for n in (first, after))
        return ranges_of(operator, low, high, len(self._values))

    def read(self, ranges: list[tuple[int, int]]) -> Hits:
        """Return the events of ranges, in the order of rows.

        Raises
        ------
        DamagedIndexError
            If a page does not fit its checksum.
        """
        for begin, end in ranges:
            if begin < end:
                self._check(begin // PAGE_ENTRIES, (end - 1) // PAGE_ENTRIES)
        rows = np.concatenate([self._rows[b:e] for b, e in ranges] or [np.zeros(0, np.int32)])
        times = np.concatenate([self._times[b:e] for b, e in ranges] or [np.zeros(0, np.int64)])
        if len(rows) * SPARSE_MIN < len(self._rows):
            order = np.argsort(rows)
            return Hits(rows[order].astype(np.int64), times[order])
        # Many rows are put in order by their places.
        size = int(rows.max()) + 1 if len(rows) else 0
        placed, held = np.zeros(size, np.int64), np.zeros(size, np.bool_)
        placed[rows] = times
        held[rows] = True
        return Hits(np.flatnonzero(held), placed[held])

    def _check(self, first: int, last: int) -> None:
        """Compare pages with their checksums; of values, those where a range begins and ends."""
        for page in {first, last} - self._values_checked:
            if page_checksum(page, self._values) != int(self._value_checksums[page]):
                raise DamagedIndexError
            self._values_checked.add(page)
        for page in range(first, last + 1):
            if page in self._checked:
                continue
            found = page_checksum(page, self._rows, self._times)
            if found != int(self._event_checksums[page]):
                raise DamagedIndexError
            self._checked.add(page)


def ranges_of(operator: str, low: int, high: int, size: int) -> list[tuple[int, int]]:
    """Return which sorted entries compare so with a value that stands at [low, high)."""
    found = {
        "=": [(low, high)],
        "<": [(0, low)],
        "<=": [(0, high)],
        ">": [(high, size)],
        ">=": [(low, size)],
        "<>": [(0, low), (high, size)],
    }[operator]
    return [(begin, end) for begin, end in found if begin < end]
