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
from cepheid.kernels.columns import scan_times

SHARE_MAX = 0.5
"""If a larger share of the first events is relevant, the others are not looked at."""


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
    is_first = True
    for table in tables:
        if keeps is None or not len(table):
            yield Read(table, len(table))
            continue
        columns = Columns(table)
        times = read_times(columns, time)
        if scan_times(times)[0] >= 0 or (last is not None and times[0] < last):
            raise UnorderedError
        last = int(times[-1])
        rows = np.flatnonzero(keeps(columns))
        if is_first and len(rows) > SHARE_MAX * len(table):
            keeps = None
        is_first = False
        left = table if keeps is None or len(rows) == len(table) else table.take(rows)
        yield Read(left, len(table))
