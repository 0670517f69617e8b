"""Situations whose conditions look at more than one event (§9.10): PREV, UNTIL, aggregates so far.

Such a condition becomes a column of truth values before stretches are cut, one event after the
other in each partition. What it remembers of a partition is a row of a table:

    p0...        the values of the attributes of PREV at the last event
    o0...        whether a situation of a definition goes on
    t0.0, n0.0   of that situation, an aggregate and the number of values in it
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns
from cepheid.kinds.situation.job import SituationJob
from cepheid.plans.situations import Relative, RelativeDefinition

MASK = "\0holds "
"""Begins the name of the column that tells where a definition holds."""

CHUNK_MIN, CHUNK_MAX = 16, 4096
"""Events of a partition that are tried at once as the continuation of a situation."""

WIDTH_MAX, SPAN_MIN, SPAN_MAX, LANES_MAX, TRIED_MAX = 64, 64, 4096, 256, 1 << 17
"""Events after each one that a leap tries, events that it steps over, and partitions at once."""

Bools = NDArray[np.bool_]
Places = NDArray[np.int64]


class _Events(NamedTuple):
    """The events of a batch by partition: rows, partitions, and where each partition begins."""

    rows: Places
    key: Places
    begin: Places
    end: Places

    @staticmethod
    def of(key: Places) -> _Events:
        rows = np.flatnonzero(key >= 0)
        rows = rows[np.argsort(key[rows], kind="stable")]
        mine = key[rows]
        begin = np.flatnonzero(np.diff(mine, prepend=-1))
        return _Events(rows, mine, begin, np.append(begin, len(rows))[1:])


def with_masks(
    job: SituationJob, before: pa.Table | None, batch: pa.Table, key: Places, count: int
) -> tuple[pa.Table, pa.Table]:
    """Add the columns of relative conditions to a batch; return what to remember, and the batch.

    Parameters
    ----------
    before
        What is remembered of partitions, in the order of their numbers.
    key
        The partition of every event, -1 for none.
    count
        The number of partitions.
    """
    events = _Events.of(key)
    memory = _Memory(before, count)
    for number, name in enumerate(job.previous):
        column = memory.previous(events, f"p{number}", _plain(batch, name), len(key))
        batch = batch.append_column(Relative("PREV", name).column, column)
    sorted_batch = batch.take(events.rows)
    for number, relative in enumerate(job.situations.relative):
        run = _Run(job, relative, sorted_batch, events)
        mask = np.zeros(len(key), np.bool_)
        if run.totals:
            mask[events.rows] = run.follow(memory, number)
        elif relative.until is not None:
            mask[events.rows] = run.latch(memory, number)
        else:
            mask[events.rows] = run.alone()
        batch = batch.append_column(MASK + job.definitions[relative.number].name, pa.array(mask))
    return memory.table(), batch


def _plain(table: pa.Table, name: str) -> Any:
    column = Columns(table).arrow(name)
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


class _Memory:
    """The state of all partitions while a batch is processed."""

    def __init__(self, before: pa.Table | None, count: int) -> None:
        self._before, self._count = before, count
        self._columns: dict[str, Any] = {"": pa.nulls(count)}

    def numbers(self, name: str, dtype: type) -> NDArray[Any]:
        """Read a column of numbers; partitions that are new have zeros."""
        found: NDArray[Any] = np.zeros(self._count, dtype)
        if self._before is not None:
            known = self._before[name].to_numpy()
            found[: len(known)] = known
        return found

    def keep(self, name: str, values: NDArray[Any]) -> None:
        """Remember a column of numbers."""
        self._columns[name] = pa.array(values)

    def previous(self, events: _Events, name: str, column: Any, length: int) -> Any:
        """Build the column of previous values, and remember the last ones."""
        known = pa.nulls(self._count, column.type)
        if self._before is not None:
            old = self._before[name].cast(column.type).combine_chunks()
            known = pa.concat_arrays([old, pa.nulls(self._count - len(old), column.type)])
        values = pa.chunked_array([known, *column.chunks], column.type)
        earlier = np.append(-1, self._count + events.rows[:-1])[: len(events.rows)]
        earlier[events.begin] = events.key[events.begin]
        at = np.full(length, -1, np.int64)
        at[events.rows] = earlier
        last = np.arange(self._count)
        last[events.key[events.end - 1]] = self._count + events.rows[events.end - 1]
        self._columns[name] = values.take(last)
        wanted: Any = pa.array(at, mask=at < 0)
        return values.take(wanted)

    def table(self) -> pa.Table:
        """Build the table of what is remembered."""
        return pa.table(self._columns)


class _Run:
    """One definition over the events of a batch, which are sorted by partition."""

    def __init__(
        self, job: SituationJob, relative: RelativeDefinition, batch: pa.Table, events: _Events
    ) -> None:
        self._condition = job.definitions[relative.number].condition
        self._until = relative.until
        self._batch, self._events = batch, events
        self.totals = [_Total(use, batch) for use in relative.uses if use.function != "PREV"]

    def alone(self) -> Bools:
        """Check where a situation may begin: of an event alone, the condition holds."""
        rows = np.arange(len(self._events.rows))
        table = self._batch
        for total in self.totals:
            table = table.append_column(total.use.column, total.shown(*total.of_event(rows)))
        begins = Columns(table).mask(self._condition)
        return begins & ~Columns(table).mask(self._until) if self._until is not None else begins

    def latch(self, memory: _Memory, number: int) -> Bools:
        """Follow a situation that does not count: the last event that begins or ends it decides."""
        events, begins = self._events, self.alone()
        assert self._until is not None, "without UNTIL every event decides"
        decides = begins | Columns(self._batch).mask(self._until)
        goes_on = memory.numbers(f"o{number}", np.bool_)
        place = np.where(decides, np.arange(len(begins)), -1)
        # Places grow from partition to partition, so those of another one are below its begin.
        last = np.maximum.accumulate(place)
        own = last >= np.repeat(events.begin, events.end - events.begin)
        found: Bools = np.where(own, begins[last], goes_on[events.key])
        goes_on[events.key[events.end - 1]] = found[events.end - 1]
        memory.keep(f"o{number}", goes_on)
        return found

    def follow(self, memory: _Memory, number: int) -> Bools:
        """Follow situations that aggregate their events, in all partitions at once."""
        events, begins = self._events, self.alone()
        found = np.zeros(len(begins), np.bool_)
        keys = events.key[events.begin]
        goes_on = memory.numbers(f"o{number}", np.bool_)
        kept = []
        for n in range(len(self.totals)):
            counts = memory.numbers(f"n{number}.{n}", np.int64)
            kept.append((memory.numbers(f"t{number}.{n}", np.float64), counts))
        is_open, so_far = goes_on[keys], [(t[keys], n[keys]) for t, n in kept]
        at, end, chunk = events.begin.copy(), events.end, CHUNK_MIN
        began, leap = at.copy(), _Leap(self, begins, found, end)
        while True:
            closed = np.flatnonzero(~is_open & (at < end))
            leap.over_short_runs(closed, at)
            at[closed] = leap.next_begin(at[closed], end[closed])
            closed = closed[at[closed] < end[closed]]
            found[at[closed]], is_open[closed], began[closed] = True, True, at[closed]
            for total, (value, counted) in zip(self.totals, so_far, strict=True):
                value[closed], counted[closed] = total.of_event(at[closed])
            at[closed] += 1
            going = np.flatnonzero(is_open & (at < end))
            if not len(going):
                break
            length = np.minimum(end[going] - at[going], chunk)
            ended = self._continue(going, at, length, so_far, found)
            is_open[going[ended]] = False
            leap.learn((at - began)[going[ended]])
            chunk = min(chunk * 2, CHUNK_MAX) if not ended.any() else max(chunk // 2, CHUNK_MIN)
        goes_on[keys] = is_open
        memory.keep(f"o{number}", goes_on)
        for n, ((values, counts), (value, counted)) in enumerate(zip(kept, so_far, strict=True)):
            values[keys], counts[keys] = value, counted
            memory.keep(f"t{number}.{n}", values)
            memory.keep(f"n{number}.{n}", counts)
        return found

    def _continue(
        self, going: Places, at: Places, length: Places, so_far: list[Any], found: Bools
    ) -> Bools:
        """Try the next events of open situations; tell which of them have ended."""
        tried = self.attempt(at[going], length, [(v[going], n[going]) for v, n in so_far])
        taken, ended = tried.taken, tried.ended
        found[tried.rows[np.arange(tried.rows.shape[1]) < taken[:, None]]] = True
        some = taken > 0
        last = taken[some] - 1
        for (value, counted), (values, counts) in zip(so_far, tried.running, strict=True):
            value[going[some]] = values[some, last]
            counted[going[some]] = counts[some, last]
        # The event that ends a situation is in none.
        at[going] += taken + ended
        return ended

    def attempt(self, at: Places, length: Places, so_far: list[Any]) -> _Attempt:
        """Look how far situations go on with the events from some places on."""
        wide = max(int(length.max()), 1)
        inside = np.arange(wide) < length[:, None]
        rows = np.where(inside, at[:, None] + np.arange(wide), 0)
        table = self._batch.take(rows[inside])
        running = []
        for total, (value, counted) in zip(self.totals, so_far, strict=True):
            running.append(total.along(rows, inside, value, counted))
            values, counts = running[-1]
            shown = total.shown(values[inside], counts[inside])
            table = table.append_column(total.use.column, shown)
        if self._until is not None:
            holds = ~Columns(table).mask(self._until)
        else:
            holds = Columns(table).mask(self._condition)
        matrix = np.ones(rows.shape, np.bool_)
        matrix[inside] = holds
        ended = ~matrix.all(axis=1)
        taken = np.where(ended, np.argmin(matrix, axis=1), length)
        return _Attempt(rows, running, taken, np.asarray(ended))


class _Attempt(NamedTuple):
    """Places and aggregates of tried events, a row for each situation; what it takes of them."""

    rows: Places
    running: list[tuple[NDArray[np.float64], Places]]
    taken: Places
    ended: Bools


class _Leap:
    """Steps over many short situations of a partition at once.

    Where situations were short, one is tried from every event that may begin one, of a span of
    events; then those are kept that follow each other. The span grows while this goes well.
    """

    def __init__(self, run: _Run, begins: Bools, found: Bools, end: Places) -> None:
        self._run, self._begins, self._found, self._end = run, begins, found, end
        self._width, self._span = 0, SPAN_MIN
        # The first event at or after each one with which a situation may begin.
        places = np.where(begins, np.arange(len(begins)), len(begins))
        first = np.minimum.accumulate(places[::-1])[::-1]
        self._following = np.append(first, len(begins))

    def next_begin(self, at: Places, end: Places) -> Places:
        """Find where the next situations begin, or the ends of partitions."""
        return np.asarray(np.minimum(self._following[at], end), np.int64)

    def learn(self, lengths: Places) -> None:
        """Decide by the situations that ended how many events are tried from each event."""
        width = max(2 * int(lengths.max()), CHUNK_MIN // 2) if len(lengths) else WIDTH_MAX + 1
        self._width = width if width <= WIDTH_MAX else 0

    def over_short_runs(self, lanes: Places, at: Places) -> None:
        """Move closed partitions forward to the first situation that is not short."""
        while self._width and 0 < len(lanes) <= LANES_MAX:
            span = min(self._span, TRIED_MAX // self._width // len(lanes))
            upto = np.minimum(at[lanes] + span, self._end[lanes])
            self._leap(lanes, at, upto)
            short = at[lanes] >= upto
            self._span = min(self._span * 2, SPAN_MAX) if short.all() else SPAN_MIN
            lanes = lanes[short & (at[lanes] < self._end[lanes])]

    def _leap(self, lanes: Places, at: Places, upto: Places) -> None:
        """Settle the short situations before some places, and move forward behind them."""
        starts = self.next_begin(at[lanes], self._end[lanes])
        sizes = np.maximum(upto - starts, 0)
        lane = np.repeat(np.arange(len(lanes)), sizes)
        place = np.arange(len(lane)) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
        place, lane = place[self._begins[place]], lane[self._begins[place]]
        at[lanes] = starts
        if not len(place):
            return
        end = self._end[lanes[lane]]
        length = np.minimum(end - place - 1, self._width)
        of_event = [total.of_event(place) for total in self._run.totals]
        tried = self._run.attempt(place + 1, length, of_event)
        behind = np.minimum(self._following[place + tried.taken + 2 * tried.ended], end)
        behind = np.where(tried.ended, behind, place)
        # Situations that follow each other; one that goes on too long, or too far, is the last one.
        count = len(place)
        follows = np.searchsorted(place, behind)
        follows[~tried.ended | (behind >= upto[lane])] = count
        chain = _chain(follows, np.searchsorted(place, starts[sizes > 0]))
        at[lanes[lane[chain]]] = behind[chain]
        mine = chain[tried.ended[chain]]
        taken = tried.taken[mine] + 1
        inside = np.arange(int(taken.max(initial=0))) < taken[:, None]
        self._found[(place[mine][:, None] + np.arange(inside.shape[1]))[inside]] = True


def _chain(follows: Places, first: Places) -> Places:
    """Collect, in order, what comes after some places; ``len(follows)`` is the end."""
    reached = np.zeros(len(follows) + 1, np.bool_)
    reached[first] = True
    jump = np.append(follows, len(follows))
    # With each round, jumps are twice as long.
    while (jump < len(follows)).any():
        reached[jump[reached]] = True
        jump = jump[jump]
    reached[jump[reached]] = True
    return np.flatnonzero(reached[:-1])


class _Total:
    """An aggregate of the events of a situation so far, or the value of its first event."""

    def __init__(self, use: Relative, batch: pa.Table) -> None:
        self.use = use
        self._values = np.ones(len(batch))
        self._valid = np.ones(len(batch), np.bool_)
        if use.attribute is not None:
            vector = Columns(batch).vector(use.attribute)
            numbers = np.broadcast_to(vector.numbers, len(batch)).astype(np.float64)
            if vector.valid is not None:
                self._valid = np.broadcast_to(vector.valid, len(batch)).copy()
            self._values = np.where(self._valid, numbers, self._nothing)

    @property
    def _nothing(self) -> float:
        return {"MIN": np.nan, "MAX": -np.inf}.get(self.use.function, 0.0)

    def of_event(self, rows: Places) -> tuple[NDArray[np.float64], Places]:
        """Aggregate single events."""
        return self._values[rows], self._valid[rows].astype(np.int64)

    def along(
        self, rows: Places, inside: Bools, value: NDArray[np.float64], counted: Places
    ) -> tuple[NDArray[np.float64], Places]:
        """Aggregate further events one after the other, a row of the matrix for each situation."""
        if self.use.function == "FIRST":
            return np.tile(value[:, None], rows.shape[1]), np.tile(counted[:, None], rows.shape[1])
        values = np.where(inside, self._values[rows], self._nothing)
        counts = np.cumsum(inside & self._valid[rows], axis=1) + counted[:, None]
        operation = {"MIN": np.fmin, "MAX": np.maximum}.get(self.use.function, np.add)
        start = np.where(counted > 0, value, self._nothing)
        with np.errstate(invalid="ignore"):
            both = operation.accumulate(np.column_stack([start, values]), axis=1)
        return both[:, 1:], counts

    def shown(self, values: NDArray[np.float64], counts: Places) -> Any:
        """Build the column that conditions read; an aggregate of no value is NULL."""
        match self.use.function:
            case "COUNT":
                return pa.array(counts)
            case "AVG":
                with np.errstate(invalid="ignore", divide="ignore"):
                    return pa.array(values / counts, mask=counts == 0)
        return pa.array(values, mask=counts == 0)
