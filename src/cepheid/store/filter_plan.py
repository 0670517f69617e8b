"""Plan which times of a store may hold events that satisfy conditions on single events.

Comparisons of the time column become ranges of time. Other comparisons with constants are checked
against the minima and maxima of blocks, and looked up in secondary indexes if that is cheaper.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.events.nanoseconds import PER_MICROSECOND, is_nanoseconds
from cepheid.language import tree
from cepheid.patterns.thresholds import Threshold, read_threshold
from cepheid.store.candidates import SymbolSource
from cepheid.store.cost import StreamSize, replay_cost
from cepheid.store.rates import read_rates
from cepheid.store.replay_intervals import common, merged
from cepheid.store.replay_plan import count_groups, span_of, total_groups
from cepheid.store.snapshot import Cover, Interval, Snapshot

_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)


class FilterPlan(NamedTuple):
    """The part of a store to read: ``cover`` (None for all), ``groups`` of ``total`` row groups.

    ``interval`` is the range of time that the conditions allow; ``rest`` are all other conditions.
    """

    cover: Cover | None
    reason: str
    groups: int
    total: int
    interval: Interval
    rest: tuple[tree.Expression, ...]


def plan_filter(
    snapshot: Snapshot, conditions: Sequence[tree.Expression], time: str, method: str = "auto"
) -> FilterPlan:
    """Plan the reads for events that satisfy all of some conditions.

    ``method`` is "auto", "index" (all that can be looked up) or "replay" (everything).
    """
    total = total_groups(snapshot)
    own = time == snapshot.manifest.time
    interval, rest = time_bounds(conditions, snapshot) if own else (Interval(), tuple(conditions))
    everything = FilterPlan(None, "", total, total, interval, rest)
    if method == "replay":
        return everything._replace(reason="a full replay is asked for")
    covers, reasons = [], []
    if interval != Interval():
        covers.append(Cover.of(interval))
        reasons.append(f"a range of `{time}` is asked for")
    thresholds = [t for part in rest for t in thresholds_in(part)]
    source = SymbolSource(snapshot, thresholds)
    if source.light:
        found = source.find(0)
        covers.append(merged(found.low, found.high + 1))
        shown = " and ".join(str(look_up) for look_up in source.look_ups)
        reasons.append(f"least and largest values of blocks are compared: {shown}")
    cover = None if not covers else covers[0] if len(covers) == 1 else common(*covers)
    depth = _depth(snapshot, source, cover, total, method)
    if depth:
        found = source.find(depth)
        exact = merged(found.low, found.high + 1)
        cover = exact if cover is None else common(cover, exact)
        reasons.append(f"{depth} secondary index{'' if depth == 1 else 'es'} looked up")
    if cover is None:
        why = "no condition compares an indexed column with a constant" if conditions else ""
        return everything._replace(reason=why or "there is no condition")
    groups = count_groups(snapshot, cover)
    return FilterPlan(cover, "; ".join(reasons), groups, total, interval, rest)


def _depth(
    snapshot: Snapshot, source: SymbolSource, cover: Cover | None, total: int, method: str
) -> int:
    """Choose the number of secondary indexes that are worth a look-up."""
    if not source.depth or method == "index" or not total:
        return source.depth
    left = total if cover is None else count_groups(snapshot, cover)
    manifest, rates = snapshot.manifest, read_rates()
    rows, segments = manifest.rows, len(manifest.segments)
    span = span_of(snapshot)
    stream = StreamSize(left, total, left / total, span, 0, rows=rows, segments=segments)
    costs = [replay_cost(left, left / total, stream, rates)]
    for depth in range(1, source.depth + 1):
        found = source.count(depth)
        # Candidates fall onto row groups like balls into urns (Cardenas).
        touched = left * -np.expm1(found.candidates * np.log1p(-1 / max(left, 2)))
        looking = found.entries * rates.entry + depth * stream.segments * rates.look_up
        costs.append(replay_cost(touched, touched / total, stream, rates) + looking)
    return int(np.argmin(costs))


def thresholds_in(condition: tree.Expression) -> Iterator[Threshold]:
    """Yield the comparisons with constants that hold where a condition does."""
    for part in _comparisons(condition):
        threshold = read_threshold(part)
        if threshold is not None:
            yield threshold


def _comparisons(condition: tree.Expression) -> Iterator[tree.Expression]:
    """Split BETWEEN into two comparisons, and yield everything else unchanged."""
    if isinstance(condition, tree.Between) and not condition.negated:
        for operator, bound in ((">=", condition.low), ("<=", condition.high)):
            yield tree.Binary(
                span=condition.span, operator=operator, left=condition.operand, right=bound
            )
    else:
        yield condition


def time_bounds(
    conditions: Sequence[tree.Expression], snapshot: Snapshot
) -> tuple[Interval, tuple[tree.Expression, ...]]:
    """Intersect the time comparisons to one range, and return it with the other conditions."""
    time = snapshot.manifest.time
    kind = snapshot.manifest.schema.field(time).type
    begin: int | None = None
    end: int | None = None
    rest = []
    for condition in conditions:
        bounds = [_bound(part, time, kind) for part in _comparisons(condition)]
        known = [bound for bound in bounds if bound is not None]
        if len(known) < len(bounds):
            rest.append(condition)
            continue
        for low, high in known:
            begin = low if begin is None or (low is not None and low > begin) else begin
            end = high if end is None or (high is not None and high < end) else end
    return Interval(begin, end), tuple(rest)


def _bound(
    part: tree.Expression, time: str, kind: pa.DataType
) -> tuple[int | None, int | None] | None:
    """Convert one comparison of the time to a range [begin, end); None for other conditions."""
    threshold = read_threshold(part)
    if threshold is None or threshold.attribute != time:
        return None
    return ticks_of(threshold, kind)


def ticks_of(threshold: Threshold, kind: pa.DataType) -> tuple[int | None, int | None] | None:
    """Convert a comparison of the time to a range [begin, end) of ticks; None if it is none."""
    if len(threshold.values) != 1:
        return None
    value = threshold.values[0]
    whole = pa.types.is_integer(kind)
    tick = value if whole and isinstance(value, int) else None
    if not whole and isinstance(value, str):
        tick = _tick(value)
        if tick is not None and is_nanoseconds(kind):
            tick *= PER_MICROSECOND
    if tick is None or abs(tick) >= 2**62:
        return None
    ranges: dict[str, tuple[int | None, int | None]] = {
        "=": (tick, tick + 1),
        "<": (None, tick),
        "<=": (None, tick + 1),
        ">": (tick + 1, None),
        ">=": (tick, None),
    }
    return ranges.get(threshold.operator)


def _tick(text: str) -> int | None:
    """Parse a text as microseconds, in UTC if it names no zone (§4.6)."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return (zoned - _EPOCH) // dt.timedelta(microseconds=1)
