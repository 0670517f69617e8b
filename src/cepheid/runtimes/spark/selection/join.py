"""The windowed join of SELECT on Spark: by distance in time, or by numbers of events."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

from cepheid.errors import Span
from cepheid.events.schema import ValueKind
from cepheid.expressions.spark_columns import Typed, instant_of
from cepheid.language import tree
from cepheid.plans.plan import SelectPlan
from cepheid.plans.selection import Extent, SelectColumn, aliases_in, row_column
from cepheid.runtimes.spark.selection.rows import expressions_over, project, stream_of
from cepheid.runtimes.spark.selection.windows import Clock, floor_divided, interval_of, with_time

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BUCKET = "cepheid bucket"
PAIR_TIME = "cepheid pair"
DAY_US = 86_400_000_000
SHIFT_US = 14_400_000_000
"""Longer than any clock change, such as daylight saving time."""


class Sides:
    """Streams with disjoint column names, so that a join can hold all of them.

    Every column of stream n is called ``cepheid n name``; the time is also there as a timestamp.
    """

    def __init__(
        self, plan: SelectPlan, frames: Sequence[DataFrame], watermark: str | None
    ) -> None:
        select = plan.select
        self.select = select
        self.frames: list[DataFrame] = []
        self.clocks: list[Clock] = []
        self._typed: dict[tuple[str, str], Typed] = {}
        for place, (stream, frame) in enumerate(zip(select.streams, frames, strict=True)):
            own = stream_of(stream.alias, frame)
            names = stream.reads if stream.reads is not None else tuple(frame.columns)
            columns = []
            for name in dict.fromkeys((*names, plan.time, *plan.tiebreak)):
                typed = own.typed(name)
                shown = f"cepheid {place} {name}".replace("`", " ").replace(".", " ")
                columns.append(typed.column.alias(shown))
                renamed = typed._replace(column=sf.col(f"`{shown}`"))
                self._typed[stream.alias, name] = renamed
            clock = Clock.of(own.typed(plan.time), select.window)
            if watermark is not None:
                # A join leaves out what is not after the watermark, which begins at 1970: a
                # microsecond later, the events of this moment are.
                watched = clock.watched()
                clock = watched._replace(moment=watched.later(watched.moment, 1))
            name = f"cepheid_moment_{place}"
            chosen = frame.select(*columns, clock.moment.alias(name))
            if watermark is not None:
                chosen = chosen.withWatermark(name, watermark)
            self.frames.append(chosen)
            self.clocks.append(clock._replace(moment=sf.col(f"`{name}`")))
        self.expressions = expressions_over(frames[0], self._lookup)
        self._plan = plan

    def time(self, place: int) -> Typed:
        """Return the time column of a stream."""
        return self._typed[self.select.streams[place].alias, self._plan.time]

    def ties(self, place: int) -> list[Column]:
        """Return the tie-breakers of a stream."""
        alias = self.select.streams[place].alias
        return [self._typed[alias, name].column for name in self._plan.tiebreak]

    @property
    def condition(self) -> Column:
        """Combine WHERE and ON to one condition."""
        return self.all_of(self.select.condition)

    def all_of(self, parts: Sequence[tree.Expression]) -> Column:
        """Combine conditions to one."""
        columns = [self.expressions.column(part) for part in parts]
        return reduce(lambda a, b: a & b, columns, sf.expr("true"))

    def result(self, pairs: DataFrame) -> DataFrame:
        """Build the columns of SELECT."""
        if self.select.then is None:
            return project(pairs, self.select.columns, self.expressions, self._lookup)
        self._typed["", PAIR_TIME] = Typed(sf.col(f"`{PAIR_TIME}`"), ValueKind.UNKNOWN)
        timed = SelectColumn(self._plan.time, row_column(PAIR_TIME, Span(0, 0)))
        placed = pairs.withColumn(PAIR_TIME, self._later())
        return project(placed, (*self.select.columns, timed), self.expressions, self._lookup)

    def _later(self) -> Column:
        """Return the time of a pair: that of its later event."""
        times = [self.time(place) for place in range(len(self.frames))]
        columns = [with_time(time).column for time in times]
        if len({time.type_name for time in times}) > 1 and times[0].kind is not ValueKind.INTEGER:
            columns = [instant_of(clock.micros) for clock in self.clocks]
        return sf.greatest(*columns)

    def _lookup(self, node: tree.Attribute) -> Typed:
        return self._typed[node.variable.text, node.attribute.text]


def join_frames(
    plan: SelectPlan, frames: Sequence[DataFrame], watermark: str | None = None
) -> DataFrame:
    """Join DataFrames or, with a watermark, two streams."""
    sides = Sides(plan, frames, watermark)
    if sides.select.window.extent is Extent.EVENTS:
        return sides.result(_counted(sides))
    if len(frames) > 2:
        return sides.result(_many(sides))
    first, second = sides.frames
    near = _are_near(sides, 0, 1) & sides.condition
    return sides.result(_joined(sides, first, second, near, 1, keyed=bool(sides.select.equal)))


def _many(sides: Sides) -> DataFrame:
    """Join one stream after the other; every condition stands where its streams are known."""
    aliases = [stream.alias for stream in sides.select.streams]
    found = sides.frames[0]
    left = list(sides.select.condition)
    for place in range(1, len(aliases)):
        known = set(aliases[: place + 1])
        asked = [part for part in left if aliases_in(part) <= known]
        left = [part for part in left if part not in asked]
        near = [_are_near(sides, earlier, place) for earlier in range(place)]
        condition = reduce(lambda a, b: a & b, [*near, sides.all_of(asked)])
        keyed = any(_equates(part, aliases[place]) for part in asked)
        found = _joined(sides, found, sides.frames[place], condition, place, keyed=keyed)
    return found


def _equates(condition: tree.Expression, alias: str) -> bool:
    """Check whether a condition compares a column of a stream with one of another by ``=``."""
    match condition:
        case tree.Binary(operator="=", left=tree.Attribute() as a, right=tree.Attribute() as b):
            return (a.variable.text == alias) != (b.variable.text == alias)
    return False


def _lengths(sides: Sides, *places: int) -> list[int]:
    """Return the windows of the streams in microseconds."""
    window = sides.select.window
    lengths = window.lengths_of(len(sides.frames))
    return [lengths[place] * window.tick_ns // 1_000 for place in places]


def _are_near(sides: Sides, one: int, other: int) -> Column:
    """Ask whether the times of two streams' events differ by less than their windows."""
    window = sides.select.window
    first, second = _lengths(sides, one, other)
    within = max(first, second)
    # The distance in Spark's words, from which it knows how long to keep an event of a stream; the
    # days in it are those of the session's time zone, so that longer ones are told exactly.
    exact = within < DAY_US
    more = 0 if exact else SHIFT_US
    before, after = interval_of(first + more), interval_of(second + more)
    left, right = (sides.clocks[place].moment for place in (one, other))
    near = (left > right - before) & (left < right + after)
    if not exact:
        apart = sides.clocks[one].micros - sides.clocks[other].micros
        near &= (apart > sf.lit(-first)) & (apart < sf.lit(second))
    if window.tick_ns < 1_000 and sides.time(one).kind is ValueKind.INTEGER:
        lengths = window.lengths_of(len(sides.frames))
        apart = sides.time(one).column - sides.time(other).column
        near &= (apart > sf.lit(-lengths[one])) & (apart < sf.lit(lengths[other]))
    return near


def _joined(
    sides: Sides, first: DataFrame, second: DataFrame, near: Column, place: int, *, keyed: bool
) -> DataFrame:
    """Join a stream to those before it, by keys or else by stretches of time."""
    if not keyed:
        # Stretches as long as the window: near events are in one, or in two neighbours.
        within = max(_lengths(sides, 0, place))
        here, beside = f"{BUCKET} {place}", f"{BUCKET} {place} 2"
        first = first.withColumn(here, floor_divided(sides.clocks[0].micros, within))
        there = floor_divided(sides.clocks[place].micros, within)
        around = sf.explode(sf.array(there - 1, there, there + 1))
        second = second.withColumn(beside, around)
        near &= sf.col(f"`{here}`") == sf.col(f"`{beside}`")
    return first.join(second, near)


def _counted(sides: Sides) -> DataFrame:
    """Join each event with the last events of the other stream before it."""
    numbered = _numbered(sides)
    pairs = []
    for later in (0, 1):
        probes = numbered.filter(sf.col("side") == later)
        size = sides.select.window.lengths[1 - later]
        low = sf.greatest(sf.col("seen") - size, sf.lit(0).cast("long"))
        high = sf.col("seen") - 1
        probes = probes.filter(low <= high).withColumn("wanted", sf.explode(sf.sequence(low, high)))
        probes = probes.select("wanted", f"row{later}")
        others = numbered.filter(sf.col("side") == 1 - later)
        others = others.select(sf.col("number").alias("wanted"), f"row{1 - later}")
        pairs.append(probes.join(others, "wanted").select("row0", "row1"))
    united = pairs[0].unionByName(pairs[1])
    return united.select("row0.*", "row1.*").filter(sides.condition)


def _numbered(sides: Sides) -> DataFrame:
    """Union all events, each with its number and the number of the other stream's events before."""
    parts = []
    for place, frame in enumerate(sides.frames):
        ties = [tie.alias(f"tie{n}") for n, tie in enumerate(sides.ties(place))]
        row = sf.struct(*(sf.col(f"`{name}`") for name in frame.columns)).alias(f"row{place}")
        parts.append(
            frame.select(
                with_time(sides.time(place)).column.alias("time"),
                sf.lit(place).alias("side"),
                *ties,
                sf.monotonically_increasing_id().alias("arrival"),
                row,
            )
        )
    united = parts[0].unionByName(parts[1], allowMissingColumns=True)
    names = [f"tie{n}" for n in range(len(sides.ties(0)))]
    order = Window.orderBy("time", "side", *names, "arrival")
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    counts = [sf.sum((sf.col("side") == n).cast("long")).over(so_far) for n in (0, 1)]
    first = sf.col("side") == 0
    return united.withColumns(
        {
            "number": sf.when(first, counts[0]).otherwise(counts[1]) - 1,
            "seen": sf.when(first, counts[1]).otherwise(counts[0]),
        }
    )
