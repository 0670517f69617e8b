"""A correlation rule of Sigma in, a pipeline out: a stream for each rule, and a query over them.

A span of time is that before each event which a rule finds, so that no boundary cuts it.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from sigma import correlations as sigma
from sigma.rule import SigmaRule

from cepheid.expressions.format import format_literal, format_name
from cepheid.translate.sigma.names import Place
from cepheid.translate.sigma.orders import (
    Alternative,
    alternatives_of,
    alternatives_of_count,
)
from cepheid.translate.sigma.reading import further_comparisons
from cepheid.translate.translated import CannotTranslateError, Settings

_OPERATORS = {"LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=", "EQ": "=", "NEQ": "<>"}
_TESTS: dict[str, Callable[[float, float], bool]] = {
    "LT": operator.lt,
    "LTE": operator.le,
    "GT": operator.gt,
    "GTE": operator.ge,
    "EQ": operator.eq,
    "NEQ": operator.ne,
}
_FALLING = ("LT", "LTE", "EQ", "NEQ")
_UNITS = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1))
_SLICES = 60
"""Windows of a count of values begin this often in a span."""

Detection = Callable[[SigmaRule], tuple[Any, str, tuple[str, ...]]]


class Pipeline(NamedTuple):
    """The text of a query and what to know of it."""

    query: str
    notes: tuple[str, ...]


class _Stage(NamedTuple):
    """A stream: its name, the columns that it has, and its text.

    If ``place`` is known, the text is what stands before FROM, and ``where`` what stands behind it.
    """

    name: str
    columns: frozenset[str]
    text: str
    place: Place | None = None
    where: str = ""

    def written(self, log: str) -> str:
        """Write the stream; events are read from the log."""
        source = f" FROM {log} WHERE {self.where}" if self.place else ""
        return f"CREATE STREAM {self.name} AS {self.text}{source};"


class CorrelationWriter:
    """Writes one correlation rule, with the rules that it names."""

    def __init__(self, named: dict[str, Any], settings: Settings, detect: Detection) -> None:
        self._named, self._settings, self._detect = named, settings, detect
        self._stages: list[_Stage] = []
        self._open: list[Any] = []
        self._notes: dict[str, None] = {}

    def write(self, rule: Any) -> Pipeline:
        """Write a rule as the last query of a pipeline.

        Raises
        ------
        CannotTranslateError
            If a part of it has no counterpart.
        """
        last, _ = self._query(rule)
        log = self._log()
        stages = [one.written(log) for one in self._stages]
        return Pipeline("\n".join([*stages, last]), tuple(self._notes))

    def _log(self) -> str:
        """Name the stream that all rules read: a pipeline has one."""
        places = [one.place for one in self._stages if one.place]
        log, *others = dict.fromkeys(place.source for place in places)
        if others:
            if not all(place.apart for place in places):
                message = (
                    f"its rules read the logs {', '.join([log, *others])}, and a pipeline reads "
                    "one: a mapping can say by which conditions their events stand apart in it"
                )
                raise CannotTranslateError(message)
            words = [one.split("_") for one in (log, *others)]
            same = itertools.takewhile(
                lambda column: len({*column}) == 1, zip(*words, strict=False)
            )
            log = "_".join(column[0] for column in same) or "log"
        if log in {stage.name for stage in self._stages}:
            message = f"a rule and the log have the name {log}"
            raise CannotTranslateError(message)
        return log

    def _query(self, rule: Any) -> tuple[str, frozenset[str]]:
        """Write a query, after the streams that it reads; return its columns, too."""
        if rule in self._open:
            message = f"the correlation `{rule.title}` refers to itself"
            raise CannotTranslateError(message)
        self._open.append(rule)
        keys = {key: self._column(key) for key in rule.group_by or ()}
        kind = rule.type.name
        fields = {field: self._column(field) for field in self._fields(rule)}
        stages = [self._stage(rule, one, keys, fields) for one in self._references(rule)]
        self._open.pop()
        columns, named = frozenset(keys.values()), list(keys.values())
        if kind == "TEMPORAL_ORDERED":
            return self._ordered(rule, stages, named), columns
        if kind in ("VALUE_PERCENTILE", "VALUE_MEDIAN"):
            return self._in_windows(rule, stages, named, *fields.values()), columns
        return self._trailing(rule, stages, named, list(fields.values())), columns

    def _references(self, rule: Any) -> list[str]:
        names = references_of(rule)
        for name in names:
            if name not in self._named:
                message = f"the rule `{name}` is not among the rules"
                if any(name == one.title for one in self._named.values()):
                    message = f"`{name}` is the title of a rule, and correlations know rules by "
                    message += "`name` or `id`"
                raise CannotTranslateError(message)
        return names

    def _fields(self, rule: Any) -> list[str]:
        """List the fields whose values are counted together, or the one whose are added up."""
        found = getattr(rule.condition, "fieldref", None)
        fields = [found] if isinstance(found, str) else list(dict.fromkeys(found or ()))
        if len(fields) > 1 and rule.type.name != "VALUE_COUNT":
            message = "values of several fields are counted together, and not added up"
            raise CannotTranslateError(message)
        return fields

    def _column(self, field: str) -> str:
        """Name a column of a stream after a field."""
        name = re.sub(r"\W+", "_", field).strip("_") or "field"
        taken = (self._settings.time, self._settings.type)
        return format_name(f"{name}_" if name in taken else name)

    # Streams -----------------------------------------------------------------------------

    def _stage(
        self, rule: Any, reference: str, keys: dict[str, str], fields: dict[str, str]
    ) -> _Stage:
        found = self._named[reference]
        called = found.name or found.title or reference
        if not isinstance(found, sigma.SigmaCorrelationRule):
            return self._events(rule, reference, found, keys, fields)
        text, columns = self._query(found)
        needed = {*keys.values(), *fields.values()}
        if needed - columns:
            missing = ", ".join(sorted(needed - columns))
            message = f"the correlation `{found.title}` has no field {missing} to group by"
            raise CannotTranslateError(message)
        return self._added(called, columns, text)

    def _added(
        self,
        called: str,
        columns: Iterable[str],
        text: str,
        place: Place | None = None,
        where: str = "",
    ) -> _Stage:
        """Add a stream, which later ones may read."""
        stage = _Stage(self._stream_name(called), frozenset(columns), text, place, where)
        self._stages.append(stage)
        return stage

    def _stream_name(self, called: str) -> str:
        base = re.sub(r"\W+", "_", called).strip("_") or "rule"
        base = f"rule_{base}" if base[0].isdigit() else base
        taken = {stage.name for stage in self._stages}
        count = 1
        name = base
        while format_name(name) in taken:
            count += 1
            name = f"{base}_{count}"
        return format_name(name)

    def _events(
        self,
        rule: Any,
        reference: str,
        found: Any,
        keys: dict[str, str],
        fields: dict[str, str],
    ) -> _Stage:
        """Write the events that a rule finds, with the fields that the correlation needs."""
        place, where, notes = self._detect(found)
        self._notes |= dict.fromkeys(notes)
        wanted = {
            column: place.names.column(self._source(rule, reference, key))
            for key, column in (*keys.items(), *fields.items())
        }
        listed = [f"{source} AS {column}" for column, source in wanted.items()]
        listed = listed or [f"1 AS {format_name('found')}"]
        counted = fields.values() if rule.type.name == "VALUE_COUNT" else ()
        needed = dict.fromkeys((*keys.values(), *counted))
        where = " AND ".join([f"({where})", *(f"{wanted[one]} IS NOT NULL" for one in needed)])
        called = found.name or found.title or reference
        return self._added(called, wanted, f"SELECT {', '.join(listed)}", place, where)

    @staticmethod
    def _source(rule: Any, reference: str, key: str) -> str:
        """Return the field of a rule's events that an alias stands for."""
        for alias in rule.aliases:
            if alias.alias == key:
                sources = {one.reference: name for one, name in alias.mapping.items()}
                if reference not in sources:
                    message = f"the alias `{key}` names no field of the rule `{reference}`"
                    raise CannotTranslateError(message)
                return str(sources[reference])
        return key

    # Queries -----------------------------------------------------------------------------

    def _trailing(self, rule: Any, stages: list[_Stage], keys: list[str], fields: list[str]) -> str:
        """Write a query that looks at the span before every event."""
        kind = rule.type.name
        if kind in ("VALUE_SUM", "VALUE_AVG"):
            stages = [self._together(stages, [*keys, *fields])]
        variables = [f"v{n}" for n in range(1, len(stages) + 1)]
        bound = _bound(stages, variables)
        where = ""
        match kind:
            case "TEMPORAL":
                items = [f"COUNT({v}) AS events_{n}" for n, v in enumerate(variables, 1)]
                found = dict(zip(references_of(rule), variables, strict=True))
                having = self._different(rule, found)
            case "EVENT_COUNT":
                items = ["COUNT(*) AS events"]
                having = self._compared(rule, "COUNT(*)")
                if len(stages) > 1:
                    self._notes["an event that several of the rules find counts for each"] = None
            case "VALUE_COUNT":
                # Each combination of values is a key of its own, and keys with an event count.
                where = f"[{', '.join(fields)}]"
                value = f"COUNT(DISTINCT {', '.join(fields)})"
                items, having = [f"{value} AS {format_name('value')}"], self._compared(rule, value)
            case _:
                value = f"{'SUM' if kind == 'VALUE_SUM' else 'AVG'}(v1.{fields[0]})"
                items, having = [f"{value} AS {format_name('value')}"], self._compared(rule, value)
        return _looks_back(rule, keys, items, " OR ".join(bound), where=where, having=having)

    def _together(self, stages: list[_Stage], columns: list[str]) -> _Stage:
        """Write a stream of the events of several rules; an event that two find is in it twice."""
        if len(stages) == 1:
            return stages[0]
        self._notes["an event that several of the rules find counts for each"] = None
        variables = [f"v{n}" for n in range(1, len(stages) + 1)]
        items = [
            f"COALESCE({', '.join(f'{v}.{column}' for v in variables)}) AS {column}"
            for column in dict.fromkeys(columns)
        ]
        pattern = " OR ".join(_bound(stages, variables))
        # A match is one event, so that any span is long enough.
        text = f"RETURN {', '.join(items)} PATTERN {pattern} WITHIN 1 second"
        return self._added("together", columns, text)

    def _ordered(self, rule: Any, stages: list[_Stage], keys: list[str]) -> str:
        """Write a query for events one after another, or for some of several such orders."""
        by_name = dict(zip(references_of(rule), stages, strict=True))
        parts: list[str] = []
        names = (f"v{n}" for n in itertools.count(1))
        for one in self._alternatives(rule, list(by_name)):
            order = [by_name[reference] for reference in one.found]
            if one.absent:
                order = [self._without(rule, order, [by_name[o] for o in one.absent], keys)]
            bound = _bound(order, list(itertools.islice(names, len(order))))
            parts.append(f"SEQ({', '.join(bound)})" if len(bound) > 1 else bound[0])
        return _looks_back(rule, keys, ["COUNT(*) AS matches"], " OR ".join(parts))

    def _without(
        self, rule: Any, order: list[_Stage], absent: list[_Stage], keys: list[str]
    ) -> _Stage:
        """Write a stream of the ends of an order, before which others have found nothing."""
        self._notes["a rule finds nothing if it finds nothing in the span before"] = None
        if len(order) > 1:
            bound = ", ".join(_bound(order, [f"v{n}" for n in range(1, len(order) + 1)]))
            text = _looks_back(rule, keys, ["COUNT(*) AS matches"], f"SEQ({bound})")
            order = [self._added("in_order", keys, text)]
        variables = [f"v{n}" for n in range(1, len(absent) + 2)]
        bound_ends = _bound([*order, *absent], variables)
        having = " AND ".join(["COUNT(v1) > 0", *(f"NOT COUNT({v}) > 0" for v in variables[1:])])
        text = _looks_back(
            rule, keys, ["COUNT(v1) AS matches"], " OR ".join(bound_ends), having=having
        )
        return self._added("alone", keys, text)

    def _alternatives(self, rule: Any, rules: list[str]) -> list[Alternative]:
        condition = rule.condition
        if isinstance(condition, sigma.SigmaExtendedCorrelationCondition):
            return alternatives_of(condition.parsed, rules)
        tests = _comparisons(rule)
        return alternatives_of_count(
            lambda number: all(_TESTS[name](number, count) for name, count in tests), rules
        )

    def _in_windows(self, rule: Any, stages: list[_Stage], keys: list[str], column: str) -> str:
        """Write a query over windows, for what is computed anew in each of them."""
        stage = self._together(stages, [*keys, column])
        if rule.type.name == "VALUE_MEDIAN":
            value = f"MEDIAN({column})"
        elif rule.condition.percentile is None:
            message = "`value_percentile` without `percentile` has no counterpart"
            raise CannotTranslateError(message)
        else:
            value = f"PERCENTILE({column}, {rule.condition.percentile / 100})"
        seconds = rule.timespan.seconds
        slide = max(1, next(n for n in range(seconds // _SLICES or 1, 0, -1) if seconds % n == 0))
        self._notes[
            f"values are looked at in windows of {_span(seconds)}, one every {_span(slide)}, and "
            f"not in those that begin between"
        ] = None
        items = [*keys, f"{value} AS {format_name('value')}"]
        parts = [f"SELECT {', '.join(items)}"]
        parts.append(f"FROM {stage.name}")
        parts += [f"GROUP BY {', '.join(keys)}"] if keys else []
        parts.append(f"WINDOW {_span(seconds)} SLIDE {_span(slide)}")
        parts.append(f"HAVING {self._compared(rule, value)}")
        return " ".join(parts)

    def _compared(self, rule: Any, value: str) -> str:
        tests = _comparisons(rule)
        if any(name in _FALLING for name, _ in tests):
            self._notes["it is looked at whenever a rule finds an event, and not without one"] = (
                None
            )
        return " AND ".join(
            f"{value} {_OPERATORS[name]} {format_literal(count)}" for name, count in tests
        )

    def _different(self, rule: Any, variables: dict[str, str]) -> str:
        """Write how many of the rules, or which of them, find an event."""
        condition = rule.condition
        if isinstance(condition, sigma.SigmaExtendedCorrelationCondition):
            return self._extended(condition.parsed, variables)
        found = [f"COUNT({v}) > 0" for v in variables.values()]
        if _comparisons(rule) == [("GTE", len(found))]:
            return " AND ".join(found)
        return self._compared(rule, " + ".join(f"IF({one}, 1, 0)" for one in found))

    def _extended(self, node: Any, variables: dict[str, str]) -> str:
        match node:
            case sigma.SigmaRuleReference(reference=reference):
                return f"COUNT({variables[reference]}) > 0"
            case sigma.CorrelationConditionNOT(args=[operand]):
                self._notes["a rule finds nothing if it finds nothing in the span before"] = None
                return f"NOT ({self._extended(operand, variables)})"
        word = "AND" if isinstance(node, sigma.CorrelationConditionAND) else "OR"
        return f"({f' {word} '.join(self._extended(one, variables) for one in node.args)})"


def references_of(rule: Any) -> list[str]:
    """List the rules of a correlation, in order; a condition may be all that names them."""
    if not rule.rules and isinstance(rule.condition, sigma.SigmaExtendedCorrelationCondition):
        return list(rule.condition.get_referenced_rules())
    return list(dict.fromkeys(one.reference for one in rule.rules or ()))


def _comparisons(rule: Any) -> list[tuple[str, int | float]]:
    condition = rule.condition
    return [(condition.op.name, condition.count), *further_comparisons(rule)]


def _bound(stages: list[_Stage], variables: list[str]) -> list[str]:
    return [f"{stage.name} {v}" for stage, v in zip(stages, variables, strict=True)]


def _looks_back(
    rule: Any, keys: list[str], items: list[str], pattern: str, *, where: str = "", having: str = ""
) -> str:
    """Write a query over the span before every event."""
    parts = [f"RETURN {', '.join([*keys, *items])}", f"PATTERN {pattern}"]
    parts += [f"WHERE {where}"] if where else []
    parts += [f"GROUP-BY {', '.join(keys)}"] if keys else []
    parts.append(f"WITHIN {_span(rule.timespan.seconds)}")
    parts += [f"HAVING {having}"] if having else []
    return " ".join(parts)


def _span(seconds: int) -> str:
    for unit, size in _UNITS:
        if seconds % size == 0:
            count = seconds // size
            return f"{count} {unit if count != 1 else unit[:-1]}"
    message = "every number is a number of seconds"
    raise AssertionError(message)
