"""A query of EQL in, a query of Cepheid out, with notes."""

from __future__ import annotations

from typing import NamedTuple

from cepheid.errors import CepheidError
from cepheid.language.formatter import format_text
from cepheid.translate.eql import tree
from cepheid.translate.eql.expressions import Writer
from cepheid.translate.eql.meaning import Meaning
from cepheid.translate.eql.parser import parse_eql
from cepheid.translate.eql.relations import has_relation, write_related
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
    elif has_relation(query.source):
        written = write_related(query.source, query.pipes, writer)
    elif any(pipe.name == "unique" for pipe in query.pipes):
        written = _unique(query.source, query.pipes, writer)
    elif any(pipe.name == "count" for pipe in query.pipes):
        written = _count(query.source, query.pipes, writer)
    elif _cut_at(query.pipes) is not None:
        written = _first_or_last(query.source, query.pipes, writer)
    else:
        written = _events(query.source, query.pipes, writer)
    try:
        return Written(format_text(written), tuple(writer.notes))
    except CepheidError as error:
        message = f"Cepheid has no such query: {error.diagnostics[0].message}"
        raise CannotTranslateError(message) from None


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


def _unique(events: tree.Events, pipes: tuple[tree.Pipe, ...], writer: Writer) -> str:
    """Write the first event of each value: one before which there is none with the same keys."""
    place = next(at for at, pipe in enumerate(pipes) if pipe.name == "unique")
    keys, tests = [], [writer.events(events)]
    for pipe in pipes[:place]:
        if pipe.name != "filter":
            message = f"the pipe `unique` after `{pipe.name}` has no counterpart"
            raise CannotTranslateError(message)
        tests.append(writer.condition(_only(pipe)))
    for argument in pipes[place].arguments:
        keys += writer.key(argument)
    after, limit = [], ""
    for pipe in pipes[place + 1 :]:
        if pipe.name not in ("filter", "head") or limit:
            message = f"the pipe `{pipe.name}` after `unique` has no counterpart"
            raise CannotTranslateError(message)
        if pipe.name == "filter":
            after.append(writer.of("e1").condition(_only(pipe)))
        else:
            limit = f" LIMIT {pipe.count()}"
    kept = [test for test in tests if test != "TRUE"]
    where = f" WHERE {' AND '.join(kept)}" if kept else ""
    names = [f"key_{number}" for number in range(1, len(keys) + 1)]
    added = "".join(f", {key} AS {name}" for key, name in zip(keys, names, strict=True))
    conditions = " AND ".join([f"[{', '.join(names)}]", *after])
    first = f"CREATE STREAM found AS SELECT *{added} FROM log{where};"
    then = (
        f"RETURN MATCHES PATTERN SEQ(NOT found n1, found e1) WHERE {conditions} TIES arrival{limit}"
    )
    return f"{first} {then}"


def _cut_at(pipes: tuple[tree.Pipe, ...]) -> int | None:
    """Find the pipe that takes the last events, or the first ones before others are left out."""
    for place, pipe in enumerate(pipes):
        filtered = any(later.name == "filter" for later in pipes[place + 1 :])
        if pipe.name == "tail" or (pipe.name == "head" and filtered):
            return place
        if pipe.name != "filter":
            return None
    return None


def _first_or_last(events: tree.Events, pipes: tuple[tree.Pipe, ...], writer: Writer) -> str:
    """Write events behind which there are no three others, for `tail 3`, or before which, `head`.

    Pipes behind test these events.
    """
    place = _cut_at(pipes)
    assert place is not None, "the caller has found the pipe"
    cut, count = pipes[place], pipes[place].count()
    if not 1 <= count <= CUT_MAX:
        message = f"the pipe `{cut.name}` keeps {count} events here, and {CUT_MAX} at most are told"
        raise CannotTranslateError(message)
    tests = [writer.events(events), *(writer.condition(_only(one)) for one in pipes[:place])]
    after, limit = [], ""
    for pipe in pipes[place + 1 :]:
        if pipe.name not in ("filter", "head") or limit:
            message = f"the pipe `{pipe.name}` after `{cut.name}` has no counterpart"
            raise CannotTranslateError(message)
        if pipe.name == "filter":
            after.append(writer.of("e1").condition(_only(pipe)))
        else:
            limit = f" LIMIT {pipe.count()}"
    kept = [test for test in tests if test != "TRUE"]
    where = f" WHERE {' AND '.join(kept)}" if kept else ""
    others = ", ".join(f"found n{number}" for number in range(1, count + 1))
    none = f"NOT SEQ({others})" if count > 1 else f"NOT {others}"
    parts = f"found e1, {none}" if cut.name == "tail" else f"{none}, found e1"
    conditions = f" WHERE {' AND '.join(after)}" if after else ""
    return (
        f"CREATE STREAM found AS SELECT * FROM log{where}; "
        f"RETURN MATCHES PATTERN SEQ({parts}){conditions} TIES arrival{limit}"
    )


def _count(events: tree.Events, pipes: tuple[tree.Pipe, ...], writer: Writer) -> str:
    """Write how many events there are, or how many of each value of the keys, NULL among them."""
    place = next(at for at, pipe in enumerate(pipes) if pipe.name == "count")
    tests = [writer.events(events)]
    for pipe in pipes[:place]:
        if pipe.name != "filter":
            message = f"the pipe `count` after `{pipe.name}` has no counterpart"
            raise CannotTranslateError(message)
        tests.append(writer.condition(_only(pipe)))
    if pipes[place + 1 :]:
        message = f"the pipe `{pipes[place + 1].name}` after `count` has no counterpart"
        raise CannotTranslateError(message)
    kept = [test for test in tests if test != "TRUE"]
    where = f" WHERE {' AND '.join(kept)}" if kept else ""
    values = [writer.value(argument) for argument in pipes[place].arguments]
    if not values:
        return f"SELECT COUNT(*) AS `count` FROM log{where}"
    keys = [writer.comparable_keys(value, value)[0].text for value in values]
    writer.notes["rows are in no order, and without the share of all events"] = None
    names = [f"key_{number}" for number in range(1, len(keys) + 1)]
    found = ", ".join(f"{key} AS {name}" for key, name in zip(keys, names, strict=True))
    listed = ", ".join(names)
    return (
        f"CREATE STREAM found AS SELECT {found} FROM log{where}; "
        f"SELECT {listed}, COUNT(*) AS `count` FROM found GROUP BY {listed}"
    )


CUT_MAX = 16
"""Events of `tail` and of `head` before other pipes: their query names as many."""

_PLACES = {"filter": 1, "sort": 2, "head": 3}
"""The order in which a SELECT takes its clauses."""


def _only(pipe: tree.Pipe) -> tree.Expression:
    if len(pipe.arguments) != 1:
        message = f"the pipe `{pipe.name}` has {len(pipe.arguments)} arguments"
        raise CannotTranslateError(message)
    return pipe.arguments[0]
