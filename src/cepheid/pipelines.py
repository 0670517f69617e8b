"""``cepheid.pipeline``: queries that feed queries, as a mapping instead of one text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cepheid import options
from cepheid.api import CompiledQuery, query
from cepheid.expressions.format import format_name
from cepheid.expressions.own import OwnFunction


def pipeline(
    queries: Mapping[str, str],
    *,
    time: str = "ts",
    type: str | None = "type",  # noqa: A002  # fixed name
    tiebreak: Iterable[str] = (),
    time_unit: str = "us",
    time_format: str | None = None,
    schema: object = None,
    functions: Iterable[OwnFunction] | None = None,
) -> CompiledQuery:
    """Plan queries that feed queries: the rows of each are events of its name for those after it.

    The result is that of the last query. It is the same as :func:`query` of a text with
    ``CREATE STREAM name AS query;`` for every query, which ``docs/pipelines.md`` describes.

    Parameters
    ----------
    queries
        The texts of the queries by the names of their streams, in order.
    time, type, tiebreak, time_unit, time_format, schema, functions
        As for :func:`query`.

    Raises
    ------
    OptionError, QuerySyntaxError, BindError, UnsupportedError
        As for :func:`query`; E350 to E356 and E412 to E415 if queries cannot feed each other.

    Examples
    --------
    >>> import pyarrow as pa
    >>> p = pipeline({
    ...     "High": "SELECT x FROM s WHERE x > 4",
    ...     "runs": "RETURN COUNT(*) PATTERN High+ WITHIN 10 us SLIDE 10 us",
    ... })
    >>> p.run(pa.table({"ts": [1, 2, 3], "x": [5, 1, 7]})).to_pylist()
    [{'window_start': 0, 'window_end': 10, 'count': 3.0}]
    """
    given: object = queries
    if not isinstance(given, Mapping) or not given:
        options.refuse("E592", "queries are a dict of texts by the names of their streams")
    options.texts(**{f"query {name!r}": text for name, text in queries.items()})
    # The mark stands on a line of its own, since a text may end with a comment.
    parts = [
        f"CREATE STREAM {format_name(str(name))} AS\n{text.rstrip().removesuffix(';')}\n;"
        for name, text in queries.items()
    ]
    return query(
        "\n".join(parts),
        time=time,
        type=type,
        tiebreak=tiebreak,
        time_unit=time_unit,
        time_format=time_format,
        schema=schema,
        functions=functions,
    )
