"""The step of queries that list matches: events in, lazy tables of matches out.

    step_matches(job, state, batch)     ->  (state, tables)
    advance_matches(job, state, until)  ->  (state, tables of matches that waited for a time)
    finish_matches(job, state)          ->  (state, tables of matches that waited for the end)

Tables must be read before the next step: reading them counts the matches, for their numbers and for
LIMIT. The rows and their order do not depend on how the stream is cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, gather
from cepheid.jobs.owned import EVERYTHING, Owned
from cepheid.kinds.trend.listing.ended_matches import Listing
from cepheid.kinds.trend.listing.enumerate import Lister, Places
from cepheid.kinds.trend.listing.found import Aligned, Found
from cepheid.kinds.trend.listing.global_predicates import check_built, keep_matches
from cepheid.kinds.trend.listing.match_sets import sets_of
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.windows.chosen_windows import choose
from cepheid.kinds.trend.windows.earlier_windows import EarlierWindows
from cepheid.kinds.trend.windows.match_tables import build_matches, tell
from cepheid.kinds.trend.windows.match_windows import Stretch, find_stretches
from cepheid.kinds.trend.windows.step import PartitionState, admit, known_until, release
from cepheid.patterns.segments import Segments
from cepheid.plans.plan import GlobalPredicate, WindowKind

Tables = Iterator[pa.Table]


class ListsMatches(Protocol):
    """Lists the matches of segments, on the CPU or on a device."""

    segments: Segments
    rest: tuple[GlobalPredicate, ...]
    """Conditions on whole matches that it does not check itself."""

    def batches(self, most: int | None = None) -> Iterator[Found]:
        """List the matches, in the order of their last events."""


Listed = Callable[[Job, Stretch, Places], ListsMatches]
"""Creates a lister of a stretch; the last argument finds the rows that end listed matches."""


def step_matches(
    job: Job, state: PartitionState, batch: pa.Table, owned: Owned = EVERYTHING
) -> tuple[PartitionState, Tables]:
    """Process a batch; return the new state and the matches that are complete.

    Raises
    ------
    DataError
        E505 and E506 if a column is missing or has a wrong type, E509 if the batch is not in order.
    """
    state = state.copy()
    if is_enough(job, state):
        return state, iter(())
    ready = admit(job, state, batch)
    if ready is None:
        return state, iter(())
    return state, _list(
        job, state, find_stretches(job, state, ready, known_until(job, state)), owned
    )


def advance_matches(job: Job, state: PartitionState, until: int) -> tuple[PartitionState, Tables]:
    """List the matches that are complete at a time; no earlier event comes any more.

    All events so far are earlier than ``until``.
    """
    state = state.copy()
    waiting = release(job, state, until)
    state.last = until
    until -= job.horizon
    if waiting is None and state.events is not None:
        waiting = state.events.slice(0, 0)
    if waiting is None or is_enough(job, state):
        return state, iter(())
    return state, _list(job, state, find_stretches(job, state, waiting, until), EVERYTHING)


def finish_matches(
    job: Job, state: PartitionState, batch: pa.Table | None = None, owned: Owned = EVERYTHING,
    listing: Listed | None = None,
) -> tuple[PartitionState, Tables]:  # fmt: skip
    """List the matches that waited for the end of the stream.

    ``batch`` are the last events, if they are known to be the last: this saves a step. With
    ``listing``, a device lists the matches.
    """
    state = state.copy()
    if is_enough(job, state):
        return state, iter(())
    waiting = [] if batch is None else [admit(job, state, batch)]
    known = [table for table in (*waiting, release(job, state, None)) if table is not None]
    if not known and state.events is not None:
        known = [state.events.slice(0, 0)]
    if not known:
        return state, iter(())
    rest = pa.concat_tables(known)
    stretches = find_stretches(job, state, rest, None, by_key=listing is not None)
    return state, _list(job, state, stretches, owned, listing)


def is_enough(job: Job, state: PartitionState) -> bool:
    """Check whether LIMIT is reached."""
    limit = job.plan.output.limit
    return limit is not None and state.listed >= limit


def empty_matches(job: Job, schema: pa.Schema) -> pa.Table:
    """Create an empty table of matches, for its schema."""
    table = schema.empty_table()
    if job.plan.columns is not None:
        table = table.select([name for name in table.column_names if job.reads(name)])
    none = np.zeros(0, np.int64)
    nothing = Found(none, none, np.zeros(1, np.int64), none, none.astype(np.int8))
    return build_matches(job, nothing, none, Columns(table), 1)


def _list(
    job: Job, state: PartitionState, stretches: Iterable[Stretch], owned: Owned,
    listing: Listed | None = None,
) -> Tables:  # fmt: skip
    limit = job.plan.output.limit
    placed: Iterator[tuple[Found | Aligned, NDArray[np.int64]]]
    for stretch in stretches:
        columns = stretch.question.columns
        if listing is not None:
            lister = listing(job, stretch, _wanted(job, stretch, owned))
            placed = _placed(job, state, stretch, lister)
        elif stretch.walker is not None:
            begins = stretch.start(stretch.segments)
            matches = stretch.walker.batches(_wanted(job, stretch, owned)(stretch.segments), limit)
            placed = ((found, gather(begins, found.last)) for found in matches)
        elif job.patterns > 1:
            placed = _sets(job, stretch, owned)
        else:
            placed = _placed(job, state, stretch, _lister(job, stretch, owned))
        for found, starts in placed:
            kept = found if limit is None else found.head(min(limit - state.listed, len(found)))
            if len(kept):
                first = state.listed + 1
                state.listed += len(kept)
                yield build_matches(job, kept, starts[: len(kept)], columns, first)
            if is_enough(job, state):
                return


def _placed(
    job: Job, state: PartitionState, stretch: Stretch, lister: ListsMatches
) -> Iterator[tuple[Found, NDArray[np.int64]]]:
    """List the matches of a stretch, each with the start of its window."""
    starts = stretch.start(lister.segments)
    for found in _judged(job, state, stretch, lister):
        yield found, starts[found.last]


def _sets(job: Job, stretch: Stretch, owned: Owned) -> Iterator[tuple[Found, NDArray[np.int64]]]:
    """List the sets of matches of a stretch, each with the start of its window (§2.10)."""
    whole, reported = stretch.segments, _wanted(job, stretch, owned)
    if not stretch.earlier:
        # Partitions that end no set now have nothing to tell.
        some = np.unique(_owner(whole)[reported(whole)])
        whole = whole.take(some)._replace(base=np.arange(len(some)))
    least = whole.rows[stretch.bound(whole)]
    listings = []
    for template, judges in zip(job.plan.patterns, job.judges, strict=False):
        lister = Lister(
            stretch.question, template, whole, stretch.bound,
            lambda segments: np.ones(len(segments.rows), np.bool_), stretch.turn, judges,
        )  # fmt: skip
        segments = lister.segments
        listings.append(
            Listing(
                lister, stretch.turn(segments), stretch.start(segments),
                least[_places(whole, segments)], reported(segments),
            )
        )  # fmt: skip
    columns = stretch.question.columns
    return sets_of(listings, job.variables, columns, repeats=bool(stretch.earlier))


def _owner(segments: Segments) -> NDArray[np.int64]:
    """Compute the segment of every row."""
    return np.repeat(np.arange(len(segments.key)), np.diff(segments.ptr))


def _places(whole: Segments, parts: Segments) -> NDArray[np.int64]:
    """Find the rows of parts in the segments that they are parts of (§4.3)."""
    if parts is whole:
        return np.arange(len(whole.rows))
    width = int(whole.rows.max(initial=0)) + 1
    names = _owner(whole) * width + whole.rows
    return np.searchsorted(names, parts.base[_owner(parts)] * width + parts.rows)


def _wanted(job: Job, stretch: Stretch, owned: Owned) -> Places:
    def wanted(segments: Segments) -> NDArray[np.bool_]:
        """Exclude rows that end matches of other tasks, so that these are not built."""
        rows = stretch.wanted(segments)
        if owned == EVERYTHING:
            return rows
        place = stretch.start(segments)
        if job.plan.window.kind is WindowKind.TRAILING:
            place = place + job.plan.window.within
        if owned.begin is not None:
            rows = rows & (place >= owned.begin)
        return rows if owned.end is None else rows & (place < owned.end)

    return wanted


def _lister(job: Job, stretch: Stretch, owned: Owned) -> Lister:
    (template,) = job.templates
    # Matches of earlier windows are found by their path, which roles would make ambiguous.
    judges = () if stretch.earlier else job.plan.globals
    return Lister(
        stretch.question, template, stretch.segments, stretch.bound, _wanted(job, stretch, owned),
        stretch.turn, judges, tell(job, stretch.question.columns),
    )  # fmt: skip


def _judged(
    job: Job, state: PartitionState, stretch: Stretch, lister: ListsMatches
) -> Iterator[Found]:
    """Filter the matches of a stretch by earlier windows and global predicates, or choose some."""
    if job.plan.skip is not None:
        assert isinstance(lister, Lister), "a device chooses no matches"
        yield from choose(job, state, stretch, lister)
        return
    window = job.plan.window
    judges = job.plan.globals if stretch.earlier else lister.rest
    # With predicates the number of matches to build is unknown.
    most = None if judges or stretch.earlier else job.plan.output.limit
    earlier = None
    if stretch.earlier:
        assert isinstance(lister, Lister), "a device knows no earlier windows"
        step = window.slide if window.kind is WindowKind.COUNT else 1
        earlier = EarlierWindows(lister, stretch.earlier, step)
    dropped = events = 0
    for batch in lister.batches(most):
        found = batch if earlier is None else earlier.drop_repeated(batch)
        kept = keep_matches(judges, stretch.question.columns, job.variables, found)
        # A caller that receives matches can stop early; one that receives none would wait forever.
        dropped, events = (0, 0) if len(kept) else (dropped + len(batch), events + len(batch.rows))
        check_built(dropped, events)
        yield kept
