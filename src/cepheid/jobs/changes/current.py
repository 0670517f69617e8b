"""A finished changelog in, the events of the current table out (§18.5)."""

from __future__ import annotations

import warnings

import pyarrow as pa

from cepheid.jobs.changes.asked import Changes
from cepheid.jobs.changes.ledger import Counts, Ledger


def current_table(table: pa.Table, changes: Changes, time: str) -> pa.Table:
    """Return the events that are there after all changes, in the order of their last changes.

    Raises
    ------
    DataError
        E505 if a column is missing, E583 if a change is bad, E506 and E517 for times.
    """
    settled = Ledger(changes, time, strict=True).settle(table)
    tell_odd(settled.counts, len(table))
    return table.select(changes.attributes(table.column_names)).take(settled.rows)


def tell_odd(counts: Counts, changes: int) -> None:
    """Warn of changes that do not fit the table (§18.4)."""
    if counts.odd:
        message = f"{counts.odd:,} of {changes:,} changes do not fit the table: they insert an "
        message += "event that is there, update or delete one that is not"
        warnings.warn(message, stacklevel=7)
