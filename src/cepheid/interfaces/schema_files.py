"""Read the columns of a file: Parquet, Arrow, CSV, TSV and JSON lines, by the file's ending.

A folder holds Parquet files, as Spark writes them; subfolders such as ``day=1`` are columns.
"""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, dataset, feather, ipc, json, parquet

from cepheid.errors import DataError, Diagnostic
from cepheid.events.files import check_separator, content_of, csv_options

SAMPLE_BYTES = 1 << 20
"""The bytes of a JSON lines file that are read to find its columns."""


class _UnreadableError(Exception):
    """The reason why the columns of a file cannot be read, in our words."""


def read_file_schema(path: Path) -> pa.Schema:
    """Read the Arrow schema of a file, or of a folder of Parquet files.

    Raises
    ------
    DataError
        E501 if the file is damaged, or of an unsupported format.
    """
    try:
        schema = _read(path)
        # Arrow decodes names only when somebody asks for them.
        assert len(schema.names) == len(schema), "every column has a name"
    except UnicodeError:
        raise _fail(path, "its header is not UTF-8 text", "save it as UTF-8") from None
    except _UnreadableError as error:
        raise _fail(path, *error.args) from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _fail(path, reason) from error
    return schema


def _fail(path: Path, reason: str, *helps: str) -> DataError:
    message = f"could not read the columns of `{path}`: {reason}"
    return DataError([Diagnostic("E501", message, helps=helps)])


def _read(path: Path) -> pa.Schema:
    if path.is_dir():
        return _read_folder(path)
    match "arrow" if path.suffix.lower() == ".arrows" else content_of(path.name):
        case "parquet":
            return parquet.read_schema(path)
        case "arrow":
            return _read_arrow(path)
        case "csv" | "tsv" as content:
            with csv.open_csv(path, parse_options=csv_options(content)) as reader:
                check_separator(path, content, reader.schema.names)
                return reader.schema
        case "json":
            return _read_json_lines(path)
    reason = "files with this ending are not supported"
    raise _UnreadableError(
        reason, "use a file that ends in .parquet, .arrow, .csv, .tsv, .jsonl or .csv.gz"
    )


def _read_folder(path: Path) -> pa.Schema:
    """Read the first file; names that start with a dot or underscore belong to Spark."""
    found = dataset.dataset(path, format="parquet", partitioning="hive")
    if not found.files:
        reason = "the folder holds no Parquet files"
        raise _UnreadableError(reason, "name a file, or a folder that Spark has written as Parquet")
    return found.schema


def _read_arrow(path: Path) -> pa.Schema:
    """Detect Arrow's file format, its stream format or old Feather by the first bytes."""
    with path.open("rb") as file:
        start = file.read(6)
    if start.startswith(b"FEA1"):
        return feather.read_table(path).schema
    # A map reads no more than the schema, whatever length a damaged file claims.
    with pa.memory_map(str(path)) as source:
        opened = ipc.open_file(source) if start == b"ARROW1" else ipc.open_stream(source)
        return opened.schema


def _read_json_lines(path: Path) -> pa.Schema:
    """Read whole lines only, so that a sample does not end inside one."""
    with pa.input_stream(str(path)) as file:  # It unpacks what is packed.
        sample = file.read(SAMPLE_BYTES)
        if file.read(1):
            sample = sample[: sample.rfind(b"\n") + 1]
            if not sample:
                reason = "its first line is longer than 1 MiB"
                raise _UnreadableError(reason, "write one event a line")
    # One block, because Arrow joins no line that lies in more than two.
    whole = json.ReadOptions(block_size=max(len(sample), 1))
    return json.read_json(io.BytesIO(sample), read_options=whole).schema
