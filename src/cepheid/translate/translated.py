"""Input and output of a dialect: files in, one ``Translated`` for each of their rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from cepheid.expressions.format import format_name, format_path


class Outcome(StrEnum):
    """The outcome of translating a rule."""

    EXACT = "exact"
    NOTED = "with a note"
    REFUSED = "not carried over"


class Translated(msgspec.Struct, frozen=True):
    """A rule as Cepheid has it, or the reasons for which it has none.

    ``notes`` say what differs, or what was taken for granted; a rule without notes has the same
    meaning. A rule with ``reasons`` is not carried over, and its query is empty. ``about`` is what
    the rule says of itself in words, ``file`` where it was found.
    """

    name: str
    query: str = ""
    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    owner: str = ""
    tags: tuple[str, ...] = ()
    severity: str = ""
    about: str = ""
    file: str = ""

    @property
    def outcome(self) -> Outcome:
        """Tell whether the rule is carried over."""
        if self.reasons:
            return Outcome.REFUSED
        return Outcome.NOTED if self.notes else Outcome.EXACT

    def refused(self, *reasons: str) -> Translated:
        """Return the rule as one that is not carried over."""
        return msgspec.structs.replace(self, query="", reasons=(*self.reasons, *reasons))


class CannotTranslateError(Exception):
    """A part of a rule has no counterpart; the text says which, and why."""


class SourceFile(NamedTuple):
    """A file with rules: its path as it was named, and its text."""

    path: str
    text: str


class Log(NamedTuple):
    """Where the events of a log source are, by the parts of it that are named.

    ``from_`` is the name after FROM, ``where`` a condition on all events of the log, ``type`` their
    value of the column of types. ``fields`` are columns that are called otherwise in this log, and
    ``keywords`` the columns that are searched for words without a field.
    """

    source: Mapping[str, str]
    from_: str = ""
    where: str = ""
    type: str = ""
    fields: Mapping[str, str] = {}
    keywords: tuple[str, ...] = ()


class Settings(NamedTuple):
    """The schema that rules cannot state: names of columns, and their types.

    ``fields`` has the columns of fields that are called otherwise. With ``flat``, a field such as
    ``process.name`` is a column of this name, otherwise a field of a structure. ``types`` are the
    types of columns that are known: ``text``, ``integer``, ``double`` or ``boolean``. ``logs`` are
    the logs of log sources, ``keywords`` the columns of words without a field, ``placeholders`` the
    values that stand for a name in a rule.
    """

    type: str = "type"
    time: str = "ts"
    flat: bool = False
    fields: Mapping[str, str] = {}
    types: Mapping[str, str] = {}
    logs: tuple[Log, ...] = ()
    keywords: tuple[str, ...] = ()
    placeholders: Mapping[str, Sequence[str]] = {}

    def column(self, field: str) -> str:
        """Write the column of a field, as the language does."""
        name = self.fields.get(field, field)
        return format_name(name) if self.flat else format_path(name)

    def type_of(self, field: str) -> str:
        """Return the type of a field; empty if it is not known."""
        return self.types.get(self.fields.get(field, field), "")


Translate = Callable[[Sequence[SourceFile], Settings], Iterable[Translated]]
"""Translates all rules of all files, in order; rules may speak of those of other files."""


class Dialect(NamedTuple):
    """A language that rules come in: the ends of its files, and what translates them."""

    name: str
    about: str
    suffixes: tuple[str, ...]
    type: str
    """The column of the category of an event, if nobody names another."""
    translate: Translate
