"""Plan variances and standard deviations: read what they speak of, and check it (§5.7)."""

from __future__ import annotations

from cepheid.events.schema import NUMERIC, ValueKind
from cepheid.expressions.format import format_expression
from cepheid.kinds.trend.planning.surveys import value_of_match
from cepheid.language import tree
from cepheid.patterns.scope import Scope
from cepheid.plans.spread import EACH, Spread, SpreadFunction
from cepheid.plans.survey import MatchValue

SPREADS = {
    "VAR": SpreadFunction.VAR,
    "VARIANCE": SpreadFunction.VAR,
    "VAR_SAMP": SpreadFunction.VAR,
    "VAR_POP": SpreadFunction.VAR_POP,
    "STDDEV": SpreadFunction.STDDEV,
    "STDDEV_SAMP": SpreadFunction.STDDEV,
    "STDDEV_POP": SpreadFunction.STDDEV_POP,
}


def is_spread(node: tree.Node) -> bool:
    """Check whether an expression is a variance or a standard deviation."""
    return isinstance(node, tree.Call) and node.function in SPREADS


def plan_spread(call: tree.Call, scope: Scope) -> Spread | None:
    """Plan a variance or a standard deviation; report what it cannot speak of (E362)."""
    function, text = SPREADS[call.function], format_expression(call)
    value = _value(call.arguments[0], scope) if len(call.arguments) == 1 else None
    if value is None:
        message = f"`{text}` is not what `{call.function}` takes"
        help_ = f"write `{call.function}(LENGTH)`, of DURATION, COUNT(S), SUM(S.x) or S.x"
        scope.findings.add("E362", message, call.span, help_)
        return None
    shown = format_expression(call.arguments[0])
    return Spread(f"{function.value}({shown})", function, value)


def _value(argument: tree.Expression, scope: Scope) -> MatchValue | None:
    if not isinstance(argument, tree.Attribute):
        return value_of_match(argument, scope)
    if argument.anchor is not tree.Anchor.EACH:
        return None
    scope.positive(argument.variable)
    kind = scope.attribute_kind(argument.attribute, argument.variable.text)
    if kind not in NUMERIC | {ValueKind.DURATION, ValueKind.UNKNOWN}:
        message = f"a variance is one of numbers, and `{format_expression(argument)}` is of kind "
        scope.findings.add("E206", message + kind.value, argument.span)
    return MatchValue(EACH, argument.variable.text, argument.attribute.text)
