"""The arrays of sliding windows for every key: matrices of panes, prefixes and suffixes.

``kernels/panes.py`` describes them; a block is the tuple of arrays that its kernels take.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.errors import DataError, Diagnostic
from cepheid.memory_limits import current

BLOCK_LIMITS = 4
"""The memory that panes of sliding windows may take, as a multiple of the state limit."""

Block = tuple[NDArray[Any], ...]


def new_block(
    keys: int, panes: int, sizes: tuple[int, int, int, int], wide: np.dtype[Any]
) -> Block:
    """Allocate the block of some keys.

    Parameters
    ----------
    sizes
        The number of configurations, parts, extremes and lanes.
    wide
        The type of numbers: wide, or residues.

    Raises
    ------
    DataError
        E511 if it would take too much memory.
    """
    size, parts, mins, lanes = sizes
    # Matrices of panes, and their suffix vectors; a wide number takes 16 bytes.
    needed = keys * panes * size * (16 * parts + 8 * mins) * (lanes + 1)
    if needed > BLOCK_LIMITS * current().state:
        message = (
            f"{panes:,} panes per window and {keys:,} keys need about {needed / 2**30:.0f} GiB"
        )
        helps = (
            "use a longer SLIDE, fewer keys, or a shorter WITHIN",
            "`with cepheid.limits(state=...)` raises the limit to 4 times as many bytes",
        )
        raise DataError([Diagnostic("E511", message, helps=helps)])
    shapes: list[tuple[tuple[int, ...], Any]] = [
        ((keys, panes, size, parts, lanes), wide),
        ((keys, panes, size, mins, lanes), np.int64),
        ((keys, panes, lanes), np.int32),
        ((keys, panes), np.bool_),
        ((keys, size, parts, lanes), wide),
        ((keys, size, mins, lanes), np.int64),
        ((keys, lanes), np.int32),
        ((keys,), np.bool_),
        ((keys, panes, size, parts, 1), wide),
        ((keys, panes, size, mins, 1), np.int64),
        ((keys, panes, 1), np.int32),
        ((keys, panes), np.bool_),
    ]
    return tuple(np.zeros(shape, dtype) for shape, dtype in shapes)


def copy_block(before: Block, block: Block, keys: int, size: int, lanes: list[int]) -> None:
    """Copy the first keys and configurations of a block to a larger one, which has more lanes."""
    for number, (new, array) in enumerate(zip(block, before, strict=True)):
        view = new[:keys]
        if number in (0, 1, 4, 5):
            view = view[..., :size, :, :]
            view[..., lanes] = array
        elif number in (2, 6):
            view[..., lanes] = array
        elif number in (8, 9):
            view[..., :size, :, :] = array
        else:
            view[...] = array
