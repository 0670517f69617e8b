"""A query of EQL in, a query of Cepheid out, with notes."""

from __future__ import annotations

from typing import NamedTuple

from cepheid.language.formatter import format_text
from cepheid.translate.eql import tree
from cepheid.translate.eql.expressions import Writer
from cepheid.translate.eql.meaning import Meaning
from cepheid.translate.eql.parser import parse_eql
from cepheid.translate.eql.sequences import write_several
from cepheid.translate.translated import CannotTranslateError, Settings


class Written(NamedTuple):
    """The text of a query, and what was taken for granted."""

    query: str
    notes: tuple[str, ...]


def write_query(text: str, settings: Settings, meaning: Meaning) -> Written:
    """Translate a query.

    Raises
    ------
    CannotTranslateError
        If it cannot be read, or a part of it has no counterpart.
    """
    query = parse_eql(text)
    writer = Writer(settings, meaning)
    if isinstance(query.source, tree.Several):
        written = write_several(query.source, query.pipes, writer)
    else:
        written = _events(query.source, query.pipes, writer)
    return Written(format_text(written), tuple(writer.notes))


def _events(events: tree.Events, pipes: tuple[tree.Pipe, ...], writer: Writer) -> str:
    """Write a SELECT of single events; pipes become its clauses as far as their order allows."""
    tests = [writer.events(events)]
    order, limit, last = "", "", 0
    for pipe in pipes:
        place = _PLACES.get(pipe.name, 0)
        if not place or place < last or (place == last and pipe.name != "filter"):
            before = f" after `{pipes[pipes.index(pipe) - 1].name}`" if last else ""
            message = f"the pipe `{pipe.name}`{before} has no counterpart"
            raise CannotTranslateError(message)
        last = place
        if pipe.name == "filter":
            tests.append(writer.condition(_only(pipe)))
        elif pipe.name == "sort":
            order = f" ORDER BY {', '.join(writer.value(one).text for one in pipe.arguments)}"
        else:
            limit = f" LIMIT {pipe.count()}"
    kept = [test for test in tests if test != "TRUE"]
    where = f" WHERE {' AND '.join(kept)}" if kept else ""
    return f"SELECT * FROM log{where}{order}{limit}"


_PLACES = {"filter": 1, "sort": 2, "head": 3}
"""The order in which a SELECT takes its clauses."""


def _only(pipe: tree.Pipe) -> tree.Expression:
    if len(pipe.arguments) != 1:
        message = f"the pipe `{pipe.name}` has {len(pipe.arguments)} arguments"
        raise CannotTranslateError(message)
    return pipe.arguments[0]
