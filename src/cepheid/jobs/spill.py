"""Keep the rows of a micro-batch on disk where they are many: tables in, the same tables out.

The tables that come out lie in a file that is mapped into memory, so that the system can drop
their pages and read them again. The file has no name any more and goes with its tables. It lies
where Spark puts its own files on a worker, and there is no limit but the room there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from cepheid.errors import DataError, Diagnostic

SPILL_ROWS = 2_000_000
"""Rows of one bucket in one micro-batch that stay in memory."""
LEFT_FREE = 1 << 30
"""Bytes of a disk that others may need: Spark's own files of the same micro-batch."""
SPARK_FOLDERS = "SPARK_LOCAL_DIRS"
"""The variable by which Spark tells its Python workers the folders of ``spark.local.dir``."""


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
    folder = _roomy_folder(sum(table.nbytes for table in tables))
    number, name = tempfile.mkstemp(prefix="cepheid-rows-", dir=folder)
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


def _roomy_folder(size: int) -> str:
    """Choose the folder with the most room.

    Raises
    ------
    DataError
        E513 if none has enough of it.
    """
    given = [one for one in os.environ.get(SPARK_FOLDERS, "").split(",") if Path(one).is_dir()]
    free, folder = max(
        (shutil.disk_usage(one).free, one) for one in given or [tempfile.gettempdir()]
    )
    if free - LEFT_FREE >= size:
        return folder
    message = "the rows of one micro-batch need more room than the disk of this worker has: "
    message += f"{free / 2**30:,.1f} GiB are free in `{folder}`"
    helps = (
        "put `spark.local.dir`, or TMPDIR, on a larger disk: a live query goes on where it was",
        "or make the window shorter, or WHERE stricter; GROUP-BY spreads rows over more tasks",
    )
    raise DataError([Diagnostic("E513", message, helps=helps)])
