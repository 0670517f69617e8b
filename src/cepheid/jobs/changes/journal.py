"""The state of a bucket that follows changes: the table as it once was, and the batches since.

    base  step  step  step ...      a follower: the base, and then what every step changes

The whole table in every micro-batch would cost the table, and not its changes. So a state is the
bytes of an earlier one with one more step; once the steps are half as long as the base, a new base
is written. A worker keeps the followers that it had, by digests of all that they have taken. Spark
gives the tasks of a bucket to any worker: a follower that lacks some steps takes these alone.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable

import msgspec
import pyarrow as pa

from cepheid.framing import digest_of
from cepheid.jobs.changes.follow import Follower
from cepheid.jobs.changes.ledger import Counts
from cepheid.jobs.misfits import other_buckets
from cepheid.jobs.state_format import Format, Meant, read_own, write_state
from cepheid.jobs.tables import pack_table, unpack_table

FORMAT = Format("journal", 1, "a query over a table that changes")

STEPS_SHARE = 2
"""The steps of a journal have at most its size, divided by this."""
STEPS_BYTES = 1 << 18
"""So many bytes of steps are no reason to write the table."""

KEPT_EVENTS = 1 << 22
"""So many events, in all followers together, a worker keeps."""

_kept: OrderedDict[tuple[str, ...], Follower] = OrderedDict()  # A worker is a process.


class Step(msgspec.Struct, array_like=True):
    """A batch of changes, the watermark after it, and a digest of everything up to it."""

    changes: bytes
    until: int
    digest: str


class _Saved(Meant):
    buckets: int
    base: bytes
    steps: list[Step]


class Journal:
    """A follower, and what has to be written to have it again."""

    def __init__(self, make: Callable[[], Follower], buckets: int, data: bytes | None) -> None:
        """Read a state; E524 if it is of another query or number of buckets, E546 if damaged."""
        fresh = make()
        self._meaning, self._buckets = fresh.meaning, buckets
        self._base, self._steps = b"", list[Step]()
        if data is not None:
            saved = read_own(FORMAT, data, _Saved, self._meaning, self._meaning)
            if saved.buckets != buckets:
                setting = f"set spark.cepheid.buckets to {saved.buckets}"
                raise other_buckets(saved.buckets, buckets, setting=setting)
            self._base, self._steps = saved.base, saved.steps
        self.follower = self._recall() or self._replayed(fresh)
        self.follower.counts = Counts()

    def take(self, changes: pa.Table, until: Callable[[int], int | None]) -> pa.Table:
        """Apply a batch of changes, then a watermark, given the one before; return its rows."""
        rows = self.follower.take(changes)
        now = until(self.follower.until)
        now = self.follower.until if now is None else now
        self.follower.advance(now)
        packed = pack_table(changes)
        known = hashlib.sha256(self._digests[-1].encode() + b"%d " % now)
        known.update(packed)
        self._steps.append(Step(packed, now, known.hexdigest()))
        return rows

    def to_bytes(self) -> bytes:
        """Serialize the follower, and keep it."""
        size = sum(len(step.changes) for step in self._steps)
        if size > STEPS_BYTES and size * STEPS_SHARE > len(self._base):
            self._base, self._steps = self.follower.to_bytes(), []
        self._keep()
        saved = _Saved(self._meaning, self._buckets, self._base, self._steps)
        return write_state(FORMAT, saved)

    @property
    def _digests(self) -> list[str]:
        """List the digests of the base and of every step."""
        return [digest_of(self._base) if self._base else "", *(s.digest for s in self._steps)]

    def _replayed(self, follower: Follower) -> Follower:
        """Let a new follower take everything."""
        if self._base:
            follower.read(self._base)
        _take(follower, self._steps)
        return follower

    def _recall(self) -> Follower | None:
        """Find a follower of this worker that has taken most of this, and let it take the rest."""
        digests = self._digests
        for number in reversed(range(len(digests))):
            # It is no longer kept: whoever fails with it has to begin anew.
            follower = _kept.pop((*self._meaning, digests[number]), None)
            if follower is not None:
                _take(follower, self._steps[number:])
                return follower
        return None

    def _keep(self) -> None:
        _kept[(*self._meaning, self._digests[-1])] = self.follower
        while len(_kept) > 1 and sum(one.size for one in _kept.values()) > KEPT_EVENTS:
            _kept.popitem(last=False)


def _take(follower: Follower, steps: list[Step]) -> None:
    for step in steps:
        follower.take(unpack_table(step.changes))
        follower.advance(step.until)
