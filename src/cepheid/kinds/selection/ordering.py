"""The whole answer in, its rows in the order of ORDER BY out, as many as LIMIT says (§10.10)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.kinds.selection.groups import Codes, canonical_array
from cepheid.plans.selection import Selection, SelectOrder


def order_rows(select: Selection, table: pa.Table) -> pa.Table:
    """Sort rows, stably, take the first ones, and drop the columns that were only sorted by."""
    if select.order:
        keys = [_ranks(table[order.name], order) for order in select.order]
        rows = np.lexsort(keys[::-1])
        table = table.take(rows if select.limit is None else rows[: select.limit])
        hidden = [order.name for order in select.order if order.hidden]
        table = table.drop_columns(hidden) if hidden else table
    return table if select.limit is None else table.slice(0, select.limit)


def _ranks(column: Any, order: SelectOrder) -> Codes:
    """Rank the values of a column in an order; NaN is the largest."""
    encoded = canonical_array(column).dictionary_encode()
    values: Any = encoded.dictionary
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    rank = np.zeros(len(values) + 1, np.int64)
    if not pa.types.is_null(values.type):
        rank[np.asarray(pc.array_sort_indices(values))] = np.arange(1, len(values) + 1)
    codes: Any = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
    found: Codes = -rank[codes] if order.descending else rank[codes]
    missing = np.asarray(encoded.indices.is_null())
    found[missing] = -(len(rank) + 1) if order.nulls_first else len(rank) + 1
    return found
