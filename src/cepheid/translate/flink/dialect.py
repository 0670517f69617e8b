"""Scripts of Flink SQL in, the queries in them out.

A statement with a query is a rule: ``SELECT``, ``INSERT INTO t SELECT``, ``CREATE VIEW v AS
SELECT`` or ``CREATE TABLE t AS SELECT``, also in a ``STATEMENT SET``. Statements without a query
(``CREATE TABLE``, ``SET``) are no rules. What is neither is told, and not passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import msgspec

from cepheid.errors import CepheidError
from cepheid.expressions.format import format_name
from cepheid.language.formatter import format_text
from cepheid.translate.flink.selects import write_select
from cepheid.translate.translated import (
    CannotTranslateError,
    Dialect,
    Settings,
    SourceFile,
    Translated,
)

_TOKEN = re.compile(
    r"(?P<COMMENT>--[^\n]*|/\*.*?\*/)|(?P<TEXT>'(?:[^']|'')*')|(?P<NAME>`(?:[^`]|``)*`)"
    r"|(?P<WORD>\w+)|(?P<MARK>.)",
    re.DOTALL,
)
_NAME = r"((?:`[^`]+`|[\w.])+)"
_INTO = re.compile(rf"\s*INSERT\s+(?:INTO|OVERWRITE)\s+{_NAME}\s*(?:\([^)]*\)\s*)?", re.IGNORECASE)
_VIEW = re.compile(
    r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMPORARY\s+|MATERIALIZED\s+)?(?:VIEW|TABLE)\s+"
    rf"(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}\s+(?:.*?[\s)])?AS\s+(?=(?:SELECT|WITH)\b)",
    re.IGNORECASE | re.DOTALL,
)
_SET = re.compile(
    r"\s*(?:EXECUTE\s+)?STATEMENT\s+SET\s+BEGIN\b|\s*EXECUTE\s+(?=INSERT\b)", re.IGNORECASE
)
_QUERY = re.compile(r"\s*(?:SELECT|WITH)\b", re.IGNORECASE)
_NO_QUERY = re.compile(
    r"ADD|ALTER|ANALYZE|BEGIN|CALL|CLEAR|CREATE|DELETE|DESC|DESCRIBE|DROP|END|EXIT|EXPLAIN|INSERT|"
    r"LOAD|QUIT|REMOVE|RESET|SET|SHOW|STOP|TRUNCATE|UNLOAD|UPDATE|USE"
)
"""Words that begin statements without a query."""
_ROWTIME = re.compile(r"\bMATCH_ROWTIME\s*\(\s*\)", re.IGNORECASE)

NO_SKIP = (
    "without AFTER MATCH the search goes on behind the last row of a match, as in SQL: write the "
    "clause if your Flink does otherwise"
)
DIVIDES = "`/` of whole numbers cuts digits in Flink, and is exact here"


class Statement(NamedTuple):
    """A query of a script, the table or view that it fills, and why it is none we know."""

    name: str
    text: str
    reason: str = ""


def translate_flink(files: Sequence[SourceFile], settings: Settings) -> Iterator[Translated]:
    """Translate the queries of all scripts."""
    for file in files:
        stem = PurePosixPath(file.path).with_suffix("").as_posix()
        for statement in statements_of(file.text):
            rule = Translated(statement.name or stem, file=file.path)
            if statement.reason:
                yield rule.refused(statement.reason)
            else:
                yield _translated(rule, statement.text, settings)


def _translated(rule: Translated, text: str, settings: Settings) -> Translated:
    marks = list(_code(text))
    words = [word.upper() for word in marks]
    if "MATCH_RECOGNIZE" not in words:
        return _selected(rule, text, settings)
    if "MATCH_PROCTIME" in words:
        return rule.refused("`MATCH_PROCTIME()` asks for the time of the machine")
    notes = []
    if "AFTER" not in words:
        notes.append(NO_SKIP)
    if "/" in marks:
        notes.append(DIVIDES)
    query = _ROWTIME.sub(f"LAST({format_name(settings.time)})", text).strip()
    return msgspec.structs.replace(rule, query=query, notes=tuple(notes))


def _selected(rule: Translated, text: str, settings: Settings) -> Translated:
    """Translate a query without MATCH_RECOGNIZE."""
    try:
        query, notes = write_select(text, settings)
        written = format_text(query)
    except CannotTranslateError as error:
        return rule.refused(str(error))
    except (LookupError, ValueError, StopIteration):
        return rule.refused("the query cannot be read")
    except CepheidError as error:
        return rule.refused(f"Cepheid has no such query: {error.diagnostics[0].message}")
    return msgspec.structs.replace(rule, query=written, notes=notes)


def _code(text: str) -> Iterator[str]:
    """Yield the words and marks of a text, without comments, texts and quoted names."""
    for match in _TOKEN.finditer(text):
        if match.lastgroup in ("WORD", "MARK") and not match.group().isspace():
            yield match.group()


def statements_of(script: str) -> Iterator[Statement]:
    """Yield the queries of a script.

    Examples
    --------
    >>> list(statements_of("SET a = 'b;c'; INSERT INTO `out` SELECT 1 -- one; two"))
    [Statement(name='out', text='SELECT 1', reason='')]
    """
    for text in _split(script):
        name = ""
        begun = _SET.match(text)
        whole = text = text if begun is None else text[begun.end() :]
        for head in (_INTO, _VIEW):
            match = head.match(text)
            if match is not None:
                name, text = match[1].replace("`", ""), text[match.end() :]
        if _QUERY.match(text):
            yield Statement(name, text.strip())
            continue
        first, *others = [word.upper() for word in _code(whole)] or ["SET"]
        if not _NO_QUERY.fullmatch(first):
            yield Statement(name, text, f"`{first}` begins no statement of Flink SQL that is known")
        elif "SELECT" in others and first != "EXPLAIN":
            yield Statement(name, text, f"a query in this form of `{first}` is not carried over")


def _split(script: str) -> Iterator[str]:
    """Cut a script at its semicolons, and leave its comments out."""
    parts: list[str] = []
    for match in _TOKEN.finditer(script):
        if match.group() == ";":
            yield "".join(parts)
            parts = []
        else:
            parts.append(" " if match.lastgroup == "COMMENT" else match.group())
    yield "".join(parts)


FLINK_SQL = Dialect("flink-sql", "Flink SQL", (".sql",), "type", translate_flink)
