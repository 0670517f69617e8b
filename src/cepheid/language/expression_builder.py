"""The parser's callbacks for expressions: children of a grammar rule in, one tree node out.

Each method carries the name of a rule or alias of ``grammar.lark``. The parser calls it with all
children of the rule, punctuation included, so a node's span runs from its first child to its last.
"""

from __future__ import annotations

from collections.abc import Sequence as Children
from typing import Any, NamedTuple, NoReturn

from cepheid.errors import Diagnostic, Span, suggest_names
from cepheid.events.constants import loses_digits
from cepheid.events.temporal import UNIT_MICROSECONDS, duration_us
from cepheid.expressions.functions import ALIASES
from cepheid.language import tree
from cepheid.language.lalr import Token
from cepheid.language.lexer import MistakeFoundError
from cepheid.language.sql_spellings import concatenated, distinct_from, filtered, other_like

Child = Any
"""A token or a finished node."""

COMPARISONS = frozenset(["=", "<>", "<", "<=", ">", ">="])
INTEGER_MAX = 2**63 - 1
NUMBER_LENGTH_MAX = 40
TOO_LARGE = "this number does not fit 64 bits"

COUNT_HELP = "`COUNT(*)` counts matches, `COUNT(S)` counts the events of S in all matches"

OTHER_UNITS = {
    "`m` is ambiguous: write `min` for minutes, `ms` for milliseconds": ("m",),
    "the shortest unit is the microsecond, `us`": ("ns", "nanosecond", "nanoseconds"),
    "write weeks as days: `7 days`": ("w", "week", "weeks"),
    "months have no fixed length: write `30 days`": ("mo", "mon", "month", "months"),
    "years have no fixed length: write `365 days`": ("y", "yr", "year", "years"),
}
"""The meaning of other units; the nearest name would be a wrong guess."""

OF_SITUATIONS = ("PREV", "FIRST")
"""Functions of an attribute in the conditions of situations (§9.10)."""

ANCHORS = {a.value: a for a in tree.Anchor if a is not tree.Anchor.EACH}
AGGREGATES = {f.value: f for f in tree.AggregateFunction}
FILTERED = frozenset(
    [*AGGREGATES, "MEDIAN", "PERCENTILE", "APPROX_COUNT_DISTINCT", "APPROX_PERCENTILE"]
)
"""Functions after which FILTER may stand."""


def span_of(children: Children[Child]) -> Span:
    """Return the span from the first child to the last."""
    return token_span(children[0]).to(token_span(children[-1]))


def token_span(child: Child) -> Span:
    """Return the place of a token or node."""
    if isinstance(child, Token):
        assert child.start_pos is not None
        assert child.end_pos is not None
        return Span(child.start_pos, child.end_pos)
    span: Span = child.span
    return span


def nodes_of(children: Children[Child]) -> tuple[Any, ...]:
    """Return the children that are finished nodes."""
    return tuple(child for child in children if not isinstance(child, Token))


def names_of(children: Children[Child]) -> tuple[tree.Name, ...]:
    """Return the children that are names."""
    return tuple(name_of(c) for c in children if isinstance(c, Token) and c.type == "NAME")


def name_of(token: Token) -> tree.Name:
    """Return a token as a name."""
    return tree.Name(span=token_span(token), text=str(token))


def reject(code: str, message: str, span: Span, *helps: str) -> NoReturn:
    """Leave the parser with a diagnostic."""
    raise MistakeFoundError(Diagnostic(code, message, span, helps=tuple(h for h in helps if h)))


def whole_number(token: Token) -> int:
    """Return the value of a token that must be a whole number of 64 bits."""
    if not token.isdigit():
        reject(
            "E107", "a whole number is needed here", token_span(token), "write it without a point"
        )
    if not _fits(token, INTEGER_MAX):
        reject("E107", TOO_LARGE, token_span(token), f"the largest is {INTEGER_MAX}")
    return int(token)


def _fits(digits: str, most: int) -> bool:
    """Check whether a whole number is at most ``most``; Python reads no number of any length."""
    return len(digits) <= NUMBER_LENGTH_MAX and int(digits) <= most


def too_large(digits: str, span: Span) -> Diagnostic:
    """Report a constant that does not fit, and offer the nearest double."""
    double = float(digits)
    helps = () if double == float("inf") else (f"write it as a double: `{double!r}`",)
    return Diagnostic("E107", TOO_LARGE, span, helps=helps)


class When(NamedTuple):
    """``WHEN condition THEN result`` on its way into a CASE."""

    condition: tree.Expression
    result: tree.Expression
    span: Span


class ExpressionBuilder:
    """Expressions."""

    def expression(self, c: Children[Child]) -> tree.Logical:
        return tree.Logical(span=span_of(c), operator="OR", operands=nodes_of(c))

    def and_expression(self, c: Children[Child]) -> tree.Logical:
        return tree.Logical(span=span_of(c), operator="AND", operands=nodes_of(c))

    def logical_not(self, c: Children[Child]) -> tree.Unary:
        return tree.Unary(span=span_of(c), operator="NOT", operand=c[1])

    def compare(self, c: Children[Child]) -> tree.Binary:
        left, operator, right = c
        compared = isinstance(left, tree.Binary) and left.operator in COMPARISONS
        # Parentheses leave no node; they only make a span wider than what is inside.
        if compared and left.span.start == left.left.span.start:
            joined = isinstance(left.right, tree.Call) and left.right.function == "CONCAT"
            reject(
                "E110",
                "comparisons do not chain",
                span_of(c),
                "`||` joins two texts: between conditions write `OR`" if joined else "",
                "join two comparisons with AND: `a < b AND b < c`",
                "for one attribute that all events share, write `[attribute]`",
            )
        return tree.Binary(span=span_of(c), operator=str(operator), left=left, right=right)

    def arithmetic(self, c: Children[Child]) -> tree.Binary | tree.Call:
        if str(c[1]) == "||":
            return concatenated(c)
        return tree.Binary(span=span_of(c), operator=str(c[1]), left=c[0], right=c[2])

    def sign(self, c: Children[Child]) -> Any:
        if str(c[0]) == "||":
            reject("E103", "`||` joins two texts", span_of(c), "write a text before it: `a || b`")
        if str(c[0]) == "+":
            return tree.replace_span(c[1], span_of(c))
        # A negative constant is one literal, so that it reads back as it was written.
        operand = c[1]
        if isinstance(operand, tree.Literal) and type(operand.value) in (int, float):
            assert isinstance(operand.value, int | float)
            if not (operand.value < 0 or str(operand.value).startswith("-")):
                digits = f"-{operand.digits}" if operand.digits else ""
                return tree.Literal(span=span_of(c), value=-operand.value, digits=digits)
        return tree.Unary(span=span_of(c), operator="-", operand=operand)

    def is_null(self, c: Children[Child]) -> tree.IsNull:
        return tree.IsNull(span=span_of(c), operand=c[0], negated=False)

    def is_not_null(self, c: Children[Child]) -> tree.IsNull:
        return tree.IsNull(span=span_of(c), operand=c[0], negated=True)

    def distinct_from(self, c: Children[Child], *, negated: bool = False) -> Any:
        for operand in nodes_of(c):
            if tree.contains(operand, tree.Logical):
                # Each of the conditions has it again, so nested ones would grow without bound.
                help_ = "write the comparison out: `a = b OR a IS NULL AND b IS NULL`"
                reject("E111", "`DISTINCT FROM` compares conditions", operand.span, help_)
        return distinct_from(span_of(c), c[0], c[-1], negated=negated)

    def not_distinct_from(self, c: Children[Child]) -> Any:
        return self.distinct_from(c, negated=True)

    def in_list(self, c: Children[Child], *, negated: bool = False) -> tree.InList:
        operand, *items = nodes_of(c)
        return tree.InList(span=span_of(c), operand=operand, items=tuple(items), negated=negated)

    def not_in_list(self, c: Children[Child]) -> tree.InList:
        return self.in_list(c, negated=True)

    def between(self, c: Children[Child], *, negated: bool = False) -> tree.Between:
        operand, low, high = nodes_of(c)
        return tree.Between(span=span_of(c), operand=operand, low=low, high=high, negated=negated)

    def not_between(self, c: Children[Child]) -> tree.Between:
        return self.between(c, negated=True)

    def like(self, c: Children[Child], *, negated: bool = False) -> Any:
        operand, pattern = nodes_of(c)
        word = str(c[-2]).upper()
        if word != "LIKE":
            return other_like(word, span_of(c), operand, pattern, negated=negated)
        return tree.Like(span=span_of(c), operand=operand, pattern=pattern, negated=negated)

    def not_like(self, c: Children[Child]) -> Any:
        return self.like(c, negated=True)

    def when(self, c: Children[Child]) -> When:
        return When(c[1], c[3], span_of(c))

    def case(self, c: Children[Child]) -> tree.Case:
        whens = [child for child in c if isinstance(child, When)]
        last = c[-2]
        span = token_span(c[-1])
        default = tree.Literal(span=span, value=None) if isinstance(last, When) else last
        return tree.Case(
            span=span_of(c),
            conditions=tuple(when.condition for when in whens),
            results=tuple(when.result for when in whens),
            default=default,
        )

    def simple_case(self, c: Children[Child]) -> tree.Case:
        """``CASE x WHEN 1 THEN ...`` is ``CASE WHEN x = 1 THEN ...``."""
        subject = c[1]
        if tree.contains(subject, tree.Case):
            # Each WHEN has it again, so nested ones would grow without bound.
            help_ = "write the conditions out: `CASE WHEN x = 1 THEN ... END`"
            reject("E111", "the value after `CASE` has a `CASE` itself", subject.span, help_)
        whens = [
            child._replace(
                condition=tree.Binary(
                    span=child.condition.span, operator="=", left=subject, right=child.condition
                )
            )
            if isinstance(child, When)
            else child
            for child in c[2:]
        ]
        return self.case([c[0], *whens])

    def cast(self, c: Children[Child]) -> tree.Cast:
        parameters = [whole_number(t) for t in c if isinstance(t, Token) and t.type == "NUMBER"]
        return tree.Cast(
            span=span_of(c),
            operand=c[2],
            type_name=str(c[4]).upper(),
            parameters=tuple(parameters),
            lenient=str(c[0]).upper() == "TRY_CAST",
        )

    def cast_after(self, c: Children[Child]) -> tree.Cast:
        """``x::bigint``."""
        name = str(c[2]).upper()
        return tree.Cast(
            span=span_of(c), operand=c[0], type_name=name, parameters=(), lenient=False
        )

    def parenthesis(self, c: Children[Child]) -> Any:
        return tree.replace_span(c[1], span_of(c))

    def number(self, c: Children[Child]) -> tree.Literal:
        token = c[0]
        if token.isdigit():
            # One more than the largest is the smallest with a sign; parse() rejects it without.
            if not _fits(token, INTEGER_MAX + 1):
                raise MistakeFoundError(too_large(token, token_span(token)))
            return tree.Literal(span=token_span(token), value=int(token))
        value = float(token) if len(token) <= NUMBER_LENGTH_MAX else float("inf")
        if value == float("inf"):
            reject("E107", "this number is too large or too long", token_span(token))
        digits = str(token) if loses_digits(str(token)) else ""
        return tree.Literal(span=token_span(token), value=value, digits=digits)

    def string(self, c: Children[Child]) -> tree.Literal:
        return tree.Literal(span=token_span(c[0]), value=str(c[0]))

    def true(self, c: Children[Child]) -> tree.Literal:
        return tree.Literal(span=token_span(c[0]), value=True)

    def false(self, c: Children[Child]) -> tree.Literal:
        return tree.Literal(span=token_span(c[0]), value=False)

    def null(self, c: Children[Child]) -> tree.Literal:
        return tree.Literal(span=token_span(c[0]), value=None)

    def word(self, c: Children[Child]) -> tree.Word:
        return tree.Word(span=token_span(c[0]), text=str(c[0]))

    def path(self, c: Children[Child]) -> tree.Name:
        """Join a dotted attribute into one name; the formatter escapes its parts."""
        return tree.Name(span=span_of(c), text=".".join(n.text for n in names_of(c)))

    def attribute(self, c: Children[Child]) -> tree.Attribute:
        return tree.Attribute(span=span_of(c), variable=name_of(c[0]), attribute=c[2])

    def duration(self, c: Children[Child]) -> tree.Duration:
        amount, unit = c
        if unit.lower() not in UNIT_MICROSECONDS:
            reject(
                "E108",
                f"`{unit}` is not a unit of time",
                token_span(unit),
                _suggest_unit(unit),
                "units are microseconds, milliseconds, seconds, minutes, hours and days",
            )
        plain = len(amount) <= NUMBER_LENGTH_MAX and "e" not in amount.lower()
        microseconds = duration_us(amount, unit) if plain else None
        if microseconds is None:
            reject(
                "E107",
                "this duration is too long, or no whole number of microseconds",
                span_of(c),
                "write it in a smaller unit: `500 ms`",
            )
        return tree.Duration(span=span_of(c), microseconds=microseconds)

    def equivalence(self, c: Children[Child]) -> tree.Equivalence:
        return tree.Equivalence(span=span_of(c), items=nodes_of(c))

    def equivalence_item(self, c: Children[Child]) -> tree.EquivalenceItem:
        return tree.EquivalenceItem(span=span_of(c), attribute=name_of(c[0]))

    def equivalence_variable(self, c: Children[Child]) -> tree.EquivalenceItem:
        return tree.EquivalenceItem(span=span_of(c), variable=name_of(c[0]), attribute=c[2])

    def call_empty(self, c: Children[Child]) -> Any:
        return _call(c, ())

    def call_star(self, c: Children[Child]) -> tree.Aggregate:
        if str(c[0]).upper() != "COUNT":
            reject("E111", f"`{c[0]}` does not take `*`", span_of(c), "only COUNT does: `COUNT(*)`")
        return tree.Aggregate(span=span_of(c), function=tree.AggregateFunction.COUNT)

    def call_distinct(self, c: Children[Child]) -> tree.Aggregate:
        """``COUNT(DISTINCT session)``; the builders of other queries reject it."""
        if str(c[0]).upper() != "COUNT":
            help_ = "only COUNT does: `COUNT(DISTINCT session)`"
            reject("E111", f"`{c[0]}` does not take `DISTINCT`", span_of(c), help_)
        names = nodes_of(c)
        function = tree.AggregateFunction.COUNT
        return tree.Aggregate(span=span_of(c), function=function, distinct=names)

    def call(self, c: Children[Child]) -> Any:
        return _call(c, nodes_of(c))

    def filtered_call(self, c: Children[Child]) -> tree.Call:
        call = c[0]
        counted = isinstance(call, tree.Aggregate) and not call.distinct
        if not counted and not (isinstance(call, tree.Call) and call.function in FILTERED):
            message = "`FILTER` follows an aggregate of a column or of `*`"
            help_ = "write `SUM(x) FILTER (WHERE condition)`"
            reject("E111", message, span_of(c), help_)
        return filtered(call, c[-2], span_of(c))

    def call_attribute(self, c: Children[Child]) -> tree.Attribute:
        """``NEXT(S).price``."""
        function = str(c[0]).upper()
        argument = c[2]
        if function not in ANCHORS or len(nodes_of(c)) != 2 or not isinstance(argument, tree.Word):
            reject(
                "E111",
                f"`{c[0]}(...)` has no attributes",
                span_of(c),
                "an attribute follows NEXT, PREV, FIRST or LAST of a variable: `NEXT(S).price`",
            )
        variable = tree.Name(span=argument.span, text=argument.text)
        anchor = ANCHORS[function]
        return tree.Attribute(span=span_of(c), variable=variable, attribute=c[-1], anchor=anchor)


def _suggest_unit(unit: str) -> str:
    """Return a help for a word that is no unit; a wrong guess would change what a query means."""
    for help_, names in OTHER_UNITS.items():
        if unit.lower() in names:
            return help_
    near, mark, _ = suggest_names(unit, [n for n in UNIT_MICROSECONDS if len(n) > 2]).partition("?")
    return near + mark if mark and len(unit) > 2 else ""


def _call(c: Children[Child], arguments: tuple[Any, ...]) -> Any:
    """Return an aggregate, an anchored attribute or a scalar function."""
    function, span = str(c[0]).upper(), span_of(c)
    first = arguments[0] if len(arguments) == 1 else None
    each = isinstance(first, tree.Attribute) and first.anchor is tree.Anchor.EACH
    if function in ANCHORS:
        if function in OF_SITUATIONS and isinstance(first, tree.Word):
            # Situations know their first and the previous event; other queries reject it.
            return tree.Call(span=span, function=function, arguments=arguments)
        if not each or not isinstance(first, tree.Attribute):
            _reject_anchor(function, span)
        return tree.Attribute(
            span=span,
            variable=first.variable,
            attribute=first.attribute,
            anchor=ANCHORS[function],
        )
    if function == "COUNT":
        if isinstance(first, tree.Literal) and first.value is not None:
            return tree.Aggregate(span=span, function=AGGREGATES[function])
        if each and isinstance(first, tree.Attribute):
            # Only situations count the values of an attribute; the query's builder knows.
            return tree.Aggregate(
                span=span,
                function=AGGREGATES[function],
                variable=first.variable,
                attribute=first.attribute,
            )
        if not isinstance(first, tree.Word):
            return _aggregate_of(c, arguments)
        name = tree.Name(span=first.span, text=first.text)
        return tree.Aggregate(span=span, function=AGGREGATES[function], variable=name)
    if function in AGGREGATES:
        if not each or not isinstance(first, tree.Attribute):
            return _aggregate_of(c, arguments)
        return tree.Aggregate(
            span=span,
            function=AGGREGATES[function],
            variable=first.variable,
            attribute=first.attribute,
        )
    return tree.Call(span=span, function=ALIASES.get(function, function), arguments=arguments)


def _reject_anchor(function: str, span: Span) -> NoReturn:
    message = f"`{function}` takes one variable and is followed by an attribute"
    relative = f"in the condition of a situation write `{function}(price)`"
    helps = [f"write `{function}(S).price`", *([relative] if function in OF_SITUATIONS else [])]
    reject("E111", message, span, *helps)


def _aggregate_of(c: Children[Child], arguments: tuple[Any, ...]) -> tree.Call:
    """Return an aggregate of values, which SELECT knows and other queries reject."""
    return tree.Call(span=span_of(c), function=str(c[0]).upper(), arguments=arguments)


def reject_distinct(query: tree.Node) -> None:
    """Leave the parser if a query without trends counts the keys that have a match (§5.6)."""
    for node in tree.walk(query):
        if isinstance(node, tree.Aggregate) and node.distinct:
            message = "`COUNT(DISTINCT ...)` counts the keys that have a match of a `PATTERN`"
            help_ = "group by the attribute, and count the rows after"
            reject("E111", message, node.span, help_)


def reject_aggregates_of_values(query: tree.Node) -> None:
    """Leave the parser if an aggregate is of anything but a variable or its attribute."""
    for node in tree.walk(query):
        if isinstance(node, tree.Call) and node.function in OF_SITUATIONS:
            _reject_anchor(node.function, node.span)
        if not isinstance(node, tree.Call) or node.function not in AGGREGATES:
            continue
        function = node.function
        if function == "COUNT":
            reject("E111", "`COUNT` takes `*` or a variable", node.span, COUNT_HELP)
        first = node.arguments[0] if len(node.arguments) == 1 else None
        word = first.text if isinstance(first, tree.Word) else "price"
        reject(
            "E111",
            f"`{function}` takes an attribute of a variable",
            node.span,
            f"write `{function}(S.{word})`, with S a variable of the pattern",
        )
