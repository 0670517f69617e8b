"""Statements of EPL in, queries of Cepheid out."""

from __future__ import annotations

from typing import NamedTuple

from cepheid.expressions.format import format_literal, format_name, format_path
from cepheid.translate.esper.patterns import write_pattern
from cepheid.translate.esper.sources import Source, source_of
from cepheid.translate.translated import CannotTranslateError, Settings
from cepheid.translate.words.conditions import Name, condition, has_aggregate, items, named
from cepheid.translate.words.tokens import Token, Tokens, clauses, inside, split, written

_HEADS = ("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "OUTPUT", "ORDER BY", "LIMIT")
BATCHES = "batches begin at whole multiples of their length, in Esper when the first event comes"
GONE = "a batch, or a group in it, without events has no row"
TOGETHER = "events of the same time change a window together, and have one row"
ALONE = "the events are those of `{}` alone"
LAST = "the last events, which fill no batch, have a row in a batch run"
TWO = "the events of `{}` and `{}` are two inputs"


class Statement(NamedTuple):
    """A ``select``: its name, the stream that it fills, and its clauses."""

    name: str
    into: str
    parts: dict[str, list[Token]]


def statement_of(tokens: Tokens) -> Statement:
    """Read annotations, ``insert into`` and the clauses of a statement.

    Raises
    ------
    CannotTranslateError
        If it is no ``select``.
    """
    place, name = behind_annotations(tokens)
    into = ""
    if tokens[place].word == "INSERT" and tokens[place + 1].word == "INTO":
        into, place = tokens[place + 2].text, place + 3
    if tokens[place].word != "SELECT":
        message = f"`{tokens[place].text}` begins no query that is carried over"
        raise CannotTranslateError(message)
    return Statement(name, into, clauses(tokens[place:], *_HEADS))


def behind_annotations(tokens: Tokens) -> tuple[int, str]:
    """Return the place behind ``@name('x') @public``, and the name that they give."""
    place, name = 0, ""
    while tokens[place].text == "@":
        kind = tokens[place + 1].word
        place += 2
        if place < len(tokens) and tokens[place].text == "(":
            given, place = inside(tokens, place)
            name = given[0].text[1:-1] if kind == "NAME" and given else name
    return place, name


def write_statement(
    read: Statement, settings: Settings, made: set[str]
) -> tuple[str, tuple[str, ...]]:
    """Translate a statement; ``made`` are the streams that other statements fill.

    Raises
    ------
    CannotTranslateError
        If a part of it has no counterpart.
    """
    parts = read.parts
    for head in ("OUTPUT", "ORDER BY", "LIMIT"):
        if head in parts:
            message = f"`{head.lower()}` has no counterpart"
            raise CannotTranslateError(message)
    if any(token.word in ("IRSTREAM", "RSTREAM", "DISTINCT") for token in parts["SELECT"][:1]):
        message = f"`select {parts['SELECT'][0].text}` has no counterpart"
        raise CannotTranslateError(message)
    for token in parts.get("FROM", []):
        if token.text in made:
            message = f"`{token.text}` is filled by another statement: write a pipeline"
            raise CannotTranslateError(message)
    return _Query(parts, settings).written()


class _Query:
    """Writes one query; conditions are word by word."""

    def __init__(self, parts: dict[str, list[Token]], settings: Settings) -> None:
        self._parts, self._settings = parts, settings
        self.notes: dict[str, None] = {}

    def written(self) -> tuple[str, tuple[str, ...]]:
        """Choose the form of the query by what stands after FROM."""
        origin = self._parts["FROM"]
        if origin[0].word == "PATTERN":
            query = self._pattern(inside(origin, 1)[0], origin)
        elif any(token.word == "MATCH_RECOGNIZE" for token in origin):
            query = self._row_pattern(origin)
        else:
            sources = [source_of(part) for part in split(origin, ",")]
            query = self._one(sources[0]) if len(sources) == 1 else self._join(sources)
        return query, tuple(self.notes)

    def _text(self, tokens: Tokens, alias: str = "", owner: str = "") -> str:
        """Write a condition; names of the alias are columns, or those of a variable."""

        def name(path: str) -> str:
            plain = path.removeprefix(f"{alias}.") if alias else path
            return f"{owner}.{format_path(plain)}" if owner else format_path(plain)

        return condition(tokens, name, self.notes, "")

    def _kind(self, source: Source) -> str:
        return f"{format_path(self._settings.type)} = {format_literal(source.type)}"

    def _tests(self, source: Source, owner: str = "") -> list[str]:
        given = [*source.filters, self._parts.get("WHERE", [])]
        return [f"({self._text(one, source.alias, owner)})" for one in given if one]

    # One stream --------------------------------------------------------------------------

    def _one(self, source: Source) -> str:
        aggregates = has_aggregate(self._parts["SELECT"]) or "GROUP BY" in self._parts
        if not aggregates:
            if source.window not in ("", "TIME", "LENGTH"):
                message = f"`#{source.window.lower()}` without aggregates has no counterpart"
                raise CannotTranslateError(message)
            # A row leaves when its event comes, whatever the window keeps.
            tests = " AND ".join([self._kind(source), *self._tests(source)])
            return f"SELECT {self._items(source)} FROM {format_name(source.type)} WHERE {tests}"
        if source.window in ("TIME_BATCH", "LENGTH_BATCH"):
            return self._batch(source)
        if source.window == "TIME":
            return self._sliding(source)
        shown = f"`#{source.window.lower()}`" if source.window else "no window"
        message = f"aggregates with {shown} have a row for every event, which has no counterpart"
        raise CannotTranslateError(message)

    def _keys(self, source: Source) -> list[str]:
        groups = split(self._parts.get("GROUP BY", []), ",")
        keys = [self._text(group, source.alias) for group in groups if group]
        for value, _ in items(self._parts["SELECT"]):
            if not has_aggregate(value) and self._text(value, source.alias) not in keys:
                message = f"`{written(value)}` is neither grouped nor aggregated: Esper has a row "
                raise CannotTranslateError(message + "for every event")
        return keys

    def _items(self, source: Source, owner: str = "") -> str:
        found = []
        for value, alias in items(self._parts["SELECT"]):
            plain = value[0].text == "*"
            bound = owner if has_aggregate(value) else ""
            text = "*" if plain else self._text(value, source.alias, bound)
            found.append(named(text, alias))
        return ", ".join(found).replace("COUNT(e.*)", "COUNT(*)")

    def _having(self, source: Source, owner: str = "") -> str:
        if "HAVING" not in self._parts:
            return ""
        return f" HAVING {self._text(self._parts['HAVING'], source.alias, owner)}"

    def _batch(self, source: Source) -> str:
        keys = self._keys(source)
        if source.window == "LENGTH_BATCH":
            if keys:
                message = "`#length_batch` of all groups together has no counterpart"
                raise CannotTranslateError(message)
            self.notes[LAST] = None
        else:
            self.notes |= {GONE: None} if source.aligned else {BATCHES: None, GONE: None}
        tests = " AND ".join([self._kind(source), *self._tests(source)])
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        query = f"SELECT {self._items(source)} FROM {format_name(source.type)} WHERE {tests}"
        return f"{query}{grouped}{self._having(source)} WINDOW {source.length}"

    def _sliding(self, source: Source) -> str:
        """Write a window that slides: a row when an event comes, and when one leaves."""
        self.notes[TOGETHER] = None
        told = [*self._parts["SELECT"], *self._parts.get("HAVING", [])]
        counts = [token.word for token in told]
        for place, word in enumerate(counts):
            if word == "DISTINCT" or (word == "COUNT" and counts[place + 2] != "*"):
                message = "`count` of values in a window that slides has no counterpart"
                raise CannotTranslateError(message)
        keys = self._keys(source)
        tests = self._tests(source, "e")
        lines = [f"RETURN {self._items(source, 'e')}", f"PATTERN {format_name(source.type)} e"]
        lines += [f"WHERE {' AND '.join(tests)}"] if tests else []
        lines += [f"GROUP-BY {', '.join(keys)}"] if keys else []
        lines += [self._having(source, "e")]
        return " ".join([*lines, f"WITHIN {source.length} TIES arrival EMIT ON EXPIRY"])

    # Others ------------------------------------------------------------------------------

    def _join(self, sources: list[Source]) -> str:
        wrong = len(sources) != 2 or any(one.window != "TIME" or not one.alias for one in sources)
        if wrong or has_aggregate(self._parts["SELECT"]) or "GROUP BY" in self._parts:
            message = (
                "a join is one of two streams with `#time` and a name each, without aggregates"
            )
            raise CannotTranslateError(message)
        tests = [
            f"({condition(one, self._owned(source.alias), self.notes, '')})"
            for source in sources
            for one in source.filters
        ]
        where = self._parts.get("WHERE", [])
        tests += [f"({self._text(where)})"] if where else []
        first, second = (
            f"{format_name(one.type)} {format_name(one.alias)} WITHIN {one.length}"
            for one in sources
        )
        self.notes[TWO.format(*(one.type for one in sources))] = None
        on = " AND ".join(tests) or "TRUE"
        return f"SELECT {self._columns()} FROM {first} JOIN {second} ON {on}"

    def _columns(self) -> str:
        """Write the columns of a join; those without a name are called after their stream."""
        found = []
        for value, alias in items(self._parts["SELECT"]):
            text = self._text(value) if value[0].text != "*" else "*"
            plain = "_".join(token.text for token in value if token.text != ".")
            found.append(text if text == "*" else named(text, alias or plain))
        return ", ".join(found)

    @staticmethod
    def _owned(alias: str) -> Name:
        def name(path: str) -> str:
            return format_path(path if path.startswith(f"{alias}.") else f"{alias}.{path}")

        return name

    def _pattern(self, tokens: Tokens, origin: Tokens) -> str:
        extra = {"WHERE", "GROUP BY", "HAVING"} & set(self._parts)
        if extra or len(origin) > len(tokens) + 3 or has_aggregate(self._parts["SELECT"]):
            message = "windows, aggregates and conditions around a pattern have no counterpart"
            raise CannotTranslateError(message)
        query, bound = write_pattern(tokens, self._settings, self.notes)
        chosen = []
        for value, alias in items(self._parts["SELECT"]):
            if value[0].text == "*":
                return f"RETURN MATCHES {query}"
            if value[0].text not in bound or len(value) == 1:
                message = f"`{written(value)}` is no attribute of an event that a match has"
                raise CannotTranslateError(message)
            chosen.append(named(self._text(value), alias))
        return f"RETURN {', '.join(chosen)} {query}"

    def _row_pattern(self, origin: Tokens) -> str:
        place = next(n for n, token in enumerate(origin) if token.word == "MATCH_RECOGNIZE")
        source = source_of(origin[:place])
        clause, _ = inside(origin, place + 1)
        words = {token.word for token in clause}
        if source.filters or source.window not in ("", "KEEPALL") or words & {"INTERVAL", "ALL"}:
            message = "a row pattern with a filter, a window, `interval` or `all matches` has no "
            raise CannotTranslateError(message + "counterpart")
        self.notes[ALONE.format(source.type)] = None
        body = written(clause)
        start = body.lower().index("measures")
        order = f"ORDER BY {format_name(self._settings.time)}"
        return (
            f"SELECT {written(self._parts['SELECT'])} FROM {format_name(source.type)} "
            f"MATCH_RECOGNIZE ({body[:start]}{order} {body[start:]})"
        )
