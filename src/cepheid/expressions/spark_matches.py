"""Regular expressions and networks as columns of Spark: its workers call what runs in process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cepheid.events.schema import ValueKind
from cepheid.expressions.arrow import arrow_of
from cepheid.expressions.match_functions import MATCH_FUNCTIONS
from cepheid.expressions.spark_own import called_column
from cepheid.expressions.vectors import NULL, full_length, vector_of

if TYPE_CHECKING:
    from pyspark.sql import Column


def match_column(function: str, columns: Sequence[Column]) -> Column:
    """Return the call of a function of texts."""
    texts = [column.cast("string") for column in columns]
    return called_column(_on_arrays(function), texts, [pa.string()] * len(texts), "boolean")


def _on_arrays(function: str) -> Callable[..., Any]:
    """Return the function that Spark's workers call with arrays."""

    def call(*arrays: Any) -> Any:
        text, pattern = (vector_of(array) for array in arrays)
        length = len(arrays[0])
        if ValueKind.UNKNOWN in (text.kind, pattern.kind):
            return arrow_of(full_length(NULL, length)).cast(pa.bool_())
        return arrow_of(full_length(MATCH_FUNCTIONS[function](text, pattern), length))

    call.__annotations__ = {"arrays": pa.Array, "return": pa.Array}
    return call
