"""Secondary indexes: the sorted values of a column, each with its row and its time.

An entry is (value, row, time), as in Körber, section 3.4.1: the entries alone give the distance of
two events, in time and in events. NULLs have no entry. A look-up reads few pages of entries, and
verifies the checksums of only those.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cepheid.decoding import from_json
from cepheid.framing import frame
from cepheid.store.blocks import is_summed, values_of
from cepheid.store.manifest import StoredFile
from cepheid.store.mapped import Pages, map_frame, page_sums
from cepheid.store.times import Times, one_array

FENCE_ENTRIES = 4_096
"""Distance of the entries whose values (fences) are in the header: a look-up reads one gap."""

NAME, VERSION = "index", 2
NAME_MAX = 120
"""Letters of the name of an attribute in that of a file; file systems allow about 250 in all."""

SPARSE_MIN = 64
"""If fewer than one in this many entries are hits, the rows are sorted."""


class Hits(NamedTuple):
    """The events that a look-up has found, sorted by row."""

    rows: NDArray[np.int64]
    times: Times


def index_name(attribute: str) -> str:
    """Build the file suffix of an index; a long name is cut and gets a digest.

    Examples
    --------
    >>> index_name("price/eur")
    'price%2Feur.index'
    """
    name = quote(attribute, safe="")
    if len(name) > NAME_MAX:
        digest = hashlib.sha256(attribute.encode("utf-8", "surrogatepass")).hexdigest()
        name = f"{name[: NAME_MAX // 2]}-{digest[:32]}"
    return f"{name}.index"


def can_index(kind: pa.DataType) -> bool:
    """Check whether columns of a type can have a secondary index."""
    types = pa.types
    return is_summed(kind) or types.is_string(kind) or types.is_large_string(kind)


JOINT = "\x1f"
"""The separator of the attributes of a composite index, and of their values."""


def parts_of(name: str) -> list[str]:
    """Split the name of an index into its attributes."""
    return name.split(JOINT)


def can_join(kind: pa.DataType) -> bool:
    """Check whether a column can be part of a composite index, which needs an exact text."""
    types = pa.types
    return types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind)


def indexed_values(table: pa.Table, name: str) -> Any:
    """Compute the values to index: a column, or the joined texts of several; NULL if one is."""
    if JOINT not in name:
        return table.column(name)
    texts: list[Any] = [table.column(part).cast(pa.string()) for part in parts_of(name)]
    return pc.binary_join_element_wise(*texts, JOINT)


def index_column(column: Any, times: Times) -> pa.Buffer:
    """Serialise an index to bytes, sorted by value, then by row."""
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


class Header(msgspec.Struct, frozen=True):
    """The header of an index file.

    Attributes
    ----------
    entries
        The number of entries.
    values
        The type of the values; texts are stored as numbers.
    fences
        The first value of every fixed number of entries.
    texts
        The length of the texts, an Arrow stream behind the entries; -1 without.
    pages
        The checksums of the pages after the header.
    """

    entries: int
    values: str
    fences: bytes
    texts: int
    pages: bytes


def _pack(
    keys: NDArray[Any], rows: NDArray[np.int32], times: Times, texts: pa.Array[Any] | None
) -> pa.Buffer:
    """Serialise an index: a frame; times, values and rows of the entries; the texts."""
    parts = [times.tobytes(), keys.tobytes(), rows.tobytes()]
    size = -1
    if texts is not None:
        sink = pa.BufferOutputStream()
        named = pa.table({"text": texts})
        with pa.ipc.new_stream(sink, named.schema) as writer:
            writer.write_table(named)
        parts.append(sink.getvalue().to_pybytes())
        size = len(parts[-1])
    data = b"".join(parts)
    fences = keys[::FENCE_ENTRIES].tobytes()
    header = msgspec.json.encode(Header(len(keys), keys.dtype.str, fences, size, page_sums(data)))
    header = header.ljust(-(-len(header) // 8) * 8)  # Aligns the numbers.
    return pa.py_buffer(frame(NAME, VERSION, header) + data)


class SecondaryIndex:
    """The index of one attribute and segment; entries are read on demand from a mapped file.

    Raises
    ------
    DataError
        E542 if the file is damaged, on opening or when entries are read.
    """

    def __init__(self, path: Path, file: StoredFile) -> None:
        body, rest = map_frame(path, file, NAME, VERSION)
        header = from_json(body, Header)
        count, kind = header.entries, np.dtype(header.values)
        self._pages = Pages(path, rest, header.pages)
        self._fences = np.frombuffer(header.fences, kind)
        self._times = self._pages.array(np.int64, count, 0)
        self._values_at = 8 * count
        self._values = self._pages.array(kind, count, self._values_at)
        self._rows_at = self._values_at + kind.itemsize * count
        self._rows = self._pages.array(np.int32, count, self._rows_at)
        self._texts: NDArray[Any] | None = None
        if header.texts >= 0:
            end = len(rest)
            self._pages.check(end - header.texts, end)
            stream = pa.py_buffer(self._pages.data[end - header.texts :])
            texts = pa.ipc.open_stream(stream).read_all()["text"]
            self._texts = np.array(texts.to_pylist(), dtype=object)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def entry_bytes(self) -> int:
        """Compute the bytes read for an entry (time and row; the value comes from its range)."""
        return int(self._rows.itemsize + self._times.itemsize)

    def find(self, operator: str, value: Any) -> list[tuple[int, int]]:
        """Find the ranges of entries whose value satisfies a comparison; NaN is largest.

        Only the few values that the binary search visits are read.
        """
        size = len(self._values)
        if self._texts is not None:
            return self._find_text(operator, str(value))
        value = self._values.dtype.type(value)
        low, high = self._place(value, "left"), self._place(value, "right")
        return ranges_of(operator, low, high, size)

    def _place(self, value: Any, side: Literal["left", "right"]) -> int:
        """Find the position of a value by binary search; one range between fences is read."""
        stretch = max(int(np.searchsorted(self._fences, value, side=side)) - 1, 0)
        begin = stretch * FENCE_ENTRIES
        values = self._values[begin : begin + FENCE_ENTRIES]
        start = self._values_at + begin * self._values.itemsize
        self._pages.check(start, start + values.nbytes)
        return begin + int(np.searchsorted(values, value, side=side))

    def _find_text(self, operator: str, text: str) -> list[tuple[int, int]]:
        assert self._texts is not None, "the caller has looked"
        # Code points, as Arrow and Python order text.
        # A number of another type would make a copy of all values.
        number = self._values.dtype.type
        first, after = (
            number(np.searchsorted(self._texts, text, side=side)) for side in ("left", "right")
        )
        low, high = (self._place(n, "left") for n in (first, after))
        return ranges_of(operator, low, high, len(self._values))

    def read(self, ranges: list[tuple[int, int]]) -> Hits:
        """Read the events of ranges of entries, sorted by row."""
        for begin, end in ranges:
            self._pages.check(8 * begin, 8 * end)
            self._pages.check(self._rows_at + 4 * begin, self._rows_at + 4 * end)
        rows = np.concatenate([self._rows[b:e] for b, e in ranges] or [np.zeros(0, np.int32)])
        times = np.concatenate([self._times[b:e] for b, e in ranges] or [np.zeros(0, np.int64)])
        if len(rows) * SPARSE_MIN < len(self._rows):
            order = np.argsort(rows)
            return Hits(rows[order].astype(np.int64), times[order])
        # Many rows are sorted by a scatter to their positions.
        size = int(rows.max()) + 1 if len(rows) else 0
        placed, held = np.zeros(size, np.int64), np.zeros(size, np.bool_)
        placed[rows] = times
        held[rows] = True
        return Hits(np.flatnonzero(held), placed[held])


def ranges_of(operator: str, low: int, high: int, size: int) -> list[tuple[int, int]]:
    """Compute the ranges of sorted entries that compare so with a value at [low, high)."""
    found = {
        "=": [(low, high)],
        "<": [(0, low)],
        "<=": [(0, high)],
        ">": [(high, size)],
        ">=": [(low, size)],
        "<>": [(0, low), (high, size)],
    }[operator]
    return [(begin, end) for begin, end in found if begin < end]
