"""The columns of events in, their types as translations know them out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cepheid.events.schema import ValueKind, read_schema

TEXTS = "texts"
"""The type of a column that holds lists of texts."""
_TEXTS = re.compile(r"(?:large_)?list<\w+: (?:large_)?string(?: not null)?>|array<string>")


def types_of(schema: object) -> dict[str, str]:
    """Return the type of each column: its kind, or that it holds lists of texts.

    Examples
    --------
    >>> types_of({"x": "bigint", "tags": "array<string>", "ids": "array<int>"})
    {'x': 'integer', 'tags': 'texts', 'ids': 'other'}
    """
    known = read_schema(schema)
    if known is None:
        return {}
    types = {column.name: column.kind.value for column in known.columns}
    for name, printed in _printed(schema).items():
        if types.get(name) == ValueKind.OTHER.value and _TEXTS.fullmatch(printed):
            types[name] = TEXTS
    return types


def _printed(schema: Any) -> dict[str, str]:
    """Print the type of each column, and of the fields of structures."""
    if isinstance(schema, Mapping):
        return {str(name): str(printed) for name, printed in schema.items()}
    return dict(_fields(getattr(schema, "schema", schema), ""))


def _fields(fields: Iterable[Any], prefix: str) -> Iterator[tuple[str, str]]:
    for field in fields:
        name, kind = f"{prefix}{field.name}", field.type
        yield name, str(kind)
        if str(kind).startswith("struct<"):
            yield from _fields([kind.field(n) for n in range(kind.num_fields)], f"{name}.")
