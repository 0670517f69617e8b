"""``cepheid run --chart``: draw a result as PNG, SVG or HTML, by the end of the file's name.

Windows become lines, groups become bars, matches and situations become timelines. The chart is a
Vega-Lite specification, which vl-convert draws without a browser and without a network.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from cepheid.interfaces.cli_input import WrongUseError, name_of
from cepheid.pictures.axes import Spec, spec_of
from cepheid.pictures.charts import chart_of
from cepheid.pictures.dots import Lanes
from cepheid.pictures.drawn import ENDINGS, drawn, need_drawing
from cepheid.pictures.results import SWEPT_MAX
from cepheid.pictures.shown_times import MICROSECONDS, ShownTimes
from cepheid.pictures.sweeps import Swept
from cepheid.pictures.timelines import timeline_of

POINTS_MAX = 20_000
"""Rows of a result that are drawn."""


class Wanted(NamedTuple):
    """The files of pictures that a run draws; ``events`` reads the events of a timeline."""

    chart: Path | None = None
    timeline: Path | None = None
    lanes: Lanes = Lanes((), "ts", "type")
    events: Callable[[Lanes], pa.Table] | None = None
    swept: Sequence[Swept] = ()

    @property
    def rows_max(self) -> int:
        """Rows that are remembered; those of a sweep are counted, so more of them are."""
        return SWEPT_MAX if self.swept else POINTS_MAX


def check_chart(path: Path | None, option: str = "--chart") -> None:
    """Refuse a picture that cannot be drawn, before anything runs.

    Raises
    ------
    WrongUseError
        If the end of the name is unknown.
    DataError
        E581 if vl-convert is not installed.
    """
    if path is None:
        return
    if path.suffix.lower() not in ENDINGS:
        ends = ", ".join(ENDINGS)
        message = f"{option} must end in {ends}, but {name_of(path.name)} does not"
        raise WrongUseError(message)
    need_drawing(option)


class Drawing:
    """Collects the rows of a result that fit a picture, and draws them at the end."""

    def __init__(self, wanted: Wanted | Path | None, times: ShownTimes = MICROSECONDS) -> None:
        self._wanted = wanted if isinstance(wanted, Wanted) else Wanted(wanted)
        self._times = times
        self._tables: list[pa.Table] = []
        self._rows = 0

    def watch(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield tables, and remember the first rows."""
        for table in tables:
            self.add(table)
            yield table

    def add(self, table: pa.Table) -> None:
        """Remember the rows of a table, as far as they are drawn."""
        wanted = self._wanted.chart or self._wanted.timeline
        most = self._wanted.rows_max
        if wanted is not None and self._rows < most:
            self._tables.append(table.slice(0, most - self._rows))
        self._rows += len(table)

    def finish(self) -> str:
        """Draw the pictures, and return a sentence about what they lack; empty if they have all."""
        chart, timeline, lanes, events, swept = self._wanted
        if chart is None and timeline is None:
            return ""
        table = pa.concat_tables(self._tables) if self._tables else pa.table({})
        table = self._times.of(table)
        notes = []
        if chart is not None:
            spec, note = chart_of(table, self._times.time, swept)
            more = f"the chart has the first {self._wanted.rows_max:,} of {self._rows:,} rows"
            notes.append(note or more * (self._rows > self._wanted.rows_max))
            _write(chart, drawn(spec, chart.suffix.lower()))
        if timeline is not None:
            dots = None if events is None else self._times.of_events(events(lanes))
            spec, note = timeline_of(table, dots, lanes)
            notes.append(note)
            _write(timeline, drawn(spec, timeline.suffix.lower()))
        return "; ".join(note for note in notes if note)


def draw_spec(spec: Spec, path: Path) -> None:
    """Draw a specification into a file."""
    whole = spec_of(spec["data"]["values"], **{k: v for k, v in spec.items() if k != "data"})
    _write(path, drawn(whole, path.suffix.lower()))


def _write(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        message = f"could not write {name_of(str(path))}: {error.strerror or error}"
        raise WrongUseError(message) from None
    finally:
        temporary.unlink(missing_ok=True)
