"""Run SQL texts over DataFrames, and translate Spark's error messages to the user's words.

The DataFrames are part of the plan of the text. A temporary view of the session would not work:
Spark Connect parses the text when its rows are requested, and again each time.
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

_GENERATED = r"`?\b(?:_pyspark|cepheid_(?:match|table|over))_\w+`?"
"""Names that are not the user's: ours, and those that Spark gives to DataFrames in a text."""

_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "FROM"})


def run_text(
    spark: SparkSession,
    query: str,
    frames: Mapping[str, DataFrame],
    tables: Mapping[str, DataFrame],
    statement: Statement,
) -> DataFrame:
    """Run a query.

    Parameters
    ----------
    spark
        The session whose tables and views the query may name.
    query
        Part of a statement, or all of it.
    frames
        DataFrames for placeholder names in the query that occur nowhere else.
    tables
        DataFrames under the user's names.
    statement
        The text of the user, for messages.

    Raises
    ------
    BindError
        E613 if Spark rejects the query.
    """
    run = uuid.uuid4().hex
    named = {f"cepheid_table_{run}_{i}_": name for i, name in enumerate(tables)}
    prefixed = _with_tables(query, {name: view for view, name in named.items()}, frames)
    known = {**frames, **{view: tables[name] for view, name in named.items()}}
    used: dict[str, Any] = {name: frame for name, frame in known.items() if name in prefixed}
    try:
        return spark.sql(_as_format(prefixed, used), **used) if used else spark.sql(prefixed)
    except AnalysisException as error:
        raise _refused(str(error), statement) from error


def _is_alias(before: str, frames: Mapping[str, DataFrame]) -> bool:
    """Check whether the word after this one is the alias of a table."""
    return before in frames or before.upper() == "AS"


def _as_format(query: str, names: Mapping[str, DataFrame]) -> str:
    """Convert a query to a format string, in which fields stand for DataFrames."""
    escaped = query.replace("{", "{{").replace("}", "}}")
    if not names:
        return escaped
    return re.sub("|".join(map(re.escape, names)), lambda found: f"{{{found.group()}}}", escaped)


def _with_tables(query: str, views: Mapping[str, str], frames: Mapping[str, DataFrame]) -> str:
    """Wrap a query in a WITH clause that binds the user's table names.

    The clause is a separate one, since the query may have a WITH clause with equal names. A name
    that only qualifies columns, or is the alias of a placeholder, is not bound: a stream that is
    bound and not read would be a source more in a checkpoint.
    """
    tokens = tokenize(query)
    words = {
        token.value.lower()
        for place, token in enumerate(tokens)
        if not (place and _is_alias(tokens[place - 1].value, frames))
        and not any(after.is_mark(".") for after in tokens[place + 1 : place + 2])
    }
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
    """Find the start of the query in a statement: in `INSERT INTO t SELECT`, at SELECT."""
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
    """Build the error for a text that Spark rejects."""
    reason = _reason(said)
    spans = [_place(word, statement) for word in _quoted_words(said)]
    span = next((found for found in spans if found is not None), None)
    helps = ("put the clause where a table is allowed, and write Spark SQL around it",)
    message = f"Spark rejects the SQL around the clause: {reason}"
    return BindError([Diagnostic("E613", message, span, helps=helps)], statement.text)


def _reason(said: str) -> str:
    """Extract the first sentence of Spark's message, without names that the user never wrote.

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
    """Yield the words that Spark quotes, the offending one first."""
    for found in re.finditer(r"near '([^']+)'|`([^`]+)`", said.partition("== SQL")[0]):
        yield found.group(1) or found.group(2)


def _place(word: str, statement: Statement) -> Span | None:
    """Find the position of a word outside of all clauses, if it occurs there once."""
    inside = [site.clause.span for site in statement.sites]
    found = [
        token.span
        for token in tokenize(statement.text)
        if token.value.lower() == word.lower()
        and token.span.start < token.span.end
        and not any(one.start <= token.span.start < one.end for one in inside)
    ]
    return found[0] if len(found) == 1 else None
