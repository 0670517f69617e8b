"""A correlation rule of Sigma in, a pipeline out: a stream for each rule, and a query over them.

A span of time is that before each event which a rule finds, so that no boundary cuts it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from sigma import correlations as sigma
from sigma.rule import SigmaRule

from cepheid.expressions.format import format_literal, format_name
from cepheid.translate.translated import CannotTranslateError, Settings

_OPERATORS = {"LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=", "EQ": "=", "NEQ": "<>"}
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
    """A stream: its name, the columns that it has, and its text."""

    name: str
    columns: frozenset[str]
    text: str


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
        stages = [f"CREATE STREAM {one.name} AS {one.text};" for one in self._stages]
        return Pipeline("\n".join([*stages, last]), tuple(self._notes))

    def _query(self, rule: Any) -> tuple[str, frozenset[str]]:
        """Write a query, after the streams that it reads; return its columns, too."""
        if rule in self._open:
            message = f"the correlation `{rule.title}` refers to itself"
            raise CannotTranslateError(message)
        self._open.append(rule)
        keys = {key: self._column(key) for key in rule.group_by or ()}
        kind = rule.type.name
        field = self._field(rule)
        stages = [self._stage(rule, one, keys, field) for one in self._references(rule)]
        self._open.pop()
        columns = frozenset(keys.values())
        if kind in ("VALUE_COUNT", "VALUE_PERCENTILE", "VALUE_MEDIAN"):
            return self._in_windows(rule, stages, list(keys.values()), field), columns
        return self._trailing(rule, stages, list(keys.values()), field), columns

    def _references(self, rule: Any) -> list[Any]:
        extended = isinstance(rule.condition, sigma.SigmaExtendedCorrelationCondition)
        names = [one.reference for one in rule.rules or ()]
        names = names or (rule.condition.get_referenced_rules() if extended else [])
        for name in names:
            if name not in self._named:
                message = f"the rule `{name}` is not among the rules"
                raise CannotTranslateError(message)
        return names

    def _field(self, rule: Any) -> str:
        """Return the field whose values are counted or added up."""
        found = getattr(rule.condition, "fieldref", None)
        if isinstance(found, list):
            if len(found) > 1:
                message = "values of several fields together have no counterpart"
                raise CannotTranslateError(message)
            found = found[0]
        return found or ""

    def _column(self, field: str) -> str:
        """Name a column of a stream after a field."""
        name = re.sub(r"\W+", "_", field).strip("_") or "field"
        taken = (self._settings.time, self._settings.type)
        return format_name(f"{name}_" if name in taken else name)

    # Streams -----------------------------------------------------------------------------

    def _stage(self, rule: Any, reference: str, keys: dict[str, str], field: str) -> _Stage:
        found = self._named[reference]
        if isinstance(found, sigma.SigmaCorrelationRule):
            text, columns = self._query(found)
            needed = {*keys.values()} | ({self._column(field)} if field else set())
            if needed - columns:
                missing = ", ".join(sorted(needed - columns))
                message = f"the correlation `{found.title}` has no field {missing} to group by"
                raise CannotTranslateError(message)
        else:
            text, columns = self._events(rule, reference, found, keys, field)
        stage = _Stage(self._stream_name(reference, found), columns, text)
        self._stages.append(stage)
        return stage

    def _stream_name(self, reference: str, rule: Any) -> str:
        base = re.sub(r"\W+", "_", rule.name or rule.title or reference).strip("_") or "rule"
        base = f"rule_{base}" if base[0].isdigit() else base
        taken = {stage.name for stage in self._stages}
        count = 1
        name = base
        while format_name(name) in taken:
            count += 1
            name = f"{base}_{count}"
        return format_name(name)

    def _events(
        self, rule: Any, reference: str, found: Any, keys: dict[str, str], field: str
    ) -> tuple[str, frozenset[str]]:
        """Write the events that a rule finds, with the fields that the correlation needs."""
        place, where, notes = self._detect(found)
        if place.source in {stage.name for stage in self._stages}:
            message = f"a rule and the log have the name {place.source}"
            raise CannotTranslateError(message)
        self._notes |= dict.fromkeys(notes)
        items = {column: self._source(rule, reference, key) for key, column in keys.items()}
        wanted = dict(items)
        if field:
            wanted[self._column(field)] = self._source(rule, reference, field)
        written = {column: place.names.column(source) for column, source in wanted.items()}
        listed = [f"{source} AS {column}" for column, source in written.items()]
        listed = listed or [f"1 AS {format_name('found')}"]
        known = [f"{written[column]} IS NOT NULL" for column in items]
        text = f"SELECT {', '.join(listed)} FROM {place.source} WHERE "
        return text + " AND ".join([f"({where})", *known]), frozenset(wanted)

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

    def _trailing(self, rule: Any, stages: list[_Stage], keys: list[str], field: str) -> str:
        """Write a query that looks at the span before every event."""
        variables = [f"v{n}" for n in range(1, len(stages) + 1)]
        bound = [f"{stage.name} {v}" for stage, v in zip(stages, variables, strict=True)]
        having = ""
        match rule.type.name:
            case "TEMPORAL_ORDERED":
                self._check_all(rule, len(stages))
                pattern, items = f"SEQ({', '.join(bound)})", ["COUNT(*) AS matches"]
            case "TEMPORAL":
                pattern = " OR ".join(bound)
                items = [f"COUNT({v}) AS events_{n}" for n, v in enumerate(variables, 1)]
                having = self._different(
                    rule, dict(zip(self._references(rule), variables, strict=True))
                )
            case "EVENT_COUNT":
                pattern, items = " OR ".join(bound), ["COUNT(*) AS events"]
                having = self._compared(rule, "COUNT(*)")
                if len(stages) > 1:
                    self._notes["an event that several of the rules find counts for each"] = None
            case kind:
                self._one_rule(stages)
                value = f"{'SUM' if kind == 'VALUE_SUM' else 'AVG'}(v1.{self._column(field)})"
                pattern, items = bound[0], [f"{value} AS {format_name('value')}"]
                having = self._compared(rule, value)
        parts = [f"RETURN {', '.join([*keys, *items])}", f"PATTERN {pattern}"]
        parts += [f"GROUP-BY {', '.join(keys)}"] if keys else []
        parts.append(f"WITHIN {_span(rule.timespan.seconds)}")
        parts += [f"HAVING {having}"] if having else []
        return " ".join(parts)

    def _in_windows(self, rule: Any, stages: list[_Stage], keys: list[str], field: str) -> str:
        """Write a query over windows, for what is counted anew in each of them."""
        self._one_rule(stages)
        column = self._column(field)
        match rule.type.name:
            case "VALUE_COUNT":
                value = f"COUNT(DISTINCT {column})"
            case "VALUE_MEDIAN":
                value = f"MEDIAN({column})"
            case _:
                if rule.condition.percentile is None:
                    message = "`value_percentile` without `percentile` has no counterpart"
                    raise CannotTranslateError(message)
                value = f"PERCENTILE({column}, {rule.condition.percentile / 100})"
        seconds = rule.timespan.seconds
        slide = max(1, next(n for n in range(seconds // _SLICES or 1, 0, -1) if seconds % n == 0))
        self._notes[
            f"values are counted in windows of {_span(seconds)}, one every {_span(slide)}, and not "
            f"in those that begin between"
        ] = None
        items = [*keys, f"{value} AS {format_name('value')}"]
        parts = [f"SELECT {', '.join(items)}"]
        parts.append(f"FROM {stages[0].name}")
        parts += [f"GROUP BY {', '.join(keys)}"] if keys else []
        parts.append(f"WINDOW {_span(seconds)} SLIDE {_span(slide)}")
        parts.append(f"HAVING {self._compared(rule, value)}")
        return " ".join(parts)

    def _compared(self, rule: Any, value: str) -> str:
        condition = rule.condition
        self._tell_falling(condition)
        return f"{value} {_OPERATORS[condition.op.name]} {format_literal(condition.count)}"

    def _tell_falling(self, condition: Any) -> None:
        if condition.op.name in _FALLING:
            self._notes["it is looked at whenever a rule finds an event, and not without one"] = (
                None
            )

    def _different(self, rule: Any, variables: dict[str, str]) -> str:
        """Write how many of the rules, or which of them, find an event."""
        condition = rule.condition
        if isinstance(condition, sigma.SigmaExtendedCorrelationCondition):
            return self._extended(condition.parsed, variables)
        found = [f"COUNT({v}) > 0" for v in variables.values()]
        if condition.op.name == "GTE" and condition.count == len(found):
            return " AND ".join(found)
        self._tell_falling(condition)
        number = " + ".join(f"IF({one}, 1, 0)" for one in found)
        return f"{number} {_OPERATORS[condition.op.name]} {format_literal(condition.count)}"

    def _extended(self, node: Any, variables: dict[str, str]) -> str:
        match node:
            case sigma.SigmaRuleReference(reference=reference):
                return f"COUNT({variables[reference]}) > 0"
            case sigma.CorrelationConditionNOT(args=[operand]):
                self._notes["a rule finds nothing if it finds nothing in the span before"] = None
                return f"NOT ({self._extended(operand, variables)})"
        word = "AND" if isinstance(node, sigma.CorrelationConditionAND) else "OR"
        return f"({f' {word} '.join(self._extended(one, variables) for one in node.args)})"

    def _check_all(self, rule: Any, count: int) -> None:
        condition = rule.condition
        if isinstance(condition, sigma.SigmaExtendedCorrelationCondition):
            message = "an order of events with `and`, `or` and `not` has no counterpart"
            raise CannotTranslateError(message)
        if condition.op.name != "GTE" or condition.count != count:
            message = "`temporal_ordered` of some of the rules only has no counterpart"
            raise CannotTranslateError(message)

    @staticmethod
    def _one_rule(stages: list[_Stage]) -> None:
        if len(stages) > 1:
            message = "values of the events of several rules together have no counterpart"
            raise CannotTranslateError(message)


def _span(seconds: int) -> str:
    for unit, size in _UNITS:
        if seconds % size == 0:
            count = seconds // size
            return f"{count} {unit if count != 1 else unit[:-1]}"
    message = "every number is a number of seconds"
    raise AssertionError(message)
