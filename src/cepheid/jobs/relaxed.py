"""A query that was made from another one by leaving something out, planned like any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from cepheid.events.schema import read_schema
from cepheid.events.time_formats import TextTimes
from cepheid.jobs.kind import compile_query
from cepheid.language import tree as language
from cepheid.options import refuse
from cepheid.patterns.scope import Source
from cepheid.plans.plan import Plan


class RelaxedQuery(NamedTuple):
    """A tree without a text of its own; its places are those of the query that it comes from."""

    tree: language.Query
    text: str
    source: Source
    plan: Plan

    @staticmethod
    def of(query: language.Query, text: str, source: Source) -> RelaxedQuery:
        """Plan a tree.

        Raises
        ------
        BindError, UnsupportedError
            As for a query that the user has written.
        """
        return RelaxedQuery(query, text, source, compile_query(query, text, source))

    @property
    def times(self) -> TextTimes:
        """Return the format of text times."""
        return self.source.times

    def with_schema(self, schema: object) -> RelaxedQuery:
        """Plan the query for events with these columns."""
        return RelaxedQuery.of(self.tree, self.text, with_schema(self.source, self.tree, schema))


def with_schema(source: Source, query: language.Query, schema: object) -> Source:
    """Apply a schema to a source; a query over two streams takes a dict of schemas by name."""
    if not isinstance(query, language.SelectQuery) or len(query.streams) == 1 or schema is None:
        return msgspec.structs.replace(source, schema=source.times.planned(read_schema(schema)))
    names = {stream.name.text for stream in query.streams}
    if not isinstance(schema, Mapping) and len(names) == 1:
        # A stream that is joined with itself has one schema.
        schema = {names.pop(): schema}
    if not isinstance(schema, Mapping):
        message = "this query reads two streams: schema is a dict of schemas by their names"
        refuse("E592", message)
    read = (
        (str(name), source.times.planned(read_schema(columns))) for name, columns in schema.items()
    )
    known = tuple((name, columns) for name, columns in read if columns is not None)
    return msgspec.structs.replace(source, schemas=known)
