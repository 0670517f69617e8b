"""Leave irrelevant events out where they are read: tables of events in, shorter ones out.

The thread that reads ahead does it, and all that comes after is spared events of types that the
query does not name. Their times are checked and noticed as those of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.jobs.local_jobs import slices_of
from cepheid.kernels.columns import scan_times

SHARE_MAX = 0.5
"""If a larger share of the first events is relevant, the others are not looked at."""

FIRST_ROWS = 1 << 14
"""Events of the first look, which tells whether there are others."""

PIECE_ROWS = 1 << 18
"""Events that are looked at together."""


class UnorderedError(Exception):
    """Events are not in order, so that whoever sorts them or says so must see all of them."""


class Read(NamedTuple):
    """Events that are left of those that were read, and the number of these."""

    table: pa.Table
    rows: int


def sifted(
    tables: Iterable[pa.Table], time: str, keeps: Callable[[Columns], NDArray[np.bool_]] | None
) -> Iterator[Read]:
    """Keep the relevant events of tables.

    Raises
    ------
    UnorderedError
        If an event is earlier than the one before it, and some were left out.
    """
    last: int | None = None
    for read in tables:
        if keeps is None:
            yield Read(read, len(read))
            continue
        if last is None and _is_relevant(read.slice(0, FIRST_ROWS), keeps):
            # Whole tables need not be put together again.
            keeps = None
            yield Read(read, len(read))
            continue
        # Small pieces, whose masks stay in the caches and take no new memory of the system.
        for table in slices_of(read, PIECE_ROWS):
            columns = Columns(table)
            times = read_times(columns, time)
            if not len(times):
                yield Read(table, 0)
                continue
            if scan_times(times)[0] >= 0 or (last is not None and times[0] < last):
                raise UnorderedError
            rows = np.flatnonzero(keeps(columns))
            last = int(times[-1])
            yield Read(table if len(rows) == len(table) else table.take(rows), len(table))


def _is_relevant(table: pa.Table, keeps: Callable[[Columns], NDArray[np.bool_]]) -> bool:
    """Check whether so many of some events are relevant that the others need no look."""
    return bool(np.count_nonzero(keeps(Columns(table))) > SHARE_MAX * len(table))
