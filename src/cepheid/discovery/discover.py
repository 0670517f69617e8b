"""``cepheid.discover``: the rules that hold in a log, and those that tell two groups apart."""

from __future__ import annotations

import contextlib
import time as clock
from collections.abc import Iterable, Iterator
from typing import Any

from cepheid import options
from cepheid.discovery import choice
from cepheid.discovery.cases import Names, check_columns, read_cases
from cepheid.discovery.counting import Counter, LocalCounter, Seen
from cepheid.discovery.found import Discovery, Search
from cepheid.discovery.growth import Growth
from cepheid.discovery.ladder import ladder
from cepheid.discovery.ranking import Groups
from cepheid.errors import DataError, Diagnostic
from cepheid.events.schema import read_schema
from cepheid.events.time_formats import TextTimes, as_format
from cepheid.jobs.sources import EventSource, source_of
from cepheid.jobs.ticks import TICKS_NS, tick_of
from cepheid.patterns.scope import Source

LENGTH_MAX = 8
TYPES_MAX = 1_000


def discover(
    events: object,
    *,
    key: str,
    label: str | None = None,
    support: float = 0.1,
    confidence: float = 0.9,
    max_length: int = 3,
    max_types: int = 100,
    max_candidates: int = 1_000_000,
    top: int = 20,
    time: str = "ts",
    type: str = "type",  # noqa: A002  # fixed name
    tiebreak: Iterable[str] = (),
    time_unit: str = "us",
    time_format: str | None = None,
) -> Discovery:
    """Find the rules that hold in a log of events, or that tell cases with a label from others.

    Parameters
    ----------
    events
        A table, a data frame, a reader, files, an event store or a DataFrame of Spark, as for
        ``q.run``.
    key
        The column that says which case an event belongs to: a session, an order, a machine.
    label
        A column that is true for all events of the cases that you look for. With it, rules are
        ranked by how well their reports tell these cases from others; without it, by how often
        they hold.
    support
        The share of the cases that a rule must speak of; with a label, the share of the cases
        with the label that its query must report.
    confidence
        Without a label: the share of these cases in which a rule must hold.
    max_length
        The number of types of the longest sequence, 2 to 8.
    max_types
        How many types are looked at, up to 1,000: those that most cases have.
    max_candidates
        How many rules are counted at most; longer sequences are left out first.
    top
        How many rules are returned; without a label of each family.
    time, type, tiebreak, time_unit, time_format
        As for :func:`cepheid.query`.

    Raises
    ------
    OptionError
        E590 and E592 for values that cannot be used.
    DataError
        E505 for a missing column, E595 for a label that is not one of cases, E506 and others for
        events that cannot be read.

    Examples
    --------
    >>> import pyarrow as pa
    >>> events = pa.table({"ts": range(6), "case": [1, 1, 2, 2, 3, 3],
    ...                    "type": ["order", "pay", "order", "pay", "order", "cancel"]})
    >>> found = discover(events, key="case", support=0.5, confidence=0.6, top=1)
    >>> found.table["rule"].to_pylist()
    ['init(order)', 'order → pay within 1 millisecond', 'order, pay within 1 millisecond']
    """
    options.texts(key=key, time=time, type=type)
    _check(support, confidence, max_length, max_types, max_candidates, top)
    options.one_of("time_unit", time_unit, TICKS_NS)
    names = Names(key, time, type, label, options.names_in("tiebreak", tiebreak))
    began = clock.perf_counter()
    times = TextTimes(time, as_format(time_format))
    unit = Source(time, type, names.tiebreak, None, time_unit)
    if options.holder_of(events) is options.Held.FRAME:
        from cepheid.discovery.on_spark import spark_counter

        counting = spark_counter(events, names, unit, max_types)
    else:
        counting = _local_counter(source_of(events, times), names, unit, max_types)
    with counting as (counter, lengths):
        seen = counter.seen
        _check_groups(seen.groups, names)
        growth = Growth(counter, len(lengths) + 1, support, max_candidates)
        found = list(growth.candidates(max_length))
    if label is None:
        cases = seen.groups.cases
        habits = choice.Habits(cases, growth.has / cases, seen.events / cases)
        rows = choice.common(found, habits, choice.Bounds(support, confidence, top))
    else:
        rows = choice.telling(found, seen.groups, support, top)
    seconds = clock.perf_counter() - began
    search = Search(names, seen, lengths, growth.counted, growth.left_out, seconds)
    return Discovery.of(rows, search)


@contextlib.contextmanager
def _local_counter(
    source: EventSource, names: Names, unit: Source, max_types: int
) -> Iterator[tuple[Counter, tuple[int, ...]]]:
    """Read all events into this process."""
    check_columns(source.schema.names, names)
    table = source.whole(names.all)
    log = read_cases(table, names, max_types)
    groups = Groups(log.cases.size, int(log.cases.labels.sum()))
    seen = Seen(log.types, groups, len(log.cases.case), log.other_types, log.without_key)
    lengths, ticks = ladder(tick_of(unit, [read_schema(table.schema)]))
    yield LocalCounter(log.cases, seen, ticks), lengths


def _check_groups(groups: Groups, names: Names) -> None:
    if not groups.cases:
        message = f"there is no event with a `{names.key}`"
        raise DataError([Diagnostic("E595", message, helps=("name the column of the cases",))])
    if names.label is not None and groups.labelled in (0, groups.cases):
        every = "every case" if groups.labelled else "no case"
        message = f"{every} has the label `{names.label}`, so there is nothing to tell apart"
        raise DataError([Diagnostic("E595", message, helps=("leave the label out",))])


def _check(
    support: float, confidence: float, max_length: int, max_types: int, limit: int, top: int
) -> None:
    shares: dict[str, Any] = {"support": support, "confidence": confidence}
    for name, value in shares.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            options.refuse("E590", f"{name} is more than 0 and at most 1, not {value!r}")
    numbers: dict[str, tuple[Any, int, int]] = {
        "max_length": (max_length, 2, LENGTH_MAX),
        "max_types": (max_types, 1, TYPES_MAX),
        "max_candidates": (limit, 1, 100_000_000),
        "top": (top, 1, 100_000),
    }
    for name, (value, least, most) in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            options.refuse("E590", f"{name} is a number from {least} to {most:,}, not {value!r}")
