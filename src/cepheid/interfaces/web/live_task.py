"""Feed events to live queries: a replay of a data set at a chosen speed, or a folder that grows.

Rows and figures leave as they come. The line ``stop`` on standard input writes the state of every
query and the place in the events, from which another replay goes on.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.events.files import read_all
from cepheid.interfaces.cli_input import WrongUseError
from cepheid.interfaces.data_sets import STORE
from cepheid.interfaces.plain_values import plain_value
from cepheid.interfaces.reading import batches_of, files_of, schema_of, text_times
from cepheid.interfaces.web.requests import LiveTask
from cepheid.interfaces.web.run_task import compiled
from cepheid.interfaces.web.timeline_task import micros_of
from cepheid.runtimes.live_query import length_of

Tell = Callable[[dict[str, Any]], None]

TICK_S = 0.1
"""Events are fed, and figures told, so often."""
LOOK_S = 0.5
"""A folder is looked at so often."""
WEIGH_S = 2.0
"""The state is weighed so often."""
FEED_ROWS = 20_000
"""Events that are fed at once, at most, so that a stop does not wait."""
ROWS_TOLD_MAX = 200
"""Rows that are told at once; all are counted."""
PLACE = "place.json"


class _Steering:
    """Listens to standard input for the line ``stop``."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin.buffer:
            if line.strip() == b"stop":
                self.stopped.set()
                return
        self.stopped.set()


class _Figures:
    """What is counted while a stream runs."""

    def __init__(self, task: LiveTask) -> None:
        self.events = 0
        self.time = task.columns.time
        self.rows = dict.fromkeys(task.queries, 0)
        self.bad = 0
        self.latest: int | None = None
        self.state = 0
        self.due: int | None = None
        """The time of events that the clock of a paced replay has reached."""
        self.ticks = _ticks_a_second(task)
        self._delay = length_of(task.watermark)
        self._begun = time.monotonic()
        self._weighed = 0.0
        self._rates: list[tuple[float, int]] = []

    def weigh(self, lives: dict[str, Any]) -> None:
        """Measure the state, from time to time."""
        if (now := time.monotonic()) - self._weighed >= WEIGH_S:
            self.state = sum(len(live.save()) for live in lives.values())
            # Weighing may take at most a tenth of the time.
            self._weighed = now + 10 * (time.monotonic() - now)

    def _lag(self) -> float:
        """Tell how far the latest event is behind the clock of the replay, in its seconds."""
        if self.due is None or self.latest is None:
            return 0.0
        return max(0.0, (self.due - self.latest) / self.ticks)

    def told(self, lives: dict[str, Any]) -> dict[str, Any]:
        """Collect the figures."""
        now = time.monotonic()
        self._rates = [one for one in self._rates if now - one[0] < 1.5] + [(now, self.events)]
        then, events = self._rates[0]
        passed = now - then
        rate = (self.events - events) / passed if passed > 0 else 0.0
        until = None if self.latest is None else self.latest - self._delay
        return {
            "events": self.events,
            "rows": sum(self.rows.values()),
            "rules": self.rows,
            "rate": rate,
            "seconds": now - self._begun,
            "latest": self.latest,
            "watermark": until,
            "lag_s": self._lag(),
            "waiting": sum(live.waiting for live in lives.values()),
            "state": self.state,
            "late": sum(live.late for live in lives.values()),
            "bad": self.bad,
        }


def replay(task: LiveTask, tell: Tell) -> dict[str, Any]:
    """Run live queries over events until they end, or until ``stop`` comes."""
    steering = _Steering()
    schema = schema_of(task.data, task.columns)
    if task.follow and (task.data.kind == STORE or not Path(task.data.place).is_dir()):
        message = "only a folder of files can be followed"
        raise WrongUseError(message)
    before = Path(task.state) if task.state else None
    place = msgspec.json.decode((before / PLACE).read_bytes()) if before else {}
    lives = {
        name: compiled(text, task.columns).live(
            schema, watermark=task.watermark, state=_saved(before, number)
        )
        for number, (name, text) in enumerate(task.queries.items())
    }
    figures = _Figures(task)
    arriving = _arriving(task, int(place.get("events", 0)), figures, steering.stopped)
    for batch in _paced(task, arriving, figures, steering.stopped):
        rows = _fed(lives, figures, batch)
        figures.weigh(lives)
        tell({"live": figures.told(lives), "batch": rows})
        if steering.stopped.is_set():
            break
    if not steering.stopped.is_set():
        rows = _collected(figures, {name: live.close() for name, live in lives.items()})
        tell({"live": figures.told(lives), "batch": rows})
        return {"ended": True, **figures.told(lives)}
    for number, live in enumerate(lives.values()):
        (Path(task.folder) / f"state-{number}").write_bytes(live.save())
    told = figures.told(lives)
    whole = int(place.get("events", 0)) + figures.events + figures.bad
    (Path(task.folder) / PLACE).write_bytes(msgspec.json.encode({"events": whole}))
    return {"ended": False, **told}


def _saved(folder: Path | None, number: int) -> bytes | None:
    return None if folder is None else (folder / f"state-{number}").read_bytes()


def _fed(lives: dict[str, Any], figures: _Figures, batch: pa.Table) -> list[dict[str, Any]]:
    """Feed a batch to all queries, and return the rows that leave."""
    figures.events += len(batch)
    if len(batch):
        latest = int(micros_of(batch, figures.time).max())
        figures.latest = latest if figures.latest is None else max(latest, figures.latest)
    return _collected(figures, {name: live.feed(batch) for name, live in lives.items()})


def _collected(figures: _Figures, left: dict[str, pa.Table]) -> list[dict[str, Any]]:
    """Count rows, and return the last of them with the names of their queries."""
    found: list[dict[str, Any]] = []
    for name, table in left.items():
        figures.rows[name] += len(table)
        shown = table.slice(max(0, len(table) - ROWS_TOLD_MAX))
        found += [{"query": name, "row": plain_value(row)} for row in shown.to_pylist()]
    return found[-ROWS_TOLD_MAX:]


def _arriving(
    task: LiveTask, skipped: int, figures: _Figures, stopped: threading.Event
) -> Iterator[pa.Table]:
    """Yield events from a place on; with ``follow`` also those of files that come later."""
    left = skipped
    for table in _batches(task, stopped):
        gone = min(left, len(table))
        left -= gone
        rest = table.slice(gone)
        known = pc.is_valid(rest.column(task.columns.time))
        kept = rest.filter(known)
        figures.bad += len(rest) - len(kept)
        for start in range(0, len(kept), FEED_ROWS):
            yield kept.slice(start, FEED_ROWS)


def _batches(task: LiveTask, stopped: threading.Event) -> Iterator[pa.Table]:
    if not task.follow:
        yield from batches_of(task.data, task.columns)
        return
    seen: set[Path] = set()
    while not stopped.is_set():
        new = [file for file in files_of(task.data) if file not in seen]
        yield from read_all(new, None, text_times(task.columns))
        seen.update(new)
        stopped.wait(LOOK_S)


def _paced(
    task: LiveTask, arriving: Iterator[pa.Table], figures: _Figures, stopped: threading.Event
) -> Iterator[pa.Table]:
    """Yield events when their time has come: the first at once, others by the speed."""
    begun = time.monotonic()
    first: int | None = None
    for table in arriving:
        if not task.speed:
            yield table
            continue
        # Events that are out of order come when those before them have come.
        times = np.maximum.accumulate(micros_of(table, task.columns.time))
        first = int(times[0]) if first is None else first
        done = 0
        while done < len(table) and not stopped.is_set():
            now = first + int((time.monotonic() - begun) * task.speed * figures.ticks)
            figures.due = now
            ready = int(np.searchsorted(times, now, side="right"))
            yield table.slice(done, ready - done)
            done = ready
            if done < len(table):
                stopped.wait(TICK_S)
        if stopped.is_set():
            return


def _ticks_a_second(task: LiveTask) -> int:
    """Tell how many units of time a second has."""
    kind = schema_of(task.data, task.columns).field(task.columns.time).type
    units = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    return units[task.columns.time_unit] if pa.types.is_integer(kind) else 10**6
