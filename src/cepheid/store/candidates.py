"""Find the events that may satisfy thresholds, from secondary indexes or from block statistics.

A secondary index yields the exact events; the blocks yield ranges of time that may hold some. Both
are ranges [low, high], each of a single time in the first case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.patterns.thresholds import Threshold
from cepheid.store.blocks import Blocks, Summary, is_summarised, is_summed, text_key
from cepheid.store.manifest import Segment
from cepheid.store.secondary import JOINT, Hits, parts_of
from cepheid.store.snapshot import Snapshot
from cepheid.store.times import Times

SAMPLED_NODES = 4
"""Nodes of a segment that are sampled to decide whether all its blocks are read,"""

SAMPLED_SHARE_MAX = 0.9
"""which they are if at most this share of the sampled blocks may hold a candidate."""

INT64_MAX = np.iinfo(np.int64).max


class Axis(StrEnum):
    """The way to locate an event: by its time, or by its position in the stream."""

    TIME = "time"
    ROWS = "rows"


class Stretches(NamedTuple):
    """Ranges of times or positions at which events may be, sorted by their ends."""

    low: Times
    high: Times


class LookUp(NamedTuple):
    """An operator and the constants of a look-up, encoded for the index; several only for ``=``."""

    attribute: str
    operator: str
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return str(Threshold(*self))


def look_up_of(threshold: Threshold, schema: pa.Schema) -> LookUp | None:
    """Encode a threshold as a look-up, or return None if no index can answer it."""
    name = threshold.attribute
    if name not in schema.names:
        return None
    kind = schema.field(name).type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        fits = all(isinstance(value, str) for value in threshold.values)
        return LookUp(name, threshold.operator, threshold.values) if fits else None
    if not is_summed(kind) or any(isinstance(value, str) for value in threshold.values):
        return None
    if pa.types.is_floating(kind):
        doubles = tuple(float(value) for value in threshold.values)
        exact = all(d == v for d, v in zip(doubles, threshold.values, strict=True))
        return LookUp(name, threshold.operator, doubles) if exact else None
    if not pa.types.is_integer(kind):
        return None
    return _whole(threshold)


def _whole(threshold: Threshold) -> LookUp | None:
    """Rewrite a comparison for integers: ``x > 2.5`` becomes ``x >= 3``."""
    name, operator, values = threshold
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return None
    if any(abs(value) > INT64_MAX for value in values if not isinstance(value, str)):
        return None
    whole = tuple(int(v) for v in values if not isinstance(v, str) and v == int(v))
    if operator == "=":
        return LookUp(name, operator, whole)
    if len(whole) == 1:
        return LookUp(name, operator, whole)
    value = float(values[0])
    bounds: dict[str, tuple[str, int]] = {
        "<": ("<=", math.floor(value)),
        "<=": ("<=", math.floor(value)),
        ">": (">=", math.ceil(value)),
        ">=": (">=", math.ceil(value)),
    }
    if operator not in bounds:
        return None  # Everything but NULL differs from 2.5.
    return LookUp(name, bounds[operator][0], (bounds[operator][1],))


def possible(blocks: Blocks, look_up: LookUp) -> NDArray[np.bool_]:
    """Find the blocks in which the comparison may hold; NaN is larger than every number."""
    summary = blocks.attributes.get(look_up.attribute)
    if summary is None:
        return np.ones(len(blocks.rows), np.bool_)
    least, largest = summary.least, summary.largest
    if isinstance(look_up.values[0] if look_up.values else 0, str):
        return _possible_text(summary, look_up)
    if largest.dtype == np.float64:
        # Where there is a NaN, values go up beyond all numbers.
        largest = np.where(np.isnan(largest), np.inf, largest)
        least = np.where(np.isnan(least), np.inf, least)
    found = np.zeros(len(least), np.bool_)
    for value in look_up.values:
        found |= {
            "=": (least <= value) & (value <= largest),
            "<": least < value,
            "<=": least <= value,
            ">": _above(summary.largest, largest, value),
            ">=": largest >= value,
            "<>": np.ones(len(least), np.bool_),
        }[look_up.operator]
    return found & (summary.known > 0)


def _possible_text(summary: Summary, look_up: LookUp) -> NDArray[np.bool_]:
    """Find the blocks in which a text comparison may hold, judging by prefixes alone."""
    found = np.zeros(len(summary.known), np.bool_)
    for text in look_up.values:
        key = text_key(text)
        low, high = summary.least <= key, key <= summary.largest
        found |= {"=": low & high, "<": low, "<=": low, ">": high, ">=": high}.get(
            look_up.operator, np.ones(len(found), np.bool_)
        )
    return found & (summary.known > 0)


def _above(raw: NDArray[Any], largest: NDArray[Any], value: Any) -> NDArray[np.bool_]:
    above: NDArray[np.bool_] = largest > value
    return above | np.isnan(raw) if raw.dtype == np.float64 else above


def joined_look_up(name: str, look_ups: Sequence[LookUp]) -> LookUp | None:
    """Build the look-up in a composite index if every attribute has an equality value."""
    values: list[tuple[Any, ...]] = []
    for attribute in parts_of(name):
        own = [part for part in look_ups if part.attribute == attribute and part.operator == "="]
        if not own:
            return None
        values.append(own[0].values)
    return LookUp(name, "=", tuple(JOINT.join(map(str, v)) for v in product(*values)))


class Found(NamedTuple):
    """The expected number of candidates, and of secondary-index entries to read for them."""

    candidates: int
    entries: int


class Option(NamedTuple):
    """The matching ranges of an index, and the number of entries in them."""

    entries: int
    attribute: str
    ranges: list[tuple[int, int]]


class SymbolSource:
    """The source of a variable's candidate events in a store."""

    def __init__(self, snapshot: Snapshot, thresholds: Sequence[Threshold]) -> None:
        self._snapshot = snapshot
        self._found: dict[str, tuple[Blocks, NDArray[np.bool_]]] = {}
        self._ways: dict[str, list[Option]] = {}
        self._hits: dict[tuple[str, int], Hits] = {}
        manifest = snapshot.manifest
        found = [look_up_of(t, manifest.schema) for t in thresholds]
        self.look_ups = [look_up for look_up in found if look_up is not None]
        joined = [joined_look_up(name, self.look_ups) for name in manifest.indexed if JOINT in name]
        self._indexed = {part.attribute: [part] for part in joined if part is not None}
        covered = {name for attribute in self._indexed for name in parts_of(attribute)}
        for part in self.look_ups:
            if part.attribute in manifest.indexed and part.attribute not in covered:
                self._indexed.setdefault(part.attribute, []).append(part)
        kinds = [manifest.schema.field(part.attribute).type for part in self.look_ups]
        known = map(is_summarised, kinds)
        self._light = [part for part, yes in zip(self.look_ups, known, strict=True) if yes]

    @property
    def usable(self) -> bool:
        """Check whether any index can narrow the candidates."""
        return bool(self._indexed or self._light)

    @property
    def light(self) -> bool:
        """Check whether block statistics narrow the candidates, which costs no I/O."""
        return bool(self._light)

    @property
    def depth(self) -> int:
        """Count the secondary indexes that can be read."""
        return len(self._indexed)

    def count(self, depth: int) -> Found:
        """Estimate the number of candidates (events or blocks), and the entries to be read.

        The ``depth`` most selective indexes are read and their results intersected; with depth 0,
        only the block statistics are used.
        """
        parts = [self._count(segment, depth) for segment in self._snapshot.manifest.segments]
        return Found(sum(p.candidates for p in parts), sum(p.entries for p in parts))

    def counts(self) -> list[Found]:
        """Estimate the candidates with the blocks alone, with one index, with two, and so on."""
        return [self.count(depth) for depth in range(self.depth + 1)]

    def _count(self, segment: Segment, depth: int) -> Found:
        if not depth:
            return Found(int(self._possible(segment)[1].sum()), 0)
        options = self._options(segment)[:depth]
        # Attributes are assumed to be independent.
        expected = float(segment.rows)
        for option in options:
            expected *= option.entries / max(segment.rows, 1)
        return Found(math.ceil(expected), sum(option.entries for option in options))

    def find(self, depth: int, axis: Axis = Axis.TIME) -> Stretches:
        """Find the times, or the positions in the stream, of all candidate events."""
        low: list[Times] = [np.zeros(0, np.int64)]
        high: list[Times] = [np.zeros(0, np.int64)]
        offset = 0
        for segment in self._snapshot.manifest.segments:
            if depth:
                hits = self._find(segment, depth)
                at = hits.times if axis is Axis.TIME else hits.rows + offset
                ends = at, at
            else:
                blocks, wanted = self._possible(segment)
                ends = blocks.first[wanted], blocks.last[wanted]
                if axis is Axis.ROWS:
                    begins = blocks.begins[wanted] + offset
                    ends = begins, begins + blocks.rows[wanted] - 1
            low.append(ends[0])
            high.append(ends[1])
            offset += segment.rows
        return sorted_stretches(np.concatenate(low), np.concatenate(high))

    def _possible(self, segment: Segment) -> tuple[Blocks, NDArray[np.bool_]]:
        """Read blocks, with a mask of those that may hold a candidate.

        Only blocks of nodes that may hold a candidate are read. If a sample of them shows that
        nearly all of their blocks qualify, the nodes themselves stand for the blocks.
        """
        key = segment.blocks.name
        if key not in self._found:
            upper = self._snapshot.tree(segment).nodes
            held = self._may_hold(upper)
            nodes = np.flatnonzero(held)
            attributes = {look_up.attribute for look_up in self._light}
            sample = nodes[:: max(1, len(nodes) // SAMPLED_NODES)]
            blocks = self._snapshot.blocks(segment, sample, attributes)
            if len(sample) < len(nodes) and self._may_hold(blocks).mean() > SAMPLED_SHARE_MAX:
                self._found[key] = upper, held
            else:
                blocks = self._snapshot.blocks(segment, nodes, attributes)
                self._found[key] = blocks, self._may_hold(blocks)
        return self._found[key]

    def _may_hold(self, blocks: Blocks) -> NDArray[np.bool_]:
        wanted = np.ones(len(blocks.rows), np.bool_)
        for look_up in self._light:
            wanted &= possible(blocks, look_up)
        return wanted

    def _ranges(self, segment: Segment, attribute: str) -> list[tuple[int, int]]:
        """Find the entries of an index that satisfy all conditions on its attribute."""
        index = self._snapshot.secondary(segment, attribute)
        if index is None:
            return []  # The segment lacks the column: all values are NULL.
        kept = [(0, len(index))]
        for look_up in self._indexed[attribute]:
            values = set(look_up.values)
            found = sorted(part for v in values for part in index.find(look_up.operator, v))
            kept = [
                (max(begin, low), min(end, high))
                for begin, end in kept
                for low, high in found
                if max(begin, low) < min(end, high)
            ]
        return kept

    def _options(self, segment: Segment) -> list[Option]:
        """Find the ranges in all indexes, the most selective first; the result is cached."""
        key = segment.blocks.name
        if key not in self._ways:
            options = []
            for attribute in self._indexed:
                ranges = self._ranges(segment, attribute)
                options.append(Option(sum(e - b for b, e in ranges), attribute, ranges))
            self._ways[key] = sorted(options, key=lambda option: option.entries)
        return self._ways[key]

    def _find(self, segment: Segment, depth: int) -> Hits:
        """Intersect the candidates of indexes and blocks; the result is cached."""
        key = segment.blocks.name, depth
        if key not in self._hits:
            self._hits[key] = self._look_up(segment, depth)
        return self._hits[key]

    def _look_up(self, segment: Segment, depth: int) -> Hits:
        found: Hits | None = None
        for _, attribute, ranges in self._options(segment)[:depth]:
            hits = self._snapshot.look_up(segment, attribute, ranges)
            if found is not None:
                kept = np.isin(found.rows, hits.rows, assume_unique=True)
                hits = Hits(found.rows[kept], found.times[kept])
            found = hits
        if found is None:
            return Hits(np.zeros(0, np.int64), np.zeros(0, np.int64))
        if not self._light:
            return found
        blocks, wanted = self._possible(segment)
        begins, ends = blocks.begins[wanted], (blocks.begins + blocks.rows)[wanted]
        place = np.searchsorted(begins, found.rows, side="right") - 1
        allowed = place >= 0
        allowed[allowed] = found.rows[allowed] < ends[place[allowed]]
        return Hits(found.rows[allowed], found.times[allowed])


def sorted_stretches(low: Times, high: Times) -> Stretches:
    """Sort ranges by their ends."""
    if not ((high[1:] < high[:-1]).any() or (low[1:] < low[:-1]).any()):
        return Stretches(low, high)
    order = np.lexsort((low, high))
    return Stretches(low[order], high[order])


def united(parts: Sequence[Stretches]) -> Stretches:
    """Merge the ranges of several variables."""
    none = np.zeros(0, np.int64)
    low = np.concatenate([none, *(part.low for part in parts)])
    return sorted_stretches(low, np.concatenate([none, *(part.high for part in parts)]))
