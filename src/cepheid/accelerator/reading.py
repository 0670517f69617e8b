"""The columns of a table that a device reads as they lie in Arrow, each once."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from cepheid.accelerator.uploading import Chunks, encoded_chunks, plain_chunks


class Key(NamedTuple):
    """A column of keys: its type, its chunks, and its dictionary, if it has one."""

    kind: pa.DataType
    chunks: Chunks
    texts: pa.Array[Any] | None


class Reading:
    """The columns of a table that are copied to the device, each once."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.rows: dict[str, int] = {}
        self.columns: list[Chunks] = []

    def place(self, name: str, *, times: bool = False) -> tuple[str, int] | None:
        """Find a column of numbers: its kind and its row; None for any other column."""
        if name not in self._table.column_names:
            return None
        column = self._table.column(name)
        if name not in self.rows:
            chunks = plain_chunks(column, times=times)
            if chunks is None:
                return None
            self.rows[name] = len(self.columns)
            self.columns.append(chunks)
        elif not times and not (pa.types.is_int64(column.type) or pa.types.is_float64(column.type)):
            return None
        return "double" if pa.types.is_float64(column.type) else "whole", self.rows[name]

    def key(self, name: str) -> Key | None:
        """Read a column of keys; None if the host must number them."""
        if name not in self._table.column_names:
            return None
        column: Any = self._table.column(name)
        if pa.types.is_signed_integer(column.type) and not column.null_count:
            return Key(column.type, [one.to_numpy() for one in column.chunks if len(one)], None)
        encoded = encoded_chunks(column)
        if not encoded:
            return None
        chunks: list[Any] = pa.chunked_array(encoded).unify_dictionaries().chunks
        return Key(
            chunks[0].dictionary.type, [one.indices.to_numpy() for one in chunks],
            chunks[0].dictionary,
        )  # fmt: skip
