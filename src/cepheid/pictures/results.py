"""Draw the result of a query, as Arrow, pandas, Polars or Spark has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from cepheid.events.arriving import as_table
from cepheid.events.files import find_files, read_all
from cepheid.options import is_frame, names_in
from cepheid.pictures.blame import is_blame
from cepheid.pictures.charts import chart_of
from cepheid.pictures.dots import Lanes
from cepheid.pictures.funnels import funnel_of, is_funnel
from cepheid.pictures.picture import Picture
from cepheid.pictures.shown_times import ShownTimes
from cepheid.pictures.sweeps import Swept
from cepheid.pictures.timelines import timeline_of
from cepheid.plans.plan import Plan

ROWS_MAX = 20_000
"""Rows of a result that pictures look at."""
SWEPT_MAX = 1_000_000
"""Rows of a sweep, which are counted."""


def chart(result: object, *, time: str = "ts", time_unit: str = "us") -> Picture:
    """Draw a result: windows as lines, groups as bars, matches and situations on a timeline.

    Parameters
    ----------
    result
        The result of a query.
    time, time_unit
        The time column of the events, and the unit of times that are whole numbers.

    Raises
    ------
    DataError
        E582 if the result has nothing that could be drawn.

    Examples
    --------
    >>> import pyarrow as pa
    >>> chart(pa.table({"k": ["a", "b"], "count": [3.0, 5.0]}))
    Picture  a chart
    """
    table = ShownTimes(time, time_unit).of(rows_of(result))
    return Picture("a chart", *chart_of(table, time))


def timeline(
    result: object,
    events: object = None,
    *,
    by: Iterable[str] = (),
    time: str = "ts",
    type: str | None = "type",  # noqa: A002  # as in `cepheid.query`
    time_unit: str = "us",
) -> Picture:
    """Draw a result on a timeline: lanes by key, matches and situations as spans, events as dots.

    Parameters
    ----------
    result
        The result of a query: matches, situations, windows, or rows with a time.
    events
        The events that the query ran over, as :meth:`cepheid.CompiledQuery.run` takes them in
        process; millions of them are counted in bins of time. Without them only the events of
        matches are drawn.
    by
        The attributes that lanes are made of.
    time, type, time_unit
        As for :func:`cepheid.query`.

    Raises
    ------
    DataError
        E582 if no row has a time.

    Examples
    --------
    >>> import pyarrow as pa
    >>> timeline(pa.table({"situation": ["A"], "ts": [1], "te": [5]}))
    Picture  a timeline
    """
    lanes = Lanes(names_in("by", by), time, type or "")
    shown = ShownTimes(time, time_unit)
    table = shown.of(rows_of(result))
    dots = None if events is None else shown.of_events(columns_of(events, lanes))
    return Picture("a timeline", *timeline_of(table, dots, lanes))


def funnel(result: object) -> Picture:
    """Draw the result of `RETURN FUNNEL`: how many keys reach each step.

    Raises
    ------
    DataError
        E582 if it is the result of another query.
    """
    return Picture("a funnel", *funnel_of(rows_of(result)))


def swept_chart(result: object, lanes: Lanes, time_unit: str, swept: Sequence[Swept]) -> Picture:
    """Draw the numbers of a result; those of a sweep along its parameters."""
    table = ShownTimes(lanes.time, time_unit).of(rows_of(result, SWEPT_MAX if swept else ROWS_MAX))
    return Picture("a chart", *chart_of(table, lanes.time, swept))


def best(
    result: object,
    lanes: Lanes,
    time_unit: str,
    events: object = None,
    swept: Sequence[Swept] = (),
) -> Picture:
    """Draw a result as what shows most: a funnel, a timeline of matches, or a chart."""
    table = rows_of(result)
    if is_funnel(table):
        return funnel(table)
    names = set(table.column_names)
    if (
        is_blame(table)
        or "events" in names
        or "situation" in names
        or any(n.endswith("_te") for n in names)
    ):
        options: dict[str, Any] = {"by": lanes.by, "time": lanes.time, "type": lanes.type}
        return timeline(table, events, **options, time_unit=time_unit)
    return swept_chart(result, lanes, time_unit, swept)


def lanes_of(plan: Plan) -> Lanes:
    """Choose the lanes of a query: the attributes that partition it."""
    partition = plan.partition
    by = dict.fromkeys([*partition.group_by, *partition.attributes])
    return Lanes(tuple(by), plan.time, plan.type or "")


def rows_of(result: Any, most: int = ROWS_MAX) -> pa.Table:
    """Convert the first rows of a result to Arrow."""
    if type(result).__module__.startswith("pyspark."):
        rows: pa.Table = result.limit(most).toArrow()
        return rows
    if is_frame(result):
        result = result.head(most)
    table = result if isinstance(result, pa.Table) else as_table(result)
    return table.slice(0, most)


def columns_of(events: object, lanes: Lanes) -> pa.Table:
    """Read the columns of events that a timeline shows."""
    wanted = [lanes.time, lanes.type, *lanes.by]
    if isinstance(events, str):
        read = [_named(one, wanted) for one in read_all(find_files(events), wanted)]
        return pa.concat_tables(read, promote_options="default")
    return _named(as_table(events), wanted)


def _named(table: pa.Table, wanted: list[str]) -> pa.Table:
    return table.select([name for name in table.column_names if name in wanted])
