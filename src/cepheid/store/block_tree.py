"""The tree over blocks: what a node of about 64 blocks holds, and the blocks of some nodes.

Upper levels tell which nodes are worth a look, so that a query reads the columns of few blocks even
if there are years of them. Every column of a node has a checksum of its own.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.store.blocks import STATISTICS, Blocks, Summary

NODE_BLOCKS = 64
"""Blocks of a node, at most, unless a row group has more: a node holds whole row groups."""

BASE = ("begins", "rows", "group", "first", "last")


class DamagedBlocksError(Exception):
    """Some blocks are not what was written."""


def node_cuts(blocks: Blocks) -> NDArray[np.int64]:
    """Return the first block of every node, and the number of blocks."""
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
    """Return the level above: every node as if it were a block."""
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
    """Return the statistics of several blocks together; what is unknown in one has no effect."""
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
    """What a file of blocks begins with.

    Attributes
    ----------
    columns
        The names of the columns, and whether each holds doubles; others are whole numbers.
    upper
        The same of the nodes, which may lack a sum that is too large.
    cuts
        The first block of every node, and the number of blocks.
    checksums
        For each column those of its nodes; the last one is that of the columns of the nodes.
    groups
        The number of row groups.
    """

    columns: dict[str, bool]
    upper: dict[str, bool]
    cuts: list[int]
    checksums: list[list[int]]
    groups: int


MAGIC = b"CEPHBLK1"
_PRELUDE = struct.Struct("<8sII")


def pack_blocks(blocks: Blocks) -> pa.Buffer:
    """Return blocks as bytes: a header, the nodes, and column by column the blocks."""
    cuts = node_cuts(blocks)
    columns, upper = _columns(blocks), _columns(nodes_of(blocks, cuts))
    above = b"".join(values.tobytes() for values in upper.values())
    checksums = [_checksums(values, cuts) for values in columns.values()]
    header = msgspec.json.encode(
        Header(
            {name: values.dtype == np.float64 for name, values in columns.items()},
            {name: values.dtype == np.float64 for name, values in upper.items()},
            cuts.tolist(),
            [*checksums, [zlib.crc32(above)]],
            len(np.unique(blocks.group)),
        )
    )
    header = header.ljust(-(-len(header) // 8) * 8)  # Numbers lie where processors like them.
    prelude = _PRELUDE.pack(MAGIC, len(header), zlib.crc32(header))
    data = [values.tobytes() for values in columns.values()]
    return pa.py_buffer(b"".join([prelude, header, above, *data]))


def _read_header(data: memoryview) -> tuple[Header, int]:
    """Return the header of a file, and where the nodes begin."""
    magic, length, checksum = _PRELUDE.unpack_from(data)
    end = _PRELUDE.size + length
    text = bytes(data[_PRELUDE.size : end])
    if magic != MAGIC or zlib.crc32(text) != checksum:
        raise DamagedBlocksError
    return msgspec.json.decode(text, type=Header), end


def _arrays(
    data: memoryview, names: dict[str, bool], begin: int, count: int
) -> dict[str, NDArray[Any]]:
    return {
        name: np.frombuffer(data, np.float64 if double else np.int64, count, begin + 8 * count * n)
        for n, (name, double) in enumerate(names.items())
    }


def _columns(blocks: Blocks) -> dict[str, Any]:
    columns: dict[str, Any] = dict(zip(BASE, blocks[:5], strict=True))
    for name, summary in blocks.attributes.items():
        for statistic, values in zip(STATISTICS, summary, strict=True):
            if values is not None:
                columns[f"{statistic}:{name}"] = values
    return columns


def _checksums(values: NDArray[Any], cuts: NDArray[np.int64]) -> list[int]:
    return [zlib.crc32(values[b:e].tobytes()) for b, e in pairwise(cuts.tolist())]


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
    """The blocks of a segment, read from a mapped file as far as they are needed.

    Attributes
    ----------
    nodes
        The level above the blocks.
    groups
        The number of row groups.
    read_bytes
        What was read so far.
    """

    def __init__(self, source: Any) -> None:
        data = memoryview(source)
        header, begin = _read_header(data)
        count, size = len(header.cuts) - 1, header.cuts[-1]
        end = begin + 8 * count * len(header.upper)
        if len(data) != end + 8 * size * len(header.columns):
            raise DamagedBlocksError
        if zlib.crc32(data[begin:end]) != header.checksums[-1][0]:
            raise DamagedBlocksError
        above = _arrays(data, header.upper, begin, count)
        self.attributes = [n.partition(":")[2] for n in above if n.startswith("known:")]
        self.nodes = _blocks(above, self.attributes)
        self.groups = header.groups
        self._arrays = _arrays(data, header.columns, end, size)
        self._cuts = np.array(header.cuts, np.int64)
        self._checksums = dict(zip(self._arrays, header.checksums[:-1], strict=True))
        self._checked = {name: np.zeros(count, np.bool_) for name in self._arrays}
        self.read_bytes = end

    def blocks(
        self, nodes: NDArray[np.int64] | None = None, attributes: Iterable[str] = ()
    ) -> Blocks:
        """Return the blocks of some nodes, with some attributes; of all nodes without a choice.

        Raises
        ------
        DamagedBlocksError
            If a checksum is wrong.
        """
        known = [name for name in attributes if name in self.attributes]
        names = [*BASE, *(f"{s}:{n}" for n in known for s in STATISTICS)]
        count = len(self.nodes.rows)
        chosen = np.arange(count) if nodes is None else nodes
        for name in names:
            if name in self._arrays:
                self._check(name, chosen)
        if len(chosen) == count:
            return _blocks(self._arrays, known)
        sizes = np.diff(self._cuts)[chosen]
        inside = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = np.repeat(self._cuts[chosen], sizes) + inside
        taken = {name: self._arrays[name][rows] for name in names if name in self._arrays}
        return _blocks(taken, known)

    def _check(self, name: str, nodes: NDArray[np.int64]) -> None:
        values, checked = self._arrays[name], self._checked[name]
        for node in nodes[~checked[nodes]]:
            part = values[self._cuts[node] : self._cuts[node + 1]]
            if zlib.crc32(part.tobytes()) != self._checksums[name][node]:
                raise DamagedBlocksError
            self.read_bytes += part.nbytes
            checked[node] = True
