"""Bad records of a live stream: find, count, drop, return or refuse them (§13).

A record is bad if its source could not read it, its time is NULL, too far from 1970 or too far
ahead of the clock, or a key that the query needs is NULL. A bad record is no event: it changes no
result and does not advance the watermark.

The clock is the time of the micro-batch in Spark's log of offsets, which is the same when a
micro-batch is repeated after a crash. So records are judged alike each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from cepheid.events.temporal import TIME_MAX
from cepheid.expressions.spark_numbers import long
from cepheid.jobs.changes.asked import Changes
from cepheid.jobs.changes.ops import BEFORE, DELETE, UPDATE
from cepheid.jobs.kind import kind_of
from cepheid.plans.plan import Plan
from cepheid.spark.operations import operation, wrong_operation
from cepheid.spark.records import (
    BAD,
    CORRUPT,
    MARKED,
    ORIGIN,
    RAW,
    REASON,
    event_columns,
    quoted,
)
from cepheid.spark.schema import micros_of, path_of
from cepheid.spark.text_times import is_text_time, is_unreadable, text_time

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cepheid.events.time_formats import TextTimes

RECORDS = "cepheid_records"
"""The name of the observed metrics about records, in the progress of a query."""

CAUSES = ("unread", "no_time", "too_far", "ahead", "no_key")
COUNTS = ("records", "bad", *CAUSES)
"""Counters of a micro-batch: all records, the bad ones, and these by their cause."""

BAD_SCHEMA = StructType([StructField(name, StringType()) for name in (ORIGIN, RAW, REASON)])
"""The columns of bad records."""

CODE = "E526"
"""The diagnostic of a bad record that stops a query."""

_CAUSE, _OP = "__cause", "__operation"
_UNPARSED = "the text could not be parsed"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TIMES = (*_INTEGERS, "date", "timestamp", "timestamp_ntz")
_DAY_US = 86_400_000_000
_AHEAD_US_MAX = 2**61
"""A longer time would not fit 64 bits together with that of a clock."""


class Keys(NamedTuple):
    """The keys that a query needs for events of some types; without types, for all events."""

    names: tuple[str, ...]
    types: tuple[str, ...] | None


class Asked(NamedTuple):
    """The requirements of a query, or of several ones, for a record.

    ``keys`` has an entry per query; a record without a key of one of them may suit another.
    ``reads`` are the columns whose NULL values are counted.
    """

    time: str
    tick_ns: int
    type: str | None
    keys: tuple[Keys, ...]
    reads: tuple[str, ...]
    ahead_us: int
    changes: Changes | None = None
    """The columns of a changelog, if records are changes (§18.3)."""

    @staticmethod
    def of(plans: Sequence[Plan], reads: Sequence[str], ahead_us: int) -> Asked:
        """Collect the requirements of queries over one stream."""
        first = plans[0]
        keys = tuple(
            Keys(plan.partition.attributes, kind_of(plan).event_types(plan)) for plan in plans
        )
        return Asked(first.time, first.tick_ns, first.type, keys, tuple(reads), ahead_us)


def events_schema(frame: DataFrame) -> StructType:
    """Return the schema of the events alone, which a query is planned for."""
    return frame.select(*(quoted(name) for name in event_columns(frame))).schema


def timed_records(frame: DataFrame, times: TextTimes) -> DataFrame:
    """Read the time column of a stream, if it is text; a text that is no time is a reason."""
    if not is_text_time(frame, times):
        return frame
    form, text = times.compiled(), sf.col(quoted(times.column))
    said = [sf.lit("the time `"), sf.substring(text, 1, 60), sf.lit(f"` is not {form.name}")]
    wrong = sf.when(is_unreadable(text, form), sf.concat(*said))
    known = _unread(frame)
    about = {ORIGIN: sf.lit(None).cast("string"), RAW: sf.lit(None).cast("string"), REASON: wrong}
    if REASON in frame.columns:
        about |= {name: sf.col(name) for name in (ORIGIN, RAW) if name in frame.columns}
        about[REASON] = sf.coalesce(sf.col(REASON), wrong)
    elif known is not None:
        about[REASON] = sf.coalesce(sf.when(known, sf.lit(_UNPARSED)), wrong)
        about[RAW] = sf.col(CORRUPT)
    events = event_columns(frame)
    # The time that is no time is part of the text.
    whole = sf.to_json(sf.struct(*map(quoted, events)), {"ignoreNullFields": "false"})
    about[RAW] = sf.coalesce(about[RAW].cast("string"), sf.when(about[REASON].isNotNull(), whole))
    columns = [
        text_time(text, form).alias(name) if name == times.column else sf.col(quoted(name))
        for name in [*events, *_marks(frame)]
    ]
    return frame.select(*columns, *(column.alias(name) for name, column in about.items()))


class Checked(NamedTuple):
    """A stream with a cause in every record that is bad."""

    frame: DataFrame
    asked: Asked
    metrics: str
    names: tuple[str, ...]

    @staticmethod
    def of(frame: DataFrame, asked: Asked, metrics: str = RECORDS) -> Checked:
        """Check the records of a stream."""
        names = tuple(event_columns(frame))
        if asked.changes is not None:
            # A column of its own: Spark would compute it wherever it is used.
            frame = frame.withColumn(_OP, operation(asked.changes))
        cause = _cause(frame, asked)
        # A mark is no event, and not bad, either.
        marked = frame.withColumn(_CAUSE, sf.when(_is_event(frame), cause))
        return Checked(marked, asked, metrics, names)

    def events(self, policy: str) -> DataFrame:
        """Count all records, and keep the events, or fail at the first bad record (E526)."""
        counted = self._counted()
        good = sf.col(_CAUSE).isNull()
        if policy == "fail":
            message = sf.concat(sf.lit(f"error[{CODE}]: a record is bad: "), self._described())
            help_ = '\n = help: `bad="side"` returns such records, and `bad="drop"` counts them'
            wrong = sf.raise_error(sf.concat(message, sf.lit(help_))).cast("boolean")
            good = sf.when(good, sf.expr("true")).otherwise(wrong)
        return counted.where(good).select(*map(quoted, self.names), *_marks(self.frame))

    def bad(self) -> DataFrame:
        """Return the bad records: where they came from, their text, and the reason."""
        wrong = self.frame.where(sf.col(_CAUSE).isNotNull())
        return wrong.select(*(c.alias(n) for n, c in self._about().items()))

    def marked(self) -> DataFrame:
        """Count all records and return them all; bad ones say so in a column of their own."""
        columns = [c.alias(n) for n, c in self._about().items()]
        about = sf.when(sf.col(_CAUSE).isNotNull(), sf.struct(*columns))
        names = map(quoted, self.names)
        return self._counted().select(*names, *_marks(self.frame), about.alias(BAD))

    def tagged(self, policy: str) -> DataFrame:
        """Return all records, if bad ones are kept, else the events."""
        return self.marked() if policy == "side" else self.events(policy)

    def _counted(self) -> DataFrame:
        cause, event = sf.col(_CAUSE), _is_event(self.frame)
        counts = [sf.count_if(event).alias("records"), sf.count(cause).alias("bad")]
        counts += [sf.count_if(cause == sf.lit(n)).alias(c) for n, c in enumerate(CAUSES)]
        # A value that a source could not give is NULL, and so is a column that a file lacks.
        nulls = [
            sf.count_if(event & cause.isNull() & path_of(self.frame, name).isNull()).alias(name)
            for name in self.asked.reads
        ]
        if nulls:
            counts.append(sf.struct(*nulls).alias("nulls"))
        return self.frame.observe(self.metrics, *counts)

    def _about(self) -> dict[str, Column]:
        kept = self.frame.columns
        text = sf.to_json(sf.struct(*map(quoted, self.names)), {"ignoreNullFields": "false"})
        reads = REASON in kept
        if reads and RAW in kept:
            text = sf.coalesce(sf.col(RAW).cast("string"), text)
        elif CORRUPT in kept:
            text = sf.coalesce(sf.col(CORRUPT), text)
        origin = sf.col(ORIGIN) if reads and ORIGIN in kept else sf.lit(None)
        # Spark knows that the path of a file is never NULL, and Arrow casts no structure that is
        # NULL and has a part which may not be.
        origin = sf.when(sf.col(_CAUSE).isNotNull(), origin.cast("string"))
        reason = sf.col(REASON) if reads else sf.lit(_UNPARSED)
        return {ORIGIN: origin, RAW: text, REASON: self._reason(reason)}

    def _reason(self, unread: Column) -> Column:
        asked, cause = self.asked, sf.col(_CAUSE)
        time = path_of(self.frame, asked.time).cast("string")
        far = sf.concat(sf.lit(f"the time of `{asked.time}`, "), time)
        keys = dict.fromkeys(name for one in asked.keys for name in one.names)
        texts = {
            "unread": unread,
            "no_time": sf.lit(f"the time `{asked.time}` is NULL"),
            "too_far": sf.concat(far, sf.lit(", is too far from 1970")),
            "ahead": sf.concat(far, sf.lit(", is ahead of the clock by more than max_ahead")),
            "no_key": sf.lit(f"a key is NULL: {', '.join(f'`{name}`' for name in keys)}"),
        }
        if asked.changes is not None:
            read = _unread(self.frame)
            wrong = wrong_operation(asked.changes)
            texts["unread"] = wrong if read is None else sf.when(read, unread).otherwise(wrong)
            names = ", ".join(f"`{name}`" for name in asked.changes.id)
            texts["no_key"] = sf.lit(f"the id is NULL: {names}")
        chosen = [sf.when(cause == sf.lit(n), texts[name]) for n, name in enumerate(CAUSES)]
        return sf.coalesce(*chosen)

    def _described(self) -> Column:
        about = self._about()
        place = sf.when(about[ORIGIN].isNotNull(), sf.concat(sf.lit(" in "), about[ORIGIN]))
        text = sf.regexp_replace(sf.left(about[RAW], sf.lit(200)), r"\s+", " ")
        parts = [about[REASON], sf.coalesce(place, sf.lit("")), sf.lit(": "), text]
        return sf.concat(*parts)


def _marks(frame: DataFrame) -> list[str]:
    """Name the column of marks, if the stream carries its watermark."""
    return [MARKED] if MARKED in frame.columns else []


def _is_event(frame: DataFrame) -> Column:
    """Build the condition that a record is no mark."""
    return sf.col(MARKED).isNull() if _marks(frame) else sf.expr("true")


def _cause(frame: DataFrame, asked: Asked) -> Column:
    """Find the cause for which a record is bad, as a number; NULL if it is an event."""
    time = path_of(frame, asked.time)
    kind = frame.select(time).dtypes[0][1]
    found = [_unread(frame), time.isNull()]
    if asked.changes is not None:
        # Of an event that leaves, only the columns that tell events apart are looked at.
        takes_away = sf.coalesce(sf.col(_OP).isin(BEFORE, DELETE), sf.expr("false"))
        time = sf.when(~takes_away, time)
        found = [_no_change(frame, asked.changes), ~takes_away & time.isNull()]
    if kind in _TIMES:
        tick_ns = asked.tick_ns if kind in _INTEGERS else 1000
        found.append(too_far(time, kind))
        found.append(is_after(time, kind, _latest(asked.ahead_us, tick_ns)))
    else:
        found += [None, None]
    found.append(_no_key(frame, asked) if asked.changes is None else _no_id(asked.changes))
    return sf.coalesce(
        *(sf.when(wrong, sf.lit(n)) for n, wrong in enumerate(found) if wrong is not None)
    )


def too_far(time: Column, kind: str) -> Column:
    """Build the condition that a time is too far from 1970."""
    if kind == "timestamp_ntz":
        # Compared as times: their microseconds cost Spark more than all else that it does here.
        seconds, micros = divmod(TIME_MAX, 1_000_000)
        last = f"INTERVAL '{seconds}.{micros:06}' SECOND"
        begin = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
        return (time > sf.expr(f"{begin} + {last}")) | (time < sf.expr(f"{begin} - {last}"))
    ticks = micros_of(time, kind)
    return (ticks > long(TIME_MAX)) | (ticks < long(-TIME_MAX))


def is_after(time: Column, kind: str, latest: Column) -> Column:
    """Build the condition that a time is after another, given in ticks."""
    after = micros_of(time, kind) > latest
    if kind != "timestamp_ntz":
        return after
    # The end of its day, which costs less, is enough for nearly every event.
    end_of_day = (micros_of(time.cast("date"), "date") + long(_DAY_US - 1)) > latest
    return sf.when(end_of_day, after).otherwise(sf.expr("false"))


def _no_change(frame: DataFrame, changes: Changes) -> Column:
    """Build the condition that a record cannot be read, or does not say what it changes."""
    wrong = sf.col(_OP).isNull()
    if not changes.id:
        wrong |= sf.col(_OP) == sf.lit(UPDATE)
    unread = _unread(frame)
    return wrong if unread is None else wrong | unread


def _no_id(changes: Changes) -> Column | None:
    nulls = [sf.col(quoted(name)).isNull() for name in changes.id]
    return reduce(lambda a, b: a | b, nulls) if nulls else None


def _latest(ahead_us: int, tick_ns: int) -> Column:
    """Return the latest time that an event may have, in ticks."""
    micros = sf.unix_micros(sf.current_timestamp()) + long(min(ahead_us, _AHEAD_US_MAX))
    if tick_ns >= 1000:
        return sf.floor(micros / long(tick_ns // 1000))
    return sf.least(micros, long(TIME_MAX // 1000)) * long(1000)


def _unread(frame: DataFrame) -> Column | None:
    if REASON in frame.columns:
        return sf.col(REASON).isNotNull()
    return sf.col(CORRUPT).isNotNull() if CORRUPT in frame.columns else None


def _no_key(frame: DataFrame, asked: Asked) -> Column | None:
    """Build the condition that some query would take a record, and none has its key."""
    if not any(one.names for one in asked.keys):
        return None
    takes, lacks = [], []
    for one in asked.keys:
        fits = sf.expr("true")
        if one.types is not None and asked.type is not None:
            fits = path_of(frame, asked.type).cast("string").isin(*one.types)
        fits = sf.coalesce(fits, sf.expr("false"))
        nulls = [path_of(frame, name).isNull() for name in one.names]
        missing = reduce(lambda a, b: a | b, nulls, sf.expr("false"))
        takes.append(fits & missing)
        lacks.append(~fits | missing)
    return reduce(lambda a, b: a | b, takes) & reduce(lambda a, b: a & b, lacks)
