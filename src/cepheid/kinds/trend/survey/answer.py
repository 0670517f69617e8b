"""Answer surveys: the segments of closed windows in, a table of rows out (§17)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, KeyTable
from cepheid.events.nanoseconds import type_of_times
from cepheid.jobs.owned import EVERYTHING, Owned
from cepheid.kernels.compose import add_rows
from cepheid.kinds.trend.look_back.question import Question
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.wide import steps, to_double
from cepheid.kinds.trend.survey.best import find_best, read_best
from cepheid.kinds.trend.survey.blame import count_blame
from cepheid.kinds.trend.survey.cells import Cells, gather_cells
from cepheid.kinds.trend.survey.graph import Walk, open_walk
from cepheid.kinds.trend.survey.sample import draw_matches, open_draws
from cepheid.kinds.trend.survey.values import count_values, percentile_places
from cepheid.kinds.trend.windows.match_tables import (
    EVENTS,
    columns_of_windows,
    events_of_matches,
    whole_events,
)
from cepheid.memory_limits import check_rows
from cepheid.patterns.segments import Segments
from cepheid.plans.plan import WindowKind
from cepheid.plans.survey import MatchValue, Survey, SurveyForm

DRAW, RANK, EVENT = "draw", "rank", "event"


def survey_of(job: Job) -> Survey:
    """Return the survey of a job."""
    survey = job.plan.output.survey
    assert survey is not None, "the plan of a survey"
    return survey


def survey_segments(
    job: Job,
    keys: KeyTable,
    question: Question,
    found: Iterator[Segments],
    owned: Owned = EVERYTHING,
) -> Iterator[pa.Table]:
    """Survey the windows that start in a range, a table for each share of them."""
    for segments in found:
        starts = _starts(job, segments)
        mine = np.ones(len(starts), np.bool_)
        if owned.begin is not None:
            mine &= starts >= owned.begin
        if owned.end is not None:
            mine &= starts < owned.end
        part = segments if mine.all() else segments.take(np.flatnonzero(mine))
        if survey_of(job).form.is_distribution:
            yield _distribution(job, keys, question, part, starts[mine])
        else:
            yield _answer(job, keys, question, part, starts[mine])


def _starts(job: Job, segments: Segments) -> NDArray[np.int64]:
    """Compute where the windows of segments begin."""
    window = job.plan.window
    return segments.window * (window.slide if window.kind is WindowKind.SLIDING else 1)


def _answer(
    job: Job, keys: KeyTable, question: Question, segments: Segments, starts: NDArray[np.int64]
) -> pa.Table:
    survey, columns, template = survey_of(job), question.columns, job.templates[0]
    if survey.form is SurveyForm.BLAME:
        through, totals = count_blame(question, template, segments)
        cells = gather_cells(job, keys, segments, starts, totals)
        return _blame(job, columns, segments, cells, through)
    if survey.form is SurveyForm.TOP:
        return _rank(job, keys, open_walk(question, template, segments), starts)
    walk, counts, totals = open_draws(question, template, segments)
    cells = gather_cells(job, keys, segments, starts, totals)
    # Events are as large as those of the input, and a match has one at least: a million draws of
    # wide events would fill the memory.
    event_bytes = columns.batch.nbytes / max(len(columns.batch), 1)
    check_rows(len(cells) * survey.number, event_bytes)
    found, cell = draw_matches(walk, counts, cells, survey.number)
    check_rows(len(cell), event_bytes * len(found.rows) / max(len(cell), 1))
    rows = _head(job, cells, cell, columns)
    rows[DRAW] = pa.array(np.tile(np.arange(1, survey.number + 1), len(cells)))
    rows[EVENTS] = events_of_matches(job, found, columns)
    return pa.table(rows)


def _head(job: Job, cells: Cells, cell: NDArray[np.int64], columns: Columns) -> dict[str, Any]:
    """Build the columns that all surveys have: the group and the window."""
    schema = columns.batch.schema
    rows: dict[str, Any] = {}
    for name, values in zip(job.plan.partition.group_by, cells.values, strict=True):
        column = values.take(pa.array(cells.group[cell]))
        kind = _type_of(name, columns)
        rows[name] = column if column.type == kind else column.cast(kind)
    return rows | columns_of_windows(job, cells.start[cell], schema)


def _type_of(name: str, columns: Columns) -> pa.DataType:
    """Find the type of an attribute as it is shown: texts are no dictionaries."""
    kind: pa.DataType = columns.arrow(name).type
    return kind.value_type if isinstance(kind, pa.DictionaryType) else kind


def _rank(job: Job, keys: KeyTable, walk: Walk, starts: NDArray[np.int64]) -> pa.Table:
    """List the best matches of each cell: those of its partitions, merged (§17.4)."""
    survey, columns = survey_of(job), walk.question.columns
    best = find_best(walk, survey)
    some = np.bincount(best.segment, minlength=len(starts)).astype(np.complex128)
    cells = gather_cells(job, keys, walk.segments, starts, some)
    cell_of = np.zeros(len(starts), np.int64)
    cell_of[cells.segments] = cells.owner
    cell = cell_of[best.segment]
    # Matches of one partition are in order; those of different ones have different last events.
    unknown = np.isnan(best.value)
    value = np.where(unknown, 0.0, -best.value)
    order = np.lexsort((np.arange(len(cell)), best.last, value, ~unknown, cell))
    cell = cell[order]
    rank = np.arange(len(cell)) - np.searchsorted(cell, cell)
    chosen, cell, rank = (a[rank < survey.number] for a in (order, cell, rank))
    found = read_best(walk, best, chosen)
    rows = _head(job, cells, cell, columns)
    rows[RANK] = pa.array(rank + 1)
    assert survey.value is not None, "the value by which matches are ranked"
    rows[survey.value.name] = _values(job, survey.value, best.value[chosen], columns)
    rows[EVENTS] = events_of_matches(job, found, columns)
    return pa.table(rows)


def _values(job: Job, value: MatchValue, numbers: NDArray[np.float64], columns: Columns) -> Any:
    if value.what == "sum":
        return pa.array(numbers)
    whole = pa.array(numbers.astype(np.int64))
    if value.what != "duration":
        return whole
    time = type_of_times(columns.batch.schema.field(job.plan.time).type)
    return whole.cast(pa.duration(time.unit)) if pa.types.is_timestamp(time) else whole


def _distribution(
    job: Job, keys: KeyTable, question: Question, segments: Segments, starts: NDArray[np.int64]
) -> pa.Table:
    """Tell how many matches of each cell have each value, or what some share of them has."""
    survey, columns, value = survey_of(job), question.columns, survey_of(job).value
    assert value is not None, "the value that is counted"
    found = count_values(question, job.templates[0], segments, value)
    cells = gather_cells(job, keys, segments, starts, found.total)
    cell_of = np.zeros(len(starts), np.int64)
    cell_of[cells.segments] = cells.owner
    error = np.zeros(len(cells))
    np.maximum.at(error, cells.owner, found.error[cells.segments])
    cell, number, count = _add_equal(cell_of[found.segment], found.value, found.matches)
    total = cells.total[cell]
    share = np.ldexp(count.real / total.real, steps(count.imag - total.imag))
    fractions = survey.fractions
    if survey.form is SurveyForm.PERCENTILE:
        cuts = np.searchsorted(cell, np.arange(len(cells) + 1))
        places = [
            begin + percentile_places(share[begin:end], fractions) for begin, end in pairwise(cuts)
        ]
        chosen = np.concatenate([np.zeros(0, np.int64), *places])
        cell, number = cell[chosen], number[chosen]
    rows = _head(job, cells, cell, columns)
    if survey.form is SurveyForm.PERCENTILE:
        rows["fraction"] = pa.array(np.tile(np.array(fractions), len(cells)))
    rows[value.name] = _values(job, value, number, columns)
    rows["error"] = _values(job, value, error[cell], columns)
    if survey.form is SurveyForm.HISTOGRAM:
        rows |= _counts_of(count, share)
    return pa.table(rows)


def _add_equal(
    cell: NDArray[np.int64], value: NDArray[np.float64], count: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[Any]]:
    """Sort values by cell, and add up the counts of equal ones."""
    order = np.lexsort((value, cell))
    cell, value, count = cell[order], value[order], count[order]
    new = np.ones(len(cell), np.bool_)
    new[1:] = (cell[1:] != cell[:-1]) | (value[1:] != value[:-1])
    summed = np.zeros((int(new.sum()), 1), np.complex128)
    none = np.zeros((len(cell), 0), np.int64)
    place = np.cumsum(new) - 1
    add_rows(count[:, None], none, place, summed, none[: len(summed)], np.uint64(1))
    return cell[new], value[new], summed[:, 0]


def _counts_of(numbers: NDArray[Any], share: NDArray[np.float64]) -> dict[str, Any]:
    """Build the columns that tell of numbers of matches."""
    return {
        "matches": pa.array(to_double(numbers)),
        "share": pa.array(share),
        "log2_matches": pa.array(np.log2(numbers.real) + numbers.imag),
    }


def _blame(
    job: Job, columns: Columns, segments: Segments, cells: Cells, through: NDArray[Any]
) -> pa.Table:
    """List the events of each cell that are in a match (§17.5)."""
    cell_of = np.full(len(segments.key), -1, np.int64)
    cell_of[cells.segments] = cells.owner
    cell = np.repeat(cell_of, np.diff(segments.ptr))
    used = np.flatnonzero((cell >= 0) & (through.real > 0))
    used = used[np.lexsort((segments.rows[used], cell[used]))]
    cell, numbers = cell[used], through[used]
    total = cells.total[cell]
    rows = _head(job, cells, cell, columns)
    rows[EVENT] = whole_events(job, segments.rows[used], columns, {}, {})
    share = np.ldexp(numbers.real / total.real, steps(numbers.imag - total.imag))
    return pa.table(rows | _counts_of(numbers, share))
