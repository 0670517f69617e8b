"""Tokens of a SQL text in, its windows with PATTERN out: their clauses, and what they change.

A query with such a window reads a view instead of its table. The view has the rows that WHERE
leaves, and a column for every call over the window, which takes the place of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, NoReturn

import msgspec

from cepheid.errors import BindError, Diagnostic, Span, suggest_names
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.expressions import parse_expression
from cepheid.kinds.row_pattern.lexer import Token, TokenKind
from cepheid.kinds.row_pattern.parser import parse_window
from cepheid.kinds.row_pattern.reader import Reader

COLUMN = "cepheid_over_"
"""The names of columns for calls begin so."""

_SETS = frozenset({"UNION", "INTERSECT", "EXCEPT", "MINUS"})
ENDS = _SETS | {
    *("WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"),
    *("LIMIT", "OFFSET", "FETCH"),
}
"""The words that end the tables of a query."""

_NAMES = (TokenKind.WORD, TokenKind.QUOTED)
_IN_SUBQUERY = "put it into a subquery: `FROM (SELECT ...) AS t WINDOW ...`"


class Edit(NamedTuple):
    """A place in the text and what stands there instead; None for the columns of the input."""

    span: Span
    text: str | None


class WindowSite(NamedTuple):
    """A window with PATTERN: its clause, the table with WHERE that it reads, and further edits."""

    clause: tree.Clause
    source: Span
    alias: str
    edits: tuple[Edit, ...]


class _Call(NamedTuple):
    """An expression before OVER: its tokens, where OVER is, and where its window ends."""

    first: int
    over: int
    last: int


def find_windows(tokens: Sequence[Token], text: str, clauses: Sequence[Span]) -> list[WindowSite]:
    """Return the windows with PATTERN outside of MATCH_RECOGNIZE clauses, inner queries first.

    Raises
    ------
    QuerySyntaxError
        E601 or E615 if a window cannot be read.
    BindError
        E613 if the query around it cannot have one.
    """
    opening = _opening(tokens)
    outside = [
        place
        for place, token in enumerate(tokens)
        if token.upper == "PATTERN"
        and tokens[place + 1].is_mark("(")
        and not any(one.start <= token.span.start < one.end for one in clauses)
    ]
    selects: dict[int, None] = {}
    for place in outside:
        bracket = opening[place]
        before = tokens[bracket - 1].upper if bracket > 0 else ""
        select = _select_of(tokens, opening, bracket)
        if before in ("OVER", "AS") and select is not None:
            selects.setdefault(select)
    sites: list[WindowSite] = []
    for select in selects:
        sites += _Query(tokens, text, opening, select).sites(COLUMN + f"{select}_")
    return sites


def _opening(tokens: Sequence[Token]) -> list[int]:
    """Return for every token the parenthesis that it stands in, as a place; -1 for none."""
    found, waiting = [], [-1]
    for place, token in enumerate(tokens):
        if token.is_mark(")") and len(waiting) > 1:
            waiting.pop()
        found.append(waiting[-1])
        if token.is_mark("("):
            waiting.append(place)
    return found


def _select_of(tokens: Sequence[Token], opening: Sequence[int], place: int) -> int | None:
    """Find the SELECT that a token belongs to."""
    level = opening[place]
    while place > 0:
        place -= 1
        if place == level:
            level = opening[place]
        elif opening[place] == level and tokens[place].upper == "SELECT":
            return place
    return None


class _Query:
    """One SELECT with its windows."""

    def __init__(
        self, tokens: Sequence[Token], text: str, opening: Sequence[int], select: int
    ) -> None:
        self._tokens, self._text = tokens, text
        self._opening, self._select = opening, select
        level = opening[select]
        end = self._closing(level) if level >= 0 else len(tokens) - 1
        own = [place for place in range(select, end) if opening[place] == level]
        sets = (p for p in own if tokens[p].is_mark(";") or tokens[p].upper in _SETS)
        self._end = next(sets, end)
        self._own = [place for place in own if place < self._end]
        self._from = self._find("FROM")
        if self._from is None:
            self._refuse("a window with PATTERN needs a table to read", select, "add FROM")

    def _find(self, word: str) -> int | None:
        for place in self._own:
            before = self._tokens[place - 1].upper if place else ""
            if self._tokens[place].upper == word and not (word == "FROM" and before == "DISTINCT"):
                return place
        return None

    def _refuse(self, message: str, place: int, help_: str) -> NoReturn:
        span = self._tokens[place].span
        raise BindError([Diagnostic("E613", message, span, helps=(help_,))], self._text)

    def sites(self, prefix: str) -> Iterator[WindowSite]:
        """Yield a site for every window with PATTERN that something is called over."""
        named, listed = self._named_windows()
        plain = {name for name, place in named.items() if not self._has_pattern(place)}
        calls: dict[int, list[_Call]] = {}
        others = False
        for call, name in self._calls():
            bracket = named.get(name, -1) if name else call.over + 1
            if bracket < 0:
                helps = suggest_names(str(name), list(named), owner="WINDOW")
                self._refuse(f"there is no window `{name}`", call.over + 1, helps)
            if not self._has_pattern(bracket):
                others |= name in plain
                continue
            self._check_place(call)
            calls.setdefault(bracket, []).append(call)
        source, alias, tables = self._source()
        edits = [*self._stars(), *self._aliases([c for group in calls.values() for c in group])]
        with_pattern = next((name for name in named if name not in plain), None)
        if not calls and with_pattern is not None:
            message = f"nothing is called over the window `{with_pattern}`, which has PATTERN"
            help_ = f"call a measure or an aggregate: `COUNT(*) OVER {with_pattern}`"
            self._refuse(message, named[with_pattern] - 2, help_)
        edits += self._windows_left(named, listed, keep=others)
        number = 0
        for bracket, group in calls.items():
            measures = []
            for call in group:
                column, number = f"{prefix}{number}", number + 1
                measures.append(self._called(call, column))
                span = self._span(call.first, call.last)
                edits.append(Edit(span, column))
            clause = self._clause(bracket, named)
            clause = msgspec.structs.replace(clause, calls=tuple(measures), tables=tables)
            yield WindowSite(clause, source, alias, tuple(edits))
            edits = []

    def _span(self, first: int, last: int) -> Span:
        return self._tokens[first].span.to(self._tokens[last].span)

    def _has_pattern(self, bracket: int) -> bool:
        tokens, opening = self._tokens, self._opening
        return any(
            tokens[p].upper == "PATTERN" and opening[p] == bracket and tokens[p + 1].is_mark("(")
            for p in range(bracket, self._closing(bracket))
        )

    def _closing(self, bracket: int) -> int:
        level = self._opening[bracket]
        ends = range(bracket + 1, len(self._tokens))
        found = (p for p in ends if self._tokens[p].is_mark(")") and self._opening[p] == level)
        return next(found, len(self._tokens) - 1)

    # -----------------------------------------------------------------------------------
    # The parts of the query

    def _source(self) -> tuple[Span, str, tuple[str, ...]]:
        """Return the table with WHERE, its alias as written, and the names of the table."""
        assert self._from is not None, "checked before"
        tokens = self._tokens
        after = [place for place in self._own if place > self._from]
        ends = [place for place in after if tokens[place].upper in ENDS]
        table_end = min(ends, default=self._end)
        for place in after:
            token = tokens[place]
            if place < table_end and (token.is_mark(",") or token.upper in ("JOIN", "LATERAL")):
                message = "the table of a window with PATTERN is a join"
                self._refuse(message, place, _IN_SUBQUERY)
            if token.upper in ("GROUP", "HAVING", "QUALIFY"):
                message = f"{token.upper} and a window with PATTERN are in one query"
                self._refuse(message, place, _IN_SUBQUERY)
        ends = [place for place in ends if tokens[place].upper != "WHERE"]
        source = self._span(self._from + 1, min(ends, default=self._end) - 1)
        last = table_end - 1
        if tokens[last].is_mark(")"):
            # `AS v (a, b)` has its columns behind the alias.
            name = self._opening[last - 1] - 1
            last = name if self._is_alias(name) else last
        if tokens[last].kind not in _NAMES:
            return source, "", ()
        alias = self._text[tokens[last].span.start : tokens[last].span.end]
        return source, alias, (tokens[last].value,)

    def _is_alias(self, place: int) -> bool:
        """Check whether a name before parentheses is that of a table, and no clause or call."""
        assert self._from is not None, "checked before"
        token, before = self._tokens[place], self._tokens[place - 1]
        named = token.kind in _NAMES and token.upper != "MATCH_RECOGNIZE"
        return named and place - 1 > self._from and not before.is_mark(".")

    def _named_windows(self) -> tuple[dict[str, int], Span | None]:
        """Return the windows of WINDOW with the places of their parentheses, and its span."""
        tokens, place = self._tokens, self._find("WINDOW")
        found: dict[str, int] = {}
        if place is None:
            return found, None
        start = place
        last = len(tokens) - 1
        while (
            place + 3 < last and tokens[place + 2].upper == "AS" and tokens[place + 3].is_mark("(")
        ):
            name = tokens[place + 1].value.lower()
            if name in found:
                self._refuse(f"two windows are called `{name}`", place + 1, "rename one of them")
            found[name] = place + 3
            place = self._closing(place + 3)
            if place == last or not tokens[place + 1].is_mark(","):
                break
            place += 1
        return found, self._span(start, place)

    def _windows_left(
        self, named: Mapping[str, int], listed: Span | None, *, keep: bool
    ) -> Iterator[Edit]:
        """Take the windows with PATTERN out of WINDOW, or all if no other one is used."""
        if listed is None:
            return
        left = [
            self._text[self._tokens[place - 2].span.start : self._tokens[end].span.end]
            for place in named.values()
            for end in [self._closing(place)]
            if not self._has_pattern(place)
        ]
        yield Edit(listed, f"WINDOW {', '.join(left)}" if left and keep else "")

    def _stars(self) -> Iterator[Edit]:
        """Yield the places of `*` and `t.*` in the list, which do not mean the calls."""
        assert self._from is not None, "checked before"
        for place in self._own:
            if place >= self._from or not self._tokens[place].is_mark("*"):
                continue
            before = self._tokens[place - 1]
            if before.is_mark("."):
                yield Edit(self._span(place - 2, place), None)
            elif before.is_mark(",") or before.upper in ("SELECT", "ALL", "DISTINCT"):
                yield Edit(self._tokens[place].span, None)

    def _aliases(self, calls: Sequence[_Call]) -> Iterator[Edit]:
        """Name the columns of the list that have a call and no name, as they are written."""
        assert self._from is not None, "checked before"
        commas = [p for p in self._own if p < self._from and self._tokens[p].is_mark(",")]
        begins = [self._select + 1, *(comma + 1 for comma in commas)]
        for begin, end in zip(begins, [*commas, self._from], strict=True):
            begin += self._tokens[begin].upper in ("ALL", "DISTINCT")
            inside = [call for call in calls if begin <= call.first and call.last < end]
            if not inside or self._has_name(begin, end, inside):
                continue
            written = " ".join(
                self._text[
                    self._span(begin, end - 1).start : self._tokens[end - 1].span.end
                ].split()
            )
            whole = (inside[0].first, inside[0].last) == (begin, end - 1)
            if whole and inside[0].over == begin + 1:
                written = self._tokens[begin].value
            place = self._tokens[end - 1].span.end
            yield Edit(Span(place, place), f" AS `{written.replace('`', '``')}`")

    def _has_name(self, begin: int, end: int, calls: Sequence[_Call]) -> bool:
        level = self._opening[self._select]
        if any(
            self._tokens[p].upper == "AS" and self._opening[p] == level for p in range(begin, end)
        ):
            return True
        last, before = self._tokens[end - 1], self._tokens[end - 2]
        if last.kind not in _NAMES or any(call.last == end - 1 for call in calls):
            return False
        return last.upper != "END" and not (before.kind is TokenKind.MARK and before.value != ")")

    # -----------------------------------------------------------------------------------
    # Calls

    def _calls(self) -> Iterator[tuple[_Call, str | None]]:
        """Yield what is called over windows in this query, and the name of the window."""
        tokens = self._tokens
        for place in range(self._select, self._end):
            if tokens[place].upper != "OVER":
                continue
            # A column may be called `over`; what follows it is no name.
            named = tokens[place + 1].kind in _NAMES
            named &= tokens[place + 1].upper not in ENDS | {"AS", "FROM"}
            if not (named or tokens[place + 1].is_mark("(")):
                continue
            if _select_of(tokens, self._opening, place) != self._select:
                continue
            last = place + 1 if named else self._closing(place + 1)
            call = _Call(self._call_start(place - 1), place, last)
            yield call, tokens[place + 1].value.lower() if named else None

    def _check_place(self, call: _Call) -> None:
        """Refuse calls in WHERE, which decides what rows there are before they have matches."""
        own = [place for place in self._own if place < call.first]
        clauses = [place for place in own if self._tokens[place].upper in (*ENDS, "FROM")]
        if clauses and self._tokens[clauses[-1]].upper in ("FROM", "WHERE"):
            message = "a call over a window stands in the list of SELECT or in ORDER BY"
            help_ = "name it there, and put the query into another: `SELECT * FROM (...) WHERE ...`"
            self._refuse(message, call.over, help_)

    def _call_start(self, last: int) -> int:
        """Find where an expression before OVER begins: `name`, or `f(...)` with what follows it."""
        tokens = self._tokens
        while tokens[last].is_mark(")"):
            level = self._opening[last]
            before = (p for p in range(last, -1, -1) if self._opening[p] == level)
            bracket = next((p for p in before if tokens[p].is_mark("(")), None)
            if bracket is None:
                self._refuse("this parenthesis closes nothing", last, "remove it, or open one")
            last = bracket - 1
            if tokens[last].upper == "FILTER":
                last -= 1
            elif tokens[last].upper == "GROUP" and tokens[last - 1].upper == "WITHIN":
                last -= 2
            else:
                break
        return max(last, 0)

    def _called(self, call: _Call, column: str) -> tree.Measure:
        if self._tokens[call.over - 1].upper == "NULLS":
            message = "NULLs count like other values over a window with PATTERN"
            self._refuse(message, call.over - 1, "leave IGNORE NULLS out, or use FILTER")
        reader = Reader(self._tokens, self._text, call.first)
        expression = parse_expression(reader)
        if reader.place != call.over:
            reader.fail("`OVER`")
        return tree.Measure(column, expression, span=expression.span)

    def _clause(self, bracket: int, named: Mapping[str, int]) -> tree.Clause:
        """Return the clause of a window; what its base says is part of it."""
        window = parse_window(Reader(self._tokens, self._text, bracket))
        clause = window.clause
        assert clause is not None, "it has PATTERN"
        if window.base is None:
            return clause
        place = named.get(window.base.lower())
        if place is None or self._has_pattern(place):
            message = f"there is no window `{window.base}` to begin with"
            self._refuse(message, bracket + 1, "a window begins with one that has no PATTERN")
        base = parse_window(Reader(self._tokens, self._text, place))
        if base.base is not None or clause.partition_by or (base.order_by and clause.order_by):
            message = f"the window says again what `{window.base}` says"
            self._refuse(message, bracket + 1, "leave PARTITION BY and ORDER BY to one of them")
        return msgspec.structs.replace(
            clause,
            partition_by=base.partition_by,
            order_by=base.order_by or clause.order_by,
        )
