"""SQL texts over DataFrames that they name, and what Spark says of a text in the user's words.

The DataFrames go with the plan of the text. A view of the session would not do: Spark Connect reads
the text when its rows are asked for, and then once more each time.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from cepheid.errors import BindError, Diagnostic, Span
from cepheid.kinds.row_pattern.lexer import Token, tokenize
from cepheid.kinds.row_pattern.statement import Statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GENERATED = r"`?\b(?:_pyspark|cepheid_(?:match|table))_\w+`?"
"""Names that are not the user's: ours, and those that Spark gives to DataFrames in a text."""

_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "FROM"})


def run_text(
    spark: SparkSession,
    query: str,
    frames: Mapping[str, DataFrame],
    tables: Mapping[str, DataFrame],
    statement: Statement,
) -> DataFrame:
    """Return the result of a query.

    Parameters
    ----------
    spark
        The session whose tables and views the query may name.
    query
        Part of a statement, or all of it.
    frames
        DataFrames that stand in the query under names that occur nowhere else.
    tables
        DataFrames under the user's names.
    statement
        What the user wrote, for messages.

    Raises
    ------
    BindError
        E613 if Spark does not take the query.
    """
    run = uuid.uuid4().hex
    named = {f"cepheid_table_{run}_{i}_": name for i, name in enumerate(tables)}
    prefixed = _with_tables(query, {name: view for view, name in named.items()})
    known = {**frames, **{view: tables[name] for view, name in named.items()}}
    used: dict[str, Any] = {name: frame for name, frame in known.items() if name in prefixed}
    try:
        return spark.sql(_as_format(prefixed, used), **used) if used else spark.sql(prefixed)
    except AnalysisException as error:
        raise _refused(str(error), statement) from error


def _as_format(query: str, names: Mapping[str, DataFrame]) -> str:
    """Return a query as a format string, in which names stand for DataFrames."""
    escaped = query.replace("{", "{{").replace("}", "}}")
    if not names:
        return escaped
    return re.sub("|".join(map(re.escape, names)), lambda found: f"{{{found.group()}}}", escaped)


def _with_tables(query: str, views: Mapping[str, str]) -> str:
    """Return a query that reads tables under the user's names, as named queries around it.

    They stand in a WITH of their own, since the query may have one with equal names.
    """
    tokens = tokenize(query)
    words = {token.value.lower() for token in tokens}
    named = [
        f"`{name.replace('`', '``')}` AS (SELECT * FROM {view})"
        for name, view in views.items()
        if name.lower() in words
    ]
    if not named:
        return query
    ended = len(tokens) > 1 and tokens[-2].is_mark(";")
    end = tokens[-2].span.start if ended else len(query)
    start = _query_start(tokens)
    return f"{query[:start]}WITH {', '.join(named)} ({query[start:end]}\n)"


def _query_start(tokens: list[Token]) -> int:
    """Return where the query of a statement begins: of `INSERT INTO t SELECT`, at SELECT."""
    depth = 0
    for token, following in pairwise(tokens):
        opens = token.is_mark("(") and (following.upper in _QUERIES or following.is_mark("("))
        if depth == 0 and (opens or token.upper in _QUERIES):
            return token.span.start
        depth += token.is_mark("(") - token.is_mark(")")
    return 0


# ---------------------------------------------------------------------------------------
# Messages


def _refused(said: str, statement: Statement) -> BindError:
    """Return the error for a text that Spark does not take."""
    reason = _reason(said)
    spans = [_place(word, statement) for word in _quoted_words(said)]
    span = next((found for found in spans if found is not None), None)
    helps = ("put the clause where a table is allowed, and write Spark SQL around it",)
    message = f"Spark rejects the SQL around the clause: {reason}"
    return BindError([Diagnostic("E613", message, span, helps=helps)], statement.text)


def _reason(said: str) -> str:
    """Return the first sentence of what Spark says, without names that the user never wrote.

    Examples
    --------
    >>> _reason("[PARSE_SYNTAX_ERROR] Syntax error at or near '_pyspark_1a'. SQLSTATE: 42601")
    "Syntax error at or near 'the clause'"
    """
    line = next((line for line in said.splitlines() if line.strip()), "it gives no reason")
    line = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", line)
    line = re.split(r"\.?\s*SQLSTATE|\.\s|\.$|; line \d", line)[0]
    line = re.sub(_GENERATED + r"\.", "", line)
    return re.sub(_GENERATED, "the clause", line)


def _quoted_words(said: str) -> Iterator[str]:
    """Yield what Spark quotes, the fault itself first."""
    for found in re.finditer(r"near '([^']+)'|`([^`]+)`", said.partition("== SQL")[0]):
        yield found.group(1) or found.group(2)


def _place(word: str, statement: Statement) -> Span | None:
    """Return where a word stands outside of all clauses, if it stands there once."""
    inside = [site.clause.span for site in statement.sites]
    found = [
        token.span
        for token in tokenize(statement.text)
        if token.value.lower() == word.lower()
        and token.span.start < token.span.end
        and not any(one.start <= token.span.start < one.end for one in inside)
    ]
    return found[0] if len(found) == 1 else None
