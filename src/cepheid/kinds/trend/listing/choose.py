"""Choose matches that do not overlap: AFTER MATCH SKIP (§14).

Without conditions on whole matches, only the chosen matches are built (``kernels/choose.py``). With
them, all matches are listed and filtered, and the chosen ones remain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.errors import DataError, Diagnostic
from cepheid.kernels import choose as kernel
from cepheid.kernels.enumerate import FRAME, FULL, MISSING
from cepheid.kinds.trend.listing.enumerate import BINDINGS_ROOM, Lister
from cepheid.kinds.trend.listing.found import Found
from cepheid.kinds.trend.listing.global_predicates import check_built, keep_matches
from cepheid.language import tree
from cepheid.plans.marks import variable_of
from cepheid.plans.plan import SkipPlan

MATCHES_ROOM = 1 << 14
"""Maximum number of matches of one batch."""

_MODES = {
    tree.SkipMode.PAST_LAST: kernel.PAST_LAST,
    tree.SkipMode.TO_NEXT: kernel.TO_NEXT,
    tree.SkipMode.TO_FIRST: kernel.TO_FIRST,
    tree.SkipMode.TO_LAST: kernel.TO_LAST,
}


class _Choosing(NamedTuple):
    """The arrays of the kernel: of rows of the input, of rows of segments, and of variables.

    ``limit`` is for each key the first row that may begin a match, ``used`` marks rows that begin a
    chosen one; ``after`` and ``same`` are the first rows after a row, and of the same time.
    """

    row_of: NDArray[np.int64]
    key: NDArray[np.int64]
    after: NDArray[np.int64]
    same: NDArray[np.int64]
    limit: NDArray[np.int64]
    used: NDArray[np.bool_]
    rank: NDArray[np.int64]
    alive: NDArray[np.int64]
    jump: NDArray[np.int64]
    jumped: NDArray[np.int64]
    front: NDArray[np.int64]
    following: NDArray[np.int64]
    path: NDArray[np.int64]
    bound: NDArray[np.int8]
    best_path: NDArray[np.int64]
    best_bound: NDArray[np.int8]


class Chooser:
    """Chooses the matches of a stretch.

    Parameters
    ----------
    barred
        The rows of the input that may not begin a match, because of matches chosen before.
    """

    def __init__(self, skip: SkipPlan, lister: Lister, barred: NDArray[np.bool_]) -> None:
        self._skip, self._lister = skip, lister
        question = lister.question
        self._variables = question.variables
        # Variables that are not written stand for what ends a loop, and no match binds them.
        places = {name: place for place, name in enumerate(skip.written)}
        # Variants of a variable are one (§2.12).
        ranks = [places.get(variable_of(v), -1) for v in question.variables]
        self._rank = np.array(ranks, np.int64)
        self._key = question.arrays.key
        place = np.arange(len(self._key))
        self._same, self._after = place, place + 1
        if question.together:
            times = question.arrays.ts
            self._same = np.searchsorted(times, times, side="left")
            self._after = np.searchsorted(times, times, side="right")
        self._limit = np.zeros(int(self._key.max(initial=0)) + 1, np.int64)
        np.maximum.at(self._limit, self._key[barred], place[barred] + 1)
        self._used = barred.copy()
        if skip.mode is tree.SkipMode.TO_NEXT:
            self._limit[:] = 0

    @property
    def barred(self) -> NDArray[np.bool_]:
        """Mark the rows that may not begin a match any more."""
        if self._skip.mode is tree.SkipMode.TO_NEXT:
            return self._used
        return np.asarray(np.arange(len(self._key)) < self._limit[self._key])

    def batches(self) -> Iterator[Found]:
        """Choose matches, in the order of their last events.

        Raises
        ------
        DataError
            E345 and E346 if a chosen match has no event to skip to; E512 if there are too many
            matches to check.
        """
        latest = self._skip.mode is tree.SkipMode.TO_LATEST
        listed = latest or self._lister.rest or self._lister.judged
        yield from self._among_all() if listed else self._directly()

    def _directly(self) -> Iterator[Found]:
        lister, arrays = self._lister, self._lister.arrays
        longest = max(lister.segments.longest, 1)
        states = len(lister.graph.variable)
        members = len(arrays.member)
        choosing = _Choosing(
            lister.segments.rows, self._key, self._after, self._same, self._limit, self._used,
            self._rank, np.zeros((len(lister.segments.rows), states), np.int64),
            np.zeros(members, np.int64), np.zeros(members, np.int64), np.zeros(states, np.int64),
            np.zeros(states, np.int64), *_room(longest), *_room(longest),
        )  # fmt: skip
        variable = self._target
        cursor, frame = np.zeros(kernel.FIELDS, np.int64), np.zeros(FRAME, np.int64)
        out_last, out_ptr = np.zeros(MATCHES_ROOM, np.int64), np.zeros(MATCHES_ROOM + 1, np.int64)
        out_row, out_variable = _room(max(BINDINGS_ROOM, longest))
        status = FULL
        while status in (FULL, MISSING):
            status = kernel.choose_matches(
                lister.graph, lister.data, arrays, choosing, lister.semantics,
                _MODES[self._skip.mode], variable, cursor, frame, out_last, out_ptr, out_row,
                out_variable,
            )  # fmt: skip
            if status == MISSING:
                lister.load_mask(int(cursor[kernel.WANTED]))
                continue
            count, bindings = int(cursor[kernel.COUNT]), int(cursor[kernel.BINDINGS])
            cursor[kernel.COUNT] = cursor[kernel.BINDINGS] = 0
            last = out_last[:count].copy()
            self._check(status)
            if count:
                yield Found(
                    arrays.segment_of[last], last, out_ptr[: count + 1].copy(),
                    out_row[:bindings].copy(), out_variable[:bindings].copy(),
                )  # fmt: skip

    @property
    def _target(self) -> int:
        """Return the rank of the variable that the skip goes to, which is its place as written."""
        name = self._skip.variable
        return -1 if name is None else self._skip.written.index(name)

    def _check(self, status: int) -> None:
        """Raise an error if the last match that was chosen has no event to skip to."""
        if status == kernel.ABSENT:
            message = f"a chosen match has no event of `{self._skip.variable}` to skip to"
            helps = ("skip `TO NEXT`, or to a variable that every match binds",)
            raise DataError([Diagnostic("E346", message, helps=helps)])
        if status == kernel.AT_FIRST:
            message = f"the skip to `{self._skip.variable}` goes to the first event of its match"
            helps = ("skip `TO NEXT`, or to a variable that begins no match",)
            raise DataError([Diagnostic("E345", message, helps=helps)])

    # Conditions on whole matches -----------------------------------------------------------------

    def _among_all(self) -> Iterator[Found]:
        lister, columns = self._lister, self._lister.question.columns
        waiting: Found | None = None
        built = events = 0
        for batch in lister.batches():
            built, events = built + len(batch), events + len(batch.rows)
            check_built(built, events)
            found = keep_matches(lister.rest, columns, self._variables, batch)
            found = found if waiting is None else concatenate([waiting, found])
            if not len(found):
                continue
            found = self._preferred(found)
            # Matches with the same last event may follow in the next batch.
            ends = found.rows[found.ptr[1:] - 1]
            ready = int(np.searchsorted(ends, ends[-1]))
            waiting = found.take(np.arange(len(found)) >= ready)
            chosen = self._choose(found.head(ready))
            if len(chosen):
                built = events = 0
                yield chosen
        if waiting is not None:
            yield self._choose(waiting)

    def _preferred(self, found: Found) -> Found:
        """Keep one match for each first and last event, sorted; for TO LATEST one for each end."""
        kept = np.zeros(len(found), np.bool_)
        ends = found.rows[found.ptr[1:] - 1]
        if self._skip.mode is tree.SkipMode.TO_LATEST:
            kernel.keep_latest(ends, found.ptr, found.rows, found.variables, self._rank, kept)
            return found.take(kept)
        best = np.full(len(self._key), -1, np.int64)
        kernel.keep_preferred(ends, found.ptr, found.rows, found.variables, self._rank, best, kept)
        found = found.take(kept)
        order = np.lexsort((found.rows[found.ptr[:-1]], found.rows[found.ptr[1:] - 1]))
        return found.reordered(order)

    def _choose(self, found: Found) -> Found:
        if not len(found) or self._skip.mode is tree.SkipMode.TO_LATEST:
            return found
        first, last = found.rows[found.ptr[:-1]], found.rows[found.ptr[1:] - 1]
        chosen = np.zeros(len(found), np.bool_)
        status = kernel.choose_listed(
            _MODES[self._skip.mode], self._key[last], first, last, self._targets(found),
            self._after, self._same, self._limit, self._used, chosen,
        )  # fmt: skip
        self._check(status)
        return found.take(chosen)

    def _targets(self, found: Found) -> NDArray[np.int64]:
        """Find the row that each match would skip to, -1 for none."""
        targets = np.full(len(found), -1, np.int64)
        mine = np.flatnonzero(self._rank[found.variables] == self._target)
        if self._skip.mode is tree.SkipMode.TO_FIRST:
            mine = mine[::-1]  # Of several assignments, the last one counts.
        targets[found.owner[mine]] = found.rows[mine]
        return targets


def concatenate(parts: Sequence[Found]) -> Found:
    """Concatenate batches of matches."""
    lengths = np.concatenate([np.diff(part.ptr) for part in parts])
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    segment, last, rows = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("segment", "last", "rows")
    )
    return Found(segment, last, ptr, rows, np.concatenate([part.variables for part in parts]))


def _room(length: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Allocate the rows and variables of a match."""
    return np.zeros(length, np.int64), np.zeros(length, np.int8)
