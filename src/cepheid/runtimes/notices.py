"""Warn about odd events of a run, in one sentence each, by Python's warnings.

A warning changes no answer. It says what was most likely meant: W206 to W208 in ``docs/errors.md``.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa

from cepheid.arrays.columns import Columns, notice_types, read_times
from cepheid.arrays.noticing import Noticed, noticing
from cepheid.errors import NAMES_LISTED_MAX
from cepheid.jobs.kind import NamedType, kind_of
from cepheid.jobs.prepared import Prepared
from cepheid.language import tree
from cepheid.patterns.thresholds import Threshold
from cepheid.plans.plan import Plan
from cepheid.store.candidates import SymbolSource
from cepheid.store.snapshot import Interval, Snapshot

TICK_OF_MICROSECONDS = 1000
EVENTS_MIN = 2
"""One event says too little about the unit of its time."""

YEARS = (946_684_800, 4_102_444_800)
"""2000-01-01 and 2100-01-01 in seconds: events of people happen between them."""

UNITS = (("s", 1, "seconds"), ("ms", 1000, "milliseconds"), ("ns", 10**9, "nanoseconds"))
MISSING = "W206"
NOTICES = ("(W206)", "(W207)", "(W208)")
"""The ends of the warnings of this module."""

LIVE_EVENTS_MIN = 10_000
"""So many events of a live stream must have come before a type is called missing."""

STACK = 7
"""The number of stack frames between the caller's own line and the warning."""


def watched(
    plan: Plan, answer: Callable[[], pa.Table], prepared: Prepared | None = None
) -> pa.Table:
    """Run a query in process, and warn of what is odd about its events.

    What is known of its plan need not be found again.
    """
    prepared = Prepared(plan) if prepared is None else prepared
    with noticing(Noticed(prepared.names)) as noticed:
        result = answer()
    # With LIMIT, events may be left that nobody has read.
    if plan.limit is None or len(result) < plan.limit:
        warn_of(_oddities_of(prepared, noticed))
    return result


def _oddities_of(prepared: Prepared, noticed: Noticed) -> list[str]:
    """Warn about odd events, unless their types are those of a run without a warning."""
    types = frozenset(noticed.types)
    if noticed.times is None and prepared.usual_types == types:
        return []
    found = oddities([prepared.plan], noticed)
    prepared.usual_types = None if found else types
    return found


def watched_tables(plan: Plan, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables of matches, and warn of what is odd after the last event."""
    noticed, waiting, rows = Noticed(names_of([plan])), iter(tables), 0
    while True:
        with noticing(noticed):
            table = next(waiting, None)
        if table is None:
            break
        rows += len(table)
        yield table
    if plan.limit is None or rows < plan.limit:
        warn_of(oddities([plan], noticed))


def look_at(plan: Plan, batches: Iterable[pa.Table]) -> list[str]:
    """Check events for oddities without running a query over them."""
    with noticing(Noticed(names_of([plan]))) as noticed:
        for batch in batches:
            columns = Columns(batch)
            read_times(columns, plan.time)
            notice_types(columns, plan.type)
    return oddities([plan], noticed)


def watched_store(
    plan: Plan, snapshot: Snapshot, answer: Callable[[], tuple[pa.Table, bool]]
) -> pa.Table:
    """Run a query over a store; where its indexes leave events out, they tell which types are not.

    ``answer`` gives the result, and whether all events were read.
    """
    with noticing(Noticed(names_of([plan]))) as noticed:
        result, whole = answer()
    if not whole or noticed.times is None:
        notice_store(plan, snapshot, noticed)
    if plan.limit is None or len(result) < plan.limit:
        warn_of(oddities([plan], noticed))
    return result


def notice_store(plan: Plan, snapshot: Snapshot, noticed: Noticed) -> None:
    """Notice what a store knows without reading its events: their times, and lacking types."""
    manifest = snapshot.manifest
    segments = [segment for segment in manifest.segments if segment.rows]
    if segments and pa.types.is_integer(manifest.schema.field(manifest.time).type):
        least = min(segment.first for segment in segments)
        if manifest.floor is not None:
            least = max(least, manifest.floor)
        noticed.add_times(least, max(segment.last for segment in segments), manifest.rows)
    if plan.type is None:
        return
    types = names_of_types(plan) - noticed.types
    lacking = {name for name in types if _is_lacking(snapshot, plan.type, name)}
    if lacking and not noticed.types:
        # Nothing was read: the first events offer types that there are.
        names = list(dict.fromkeys([manifest.time, plan.type]))
        first = next(snapshot.scan(Interval(), names), None)
        if first is not None:
            with noticing(noticed):
                notice_types(Columns(first), plan.type)
    if noticed.types:
        noticed.types |= types - lacking


def _is_lacking(snapshot: Snapshot, column: str, name: str) -> bool:
    """Check whether an index tells that no event has a type."""
    source = SymbolSource(snapshot, [Threshold(column, "=", (name,))])
    return source.usable and source.counts()[-1].candidates == 0


def warn_of(messages: Iterable[str]) -> None:
    """Issue warnings of Python."""
    for message in messages:
        warnings.warn(message, stacklevel=STACK)


class Oddity(NamedTuple):
    """Something odd: the code of the warning, the name that it is about, and the warning."""

    code: str
    about: str
    message: str

    @property
    def text(self) -> str:
        """Return the warning with its code."""
        return f"{self.message} ({self.code})"


def oddities(plans: Iterable[Plan], noticed: Noticed, *, all_types: bool = True) -> list[str]:
    """Warn about odd events, once for each oddity.

    Without ``all_types``, events of types that no query names may have been left out before.
    """
    return list(dict.fromkeys(odd.text for odd in find_odd(plans, noticed, all_types=all_types)))


def odd_so_far(
    plans: Iterable[Plan], noticed: Noticed, events: int, *, ended: bool = False
) -> list[Oddity]:
    """Find what is odd about the first events of a live stream.

    A type may come later, so nothing is said of missing types before `LIVE_EVENTS_MIN` events,
    unless the stream has ``ended``.
    """
    found = find_odd(plans, noticed, so_far=not ended)
    early = not ended and events < LIVE_EVENTS_MIN
    return [odd for odd in found if not (early and odd.code == MISSING)]


def find_odd(
    plans: Iterable[Plan], noticed: Noticed, *, all_types: bool = True, so_far: bool = False
) -> Iterator[Oddity]:
    """Yield what is odd, for every plan; ``so_far`` words it for a stream that goes on."""
    for plan in plans:
        known = noticed.types or not all_types
        if known:
            named = kind_of(plan).named_types(plan)
            yield from _odd_types(named, noticed.types, all_types=all_types, so_far=so_far)
        yield from _odd_times(plan, noticed)


# ---------------------------------------------------------------------------------------
# Types


def names_of(plans: Iterable[Plan]) -> set[str]:
    """Collect the types and variables of patterns."""
    named = [one for plan in plans for one in kind_of(plan).named_types(plan)]
    return {name for one in named for name in (one.variable, one.event_type)}


def names_of_types(plan: Plan) -> set[str]:
    """Collect the types of patterns."""
    return {one.event_type for one in kind_of(plan).named_types(plan)} - {tree.ANY_TYPE}


def _odd_types(
    named: Sequence[NamedType], seen: set[str], *, all_types: bool, so_far: bool
) -> Iterator[Oddity]:
    """Warn about types that no event has, and about variables that are types of the data."""
    types: dict[str, bool] = {}
    for one in named:
        types[one.event_type] = types.get(one.event_type, False) or one.required
    others = {name.lower(): name for name in sorted(seen - set(types))}
    # A type of the pattern that differs by its case alone was meant twice.
    cases = {name.lower(): name for name in sorted(seen)}
    unknown = {tree.ANY_TYPE, *(one.event_type for one in named if not one.known)}
    for name, required in types.items():
        if name in seen or name in unknown:
            continue
        close = difflib.get_close_matches(name.lower(), others, n=1, cutoff=0.6)
        near = cases.get(name.lower()) or (others[close[0]] if close else "")
        if near or required:
            lacking = f"no event {'so far ' * so_far}has the type `{name}`"
            if not all_types:
                yield Oddity(MISSING, name, lacking)
                continue
            meant = f": did you mean `{near}`?" if near else ";"
            shown = ", ".join(sorted(seen)[:NAMES_LISTED_MAX])
            more = f" and {len(seen) - NAMES_LISTED_MAX} more" * (len(seen) > NAMES_LISTED_MAX)
            yield Oddity(MISSING, name, f"{lacking}{meant} types are: {shown}{more}")
    for variable, name, *_ in named:
        if variable != name and variable in seen and name != tree.ANY_TYPE:
            yield Oddity(
                "W207",
                variable,
                f"`{variable}` is a type of the data, and here a variable for events of the "
                f"type `{name}`: for one after the other write `SEQ({name}, {variable})`",
            )


# ---------------------------------------------------------------------------------------
# Times


def _odd_times(plan: Plan, noticed: Noticed) -> Iterator[Oddity]:
    """Warn about whole numbers that are plausible dates in another unit than the query's."""
    if noticed.times is None or noticed.events < EVENTS_MIN:
        return
    if plan.tick_ns != TICK_OF_MICROSECONDS:
        return
    least, largest = noticed.times
    for unit, ticks, name in UNITS:
        if YEARS[0] * ticks <= least and largest < YEARS[1] * ticks:
            scales = {"microseconds": 10**6, "milliseconds": 1000, "seconds": 1, name: ticks}
            dates = ", ".join(f"{_date(least, scale)} in {u}" for u, scale in scales.items())
            yield Oddity(
                "W208",
                plan.time,
                f"the times of `{plan.time}` look like {name} and are read as microseconds: {least}"
                f" is {dates}; name the unit: `cepheid.query(..., time_unit='{unit}')`",
            )


def _date(time: int, ticks: int) -> str:
    """Write a time as a date, or as a year where dates end."""
    try:
        return f"{datetime.fromtimestamp(time // ticks, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"the year {1970 + time // ticks // 31_556_952:,}"
