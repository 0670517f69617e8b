"""Build secondary indexes for segments that are stored already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import msgspec
import pyarrow as pa

from cepheid.store.manifest import Manifest, Segment, StoredFile
from cepheid.store.secondary import parts_of
from cepheid.store.segments import Place, write_indexes
from cepheid.store.snapshot import Snapshot
from cepheid.store.times import read_ticks


def index_segment(
    snapshot: Snapshot, place: Place, segment: Segment, attribute: str
) -> dict[str, StoredFile]:
    """Write the index of a segment; return its file, keyed by the name of the segment's blocks."""
    parts = parts_of(attribute)
    if not set(parts) <= set(snapshot.columns_in(segment)):
        return {}
    manifest = snapshot.manifest
    groups = sorted({int(group) for group in snapshot.blocks(segment).group})
    table = snapshot.read_groups(segment, groups, list({*parts, manifest.time}))
    times = read_ticks(table, manifest.time)
    # Another writer may build the same index, or have left it behind in a crash.
    stem = f"{PurePosixPath(segment.blocks.name).stem}-{place.unique()}"
    written = write_indexes(place, stem, table, times, [attribute])
    return {segment.blocks.name: written[attribute]}


def with_index(manifest: Manifest, attribute: str, built: dict[str, StoredFile]) -> Manifest:
    """Add an index to the segments of a manifest."""
    segments = []
    for segment in manifest.segments:
        file = built.get(segment.blocks.name)
        indexes = segment.indexes if file is None else {**segment.indexes, attribute: file}
        segments.append(msgspec.structs.replace(segment, indexes=indexes))
    indexed = (*manifest.indexed, attribute)
    return msgspec.structs.replace(manifest, segments=tuple(segments), indexed=indexed)


class Terms(NamedTuple):
    """The terms for writers of segments: the schema, the retention floor, and the indexes."""

    schema: pa.Schema | None
    floor: int | None
    indexed: tuple[str, ...]


def marked(segments: Sequence[Segment], manifest: Manifest) -> list[Segment]:
    """Mark late ones among new segments as side segments."""
    newest = max((segment.last for segment in manifest.segments), default=None)
    return [
        msgspec.structs.replace(segment, side=newest is not None and segment.first < newest)
        for segment in segments
    ]


def with_all_indexes(snapshot: Snapshot, place: Place, had: Sequence[str]) -> Manifest:
    """Add indexes that were created while the segments of a manifest were written."""
    manifest = snapshot.manifest
    for attribute in manifest.indexed:
        if attribute in had:
            continue
        built: dict[str, StoredFile] = {}
        for segment in manifest.segments:
            if attribute not in segment.indexes:
                built |= index_segment(snapshot, place, segment, attribute)
        without = tuple(name for name in manifest.indexed if name != attribute)
        manifest = with_index(msgspec.structs.replace(manifest, indexed=without), attribute, built)
    return manifest
