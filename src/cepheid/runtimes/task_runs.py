"""What runs on Spark took beside their estimates; it corrects the estimates of later runs.

One strategy alone tells as much about others that use the machine as about its estimate. Only
differences between strategies count: each is corrected by how much longer it took than the
measured strategies did on average. Figures that are measured anew begin without runs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cepheid.decoding import from_json
from cepheid.framing import FrameError, frame, unframe
from cepheid.runtimes.task_rates import TaskRates, rates_file, read_task_rates

FILE_VARIABLE = "CEPHEID_TASK_RUNS"
"""The environment variable that names another file than the user's."""
SECONDS_MIN = 5.0
"""Shorter runs tell little: a process that has just begun takes seconds to load and to compile."""
RUNS_MAX = 8
"""The last so many runs count."""
FACTOR_MAX = 2.0
"""Corrections are at most so large; beyond that, the figures need to be measured anew."""
_NAME, _VERSION = "taskruns", 1


class Measured(msgspec.Struct, frozen=True):
    """Runs of a strategy, and the mean binary logarithm of measured : estimated seconds."""

    ratio_log2: float
    runs: int


class TaskRuns(msgspec.Struct, frozen=True):
    """The measured strategies, and the figures that they were estimated with."""

    rates: TaskRates
    strategies: dict[str, Measured] = {}


def runs_file() -> Path:
    """Locate the file with the runs on this machine."""
    named = os.environ.get(FILE_VARIABLE)
    return Path(named) if named else rates_file().with_name("task-runs")


def read_task_runs() -> dict[str, Measured]:
    """Read the runs that were estimated with today's figures; a damaged file counts as none."""
    try:
        found = from_json(bytes(unframe(runs_file().read_bytes(), _NAME, _VERSION)), TaskRuns)
    except (OSError, FrameError, msgspec.MsgspecError):
        return {}
    sound = all(math.isfinite(one.ratio_log2) and one.runs > 0 for one in found.strategies.values())
    return found.strategies if sound and found.rates == read_task_rates() else {}


def read_corrections() -> dict[str, float]:
    """Read the runs, and compute what estimates of strategies are multiplied by."""
    return corrections(read_task_runs())


def note_run(strategy: str, estimated_s: float, measured_s: float) -> None:
    """Note a run; without a place to write to it is forgotten."""
    path = runs_file()
    if min(estimated_s, measured_s) < SECONDS_MIN or (path.exists() and not path.is_file()):
        return
    known = read_task_runs()
    before = known.get(strategy, Measured(0.0, 0))
    count = min(before.runs + 1, RUNS_MAX)
    log = math.log2(measured_s / estimated_s)
    now = Measured(before.ratio_log2 + (log - before.ratio_log2) / count, count)
    body = msgspec.json.encode(TaskRuns(read_task_rates(), {**known, strategy: now}))
    written = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        written.write_bytes(frame(_NAME, _VERSION, body))
        written.replace(path)
    except OSError:
        return


def corrections(measured: Mapping[str, Measured]) -> dict[str, float]:
    """Compute what estimates of strategies are multiplied by.

    Examples
    --------
    >>> corrections({"combine": Measured(1.0, 3), "key shuffle": Measured(0.0, 5)})
    {'combine': 1.41, 'key shuffle': 0.71}
    >>> corrections({"combine": Measured(3.0, 3)})
    {}
    """
    if len(measured) < 2:
        return {}
    mean = sum(one.ratio_log2 for one in measured.values()) / len(measured)
    most = math.log2(FACTOR_MAX)
    return {
        name: round(2.0 ** min(max(one.ratio_log2 - mean, -most), most), 2)
        for name, one in measured.items()
    }
