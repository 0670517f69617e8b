"""Names: a field of a rule of Sigma in, the column of the events out; and the log of a rule."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from cepheid.expressions.format import format_literal
from cepheid.translate.translated import CannotTranslateError, Log, Settings

TEXT = "text"
NUMBERS = ("integer", "double", "decimal")
PARTS = ("category", "product", "service")


class Names(NamedTuple):
    """The columns of one log."""

    settings: Settings
    log: Log | None

    def column(self, field: str) -> str:
        """Write the column of a field."""
        return self.settings.column(self._called(field))

    def type_of(self, field: str) -> str:
        """Return the type of the column of a field; empty if it is not known."""
        return self.settings.type_of(self._called(field))

    def _called(self, field: str) -> str:
        return field if self.log is None else self.log.fields.get(field, field)

    def searched(self) -> tuple[str, ...]:
        """List the columns that keywords without a field are looked for in.

        Raises
        ------
        CannotTranslateError
            If nobody has said, and the columns of the events are not known.
        """
        named = () if self.log is None else self.log.keywords
        known = (name for name, kind in self.settings.types.items() if kind == TEXT)
        found = tuple(named or self.settings.keywords or known)
        if not found:
            message = (
                "keywords without a field are looked for in all columns of text, and these are "
                "not known: name a file of events by --schema, or list `keywords` in a mapping"
            )
            raise CannotTranslateError(message)
        return tuple(map(self.settings.column, found))


class Place(NamedTuple):
    """Where the events of a rule are: the name after FROM, a condition, and a note.

    Events that stand ``apart`` are told from those of other logs by the condition, and nobody has
    named their log, so that they may be in one stream with others.
    """

    names: Names
    source: str
    where: str = ""
    note: str = ""
    apart: bool = False


def place_of(parts: dict[str, str], settings: Settings) -> Place:
    """Find the log of a rule by the parts of its log source.

    Raises
    ------
    CannotTranslateError
        If there is a mapping, and it has no such log.
    """
    source = re.sub(r"\W+", "_", "_".join(_given(parts, ("product", "category", "service"))))
    source = source or "log"
    told = ", ".join(f"{part} {value}" for part, value in parts.items())
    if not settings.logs:
        note = f"taken for a query over a log with nothing but events of {told}" if told else ""
        return Place(Names(settings, None), source, note=note)
    for log in settings.logs:
        if all(parts.get(part, "").lower() == value.lower() for part, value in log.source.items()):
            where = _where(log, settings)
            apart = bool(where) and not log.from_
            return Place(Names(settings, log), log.from_ or source, where, apart=apart)
    message = f"the mapping has no log for {told}"
    raise CannotTranslateError(message)


def _given(parts: dict[str, str], order: Iterable[str]) -> list[str]:
    return [parts[one] for one in order if one in parts]


def _where(log: Log, settings: Settings) -> str:
    tests = [f"({log.where})"] if log.where else []
    if log.type:
        tests.append(f"{settings.column(settings.type)} = {format_literal(log.type)}")
    return " AND ".join(tests)
