"""Modules of EPL in, their queries out: every ``select`` is a rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import msgspec

from cepheid.errors import CepheidError
from cepheid.language.formatter import format_text
from cepheid.translate.esper.statements import (
    Statement,
    behind_annotations,
    statement_of,
    write_statement,
)
from cepheid.translate.translated import (
    CannotTranslateError,
    Dialect,
    Settings,
    SourceFile,
    Translated,
)
from cepheid.translate.words.tokens import Tokens, split, tokens_of

_NO_RULES = ("MODULE", "IMPORT", "USES")


def translate_esper(files: Sequence[SourceFile], settings: Settings) -> Iterator[Translated]:
    """Translate the statements of all modules."""
    for file in files:
        stem = PurePosixPath(file.path).with_suffix("").as_posix()
        parts = [part for part in split(tokens_of(file.text), ";") if part]
        made = {one.into for one in map(_read, parts) if isinstance(one, Statement) and one.into}
        for part in parts:
            if part[0].word in _NO_RULES or _is_schema(part):
                continue
            yield _translated(_read(part), stem, file.path, settings, made)


def _is_schema(part: Tokens) -> bool:
    try:
        place, _ = behind_annotations(part)
    except (CannotTranslateError, LookupError):
        return False
    begin = [token.word for token in part[place : place + 3]]
    return begin[:1] == ["CREATE"] and "SCHEMA" in begin


def _read(part: Tokens) -> Statement | str:
    """Read a statement, or tell why it cannot be read."""
    try:
        return statement_of(part)
    except CannotTranslateError as error:
        return str(error)
    except (LookupError, ValueError, StopIteration):
        return "the statement cannot be read"


def _translated(
    read: Statement | str, stem: str, file: str, settings: Settings, made: set[str]
) -> Translated:
    if isinstance(read, str):
        return Translated(stem, file=file).refused(read)
    rule = Translated(read.name or read.into or stem, file=file)
    try:
        query, notes = write_statement(read, settings, made)
        # A row pattern is SQL, which is left as it is.
        written = query if "MATCH_RECOGNIZE" in query else format_text(query)
    except CannotTranslateError as error:
        return rule.refused(str(error))
    except (LookupError, ValueError, StopIteration):
        return rule.refused("the statement cannot be read")
    except CepheidError as error:
        return rule.refused(f"Cepheid has no such query: {error.diagnostics[0].message}")
    return msgspec.structs.replace(rule, query=written, notes=notes)


ESPER = Dialect("esper", "EPL of Esper", (".epl",), "type", translate_esper)
