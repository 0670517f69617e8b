"""File in, its columns out: Parquet, Arrow, CSV and JSON lines, by the file's ending."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, feather, json, parquet

from cepheid.errors import DataError, Diagnostic

SAMPLE_BYTES = 1 << 20
"""How much of a JSON lines file is read to learn its columns."""


def read_file_schema(path: Path) -> pa.Schema:
    """Return the Arrow schema of a file.

    Raises
    ------
    DataError
        E501 if the file is damaged, or of a kind that Cepheid does not read.
    """
    ending = path.suffix.lower()
    try:
        if ending in (".parquet", ".pq"):
            return parquet.read_schema(path)
        if ending in (".arrow", ".feather", ".ipc"):
            return feather.read_table(path, memory_map=True).schema
        if ending == ".csv":
            with csv.open_csv(path) as reader:
                return reader.schema
        if ending in (".jsonl", ".ndjson", ".json"):
            return _read_json_lines(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        message = f"could not read the columns of `{path}`: {reason}"
        raise DataError([Diagnostic("E501", message)]) from error
    helps = ("use a file that ends in .parquet, .arrow, .csv or .jsonl",)
    message = f"could not read the columns of `{path}`: its ending names no known kind of file"
    raise DataError([Diagnostic("E501", message, helps=helps)])


def _read_json_lines(path: Path) -> pa.Schema:
    """Read whole lines only, so that a sample does not end inside one."""
    with path.open("rb") as file:
        sample = file.read(SAMPLE_BYTES)
        if len(sample) == SAMPLE_BYTES:
            sample = sample[: sample.rfind(b"\n") + 1]
    return json.read_json(io.BytesIO(sample)).schema
