"""Unit costs of Spark's tasks on this machine: measured by ``cepheid calibrate``, else defaults.

The file lies in the user's cache, in a frame with a checksum. A damaged file, one of another
version, or one with figures that cannot be, counts as no measurement: plans may then be slower, and
rows are the same.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import msgspec

from cepheid.decoding import from_json
from cepheid.framing import FrameError, frame, unframe

FILE_VARIABLE = "CEPHEID_TASK_RATES"
"""The environment variable that names another file than the user's."""
_NAME, _VERSION = "taskrates", 2
_NS_MAX = 1e9


class TaskRates(msgspec.Struct, frozen=True, kw_only=True):
    """Processor time of the parts of a plan on Spark; defaults are those of one machine.

    Attributes
    ----------
    stage_ms, task_ms
        To plan and start a stage of Spark, and a Python task of it.
    driver_ms
        To hand one task to an executor; the driver does so one after the other.
    value_ns
        To read a value of a Parquet file in Python.
    scan_ns
        To read and group a value in the JVM.
    row_ns, cell_ns
        To pass a row from there to Python, and each of its values.
    send_ns
        To sort, send and merge a value of an event that is shuffled.
    linear_ns, indexed_ns, previous_ns, other_ns
        To run an event through an evaluator; others keep events and compare them.
    summary_ns, matrix_ns
        To summarise an event, and to send and multiply one matrix.
    """

    stage_ms: float = 70.0
    task_ms: float = 50.0
    driver_ms: float = 1.0
    value_ns: float = 7.0
    scan_ns: float = 50.0
    row_ns: float = 150.0
    cell_ns: float = 5.0
    send_ns: float = 10.0
    linear_ns: float = 20.0
    indexed_ns: float = 90.0
    previous_ns: float = 300.0
    other_ns: float = 400.0
    summary_ns: float = 20.0
    matrix_ns: float = 200.0


def rates_file() -> Path:
    """Locate the file with the figures of this machine."""
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    import platformdirs  # Takes a moment, and most runs have no Spark.

    return platformdirs.user_cache_path("cepheid") / "task-rates"


def read_task_rates() -> TaskRates:
    """Read the figures of this machine, or use the defaults if none were measured."""
    path = rates_file()
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return TaskRates()
    return _read(path, changed)


def are_measured() -> bool:
    """Check whether the figures are of this machine."""
    return read_task_rates() != TaskRates()


@lru_cache(maxsize=4)
def _read(path: Path, changed: int) -> TaskRates:
    del changed  # A file that was written anew is read anew.
    try:
        found = from_json(bytes(unframe(path.read_bytes(), _NAME, _VERSION)), TaskRates)
    except (OSError, FrameError, msgspec.MsgspecError):
        return TaskRates()
    sound = all(0.0 < value < _NS_MAX for value in msgspec.structs.astuple(found))
    return found if sound else TaskRates()


def write_task_rates(rates: TaskRates) -> Path:
    """Write the figures of this machine, and return the path of the file."""
    path = rates_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f"{path.name}.{os.getpid()}")
    written.write_bytes(frame(_NAME, _VERSION, msgspec.json.encode(rates)))
    written.replace(path)
    return path
