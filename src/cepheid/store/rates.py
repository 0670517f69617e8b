"""Unit costs of this machine: measured by ``cepheid store calibrate``, else defaults.

The figures are plain JSON without a frame: users may edit them, and a wrong figure costs time but
never changes a result. An unreadable file counts as no measurement.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import msgspec

from cepheid.decoding import from_json

FILE_VARIABLE = "CEPHEID_RATES"
"""The environment variable that overrides the user's file."""


class Rates(msgspec.Struct, frozen=True):
    """Unit costs in microseconds.

    Attributes
    ----------
    group
        The fixed cost of reading a row group.
    value
        To read one value of one column.
    run
        To run an event through the engine.
    match
        To match a row in SQL, for each variable and once more.
    entry
        To read an entry of a secondary index, and to sort it.
    look_up
        To open an index of a segment and to find a value in it.
    """

    group: float = 60.0
    value: float = 0.006
    run: float = 0.2
    match: float = 0.006
    entry: float = 0.05
    look_up: float = 400.0


def rates_file() -> Path:
    """Locate the file with the figures of this machine."""
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "cepheid" / "store-rates.json"


def read_rates() -> Rates:
    """Read the figures of this machine, or use the defaults if none were measured."""
    path = rates_file()
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return Rates()
    return _read(path, changed)


@lru_cache(maxsize=4)
def _read(path: Path, changed: int) -> Rates:
    del changed  # A file that was written anew is read anew.
    try:
        found = from_json(path.read_bytes(), Rates)
    except (OSError, msgspec.MsgspecError):
        return Rates()
    sound = all(0.0 < value < 1e9 for value in msgspec.structs.astuple(found))
    return found if sound else Rates()


def write_rates(rates: Rates) -> Path:
    """Write the figures of this machine, and return the path of the file."""
    path = rates_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rates), indent=2) + b"\n")
    return path
