"""Records of a rules log: a rule that comes or changes, and one that goes, each a line of text.

    checksum  number  class  JSON

Numbers say the order. The class is the place of the rule's keys among those of the stream: only
its buckets get the record.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, NoReturn

import msgspec

from cepheid.decoding import from_json
from cepheid.errors import DataError, Diagnostic
from cepheid.kinds.workload.dated_rows import Dated
from cepheid.plans.limits import Limit
from cepheid.plans.plan import Plan

LONGEST = 16 << 20
"""Bytes of a record; a plan has some thousands."""


class Timing(msgspec.Struct, frozen=True):
    """The columns of a rule's rows that tell their times, as ``dated`` finds them."""

    times: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    delay: int = 0


class Put(msgspec.Struct, frozen=True, tag="put"):
    """A rule that comes, or a new version of one.

    Attributes
    ----------
    name
        The name of the query: that of its rule, with the values of its parameters.
    rule, variant
        The name of the rule, and the values of its parameters.
    version
        How often the rule has changed, from 1 on.
    owner, tags, severity
        For people; they go with the alerts.
    deduplicate, rate_limit
        Limits of alerts, in this order.
    timing, keys
        The columns of rows that tell the time, and those of the key.
    plan
        The plan as JSON, for the columns of the stream.
    """

    name: str
    rule: str
    variant: str | None
    version: int
    owner: str
    tags: tuple[str, ...]
    severity: str
    deduplicate: Limit | None
    rate_limit: Limit | None
    timing: Timing
    keys: tuple[str, ...]
    plan: str

    @property
    def planned(self) -> Plan:
        """Deserialize the plan."""
        return plan_from(self.plan)

    @property
    def dated(self) -> Dated:
        """Return the plan with the columns that tell the times of rows."""
        return Dated(self.planned, self.timing.times, self.timing.hidden, self.timing.delay)

    @property
    def is_limited(self) -> bool:
        """Check whether some rows may be no alerts."""
        return self.deduplicate is not None or self.rate_limit is not None

    @property
    def meaning(self) -> tuple[object, ...]:
        """Collect the properties that identify a query, whatever other columns events have."""
        plan = self.planned
        return plan.text, plan.time, plan.type, plan.tiebreak, plan.tick_ns

    def says_the_same(self, other: Put) -> bool:
        """Check whether two versions of a rule differ in nothing that alerts show."""
        mine, others = (msgspec.structs.replace(one, version=0, plan="") for one in (self, other))
        return mine == others and self.meaning == other.meaning


class Drop(msgspec.Struct, frozen=True, tag="drop"):
    """A rule that goes."""

    name: str


Record = Put | Drop


class Numbered(NamedTuple):
    """A record with its number in the log, and the class of its rule."""

    number: int
    place: int
    record: Record


@lru_cache(maxsize=4096)
def plan_from(data: bytes | str) -> Plan:
    """Deserialize a plan; cached, because hundreds of plans are the same in every micro-batch."""
    return Plan.from_json(data.encode() if isinstance(data, str) else data)


def to_lines(records: Iterable[Numbered]) -> bytes:
    """Write records as lines."""
    return b"".join(_line(one) + b"\n" for one in records)


def _line(one: Numbered) -> bytes:
    body = b"%d %d %s" % (one.number, one.place, msgspec.json.encode(one.record))
    return b"%08x %s" % (zlib.crc32(body), body)


def from_line(line: bytes) -> Numbered:
    """Read a record.

    Raises
    ------
    DataError
        E546 if the line is damaged.
    """
    checksum, _, body = line.rstrip(b"\n").partition(b" ")
    try:
        if len(line) > LONGEST or int(checksum, 16) != zlib.crc32(body):
            _damaged("its checksum does not fit")
        number, place, data = body.split(b" ", 2)
        return Numbered(int(number), int(place), from_json(data, Record))
    except (ValueError, msgspec.MsgspecError) as error:
        _damaged(str(error))


def _damaged(why: str) -> NoReturn:
    message = f"a record of the rules log is damaged: {why}"
    helps = ("start with a new checkpoint, or with a copy of this one from before the damage",)
    raise DataError([Diagnostic("E546", message, helps=helps)])
