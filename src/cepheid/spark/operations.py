"""The operations of a changelog as columns of Spark (§18.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from cepheid.jobs.changes.asked import Changes
from cepheid.jobs.changes.ops import SPELLINGS, TEXTS
from cepheid.spark.records import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column


def operation(changes: Changes) -> Column:
    """Return the number of every operation, NULL for any other text."""
    text = sf.col(quoted(changes.op)).cast("string")
    by_number: dict[int, list[str]] = {}
    for spelling, number in TEXTS.items():
        by_number.setdefault(number, []).append(spelling)
    # Most are in small letters already, and making letters small is slow.
    return sf.coalesce(
        *(sf.when(text.isin(*own), sf.lit(n)) for n, own in by_number.items()),
        *(sf.when(sf.lower(text).isin(*own), sf.lit(n)) for n, own in by_number.items()),
    )


def wrong_operation(changes: Changes) -> Column:
    """Say what is wrong with the operation of a change."""
    op = sf.coalesce(sf.col(quoted(changes.op)).cast("string"), sf.lit("NULL"))
    why = f"` is none of {SPELLINGS}"
    if not changes.id:
        why += ", or an update without an id, which does not say what it replaces"
    return sf.concat(sf.lit("the operation `"), sf.substring(op, 1, 60), sf.lit(why))
