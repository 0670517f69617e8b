"""Engines over a table that changes: events that leave and come in, rows before and after out."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


class Left(NamedTuple):
    """Events that leave: their places, their times, and the notes that an engine gave them."""

    places: Numbers
    times: Numbers
    notes: Numbers


class Came(NamedTuple):
    """Events that come, with their places and times, in the order of their changes."""

    events: pa.Table
    places: Numbers
    times: Numbers


class Answer(NamedTuple):
    """Notes of the events that came, and the rows that the changes may have changed."""

    notes: Numbers
    before: pa.Table
    after: pa.Table


class Engine(Protocol):
    """A query over the current table: every change tells which rows it was and is about.

    Rows that are in neither table did not change; rows that are in both may not have changed.
    """

    def nothing(self) -> pa.Table:
        """Create an empty result."""

    def change(self, left: Left, came: Came) -> Answer:
        """Apply changes; return notes of the events that came, and rows before and after."""

    def forget(self, until: int) -> None:
        """Forget final events that no row which may still change needs."""

    def to_bytes(self) -> bytes:
        """Serialize the events."""

    def read(self, data: bytes) -> None:
        """Deserialize what ``to_bytes`` wrote."""
