"""Read the events of a slice: a task reads only its own row groups, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import DataError, Diagnostic
from cepheid.jobs.ordering import STEP_ROWS, ordered, slices
from cepheid.plans.plan import Plan
from cepheid.runtimes.scan import RowGroup, Slice, Unit, open_file


class Reader:
    """Reads the columns of a plan from row groups; keeps a file open while its groups are read."""

    def __init__(self, plan: Plan, schema: pa.Schema) -> None:
        self._plan = plan
        self._names = list(schema.names)
        # Text that repeats is read as codes; nothing has to compare it again.
        attributes = {plan.type, *plan.partition.attributes}
        texts = [field.name for field in schema if str(field.type) in ("string", "large_string")]
        self._codes = [name for name in texts if name in attributes]
        self._path = ""
        self._file: parquet.ParquetFile | None = None

    def events(
        self, piece: Slice, *, before: int = 0, after: int = 0, event_before: bool = False
    ) -> Iterator[pa.Table]:
        """Yield the events of a slice, and those within a margin beyond it, sorted by time.

        With ``event_before``, each unit also yields its last event before the range.
        """
        lowest = None if piece.begin is None else piece.begin - before
        highest = None if piece.end is None else piece.end + after
        for unit in piece.units:
            # Row groups that overlap, or that are not in order, are sorted; no event of another
            # unit lies between theirs.
            tables = [self._read(group) for group in unit.groups]
            whole = ordered(pa.concat_tables(tables), self._plan)
            begin, end = self._bounds(whole, unit, lowest, highest)
            if event_before and begin:
                begin -= 1
            whole = whole.slice(begin, max(0, end - begin))
            yield from slices(whole, STEP_ROWS)

    def _read(self, group: RowGroup) -> pa.Table:
        try:
            if self._file is None or self._path != group.path:
                self._file = open_file(
                    group.path, read_dictionary=self._codes, pre_buffer=True, memory_map=True
                )
                self._path = group.path
            table = self._file.read_row_group(group.number, columns=self._names, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            message = f"could not read `{group.path}`: {str(error).splitlines()[0]}"
            raise DataError([Diagnostic("E501", message)]) from error
        columns = Columns(table)
        arrays: list[Any] = [columns.arrow(name) for name in self._names]
        return pa.table(arrays, names=self._names)

    def _bounds(
        self, table: pa.Table, unit: Unit, lowest: int | None, highest: int | None
    ) -> tuple[int, int]:
        """Find the rows of a range, and check the statistics against them."""
        times = read_times(Columns(table), self._plan.time)
        if len(times) and (times[0] < unit.first or times[-1] > unit.last):
            message = f"`{unit.groups[0].path}` has times outside its own statistics"
            helps = (
                "write the file again, or let Spark read it: `spark.read.parquet(path).cache()`",
            )
            raise DataError([Diagnostic("E501", message, helps=helps)])
        begin = 0 if lowest is None else int(np.searchsorted(times, lowest, side="left"))
        end = len(times)
        if highest is not None:
            end = int(np.searchsorted(times, highest, side="left"))
        return begin, end
