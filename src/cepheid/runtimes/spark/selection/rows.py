"""One stream of a SELECT as a DataFrame: its columns, filter and result columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as sf

from cepheid.events.schema import EventSchema, ValueKind, read_schema
from cepheid.expressions.spark_columns import Expressions, Lookup, Typed
from cepheid.language import tree
from cepheid.plans.selection import SelectColumn
from cepheid.spark.worker_python import prepare_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Stream(NamedTuple):
    """A stream of a query as a DataFrame."""

    alias: str
    frame: DataFrame
    schema: EventSchema

    def typed(self, name: str) -> Typed:
        """Look up a column and its kind."""
        path = [name] if name in self.frame.columns else name.split(".")
        column = sf.col(".".join(f"`{part.replace('`', '``')}`" for part in path))
        found = dict(self.frame.dtypes).get(name)
        type_name = self.frame.select(column).dtypes[0][1] if found is None else found
        kind = self.schema.kind(name) or ValueKind.UNKNOWN
        return Typed(column, kind, type_name, name)


def stream_of(alias: str, frame: DataFrame) -> Stream:
    """Wrap a DataFrame as a stream."""
    schema = read_schema(frame.schema)
    assert schema is not None, "a DataFrame has a schema"
    return Stream(alias, frame, schema)


def expressions_over(frame: DataFrame, lookup: Lookup) -> Expressions:
    """Translate expressions over a DataFrame; workers are prepared where they call Python."""
    return Expressions(lookup, partial(prepare_workers, frame.sparkSession))


def filtered(
    frame: DataFrame, conditions: Sequence[tree.Expression], expressions: Expressions
) -> DataFrame:
    """Keep the rows of a DataFrame that satisfy all conditions."""
    parts = [expressions.column(condition) for condition in conditions]
    return frame.filter(reduce(lambda a, b: a & b, parts)) if parts else frame


def project(
    frame: DataFrame, shown: Sequence[SelectColumn], expressions: Expressions, lookup: Lookup
) -> DataFrame:
    """Build the result columns; a plain attribute keeps its type."""
    columns = []
    for column in shown:
        expression = column.expression
        assert expression is not None, "columns are known once there is a schema"
        if isinstance(expression, tree.Attribute):
            value = lookup(expression).column
        else:
            value = expressions.column(expression)
        columns.append(value.alias(column.name))
    return frame.select(*columns)
