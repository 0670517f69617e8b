"""Stores whose segments, row groups and blocks are tiny, so that few events fill many of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from cepheid.store import block_tree, blocks, compaction, merging, partitions, segments, snapshot


@contextmanager
def small_parts(*, segment: int = 8, group: int = 4, block: int = 2) -> Iterator[None]:
    """Make segments, row groups and blocks of so many events."""
    with (
        patch.object(segments, "SEGMENT_ROWS", segment),
        patch.object(compaction, "SEGMENT_ROWS", segment),
        patch.object(segments, "GROUP_ROWS", group),
        patch.object(blocks, "BLOCK_ROWS", block),
        patch.object(blocks, "ALIGNED_ROWS_MIN", 1),
        patch.object(block_tree, "NODE_BLOCKS", 3),
        patch.object(partitions, "CANDIDATES_SHARE_MAX", 1.0),
        patch.object(partitions, "GROUPS_SHARE_MAX", 1.0),
        patch.object(merging, "STEP_ROWS", 5),
        patch.object(snapshot, "RUN_GROUPS", 2),
    ):
        yield
