"""Events that come and stay: the ledger of a changelog in which every change adds an event.

Nothing is replaced or taken away, so no event needs an id: its place and time are enough.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from cepheid.decoding import from_msgpack
from cepheid.events.temporal import LONG_AGO
from cepheid.jobs.changes.ledger import Counts, Numbers, Settled, read_added
from cepheid.jobs.tables import pack_table, unpack_table

_AT = "at"
_NONE = np.zeros(0, np.int64)


class Arrivals:
    """The times of events that are not final; takes the place of a ``Ledger``."""

    def __init__(self, time: str) -> None:
        self.time, self.next, self._until = time, 0, LONG_AGO
        self._at: list[Numbers] = []

    def __len__(self) -> int:
        """Count the events that are not final."""
        return sum(int((times >= self._until).sum()) for times in self._at)

    @property
    def known(self) -> int:
        """Count the times that are kept."""
        return sum(map(len, self._at))

    def write(self, ids: Numbers, notes: Numbers) -> None:
        """Keep no notes: they are for events that leave."""

    def settle(self, table: pa.Table, until: int = LONG_AGO) -> Settled:
        """Let the events of a batch come, but for those without a time, and late ones."""
        rows, self._until = np.arange(len(table)), until
        times, valid = read_added(table, rows, self.time, strict=False)
        late = valid & (times < until)
        latest = int(times[valid].max(initial=LONG_AGO))
        comes = np.flatnonzero(valid & ~late)
        places = self.next + np.arange(len(comes))
        self.next += len(comes)
        self._at.append(times[comes])
        counts = Counts(int((~valid).sum()), 0, int(late.sum()))
        return Settled(_NONE, _NONE, _NONE, comes, places, places, times[comes], counts, latest)

    def compact(self) -> None:
        """Forget the times of final events."""
        times = np.concatenate([_NONE, *self._at])
        self._at = [times[times >= self._until]]

    def to_bytes(self) -> bytes:
        """Serialize the times."""
        at = np.concatenate([_NONE, *self._at])
        times = pack_table(pa.table({_AT: pa.array(at)}), jumps=True)
        return msgspec.msgpack.encode(_Saved(self.next, self._until, times))

    def read(self, data: bytes) -> None:
        """Deserialize what ``to_bytes`` wrote."""
        saved = from_msgpack(data, _Saved)
        self.next, self._until = saved.next, saved.until
        self._at = [unpack_table(saved.times)[_AT].to_numpy().copy()]


class _Saved(msgspec.Struct, array_like=True):
    next: int
    until: int
    times: bytes
