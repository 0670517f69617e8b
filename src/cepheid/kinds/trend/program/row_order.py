"""The order of result rows: by window, group and key; a counting sort where cells are dense."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.segments import order_by_code, scatter_rows
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.plans.plan import WindowKind, WindowPlan

ROWS_MIN = 1 << 14
"""Fewer rows are sorted by comparisons, which need no kernel."""

CELLS_PER_ROW = 4
"""So many pairs of a window and a group may be there for each row, at most."""


def order_of(rows: Rows, group: NDArray[np.int64], window: WindowPlan) -> NDArray[np.int64]:
    """Order rows by window, group and key; both sorts are stable."""
    found = _by_cell(rows, group, window) if len(rows.key) >= ROWS_MIN else None
    return np.lexsort((rows.key, group, rows.window)) if found is None else found


def _by_cell(rows: Rows, group: NDArray[np.int64], window: WindowPlan) -> NDArray[np.int64] | None:
    """Order rows whose cells are few and distinct; None if they are not."""
    first, groups = int(rows.window.min()), int(group.max()) + 1
    # Windows that do not overlap are named by their starts, sliding ones by numbers.
    width = window.within if window.kind is WindowKind.TUMBLING else 1
    windows = (int(rows.window.max()) - first) // width + 1
    if windows * groups > CELLS_PER_ROW * len(group):
        return None
    cell = (rows.window - first) // width * groups + group
    ends, place = np.zeros(windows * groups + 1, np.int64), np.empty(len(cell), np.int64)
    order_by_code(cell, ends, place)
    if (np.diff(ends) > 1).any():
        return None  # Partitions of one group are added in the order of keys.
    order = np.empty(len(cell), np.int64)
    scatter_rows(place, order)
    return order
