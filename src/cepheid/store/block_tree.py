"""The tree over blocks: one node summarises about 64 blocks.

A query first reads the nodes, and then the columns of only those blocks whose nodes can match, even
if there are years of events. Every page has a checksum.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.decoding import from_json
from cepheid.framing import frame
from cepheid.store.blocks import STATISTICS, Blocks, Summary
from cepheid.store.manifest import StoredFile
from cepheid.store.mapped import Pages, map_frame, page_sums

NODE_BLOCKS = 64
"""Blocks of a node, at most, unless a row group has more: a node holds whole row groups."""

BASE = ("begins", "rows", "group", "first", "last")


def node_cuts(blocks: Blocks) -> NDArray[np.int64]:
    """Compute the first block of every node, followed by the number of blocks."""
    size = len(blocks.rows)
    # Row groups begin here.
    starts = np.append(np.flatnonzero(np.diff(blocks.group, prepend=-1)), size)
    cuts = [0]
    while cuts[-1] < size:
        place = int(np.searchsorted(starts, cuts[-1] + NODE_BLOCKS, side="right")) - 1
        place += int(starts[place] <= cuts[-1])
        cuts.append(int(starts[place]))
    return np.array(cuts, np.int64)


def nodes_of(blocks: Blocks, cuts: NDArray[np.int64]) -> Blocks:
    """Build the level above: summarise each node as if it were one block."""
    if not len(blocks.rows):
        return blocks
    begins, ends = cuts[:-1], cuts[1:] - 1
    attributes = {name: _combined(own, begins) for name, own in blocks.attributes.items()}
    return Blocks(
        blocks.begins[begins],
        np.add.reduceat(blocks.rows, begins),
        blocks.group[begins],
        blocks.first[begins],
        blocks.last[ends],
        attributes,
    )


def _combined(summary: Summary, begins: NDArray[np.int64]) -> Summary:
    """Merge the statistics of several blocks; blocks without known values have no effect."""
    total: Any = summary.sum
    if total is not None:
        # As long as the sum of absolute values fits, so does every other.
        bound = np.add.reduceat(np.abs(total.astype(np.float64)), begins)
        whole = total.dtype != np.float64 and bool((bound >= 2.0**62).any())
        with np.errstate(invalid="ignore", over="ignore"):
            total = None if whole else np.add.reduceat(total, begins)
    with np.errstate(invalid="ignore"):
        return Summary(
            np.add.reduceat(summary.known, begins),
            np.fmin.reduceat(summary.least, begins),
            np.maximum.reduceat(summary.largest, begins),
            total,
        )


class Header(msgspec.Struct, frozen=True):
    """The header of a file of blocks.

    Attributes
    ----------
    columns
        The names of the columns, and whether each holds doubles; all others hold integers.
    upper
        The same for the nodes, which lack a sum if it would overflow.
    cuts
        The first block of every node, and the number of blocks.
    groups
        The number of row groups.
    pages
        The checksums of the pages after the header.
    events
        The checksums of the pages of the Parquet file.
    """

    columns: dict[str, bool]
    upper: dict[str, bool]
    cuts: list[int]
    groups: int
    pages: bytes
    events: bytes


NAME, VERSION = "blocks", 2


def pack_blocks(blocks: Blocks, events: bytes) -> pa.Buffer:
    """Serialise blocks to bytes: a frame, the nodes, and the blocks column by column.

    ``events`` holds the checksums of the pages of the events themselves.
    """
    cuts = node_cuts(blocks)
    columns, upper = _columns(blocks), _columns(nodes_of(blocks, cuts))
    data = b"".join(values.tobytes() for part in (upper, columns) for values in part.values())
    header = msgspec.json.encode(
        Header(
            {name: values.dtype == np.float64 for name, values in columns.items()},
            {name: values.dtype == np.float64 for name, values in upper.items()},
            cuts.tolist(),
            len(np.unique(blocks.group)),
            page_sums(data),
            events,
        )
    )
    header = header.ljust(-(-len(header) // 8) * 8)  # Aligns the numbers.
    return pa.py_buffer(frame(NAME, VERSION, header) + data)


def _arrays(
    pages: Pages, names: dict[str, bool], begin: int, count: int
) -> dict[str, NDArray[Any]]:
    return {
        name: pages.array(np.float64 if double else np.int64, count, begin + 8 * count * n)
        for n, (name, double) in enumerate(names.items())
    }


def _columns(blocks: Blocks) -> dict[str, Any]:
    columns: dict[str, Any] = dict(zip(BASE, blocks[:5], strict=True))
    for name, summary in blocks.attributes.items():
        for statistic, values in zip(STATISTICS, summary, strict=True):
            if values is not None:
                columns[f"{statistic}:{name}"] = values
    return columns


def _blocks(arrays: dict[str, NDArray[Any]], attributes: Iterable[str]) -> Blocks:
    summaries = {
        name: Summary(
            arrays[f"known:{name}"],
            arrays[f"least:{name}"],
            arrays[f"largest:{name}"],
            arrays.get(f"sum:{name}"),
        )
        for name in attributes
    }
    own = [arrays[part] for part in BASE]
    return Blocks(own[0], own[1], own[2], own[3], own[4], summaries)


class BlockTree:
    """The blocks of a segment; columns are read on demand from a memory-mapped file.

    Attributes
    ----------
    nodes
        The level above the blocks.
    groups
        The number of row groups.
    events
        The checksums of the pages of the segment's events.

    Raises
    ------
    DataError
        E542 if the file is damaged, on opening or when blocks are read.
    """

    def __init__(self, path: Path, file: StoredFile) -> None:
        body, rest = map_frame(path, file, NAME, VERSION)
        header = from_json(body, Header)
        count, size = len(header.cuts) - 1, header.cuts[-1]
        self._header_bytes = len(body)
        self._pages = Pages(path, rest, header.pages)
        self._begin = 8 * count * len(header.upper)
        self._pages.check(0, self._begin)
        above = _arrays(self._pages, header.upper, 0, count)
        self.attributes = [n.partition(":")[2] for n in above if n.startswith("known:")]
        self.nodes = _blocks(above, self.attributes)
        self.groups, self.events = header.groups, header.events
        self._arrays = _arrays(self._pages, header.columns, self._begin, size)
        self._cuts = np.array(header.cuts, np.int64)

    @property
    def read_bytes(self) -> int:
        """Count the bytes that were read so far."""
        return self._header_bytes + self._pages.read_bytes

    def blocks(
        self, nodes: NDArray[np.int64] | None = None, attributes: Iterable[str] = ()
    ) -> Blocks:
        """Read the blocks of the chosen nodes (default: all), with the given attributes."""
        known = [name for name in attributes if name in self.attributes]
        names = [*BASE, *(f"{s}:{n}" for n in known for s in STATISTICS)]
        count = len(self.nodes.rows)
        chosen = np.arange(count) if nodes is None else nodes
        for number, name in enumerate(self._arrays):
            if name in names:
                self._check(number, chosen)
        if len(chosen) == count:
            return _blocks(self._arrays, known)
        sizes = np.diff(self._cuts)[chosen]
        inside = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = np.repeat(self._cuts[chosen], sizes) + inside
        taken = {name: self._arrays[name][rows] for name in names if name in self._arrays}
        return _blocks(taken, known)

    def _check(self, column: int, nodes: NDArray[np.int64]) -> None:
        """Verify the checksums of a column for every contiguous run of nodes that is read."""
        begin = self._begin + 8 * int(self._cuts[-1]) * column
        for run in np.split(nodes, np.flatnonzero(np.diff(nodes) != 1) + 1):
            if len(run):
                first, after = self._cuts[run[0]], self._cuts[run[-1] + 1]
                self._pages.check(begin + 8 * int(first), begin + 8 * int(after))
