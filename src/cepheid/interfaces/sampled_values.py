"""The columns of a file of events, and frequent values of them, for completion."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cepheid.events.files import find_files, read_all
from cepheid.interfaces.schema_files import read_file_schema

ROWS_MAX = 20_000
"""Events that are looked at."""
VALUES_MAX = 50
"""Values of a column that are kept."""
FILE_BYTES_MAX = 64 << 20
"""Of larger files that cannot be read in part, such as JSON lines, no values are read."""


class Sampled(NamedTuple):
    """Columns, and their most frequent values."""

    schema: pa.Schema
    values: dict[str, Sequence[object]]


def sample_file(path: Path) -> Sampled:
    """Read the columns of a file or folder, and the frequent values of its first events.

    Raises
    ------
    DataError
        E501 if it cannot be read.
    """
    schema = read_file_schema(path)
    files = find_files(str(path))[:1]
    if files[0].suffix == ".json" or files[0].stat().st_size > FILE_BYTES_MAX:
        files = [file for file in files if file.suffix in (".parquet", ".pq", ".arrow")]
    for batch in read_all(files, batch_rows=ROWS_MAX):
        return Sampled(schema, frequent_values(batch.slice(0, ROWS_MAX)))
    return Sampled(schema, {})


def frequent_values(table: pa.Table) -> dict[str, Sequence[object]]:
    """Find the most frequent values of columns that are texts, numbers or truth values."""
    found: dict[str, Sequence[object]] = {}
    for field in table.schema:
        kind: Any = field.type
        types = pa.types
        if not (types.is_string(kind) or types.is_integer(kind) or types.is_boolean(kind)):
            continue
        counted: Any = pc.value_counts(table[field.name].drop_null())
        pairs = sorted(counted.to_pylist(), key=lambda pair: -pair["counts"])
        # Values that are all different, such as ids, help nobody.
        if pairs and (pairs[0]["counts"] > 1 or len(pairs) <= VALUES_MAX):
            found[field.name] = [pair["values"] for pair in pairs[:VALUES_MAX]]
    return found
