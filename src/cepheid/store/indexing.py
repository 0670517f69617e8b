"""A segment and an attribute in, a secondary index for what is stored already out."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec
from pyarrow import parquet

from cepheid.store.manifest import Manifest, Segment, StoredFile
from cepheid.store.segments import Place, write_indexes
from cepheid.store.snapshot import Snapshot
from cepheid.store.times import read_ticks


def index_segment(
    snapshot: Snapshot, place: Place, segment: Segment, attribute: str
) -> dict[str, StoredFile]:
    """Write the index of a segment; return its file under the name of the segment's blocks."""
    path = snapshot.path(segment.data, data=True)
    if attribute not in parquet.read_schema(path).names:
        return {}
    manifest = snapshot.manifest
    groups = sorted({int(group) for group in snapshot.blocks(segment).group})
    table = snapshot.read_groups(segment, groups, list({attribute, manifest.time}))
    times = read_ticks(table, manifest.time)
    stem = PurePosixPath(segment.blocks.name).stem
    written = write_indexes(place, stem, table, times, [attribute])
    return {segment.blocks.name: written[attribute]}


def with_index(manifest: Manifest, attribute: str, built: dict[str, StoredFile]) -> Manifest:
    """Return a manifest whose segments have an index more."""
    segments = []
    for segment in manifest.segments:
        file = built.get(segment.blocks.name)
        indexes = segment.indexes if file is None else {**segment.indexes, attribute: file}
        segments.append(msgspec.structs.replace(segment, indexes=indexes))
    indexed = (*manifest.indexed, attribute)
    return msgspec.structs.replace(manifest, segments=tuple(segments), indexed=indexed)
