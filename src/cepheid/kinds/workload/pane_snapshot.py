"""Serialize the panes of a group without what no later window reads.

A state is written with every micro-batch, and panes are most of it. Of the products up to the end
of the block before, those are left that the next boundaries read (``kernels/shared_panes.py``); the
product of an open block of one pane is that pane; and wide numbers without a power of two are
written as doubles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cepheid.kinds.trend.windows.snapshot import PackedArray, pack, unpack
from cepheid.kinds.workload.shared_run import SharedRun


def pack_panes(run: SharedRun) -> tuple[PackedArray, ...]:
    """Serialize the block of a group with sliding windows."""
    written = []
    for array, mask in zip(run.block, _masks(run), strict=True):
        some = array if mask is None else array[mask]
        plain = some.dtype.kind == "c" and not some.imag.any()
        written.append(pack(some.real if plain else some))
    return tuple(written)


def restore_panes(run: SharedRun, packed: tuple[PackedArray, ...]) -> None:
    """Restore a block that ``pack_panes`` wrote; the keys and ends of panes are restored before."""
    found = [unpack(array) for array in packed]
    run.grow_panes(run.keys)
    flags = [n for n, mask in enumerate(_masks(run)) if mask is None]
    for n in flags:
        run.block[n][:] = found[n]
    masks = _masks(run)
    for n, (array, mask) in enumerate(zip(run.block, masks, strict=True)):
        if mask is not None:
            array[mask] = found[n]
    panes, least, has, product, product_least, begun = run.block[:6]
    one = np.flatnonzero(begun & ~masks[3])
    first = has[one].argmax(axis=1)
    product[one], product_least[one] = panes[one, first], least[one, first]


def _masks(run: SharedRun) -> tuple[Any, ...]:
    """Mark what is written of every array of a block; None of the flags, which are written whole.

    These are panes, products of open blocks, and products up to the ends of blocks.
    """
    has, begun, tail, sealed = (run.block[n] for n in (2, 5, 8, 9))
    count = has.shape[1]
    product = begun & (has.sum(axis=1) != 1)
    # The next boundary that each key passes; at the end of a block, all products are replaced.
    offset = (run.limit // run.window.pane + sealed) % count
    ends = tail & (np.arange(count) >= np.where(offset == 0, count, offset)[:, np.newaxis])
    return has, has, None, product, product, None, ends, ends, None, None
