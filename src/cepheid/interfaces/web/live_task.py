"""Feed events to live queries: those of a replay, of a folder that grows, or of topics of Kafka.

Rows and figures leave as they come. The line ``stop`` on standard input writes the state of every
query and the place in the events, from which another task goes on.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from cepheid.errors import visible
from cepheid.interfaces.plain_values import plain_value
from cepheid.interfaces.web.live_sources import Source, source_of
from cepheid.interfaces.web.requests import LiveTask
from cepheid.interfaces.web.run_task import compiled
from cepheid.interfaces.web.timeline_task import micros_of
from cepheid.runtimes.live_query import length_of

Tell = Callable[[dict[str, Any]], None]

WEIGH_S = 2.0
"""The state is weighed so often."""
ROWS_TOLD_MAX = 200
"""Rows that are told at once; all are counted."""


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
    """The counters of a running stream."""

    def __init__(self, task: LiveTask, source: Source) -> None:
        self._source = source
        self.events = 0
        self.time = task.columns.time
        self.rows = dict.fromkeys(task.queries, 0)
        self.latest: int | None = None
        self.state = 0
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
            "waiting": sum(live.waiting for live in lives.values()),
            "state": self.state,
            "late": sum(live.late for live in lives.values()),
            **self._source.told(self.latest),
        }


def replay(task: LiveTask, tell: Tell) -> dict[str, Any]:
    """Run live queries over events until they end, or until ``stop`` comes."""
    steering = _Steering()
    source = source_of(task)
    before = Path(task.state) if task.state else None
    lives = {
        name: compiled(text, task.columns).live(
            source.schema, watermark=task.watermark, state=_saved(before, number)
        )
        for number, (name, text) in enumerate(task.queries.items())
    }
    figures = _Figures(task, source)
    for batch in source.tables(steering.stopped):
        rows = _fed(lives, figures, batch)
        figures.weigh(lives)
        tell({"live": figures.told(lives), "batch": rows})
        if steering.stopped.is_set():
            break
    if not steering.stopped.is_set():
        rows = _collected(figures, {name: live.close() for name, live in lives.items()})
        tell({"live": figures.told(lives), "batch": rows})
        return {"ended": True, **figures.told(lives)}
    folder = Path(task.folder)
    for number, live in enumerate(lives.values()):
        (folder / f"state-{number}").write_bytes(live.save())
    source.save(folder, figures.events)
    broken = visible(source.broken, keep="\n")
    return {"ended": False, "broken": broken, **figures.told(lives)}


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
