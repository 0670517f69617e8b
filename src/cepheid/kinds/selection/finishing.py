"""Aggregated rows in, rows that HAVING keeps out, with the columns that are computed from them."""

from __future__ import annotations

import pyarrow as pa

from cepheid.arrays.columns import Columns
from cepheid.errors import Span
from cepheid.kinds.selection.items import WINDOW_COLUMNS
from cepheid.kinds.selection.rows import holds, lookup_in, project
from cepheid.plans.selection import Extent, SelectColumn, Selection, conjuncts_of, row_column


def finish_rows(select: Selection, table: pa.Table) -> pa.Table:
    """Filter rows by HAVING, and compute the columns of the result."""
    if select.having is not None:
        mask = holds(list(conjuncts_of(select.having)), lookup_in(Columns(table)), len(table))
        assert mask is not None, "there is a condition"
        table = table if mask.all() else table.filter(pa.array(mask))
    if select.results is None:
        return table
    columns = Columns(table)
    return project(
        result_columns(select),
        lambda attribute: columns.arrow(attribute.attribute.text),
        lookup_in(columns),
        len(table),
    )


def result_columns(select: Selection) -> list[SelectColumn]:
    """List the columns of the result: keys, edges of windows, and those of SELECT."""
    names = [key.name for key in select.keys]
    names += WINDOW_COLUMNS if select.window.extent is not Extent.NONE else ()
    return [*(SelectColumn(n, row_column(n, Span(0, 0))) for n in names), *(select.results or ())]
