"""Where live queries get events from: a replay, a folder that grows, or topics of Kafka."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.events.files import read_all
from cepheid.interfaces.cli_input import WrongUseError
from cepheid.interfaces.data_sets import FOLDER, TOPIC
from cepheid.interfaces.reading import batches_of, files_of, schema_of, text_times
from cepheid.interfaces.topic_events import TopicEvents, topic_fields
from cepheid.interfaces.web.requests import LiveTask
from cepheid.interfaces.web.timeline_task import micros_of

TICK_S = 0.1
"""Events are fed, and figures told, so often."""
LOOK_S = 0.5
"""A folder is looked at so often."""
FEED_ROWS = 20_000
"""Events that are fed at once, at most, so that a stop does not wait."""
PLACE, FIELDS = "place.json", "fields.arrow"


class Source(Protocol):
    """Events that come one table after the other, and a place in them to go on from."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the events."""

    def tables(self, stopped: threading.Event) -> Iterator[pa.Table]:
        """Yield events as they come; empty tables while none do."""

    def told(self, latest: int | None) -> dict[str, Any]:
        """Tell how far it is behind, in seconds or records, and how many records are bad."""

    def save(self, folder: Path, events: int) -> None:
        """Write the place behind the tables that were yielded, of so many events."""

    @property
    def broken(self) -> str:
        """Tell why no more events come; empty as long as they do."""


def source_of(task: LiveTask) -> Source:
    """Open the events of a task, from the place where an earlier one stopped.

    Raises
    ------
    WrongUseError
        If something else than a folder is to be followed.
    """
    if task.data.kind == TOPIC:
        return _Topics(task)
    if task.follow and task.data.kind != FOLDER:
        message = "only a folder of files can be followed"
        raise WrongUseError(message)
    return _Replay(task)


def _place(task: LiveTask) -> dict[str, Any]:
    """Read the place where an earlier task stopped; empty if there is none."""
    if not task.state:
        return {}
    found: dict[str, Any] = msgspec.json.decode((Path(task.state) / PLACE).read_bytes())
    return found


class _Topics:
    """Topics of Kafka; offsets and columns are the place."""

    def __init__(self, task: LiveTask) -> None:
        times = text_times(task.columns)
        if task.state:
            # Later records may not be like those that the columns were inferred from.
            self._fields = pa.ipc.read_schema(
                pa.py_buffer((Path(task.state) / FIELDS).read_bytes())
            )
        else:
            self._fields = topic_fields(task.data, times)
        offsets = _place(task).get("offsets")
        self._events = TopicEvents(task.data, times, self._fields, offsets, task.start)

    @property
    def schema(self) -> pa.Schema:
        return self._events.schema

    @property
    def broken(self) -> str:
        return self._events.broken

    def tables(self, stopped: threading.Event) -> Iterator[pa.Table]:
        return self._events.tables(stopped)

    def told(self, latest: int | None) -> dict[str, Any]:
        return {"lag_s": None, "lag_records": self._events.lag, "bad": self._events.bad}

    def save(self, folder: Path, events: int) -> None:
        (folder / FIELDS).write_bytes(self._fields.serialize().to_pybytes())
        place = {"offsets": self._events.offsets, "events": events}
        (folder / PLACE).write_bytes(msgspec.json.encode(place))


class _Replay:
    """The events of a data set at a speed, and those of files that come later."""

    broken = ""

    def __init__(self, task: LiveTask) -> None:
        self._task = task
        self.schema = schema_of(task.data, task.columns)
        self._skipped = int(_place(task).get("events", 0))
        self._ticks = _ticks_a_second(task, self.schema)
        self._bad = 0
        self._due: int | None = None
        """The time of events that the clock has reached."""

    def told(self, latest: int | None) -> dict[str, Any]:
        behind = 0 if self._due is None or latest is None else max(0, self._due - latest)
        return {"lag_s": behind / self._ticks, "lag_records": None, "bad": self._bad}

    def save(self, folder: Path, events: int) -> None:
        (folder / PLACE).write_bytes(msgspec.json.encode({"events": self._skipped + events}))

    def tables(self, stopped: threading.Event) -> Iterator[pa.Table]:
        """Yield events when their time has come: the first at once, others by the speed."""
        task = self._task
        begun = time.monotonic()
        first: int | None = None
        for table in self._arriving(stopped):
            if not task.speed:
                yield table
                continue
            # Events that are out of order come when those before them have come.
            times = np.maximum.accumulate(micros_of(table, task.columns.time))
            first = int(times[0]) if first is None else first
            done = 0
            while done < len(table) and not stopped.is_set():
                now = first + int((time.monotonic() - begun) * task.speed * self._ticks)
                self._due = now
                ready = int(np.searchsorted(times, now, side="right"))
                yield table.slice(done, ready - done)
                done = ready
                if done < len(table):
                    stopped.wait(TICK_S)
            if stopped.is_set():
                return

    def _arriving(self, stopped: threading.Event) -> Iterator[pa.Table]:
        """Yield events with a time, from a place on."""
        left = self._skipped
        for table in self._batches(stopped):
            kept = table.filter(pc.is_valid(table.column(self._task.columns.time)))
            gone = min(left, len(kept))
            left -= gone
            if gone < len(kept) or not gone:
                self._bad += len(table) - len(kept)
            for start in range(gone, len(kept), FEED_ROWS):
                yield kept.slice(start, FEED_ROWS)

    def _batches(self, stopped: threading.Event) -> Iterator[pa.Table]:
        task = self._task
        if not task.follow:
            yield from batches_of(task.data, task.columns)
            return
        seen: set[Path] = set()
        while not stopped.is_set():
            new = [file for file in files_of(task.data) if file not in seen]
            yield from read_all(new, None, text_times(task.columns))
            seen.update(new)
            stopped.wait(LOOK_S)


def _ticks_a_second(task: LiveTask, schema: pa.Schema) -> int:
    """Tell how many units of time a second has."""
    units = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    kind = schema.field(task.columns.time).type
    return units[task.columns.time_unit] if pa.types.is_integer(kind) else 10**6
