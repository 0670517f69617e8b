"""Resolve names: look up every variable and attribute, and collect every mistake."""

from __future__ import annotations

import msgspec

from cepheid.errors import Span, suggest_names
from cepheid.events.schema import NUMERIC, TEMPORAL, EventSchema, ValueKind
from cepheid.events.time_formats import TextTimes
from cepheid.expressions.format import format_expression, format_literal
from cepheid.expressions.own import OwnFunction
from cepheid.expressions.value_types import Typing
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.patterns.bind_pattern import Variable

DEFAULT_TYPE = "type"
"""The type column where none is named; it may be missing if the pattern has one type."""

DEFAULT_TIME = "ts"


class Source(msgspec.Struct, frozen=True):
    """The source of events as the planner sees it: column names and, if known, a schema.

    ``schemas`` are those of named streams, for queries that read several. An empty ``type`` says
    that events have no types. ``functions`` are those of the user's own that a text may call.
    """

    time: str = DEFAULT_TIME
    type: str = DEFAULT_TYPE
    tiebreak: tuple[str, ...] = ()
    schema: EventSchema | None = None
    time_unit: str = "us"
    schemas: tuple[tuple[str, EventSchema], ...] = ()
    time_format: str = ""
    functions: tuple[OwnFunction, ...] = ()

    @property
    def times(self) -> TextTimes:
        """Return the format of text times."""
        return TextTimes(self.time, self.time_format)


class Scope:
    """The names that expressions may use."""

    def __init__(self, source: Source, variables: dict[str, Variable], findings: Findings) -> None:
        self.source = source
        self.variables = variables
        self.findings = findings
        self.typing = Typing(self.kind_of, findings)

    def kind_of(self, node: tree.Attribute | tree.Aggregate | tree.Word) -> ValueKind:
        """Look up the kind of a name in WHERE; report unknown names."""
        match node:
            case tree.Attribute(variable=variable, attribute=attribute):
                self.variable(variable)
                return self.attribute_kind(attribute, variable.text)
            case tree.Aggregate():
                return self.aggregate_kind(node)
            case tree.Word():
                return ValueKind.UNKNOWN

    def variable(self, name: tree.Name, *, counted: bool = False) -> Variable | None:
        """Look up a variable, or report that the pattern has none of this name."""
        found = self.variables.get(name.text)
        if found is None:
            by_type = [v.name for v in self.variables.values() if v.event_type == name.text]
            helps = suggest_names(name.text, self.variables, owner="the pattern")
            if by_type:
                helps = f"`{name.text}` is an event type; its variable here is `{by_type[0]}`"
            elif counted:
                values = f"to count the values of an attribute write `COUNT(DISTINCT {name.text})`"
                helps = f"{helps}; {values}"
            message = f"the pattern has no variable `{name.text}`"
            self.findings.add("E202", message, name.span, helps)
        return found

    def positive(self, name: tree.Name, *, counted: bool = False) -> None:
        """Report a variable that only occurs under NOT: no match has an event of it."""
        found = self.variable(name, counted=counted)
        if found is not None and not found.positive:
            self.findings.add(
                "E319",
                f"`{found.name}` is negated, so no match has an event of it",
                name.span,
                label="bound by no match",
            )

    def attribute_kind(self, name: tree.Name, variable: str | None = None) -> ValueKind:
        """Look up the kind of an attribute, or report that the events have none of this name."""
        schema = self.source.schema
        if schema is None:
            return ValueKind.UNKNOWN
        kind = schema.kind(name.text)
        if kind is None:
            known = self.variables.get(variable) if variable else None
            own = known.event_type if known else tree.ANY_TYPE
            owner = f"event type `{own}`" if own else "the stream"
            label = f"not in the schema of `{own}`" if own else "not in the schema"
            time = self.source.time
            renamed = name.text == DEFAULT_TIME and schema.kind(time) is not None
            self.findings.add(
                "E201",
                f"{owner} has no attribute `{name.text}`",
                name.span,
                f"the times are in `{time}`" if renamed else "",
                suggest_names(name.text, schema.names, owner="the stream"),
                label=label,
            )
            return ValueKind.UNKNOWN
        return kind

    def check_equated(self, attribute: tree.Name, variable: tree.Name | None = None) -> None:
        """Report an attribute whose values cannot be compared for equality, such as a list."""
        kind = self.attribute_kind(attribute, variable.text if variable else None)
        if kind is ValueKind.OTHER:
            self.findings.add(
                "E206",
                f"`{attribute.text}` is of kind {kind.value}, so it cannot form groups",
                attribute.span,
                "use an attribute that is a number, a text, a time or a boolean",
            )

    def aggregate_kind(self, aggregate: tree.Aggregate) -> ValueKind:
        """Compute the kind of an aggregate's value; report invalid arguments."""
        function = aggregate.function
        if aggregate.variable is not None:
            self.variable(aggregate.variable, counted=aggregate.attribute is None)
        if aggregate.attribute is None or aggregate.variable is None:
            return ValueKind.DOUBLE
        kind = self.attribute_kind(aggregate.attribute, aggregate.variable.text)
        summed = function in (tree.AggregateFunction.SUM, tree.AggregateFunction.AVG)
        fits = _SUMMABLE if summed else _SUMMABLE | _ORDERED
        if kind not in fits:
            what = "numbers and durations" if summed else "numbers, times and durations"
            self.findings.add(
                "E206",
                f"`{function.value}` takes {what}, and `{format_expression(aggregate)[4:-1]}` "
                f"is of kind {kind.value}",
                aggregate.span,
            )
            return ValueKind.UNKNOWN
        if function is tree.AggregateFunction.AVG and kind is not ValueKind.DURATION:
            return ValueKind.DOUBLE
        return kind


_SUMMABLE = frozenset(
    {
        ValueKind.INTEGER,
        ValueKind.DOUBLE,
        ValueKind.DECIMAL,
        ValueKind.DURATION,
        ValueKind.UNKNOWN,
    }
)
_ORDERED = frozenset({ValueKind.TIMESTAMP, ValueKind.DATE})
_TIMES = NUMERIC | TEMPORAL | {ValueKind.UNKNOWN}


def bind_source(scope: Scope, pattern: Span) -> bool:
    """Check the time and type columns, and whether events have types."""
    source, findings = scope.source, scope.findings
    if source.schema is None:
        return bool(source.type)
    for column in (source.time, *source.tiebreak):
        if source.schema.kind(column) is None:
            role = "time" if column == source.time else "tie-breaker"
            argument = f"time={likely_time(source.schema)}" if role == "time" else "tiebreak=..."
            findings.add(
                "E212",
                f"the stream has no {role} column `{column}`",
                pattern,
                f"name it: `cepheid.query(..., {argument})`",
                suggest_names(column, source.schema.names, owner="the stream"),
            )
    time_kind = source.schema.kind(source.time)
    if time_kind is not None and time_kind not in _TIMES:
        findings.add(
            "E212",
            f"the time column `{source.time}` is of kind {time_kind.value}, not a time",
            pattern,
            "convert it to a timestamp, or name another column: `cepheid.query(..., time=...)`",
        )
    if source.type and source.schema.kind(source.type) is not None:
        return True
    _check_types(scope, source.schema, pattern)
    return False


def _check_types(scope: Scope, schema: EventSchema, pattern: Span) -> None:
    """Report a missing type column that was named, or that the pattern needs (§1.2)."""
    source = scope.source
    named_types = (v.event_type for v in scope.variables.values() if v.event_type != tree.ANY_TYPE)
    types = list(dict.fromkeys(named_types))
    named = source.type != DEFAULT_TYPE
    if not source.type or (len(types) < 2 and not named):
        return
    several = ", which tells " + " and ".join(f"`{t}`" for t in types[:3]) + " apart"
    untyped = "if all events are of one type, say so: `cepheid.query(..., type=None)`"
    scope.findings.add(
        "E216",
        f"the stream has no type column `{source.type}`" + several * (len(types) > 1),
        pattern,
        f"name it: `cepheid.query(..., type={_likely_type(schema)})`",
        suggest_names(source.type, schema.names, owner="the stream"),
        untyped,
    )


def likely_time(schema: EventSchema) -> str:
    """Guess which column holds times; write it as an argument, or dots for none."""
    usual = ("ts", "time", "timestamp", "datetime", "date", "when", "at", "event_time")
    columns = [c for c in schema.columns if c.kind in _TIMES | {ValueKind.TEXT}]
    likely = [c.name for c in columns if c.name.lower().removeprefix("@") in usual]
    likely += [c.name for c in columns if c.kind in _ORDERED]
    likely += [c.name for c in columns if c.name.lower().endswith(("time", "_at", "timestamp"))]
    known = [name for name in likely if name.removeprefix("@").isidentifier()]
    return f'"{known[0]}"' if known else "..."


def _likely_type(schema: EventSchema) -> str:
    """Guess by its name which column holds types; write it as an argument, or dots for none."""
    usual = ("kind", "event", "event_name", "action", "activity", "category")
    texts = [c.name for c in schema.columns if c.kind is ValueKind.TEXT and c.name.isidentifier()]
    likely = [name for name in texts if "type" in name.lower()]
    likely += [name for name in texts if name.lower() in usual]
    return f'"{likely[0]}"' if likely else "..."


def bind_where(
    where: tree.Expression | None, scope: Scope, clause: str = "WHERE"
) -> tree.Expression | None:
    """Bind WHERE or UNTIL: read bare words as text (§4.7), look up names and check kinds."""
    if where is None:
        return None
    bound = tree.transform(where, lambda node: _words_to_text(node, scope))
    for node in tree.walk(bound):
        if isinstance(node, tree.Word):
            _report_bare(node, scope)
        if isinstance(node, tree.Attribute | tree.Aggregate):
            _check_spanning(node, scope)
        if isinstance(node, tree.Equivalence):
            for item in node.items:
                if item.variable is not None:
                    scope.variable(item.variable)
                scope.check_equated(item.attribute, item.variable)
    scope.typing.check_condition(bound, clause)
    return bound


def _check_spanning(node: tree.Attribute | tree.Aggregate, scope: Scope) -> None:
    """Report terms without a value in a match: COUNT(*), and FIRST, LAST or aggregates of NOT."""
    if node.variable is None:
        scope.findings.add(
            "E322",
            f"`{format_expression(node)}` counts matches, but `WHERE` tests a single match",
            node.span,
            "move it to HAVING, or count the events of a variable: `COUNT(S) > 3`",
        )
    elif isinstance(node, tree.Aggregate) or node.anchor in (tree.Anchor.FIRST, tree.Anchor.LAST):
        counted = isinstance(node, tree.Aggregate) and node.attribute is None
        scope.positive(node.variable, counted=counted)


def _words_to_text(node: tree.Node, scope: Scope) -> tree.Node:
    match node:
        case tree.Binary(operator="=" | "<>", left=tree.Word() as word, right=other):
            if _has_attribute(other):
                return msgspec.structs.replace(node, left=_text(word, scope))
        case tree.Binary(operator="=" | "<>", left=other, right=tree.Word() as word):
            if _has_attribute(other):
                return msgspec.structs.replace(node, right=_text(word, scope))
        case tree.InList(operand=operand, items=items):
            # A word before IN is reported itself; reporting its list too would only repeat that.
            if isinstance(operand, tree.Word) or _has_attribute(operand):
                return msgspec.structs.replace(node, items=tuple(_text(i, scope) for i in items))
    return node


def _has_attribute(expression: tree.Expression) -> bool:
    """Check whether an expression refers to events: only then is a word beside it text."""
    nodes = tree.walk(expression)
    return any(isinstance(node, tree.Attribute | tree.Aggregate) for node in nodes)


def _text(node: tree.Expression, scope: Scope) -> tree.Expression:
    """Convert a bare word to text, with a warning; an attribute's name is reported later."""
    if not isinstance(node, tree.Word):
        return node
    schema = scope.source.schema
    named = schema is not None and schema.kind(node.text) is not None
    if named or node.text in scope.variables:
        return node
    quoted = format_literal(node.text)
    message = f"`{node.text}` is read as the text {quoted}"
    scope.findings.add("W204", message, node.span, f"write {quoted}")
    return tree.Literal(span=node.span, value=node.text)


def _report_bare(word: tree.Word, scope: Scope) -> None:
    if word.text in scope.variables:
        message = f"`{word.text}` is a variable, but a condition needs one of its attributes"
        scope.findings.add("E208", message, word.span, f"write `{word.text}.attribute`")
        return
    schema = scope.source.schema
    helps = []
    if schema is None or schema.kind(word.text) is not None:
        positive = [v.name for v in scope.variables.values() if v.positive]
        helps += [f"write `{name}.{word.text}` for the attribute" for name in positive[:1]]
    if schema is None or schema.kind(word.text) is None:
        helps.append(f"write {format_literal(word.text)} for the text")
    if schema is not None and schema.kind(word.text) is None:
        helps.append(suggest_names(word.text, schema.names, owner="the stream"))
    scope.findings.add("E208", f"`{word.text}` has no variable", word.span, *helps)
