"""The answers of the language service: frozen values that ``msgspec`` writes as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from cepheid.errors import Note, Span


class Severity(StrEnum):
    """The severity of a finding; INFORMATION stops nothing."""

    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"


class TextEdit(msgspec.Struct, frozen=True):
    """Replace the characters of a span by a text; an empty span inserts."""

    span: Span
    text: str


class Fix(msgspec.Struct, frozen=True):
    """A title to click on, and the edits that it stands for; they do not overlap."""

    title: str
    edits: tuple[TextEdit, ...]


class Finding(msgspec.Struct, frozen=True):
    """A mistake or warning, where it is, what may help, and edits that repair it."""

    code: str
    message: str
    span: Span
    severity: Severity
    label: str = ""
    notes: tuple[Note, ...] = ()
    helps: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()


class CompletionKind(StrEnum):
    """The kind of a completion."""

    CLAUSE = "clause"
    KEYWORD = "keyword"
    FUNCTION = "function"
    TYPE = "type"
    VARIABLE = "variable"
    COLUMN = "column"
    VALUE = "value"
    UNIT = "unit"
    STREAM = "stream"


class Completion(msgspec.Struct, frozen=True):
    """A text that may stand at a place: ``insert`` replaces the characters of ``span``."""

    label: str
    kind: CompletionKind
    insert: str
    span: Span
    detail: str = ""
    section: str = ""
    """The rule of docs/semantics.md that defines it, such as ``§2.5``."""


class Hover(msgspec.Struct, frozen=True):
    """The meaning of a word in one sentence, and the rule that defines it."""

    span: Span
    title: str
    text: str
    section: str = ""


class SymbolKind(StrEnum):
    """The kind of an entry of an outline."""

    STREAM = "stream"
    CLAUSE = "clause"
    VARIABLE = "variable"
    SITUATION = "situation"
    RESULT = "result"


class Symbol(msgspec.Struct, frozen=True):
    """An entry of the outline of a text."""

    name: str
    kind: SymbolKind
    span: Span
    detail: str = ""


def apply_edits(text: str, edits: Iterable[TextEdit]) -> str:
    """Apply edits that do not overlap to a text.

    Examples
    --------
    >>> apply_edits("pattern A", [TextEdit(Span(0, 7), "PATTERN")])
    'PATTERN A'
    """
    for edit in sorted(edits, key=lambda edit: edit.span.start, reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text
