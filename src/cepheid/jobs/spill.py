"""Keep the rows of a micro-batch on disk where they are many: tables in, the same tables out.

The tables that come out lie in a file that is mapped into memory, so that the system can drop
their pages and read them again. The file has no name any more and goes with its tables.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

SPILL_ROWS = 2_000_000
"""Rows of one bucket in one micro-batch that stay in memory."""


class Spilling:
    """Tables of rows, of which those before the last ones may be on disk."""

    def __init__(self) -> None:
        self._written: list[pa.Table] = []
        self._held: list[pa.Table] = []
        self.rows = 0

    def add(self, table: pa.Table) -> None:
        """Add rows; write all that is held to disk, if it is much."""
        self._held.append(table)
        self.rows += len(table)
        if sum(map(len, self._held)) > SPILL_ROWS:
            self._written.append(_on_disk(self._held))
            self._held = []

    def tables(self) -> list[pa.Table]:
        """Return all rows in their order."""
        return [*self._written, *self._held]


def _on_disk(tables: list[pa.Table]) -> pa.Table:
    number, name = tempfile.mkstemp(prefix="cepheid-rows-")
    os.close(number)
    path = Path(name)
    try:
        with pa.OSFile(name, "wb") as file, pa.ipc.new_stream(file, tables[0].schema) as writer:
            for table in tables:
                writer.write_table(table)
        return pa.ipc.open_stream(pa.memory_map(name)).read_all()
    finally:
        with suppress(OSError):  # Windows keeps a file that is in use.
            path.unlink()
