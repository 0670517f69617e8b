"""The state of a bucket that follows changes: the table as it once was, and the batches since.

    index  base  step  step  step ...      a follower: the base, and then what every step changes

The whole table in every micro-batch would cost the table, and not its changes. So a state is the
bytes of an earlier one with one more step; once the steps are as long as the base, a new base
is written. Processes keep the followers that they had (``homes.py``), so a micro-batch reads the
index alone. The base and the steps are read, and their digests checked, where nobody has the
follower any more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa

from cepheid.events.temporal import LONG_AGO
from cepheid.framing import FrameError, digest_of
from cepheid.jobs.changes.follow import Follower
from cepheid.jobs.changes.homes import Shelf, Told, Turn, ask
from cepheid.jobs.changes.parts import read_part, write_part
from cepheid.jobs.misfits import other_buckets
from cepheid.jobs.state_format import (
    Format,
    Meant,
    check_own,
    damaged,
    read_head,
    write_state,
)
from cepheid.jobs.tables import pack_table, unpack_table

FORMAT = Format("journal", 2, "a query over a table that changes")

STEPS_SHARE = 1
"""The steps of a journal have at most the size of its base, divided by this."""
STEPS_BYTES = 1 << 18
"""So many bytes of steps are no reason to write the table."""

_shelf = Shelf()  # A worker is a process.


class Step(msgspec.Struct, array_like=True):
    """A batch of changes: its size, the watermark after it, a digest of everything up to it."""

    size: int
    until: int
    digest: str


class _Index(Meant):
    buckets: int
    until: int
    home: str
    base: int
    """The size of the base, and its digest."""
    digest: str
    steps: list[Step]


class Journal:
    """A follower, wherever it is, and what has to be written to have it again."""

    def __init__(self, make: Callable[[], Follower], buckets: int, data: bytes | None) -> None:
        """Read a state; E524 if it is of another query or number of buckets, E546 if damaged."""
        self._make, self._meaning = make, make().meaning
        self._index = _Index(self._meaning, buckets, LONG_AGO, "", 0, "", [])
        self._parts: list[Any] = [b""]
        if data is not None:
            self._index, rest = read_head(FORMAT, data, _Index)
            check_own(FORMAT, self._index, self._meaning)
            if self._index.buckets != buckets:
                setting = f"set spark.cepheid.buckets to {self._index.buckets}"
                raise other_buckets(self._index.buckets, buckets, setting=setting)
            self._parts = self._cut(rest)

    @property
    def until(self) -> int:
        """Return the watermark."""
        return self._index.until

    def take(self, changes: pa.Table, until: Callable[[int], int | None]) -> Told:
        """Apply a batch of changes, then a watermark, given the one before."""
        index = self._index
        now = until(index.until)
        now = index.until if now is None else now
        step = write_part(pack_table(changes, jumps=True))
        before, after = self._digest, _digest_after(self._digest, now, step)
        size = len(step) + sum(one.size for one in index.steps)
        whole = size > STEPS_BYTES and size * STEPS_SHARE > index.base
        told = self._turn(before, Turn(changes, now, after, whole))
        index.until = now
        if whole:
            index.base, index.digest, index.steps = len(told.base), told.after, []
            self._parts = [told.base]
        else:
            index.steps.append(Step(len(step), now, after))
            self._parts.append(step)
        return told

    def to_bytes(self) -> bytes:
        """Serialize the follower: what it was read from, and what it took."""
        return b"".join([write_state(FORMAT, self._index), *self._parts])

    @property
    def _digest(self) -> str:
        """Identify everything that the follower has taken."""
        return self._index.steps[-1].digest if self._index.steps else self._index.digest

    def _turn(self, before: str, turn: Turn) -> Told:
        """Let whoever has the follower take a turn: this process, its home, or one read anew."""
        follower = _shelf.take((*self._meaning, before))
        if follower is None:
            told = ask(self._index.home, self._meaning, before, turn)
            if told is not None:
                return told
            follower = self._replayed()
        self._index.home = _shelf.home
        return _shelf.run(self._meaning, follower, turn)

    def _cut(self, rest: memoryview) -> list[Any]:
        sizes = [self._index.base, *(step.size for step in self._index.steps)]
        if sum(sizes) != len(rest):
            raise damaged(FORMAT, "it is truncated, or too long")
        found, at = [], 0
        for size in sizes:
            found.append(rest[at : at + size])
            at += size
        return found

    def _replayed(self) -> Follower:
        """Let a new follower take everything."""
        follower, digest = self._make(), self._index.digest
        if self._index.base:
            base = _read(self._parts[0])
            # Earlier versions had the digest of what was compressed.
            if digest not in (digest_of(self._parts[0]), digest_of(base)):
                raise damaged(FORMAT, "its table is another one")
            follower.read(base)
        for step, part in zip(self._index.steps, self._parts[1:], strict=True):
            digest = _digest_after(digest, step.until, part)
            if digest != step.digest:
                raise damaged(FORMAT, "a batch of changes has another checksum")
            follower.take(unpack_table(_read(part)))
            follower.advance(step.until)
        return follower


def _read(part: Any) -> bytes:
    try:
        return read_part(part)
    except FrameError as error:
        raise damaged(FORMAT, str(error)) from error


def _digest_after(before: str, until: int, step: Any) -> str:
    known = hashlib.sha256(before.encode() + b" %d " % until)
    known.update(step)
    return known.hexdigest()
