"""SQL with MATCH_RECOGNIZE: the function behind ``cepheid.sql``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cepheid import options, runtimes


def sql(
    spark: Any = None,
    text: Any = None,
    *,
    tables: Mapping[str, Any] | None = None,
    strategy: str | None = None,
    explain: bool = False,
    analyze: bool = False,
    search_steps: int | None = None,
    search_states: int | None = None,
    watermark: str | None = None,
    bad: str = "drop",
    max_ahead: str = "1 day",
    idle: str | None = None,
    latency: str | None = None,
) -> Any:
    """Run SQL with MATCH_RECOGNIZE clauses, on Spark or in process.

    ``sql(spark, text)`` runs on Spark and returns a DataFrame; a clause may stand wherever a table
    may, and the rest of the text is Spark SQL. If a clause reads a stream, the DataFrame is
    streaming too, and emits a match when no later row can change it. ``sql(text, tables={...})``
    runs in process over all events that :meth:`CompiledQuery.run` takes there. Of files and event
    stores it reads only what the clauses need. If the query around the clauses is more than a
    SELECT over tables and joins of them, it runs on a local Spark session. ``docs/sql.md``
    describes the clause.

    Parameters
    ----------
    spark
        A Spark session, or the text itself if it runs in process.
    text
        The SQL text.
    tables
        Tables by their names in the text. With Spark, they are added to its own tables.
    strategy
        For event stores in process: ``"index"`` uses all indexes, ``"replay"`` reads everything. By
        default the cost decides.
    explain, analyze
        Explain how the clauses run: which part of event stores they read, and why; for a stream,
        the state they keep, or why they cannot read one. ``analyze`` also runs the
        clauses, and reports their reads.
    search_steps, search_states
        Limits of the search in a partition, if conditions read other rows of the match: the
        number of rows tried, and of partial matches remembered (E612, E616).
    watermark
        The allowed lateness of a stream, such as ``"10 seconds"``; a stream needs it.
    bad, max_ahead, idle, latency
        For a stream as in :meth:`CompiledQuery.stream`: with ``bad="side"`` the result is a pair of
        DataFrames.

    Returns
    -------
    pyspark.sql.DataFrame, pyarrow.Table, or a DataFrame of pandas or Polars
        With Spark a DataFrame; otherwise Arrow, or pandas or Polars if all tables are. A text with
        ``explain`` or ``analyze``.

    Raises
    ------
    OptionError
        If an argument is of another type than described here (E592), none of the choices (E590),
        or without effect (E591).
    QuerySyntaxError
        If a clause cannot be parsed (E601, E602, E615).
    BindError
        If names or types do not fit (E603 to E606, E608, E609, E613).
    UnsupportedError
        If the pattern is too large (E607), or a clause reads a stream and cannot be live (E405).
    DataError
        If the data is at fault (E610 to E612, E614, E616).

    Examples
    --------
    >>> import pyarrow as pa
    >>> ticks = pa.table({"seq": [1, 2, 3, 4], "price": [9, 7, 5, 6]})
    >>> sql('''
    ...     SELECT * FROM ticks MATCH_RECOGNIZE (
    ...         ORDER BY seq
    ...         MEASURES A.price AS top, LAST(B.price) AS bottom
    ...         PATTERN (A B+) DEFINE B AS price < PREV(price)
    ...     )''', tables={"ticks": ticks}).to_pylist()
    [{'top': 9, 'bottom': 5}]
    """
    if isinstance(spark, str):
        if text is not None:
            message = "the text is given twice: use sql(text, tables={...}) or sql(spark, text)"
            options.refuse("E592", message)
        spark, text = None, spark
    options.texts(text=text)
    options.check_sql(
        spark, tables, strategy=strategy, explain=explain, analyze=analyze, watermark=watermark
    )
    live = None
    if watermark is not None:
        live = options.LiveOptions(watermark, "drop", bad, max_ahead, idle, latency=latency)
    else:
        needed = {"bad": "drop", "max_ahead": "1 day", "idle": None, "latency": None}
        given = {"bad": bad, "max_ahead": max_ahead, "idle": idle, "latency": latency}
        for name in (name for name, usual in needed.items() if given[name] != usual):
            options.unused(name, "it is about streams, which need a watermark", "add `watermark`")
    asked = runtimes.SqlRequest(
        text,
        tables,
        strategy,
        options.whole("search_steps", search_steps),
        options.whole("search_states", search_states),
        live,
    )
    if explain or analyze:
        return runtimes.explain_sql(spark, asked, analyze=analyze)
    return runtimes.run_sql(spark, asked)
