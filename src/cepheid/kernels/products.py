"""Multiply consecutive small matrices of wide numbers, the first one first."""

from __future__ import annotations

import numpy as np

from cepheid.kernels.ring import add, mul
from cepheid.kernels.tiers import kernel


@kernel()
def chain(matrices):
    """Multiply matrices (matrix, row, part, column) that hold only counts."""
    size = matrices.shape[1]
    total = matrices[0].copy()
    after = np.zeros_like(total)
    p = np.uint64(0)
    for i in range(1, matrices.shape[0]):
        for q in range(size):
            for c in range(size):
                x = complex(0.0, 0.0)
                for r in range(size):
                    if matrices[i, q, 0, r].real != 0.0 and total[r, 0, c].real != 0.0:
                        x = add(x, mul(matrices[i, q, 0, r], total[r, 0, c], p), p)
                after[q, 0, c] = x
        total[:, :, :] = after
    return total
