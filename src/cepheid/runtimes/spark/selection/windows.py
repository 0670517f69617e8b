"""Windows of SELECT on Spark: Spark's ``window`` for time, row numbers for counts (§10.4)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as sf

from cepheid.events.schema import ValueKind
from cepheid.expressions.spark_columns import Typed, instant_of
from cepheid.expressions.spark_numbers import refused
from cepheid.plans.selection import SelectWindow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WINDOW = "cepheid window"


class Clock(NamedTuple):
    """The time of events as a timestamp for Spark's windows, and the conversion back to integers.

    ``zoned`` selects one of Spark's two timestamp types, ``tick_ns`` is the unit of integer times
    (0 for others), and ``unzoned`` marks events whose times have no zone.
    """

    moment: Column
    zoned: bool
    tick_ns: int
    unzoned: bool = False

    @staticmethod
    def of(time: Typed, window: SelectWindow) -> Clock:
        """Build the clock of a time column."""
        time = with_time(time)
        if time.kind is ValueKind.INTEGER:
            whole = time.column.cast("long")
            if window.tick_ns >= 1_000:
                micros = whole * sf.lit(window.tick_ns // 1_000)
            else:
                # Windows are whole microseconds, so the rest of a time decides nothing.
                micros = (whole - sf.pmod(whole, sf.lit(1_000))) / 1_000
            return Clock(sf.timestamp_micros(micros.cast("long")), True, window.tick_ns)
        if time.kind is ValueKind.DATE:
            return Clock(time.column.cast("timestamp_ntz"), False, 0)
        return Clock(time.column, time.type_name == "timestamp", 0)

    def watched(self) -> Clock:
        """Convert the timestamp to the type that a watermark accepts."""
        if self.zoned:
            return self
        return Clock(sf.timestamp_micros(self.micros), True, self.tick_ns, unzoned=True)

    @property
    def micros(self) -> Column:
        """Convert to microseconds since 1970, whatever the time zone of the session."""
        if self.zoned:
            return sf.unix_micros(self.moment)
        # Functions that count units of time would take the zone of the session.
        since = self.moment - sf.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
        days, hours, minutes = (
            sf.extract(sf.lit(unit), since).cast("long") for unit in ("DAY", "HOUR", "MINUTE")
        )
        seconds = sf.extract(sf.lit("SECOND"), since) * sf.lit(1_000_000)
        whole = (days * 24 + hours) * 60 + minutes
        return whole * _long(60_000_000) + seconds.cast("long")

    def later(self, moment: Column, microseconds: int) -> Column:
        """Add a length of time to the timestamp; a day has 24 hours in every zone."""
        if self.zoned:
            return sf.timestamp_micros(sf.unix_micros(moment) + _long(microseconds))
        return moment + interval_of(microseconds)

    def shown(self, moment: Column) -> Column:
        """Convert the edge of a window to the type of the event times."""
        if self.unzoned:
            return instant_of(sf.unix_micros(moment))
        if not self.tick_ns:
            return moment
        micros = sf.unix_micros(moment)
        if self.tick_ns < 1_000:
            return micros * sf.lit(1_000)
        return (micros / sf.lit(self.tick_ns // 1_000)).cast("long")


def with_time(time: Typed) -> Typed:
    """Build a time column that fails on NULL, which Spark would silently drop."""
    message = f"the time column `{time.name}` is NULL"
    wrong = refused("E506", message, "leave out events without a time")
    return time._replace(column=sf.when(time.column.isNull(), wrong).otherwise(time.column))


def lengths_us(window: SelectWindow) -> tuple[int, int]:
    """Compute the length and the slide of windows in microseconds."""
    return window.within * window.tick_ns // 1_000, window.slide * window.tick_ns // 1_000


def time_windows(
    frame: DataFrame,
    clock: Clock,
    window: SelectWindow,
    keys: Sequence[Column],
    aggregates: Sequence[Column],
    names: Sequence[str],
) -> DataFrame:
    """Aggregate windows of time."""
    within, slide = lengths_us(window)
    # Spark knows no gaps between windows: they tumble, and events of gaps are left out.
    gaps = slide > within
    length = f"{slide if gaps else within} microseconds"
    windows = sf.window(clock.moment, length, f"{slide} microseconds")
    if gaps:
        frame = frame.filter(sf.pmod(clock.micros, _long(slide)) < _long(within))
    grouped = frame.groupBy(windows.alias(WINDOW), *keys).agg(*aggregates)
    start = sf.col(f"`{WINDOW}`.start")
    end = clock.later(start, within) if gaps else sf.col(f"`{WINDOW}`.end")
    edges = [clock.shown(start).alias("window_start"), clock.shown(end).alias("window_end")]
    return _arranged(grouped, names, edges)


def interval_of(microseconds: int) -> Column:
    """Convert a length of time to Spark's notation."""
    return sf.lit(dt.timedelta(microseconds=microseconds))


def floor_divided(number: Column, divisor: int) -> Column:
    """Divide integers and round down."""
    rest = sf.pmod(number, _long(divisor))
    return ((number - rest) / _long(divisor)).cast("long")


def _long(number: int) -> Column:
    return sf.lit(number).cast("long")


def counted_windows(
    frame: DataFrame,
    window: SelectWindow,
    keys: Sequence[Column],
    order: Sequence[Column],
    aggregates: Sequence[Column],
    names: Sequence[str],
) -> DataFrame:
    """Aggregate count-based windows; the rows of each group are numbered by time."""
    over = Window.partitionBy(*keys).orderBy(*order) if keys else Window.orderBy(*order)
    number = (sf.row_number().over(over) - 1).cast("long")
    numbered = frame.withColumn("cepheid number", number)
    place = sf.col("`cepheid number`")
    last = floor_divided(place, window.slide)
    first = sf.greatest(_long(0), floor_divided(place - _long(window.within), window.slide) + 1)
    spread = numbered.filter(first <= last).withColumn(WINDOW, sf.explode(sf.sequence(first, last)))
    start = sf.col(f"`{WINDOW}`")
    grouped = spread.groupBy(start, *keys).agg(*aggregates)
    begin = start * _long(window.slide)
    end = begin + _long(window.within)
    return _arranged(grouped, names, [begin.alias("window_start"), end.alias("window_end")])


def session_windows(
    frame: DataFrame,
    time: Typed,
    window: SelectWindow,
    keys: Sequence[Column],
    aggregates: Sequence[Column],
    names: Sequence[str],
) -> DataFrame:
    """Aggregate sessions: each event knows how far the one before it in its group is."""
    clock, whole = Clock.of(time, window), time.kind is ValueKind.INTEGER
    place = with_time(time).column.cast("long") if whole else clock.micros
    gap = window.within if whole else lengths_us(window)[0]
    placed = frame.withColumn("cepheid place", place)
    at = sf.col("`cepheid place`")
    over = Window.partitionBy(*keys).orderBy(at) if keys else Window.orderBy(at)
    before = sf.lag(at).over(over)
    begins = before.isNull() | (at - before >= _long(gap))
    marked = placed.withColumn("cepheid begins", sf.when(begins, 1).otherwise(0).cast("long"))
    number = sf.sum("`cepheid begins`").over(over.rowsBetween(Window.unboundedPreceding, 0))
    counted = marked.withColumn(WINDOW, number)
    moment = at if whole else clock.moment
    edges = [sf.min(moment).alias("window_start"), sf.max(moment).alias("window_end")]
    grouped = counted.groupBy(sf.col(f"`{WINDOW}`"), *keys).agg(*edges, *aggregates)
    start, end = sf.col("window_start"), sf.col("window_end")
    end = end + _long(gap) if whole else clock.later(end, gap)
    shown = [start.alias("window_start"), end.alias("window_end")]
    return _arranged(grouped, names, shown)


def _arranged(grouped: DataFrame, names: Sequence[str], edges: Sequence[Column]) -> DataFrame:
    """Order the result columns: keys, edges of windows, aggregates."""
    quoted = {name: sf.col(f"`{name.replace('`', '``')}`") for name in grouped.columns}
    left = (WINDOW, *names, "window_start", "window_end")
    rest = [quoted[name] for name in grouped.columns if name not in left]
    return grouped.select(*(quoted[name] for name in names), *edges, *rest)
