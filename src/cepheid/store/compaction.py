"""Compact segments: merge those that overlap in time, and concatenate small ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pyarrow as pa

from cepheid.store.manifest import Manifest, Segment
from cepheid.store.segments import SEGMENT_ROWS, Place, write_segments
from cepheid.store.snapshot import Interval, Snapshot
from cepheid.store.times import read_ticks

Changes = list[tuple[list[Segment], list[Segment]]]
"""Segments to remove, and their replacements."""


def clusters_of(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Group segments that overlap in time, sorted by time; each group in order of arrival."""
    places = {id(segment): n for n, segment in enumerate(segments)}
    clusters: list[list[Segment]] = []
    last = None
    for segment in sorted(segments, key=lambda s: (s.first, places[id(s)])):
        if last is not None and segment.first <= last:
            clusters[-1].append(segment)
            last = max(last, segment.last)
        else:
            clusters.append([segment])
            last = segment.last
    return [sorted(cluster, key=lambda s: places[id(s)]) for cluster in clusters]


def groups_to_merge(segments: Sequence[Segment], floor: int | None) -> list[list[Segment]]:
    """Choose the groups of segments that are rewritten, each as one."""
    groups: list[list[Segment]] = []
    rows = 0
    for cluster in clusters_of(segments):
        size = sum(segment.rows for segment in cluster)
        if groups and rows + size <= SEGMENT_ROWS:
            groups[-1] += cluster
            rows += size
        else:
            groups.append(list(cluster))
            rows = size
    return [
        group
        for group in groups
        if (len(group) > 1 and not _is_fine(group))
        or (floor is not None and any(s.first < floor for s in group))
    ]


def _is_fine(group: list[Segment]) -> bool:
    """Check whether segments are full and do not overlap, so that rewriting gains nothing."""
    apart = all(a.last <= b.first for a, b in pairwise(group))
    return apart and all(segment.rows == SEGMENT_ROWS for segment in group[:-1])


def compact_segments(snapshot: Snapshot, place: Place) -> Changes:
    """Write the merged segments; no manifest refers to the new files yet."""
    manifest = snapshot.manifest
    places = {id(segment): n for n, segment in enumerate(manifest.segments)}
    changes: Changes = []
    for group in groups_to_merge(manifest.segments, manifest.floor):
        old = sorted(group, key=lambda segment: places[id(segment)])
        new: list[Segment] = []
        waiting: list[pa.Table] = []
        rows = 0
        for table in snapshot.scan(Interval(), manifest.schema.names, segments=old):
            waiting.append(table)
            rows += len(table)
            while rows >= SEGMENT_ROWS:
                whole = pa.concat_tables(waiting)
                new += _write(place, whole.slice(0, SEGMENT_ROWS), manifest.time)
                waiting, rows = [whole.slice(SEGMENT_ROWS)], rows - SEGMENT_ROWS
        if rows:
            new += _write(place, pa.concat_tables(waiting), manifest.time)
        changes.append((old, new))
    return changes


def _write(place: Place, table: pa.Table, time: str) -> list[Segment]:
    return write_segments(place, table, read_ticks(table, time))


def fits(manifest: Manifest, changes: Changes) -> bool:
    """Check whether a version still has the segments that were merged, with the same indexes."""
    return all(segment in manifest.segments for old, _ in changes for segment in old)


def replaced(manifest: Manifest, changes: Changes) -> Manifest:
    """Replace segments in a manifest; those appended meanwhile stay behind the new ones."""
    gone = {segment.data.name for old, _ in changes for segment in old}
    left = [segment for segment in manifest.segments if segment.data.name not in gone]
    new = [segment for _, written in changes for segment in written]
    return msgspec.structs.replace(manifest, segments=(*new, *left))
