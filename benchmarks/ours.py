"""The one place where the benchmarks call Cepheid: a query text and a table in, a table out."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, cast

import cepheid

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


class NotConnectedError(RuntimeError):
    """This version of Cepheid cannot run queries."""


def run(text: str, table: pa.Table, evaluator: str | None = None) -> pa.Table:
    """Return the rows of a query over a table with the columns ts and type."""
    method = getattr(_compiled(text, evaluator), "run", None)
    if method is None:
        message = "cepheid.query(...).run does not exist yet; only the baselines are measured"
        raise NotConnectedError(message)
    return cast("Callable[[pa.Table], pa.Table]", method)(table)


@cache
def _compiled(text: str, evaluator: str | None) -> object:
    # The baselines get their templates ready-made too: planning is measured by `startup`.
    query = cepheid.query(text)
    return query if evaluator is None else query.with_evaluator(evaluator)
