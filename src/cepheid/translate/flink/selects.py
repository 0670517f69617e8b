"""Queries of Flink SQL without MATCH_RECOGNIZE in, SELECT of Cepheid out.

Filters, aggregates of windows (table functions TUMBLE, HOP and SESSION, and the functions of the
same name in GROUP BY) and interval joins are carried over.
"""

from __future__ import annotations

from cepheid.expressions.format import format_name, format_path
from cepheid.translate.translated import CannotTranslateError, Settings
from cepheid.translate.words.conditions import (
    condition,
    conjuncts,
    has_aggregate,
    interval,
    items,
    named,
)
from cepheid.translate.words.tokens import Token, Tokens, clauses, inside, split, tokens_of, written

_HEADS = ("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "FETCH", "UNION")
_EDGES = ("WINDOW_START", "WINDOW_END")
_WINDOWS = ("TUMBLE", "HOP", "SESSION")
TOUCHING = "sessions whose events are exactly the gap apart are one in Flink, and two here"
CALLED = "the times of windows are called `window_start` and `window_end`"


def write_select(text: str, settings: Settings) -> tuple[str, tuple[str, ...]]:
    """Translate a query; return it and its notes.

    Raises
    ------
    CannotTranslateError
        If a part of it has no counterpart.
    """
    return _Select(text, settings).written()


class _Select:
    def __init__(self, text: str, settings: Settings) -> None:
        self._parts = clauses(tokens_of(text), *_HEADS)
        self._settings = settings
        self.notes: dict[str, None] = {}
        known = {"SELECT", "FROM", "WHERE", "GROUP BY", "HAVING"}
        wrong = [head or "WITH" for head in self._parts if head not in known]
        if wrong or "SELECT" not in self._parts or "FROM" not in self._parts:
            message = f"`{wrong[0] if wrong else 'SELECT'}` is carried over in no such place"
            raise CannotTranslateError(message)
        self._selected = self._parts["SELECT"]
        if any(token.word in ("OVER", "SELECT", "DISTINCT") for token in self._selected[:1]):
            message = "SELECT DISTINCT has no counterpart"
            raise CannotTranslateError(message)
        if any(token.word in ("OVER", "SELECT") for part in self._parts.values() for token in part):
            message = "OVER and subqueries have no counterpart"
            raise CannotTranslateError(message)

    def _text(self, tokens: Tokens) -> str:
        return condition(tokens, format_path, self.notes, "Flink")

    def written(self) -> tuple[str, tuple[str, ...]]:
        """Write the query."""
        origin = self._parts["FROM"]
        joined = len(split(origin, ",", "JOIN")) > 1 and origin[0].word != "TABLE"
        if joined:
            query = self._join(origin)
        elif "GROUP BY" in self._parts or has_aggregate(self._selected):
            query = self._windowed(origin)
        else:
            query = f"SELECT {self._items(())} FROM {self._table(origin)}{self._where()}"
        return query, tuple(self.notes)

    def _where(self) -> str:
        return f" WHERE {self._text(self._parts['WHERE'])}" if "WHERE" in self._parts else ""

    def _items(self, dropped: tuple[str, ...]) -> str:
        found = []
        for value, alias in items(self._selected):
            if written(value).upper() in dropped or value[0].word in dropped:
                if alias and alias.upper() not in _EDGES:
                    self.notes[CALLED] = None
                continue
            found.append(named("*" if value[0].text == "*" else self._text(value), alias))
        if not found:
            message = "a query that selects the times of windows alone has no counterpart"
            raise CannotTranslateError(message)
        return ", ".join(found)

    @staticmethod
    def _table(tokens: Tokens) -> str:
        """Return the name of a table, and its alias."""
        names = [token.text.strip("`") for token in tokens if token.word not in ("AS", ".")]
        if not names or any(
            token.kind not in ("NAME", "QUOTED") for token in tokens if token.text != "."
        ):
            message = f"`{written(tokens)}` is no table"
            raise CannotTranslateError(message)
        if any(token.text == "." for token in tokens):
            return format_name(names[-1])
        return " ".join(map(format_name, names[:2]))

    # Windows -----------------------------------------------------------------------------

    def _windowed(self, origin: Tokens) -> str:
        groups = split(self._parts.get("GROUP BY", []), ",")
        if origin[0].word == "TABLE":
            table, window, keys = self._table_function(origin)
            edges = {written(group).upper() for group in groups} & set(_EDGES)
            if len(edges) < len(_EDGES):
                message = "an aggregate of a window is grouped by window_start and window_end"
                raise CannotTranslateError(message)
            kept = [group for group in groups if written(group).upper() not in _EDGES]
            dropped: tuple[str, ...] = _EDGES
        else:
            table, kept = self._table(origin), [g for g in groups if g[0].word not in _WINDOWS]
            calls = [group for group in groups if group[0].word in _WINDOWS]
            if len(calls) != 1:
                message = "aggregates without a window have rows that change, and no counterpart"
                raise CannotTranslateError(message)
            window, keys = self._group_window(calls[0]), None
            dropped = tuple(f"{kind}_{edge}" for kind in _WINDOWS for edge in ("START", "END"))
        written_keys = [self._text(group) for group in kept]
        if keys is not None and sorted(keys) != sorted(written_keys):
            message = "a SESSION by other keys than those of GROUP BY has no counterpart"
            raise CannotTranslateError(message)
        query = f"SELECT {self._items(dropped)} FROM {table}{self._where()}"
        query += f" GROUP BY {', '.join(written_keys)}" if written_keys else ""
        if "HAVING" in self._parts:
            query += f" HAVING {self._text(self._parts['HAVING'])}"
        return f"{query} WINDOW {window}"

    def _table_function(self, origin: Tokens) -> tuple[str, str, list[str] | None]:
        """Read ``TABLE(TUMBLE(TABLE t, DESCRIPTOR(rowtime), INTERVAL '10' MINUTES))``."""
        outer, _ = inside(origin, 1)
        given, _ = inside(outer, 1)
        first, time, *spans = split(given, ",")
        if first[0].word != "TABLE" or time[0].word != "DESCRIPTOR":
            message = "a window of named arguments has no counterpart"
            raise CannotTranslateError(message)
        self._check_time(inside(time, 1)[0])
        table, *keys = split(first[1:], "PARTITION")
        by = [self._text(key) for key in split(keys[0][1:], ",")] if keys else []
        kind = outer[0].word
        return self._table(table), self._window(kind, spans), by if kind == "SESSION" else None

    def _group_window(self, call: Tokens) -> str:
        time, *spans = split(inside(call, 1)[0], ",")
        self._check_time(time)
        return self._window(call[0].word, spans)

    def _window(self, kind: str, spans: list[list[Token]]) -> str:
        lengths = [interval(span, 0)[0] for span in spans]
        if kind == "TUMBLE" and len(lengths) == 1:
            return lengths[0]
        if kind == "HOP" and len(lengths) == 2:
            return f"{lengths[1]} SLIDE {lengths[0]}"
        if kind == "SESSION" and len(lengths) == 1:
            self.notes[TOUCHING] = None
            return f"SESSION {lengths[0]}"
        message = f"`{kind}` with {len(lengths)} lengths has no counterpart"
        raise CannotTranslateError(message)

    def _check_time(self, tokens: Tokens) -> None:
        name = written(tokens).strip("`").rpartition(".")[2]
        if name != self._settings.time:
            message = f"the windows are of `{name}`, and --time names `{self._settings.time}`"
            raise CannotTranslateError(message)

    # Joins -------------------------------------------------------------------------------

    def _join(self, origin: Tokens) -> str:
        if "GROUP BY" in self._parts or has_aggregate(self._selected):
            message = "aggregates of joins have no counterpart"
            raise CannotTranslateError(message)
        sides = split(origin, ",", "JOIN")
        tests = conjuncts(self._parts.get("WHERE", []))
        left, right = sides[0], sides[1]
        if left[-1].word == "INNER":
            left = left[:-1]
        table, *on = split(right, "ON")
        tests = [*conjuncts(on[0] if on else []), *tests]
        if len(sides) > 2 or any(t.word in ("LEFT", "RIGHT", "FULL", "CROSS") for t in left):
            message = "joins of more than two tables, and outer joins, have no counterpart"
            raise CannotTranslateError(message)
        reach = self._reach(tests)
        both = " AND ".join(f"({self._text(test)})" for test in tests)
        names = f"{self._table(left)} JOIN {self._table(table)}"
        return f"SELECT {self._items(())} FROM {names} ON {both} WINDOW {reach}"

    def _reach(self, tests: list[list[Token]]) -> str:
        """Find how far apart the times of two rows may be: one must lie BETWEEN two others."""
        for test in tests:
            low_high = split(test, "BETWEEN")
            if len(low_high) != 2 or low_high[0][-1].text != self._settings.time:
                continue
            bounds = split(low_high[1], "AND")
            if not all(any(t.text == self._settings.time for t in one) for one in bounds):
                continue
            spans = [0]
            for place, token in enumerate(test):
                if token.word == "INTERVAL":
                    length, unit = interval(test, place)[0].split()
                    spans.append(int(length) * _UNITS_US[unit])
            return f"{max(spans) + 1} us"
        message = (
            "a join without bounds of time (`b.ts BETWEEN a.ts AND a.ts + INTERVAL …`) has no "
        )
        raise CannotTranslateError(message + "counterpart")


_UNITS_US = {
    "milliseconds": 1_000,
    "seconds": 1_000_000,
    "minutes": 60_000_000,
    "hours": 3_600_000_000,
    "days": 86_400_000_000,
}
