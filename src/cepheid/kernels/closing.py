"""The fast path where matches move between configurations: links that close, and negation.

An event replaces a few numbers by sums of others, all at once: v[row] = v[source] + v[source] ...
The slots are those of ``counting.py``, and one more that takes what nobody reads.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.counting import shrink
from cepheid.kernels.linear import NARROW, OK
from cepheid.kernels.ring import LIMIT, widen
from cepheid.kernels.tiers import kernel


@kernel()
def count_closing(
    S, exponent, opened, row, source, begins, counts, ts, key, codes, begin, width, out_key,
    out_start, R,
):  # fmt: skip
    """Count matches in windows that do not overlap; O(rows x sources) per event.

    Parameters
    ----------
    row, source
        code -> slots that change, padded with the last slot; and for each the slots that it adds
        up, padded with a slot that is always zero.
    begins
        code -> whether a match may begin in a row.
    """
    rows, n, size = 0, codes.shape[0], S.shape[1] - 3
    changed, wide = source.shape[1], source.shape[2]
    sums = np.zeros(changed)
    for i in range(begin, n):
        c, k = codes[i], key[i]
        if width > 0 and ts[i] >= opened[k] + width:
            total = 0.0
            for q in range(size):
                if counts[q]:
                    total += S[k, q]
                S[k, q] = 0.0
            if total != 0.0:
                R[rows, 0] = widen(total, float(exponent[k]))
                out_key[rows] = k
                out_start[rows] = opened[k]
                rows += 1
            S[k, size] = 1.0
            exponent[k] = 0
            opened[k] = ts[i] // width * width
        largest = 0.0
        for r in range(changed):
            total = 0.0
            for s in range(wide):
                total += S[k, source[c, r, s]]
            if total == 0.0 and begins[c, r] and S[k, size] == 0.0:
                return NARROW, i, rows
            sums[r] = total
            largest = max(largest, total)
        for r in range(changed):
            S[k, row[c, r]] = sums[r]
        S[k, size + 2] = 0.0
        if largest > LIMIT and not shrink(S, exponent, k, size):
            return NARROW, i + 1, rows
    return OK, n, rows
