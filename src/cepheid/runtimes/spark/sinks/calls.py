"""Define the interface of sinks: the call that Spark makes, and the facts about the query."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from cepheid.spark.failures import FAILURES, clear_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Write = Callable[["DataFrame", int], None]
"""Write the rows of a micro-batch, which has a number."""

_STOPPED = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling a sink: "
    "java.lang.InterruptedException"
)
"""By these words Spark knows that a sink was stopped and has not failed.

It looks for them with a regular expression that overflows the stack on the usual thousands of
characters, and then the thread of the query dies.
"""


class SinkStoppedError(Exception):
    """The query was stopped while its sink wrote a micro-batch."""


def sink(write: Write) -> Write:
    """Let a function be called by foreachBatch: stopping is no failure, and failures are short.

    Raises
    ------
    DataError
        The cause of a failure of Spark.
    """

    @functools.wraps(write)
    def called(batch: DataFrame, number: int) -> None:
        try:
            write(batch, number)
        except FAILURES as error:
            if "java.lang.InterruptedException" in str(error):
                raise SinkStoppedError(_STOPPED) from None
            raise clear_error(error) from None

    return called


def query_of(batch: DataFrame) -> str:
    """Return the id of the query that a micro-batch belongs to; it stays with the checkpoint."""
    name = "sql.streaming.queryId"
    found = batch.sparkSession.sparkContext.getLocalProperty(name)
    assert found, "foreachBatch calls a sink"
    return str(found)
