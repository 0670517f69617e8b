"""Hold a latency goal of a live query: choose how much one micro-batch takes from its source.

A row waits at most for the micro-batch before its own and for its own, so a micro-batch may take
half of the goal. If they take longer while cores have nothing to do, buckets move to more tasks.
Else one that takes longer gets less from its source; one that is full, but has time left, gets
more. If the source stays ahead, the goal cannot be held, and micro-batches grow, because larger
ones take fewer seconds for an event: that is the second step of the ladder of overload.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

LOOKED_AT = 3
"""Micro-batches since the last change that decide; the first one after a start does not count."""
FULL = 6
"""Full micro-batches in a row after which the source is ahead."""
CHANGE_MIN = 1.25
"""Smaller changes are not worth a restart."""
GROWTH = 4
"""The factor by which micro-batches grow when the source is ahead."""
PATIENCE = 100
"""Micro-batches for which a limit that was too small is not tried again."""


class MicroBatch(NamedTuple):
    """The files or messages that a micro-batch took from its source, and its seconds."""

    taken: int
    seconds: float


class Change(NamedTuple):
    """The limit of micro-batches from now on, why, and the tasks to which buckets move, if any."""

    limit: int | None
    reason: str
    tasks: int | None = None


def stay() -> None:
    """Tell that buckets do not move to other tasks."""


class LatencyGoal:
    """Chooses the limit of micro-batches from those that have run.

    ``more_tasks`` returns the number of tasks that buckets can move to, None if they have it.
    """

    def __init__(
        self,
        goal_s: float,
        limit: int | None,
        unit: str,
        more_tasks: Callable[[], int | None] = stay,
    ) -> None:
        self.allowed_s, self.limit, self._unit = goal_s / 2, limit, unit
        self._more_tasks = more_tasks
        self._seen: list[MicroBatch] = []
        self._is_first = True
        self._too_small = self._patience = 0

    def observe(self, batch: MicroBatch) -> Change | None:
        """Take a micro-batch into account; return a change of the limit, if one is needed."""
        if not batch.taken:
            return None
        self._patience -= 1
        if self._is_first:
            self._is_first = False
            return None
        self._seen.append(batch)
        found = self._change() if len(self._seen) >= LOOKED_AT else None
        if found is not None:
            self.limit, self._seen, self._is_first = found.limit, [], True
        return found

    def _change(self) -> Change | None:
        recent = self._seen[-LOOKED_AT:]
        taken, seconds = median(b.taken for b in recent), median(b.seconds for b in recent)
        fits = max(int(taken * self.allowed_s / max(seconds, 0.001)), 1)
        unit = self._unit.removesuffix("s") if taken == 1 else self._unit
        said = f"micro-batches of {taken:,.0f} {unit} take {seconds:.2f} s, and the goal "
        said += f"allows {self.allowed_s:g} s"
        if seconds > self.allowed_s and (tasks := self._more_tasks()) is not None:
            return Change(self.limit, f"{said}: buckets move to {tasks} tasks", tasks)
        if self._is_ahead():
            if fits >= CHANGE_MIN * taken:
                return Change(fits, f"{said}: at most {fits:,} from now on")
            assert self.limit is not None, "without a limit, no micro-batch is full"
            self._too_small, self._patience = self.limit, PATIENCE
            limit = GROWTH * int(taken)
            return Change(limit, f"{said}, but the source is ahead: {limit:,} from now on")
        waits = self._patience > 0 and fits <= self._too_small
        if seconds > self.allowed_s and fits * CHANGE_MIN <= taken and not waits:
            return Change(fits, f"{said}: at most {fits:,} from now on")
        return None

    def _is_ahead(self) -> bool:
        """Check whether micro-batches are always full, so that events wait at the source."""
        last = self._seen[-FULL:]
        return (
            self.limit is not None
            and len(last) == FULL
            and all(batch.taken >= self.limit for batch in last)
        )


def judge(
    goal: LatencyGoal, progress: Iterable[Any], last: int, log: Callable[[int], str] | None
) -> tuple[Change | None, int]:
    """Judge the micro-batches after one; return the first change, and the last one judged."""
    for one in progress:
        if one["batchId"] > last:
            last = one["batchId"]
            change = goal.observe(micro_batch(one, log))
            if change is not None:
                return change, last
    return None, last


def micro_batch(progress: Mapping[str, Any], log: Callable[[int], str] | None) -> MicroBatch:
    """Read what Spark tells of a micro-batch.

    Of a folder, ``log`` reads an entry of its log, which has the files of a micro-batch; one
    without files has no entry, so their numbers are not those of micro-batches.
    """
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
    if log is None:
        return MicroBatch(int(progress["numInputRows"]), seconds)
    source = progress["sources"][0]
    begin, end = _entry(source["startOffset"]), _entry(source["endOffset"])
    return MicroBatch(files_of(log(end), end) if end > begin else 0, seconds)


def _entry(offset: Any) -> int:
    """Read the number of the last entry of a log; Spark tells it as JSON, and None before any."""
    found = json.loads(offset) if isinstance(offset, str) else offset
    return int(found["logOffset"]) if found else -1


def log_in(checkpoint: Path) -> Callable[[int], str]:
    """Build the function that reads the log of the first source in a local checkpoint."""
    folder = checkpoint / "sources" / "0"

    def read(number: int) -> str:
        for path in (folder / str(number), folder / f"{number}.compact"):
            if path.is_file():
                return path.read_text("utf-8")
        return ""

    return read


def files_of(entry: str, number: int) -> int:
    """Count the files of an entry of a log; a compact one repeats those of earlier entries."""
    return sum(json.loads(line).get("batchId") == number for line in entry.splitlines()[1:])
