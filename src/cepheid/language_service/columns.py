"""The columns of events, of one stream or of several by name."""

from __future__ import annotations

from collections.abc import Mapping

from cepheid.events.schema import EventSchema, read_schema


def columns_of(schema: object) -> EventSchema | None:
    """Read the columns of a schema, or those of all streams of a dict of schemas by name.

    Examples
    --------
    >>> columns_of({"a": {"x": "int"}, "b": {"x": "int", "y": "int"}}).names
    ('x', 'y')
    """
    if not isinstance(schema, Mapping) or all(isinstance(one, str) for one in schema.values()):
        return read_schema(schema)
    read = [found for one in schema.values() if (found := read_schema(one)) is not None]
    merged = {column.name: column for found in read for column in found.columns}
    return EventSchema(tuple(merged.values()))
