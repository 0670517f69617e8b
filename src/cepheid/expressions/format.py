"""Expression in, canonical text out, with parentheses only where the grammar needs them."""

from __future__ import annotations

import re

from cepheid.events.temporal import format_duration
from cepheid.expressions import tree

KEYWORDS = frozenset(
    [
        "RETURN",
        "MATCHES",
        "AS",
        "PATTERN",
        "SEQ",
        "ANY",
        "DISTINCT",
        "NEXT",
        "GREEDY",
        "RELUCTANT",
        "SEMANTICS",
        "TO",
        "STEP",
        "SWEEP",
        "UNTIL",
        "WITHOUT",
        "WHERE",
        "AND",
        "OR",
        "NOT",
        "IN",
        "BETWEEN",
        "IS",
        "NULL",
        "LIKE",
        "TRUE",
        "FALSE",
        "GROUP_BY",
        "HAVING",
        "WITHIN",
        "SLIDE",
        "EVENTS",
        "EMIT",
        "ON",
        "EXPIRY",
        "EARLY",
        "TIES",
        "NUMBERS",
        "MIN_LENGTH",
        "LIMIT",
        "AFTER_MATCH_SKIP",
        "FROM",
        "PARTITION_BY",
        "DEFINE",
        "AT_LEAST",
        "AT_MOST",
        "SITUATIONS",
        "DETECTED",
        "SELECT",
        "JOIN",
        "WINDOW",
    ]
)
"""The words of the language; a name that is one of them stands between backquotes."""

INNER_KEYWORDS = frozenset(["CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "SESSION", "FILTER"])
"""Words that are keywords only where no name can stand, so that names may be called so."""

_PLAIN_NAME = re.compile(r"(?!\d)\w+")

# How tightly an expression binds; an operand that binds less needs parentheses.
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _UNARY, _PRIMARY = range(8)
_ARITHMETIC = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}


def format_name(text: str) -> str:
    """Return a name, between backquotes where it would not read back as a name.

    Examples
    --------
    >>> format_name("price"), format_name("order id"), format_name("where")
    ('price', '`order id`', '`where`')
    """
    if _PLAIN_NAME.fullmatch(text) and text.upper() not in KEYWORDS | {
        "MIN",
        "GROUP",
        "AT",
        "PARTITION",
    }:
        return text
    return f"`{text.replace('`', '``')}`"


def format_path(text: str) -> str:
    """Return an attribute that may be a field of a structure, or have an alias before it."""
    parts = text.split(".")
    if all(_PLAIN_NAME.fullmatch(part) for part in parts):
        return ".".join(format_name(part) for part in parts)
    # A name between backquotes may hold the dots of a path, and parts that are no names.
    return format_name(text)


def format_expression(expression: tree.Expression, binding: int = _OR) -> str:
    """Return the text of an expression, in parentheses if it binds less than ``binding``."""
    text, own = _expression_and_binding(expression)
    return text if own >= binding else f"({text})"


def _expression_and_binding(expression: tree.Expression) -> tuple[str, int]:
    match expression:
        case tree.Logical(operator=operator, operands=operands):
            # AND inside AND keeps its parentheses, so the tree reads back with the same shape.
            own = _AND if operator == "AND" else _OR
            return f" {operator} ".join(format_expression(o, own + 1) for o in operands), own
        case tree.Unary(operator="NOT", operand=operand):
            return f"NOT {format_expression(operand, _NOT)}", _NOT
        case tree.Unary(operand=operand):
            # A sign before a literal would become part of it, and two signs a comment.
            bare = isinstance(operand, tree.Literal | tree.Unary)
            return f"-{format_expression(operand, _PRIMARY + bare)}", _UNARY
        case tree.Binary(operator=operator, left=left, right=right):
            own = _ARITHMETIC.get(operator, _COMPARISON)
            # Comparisons do not chain, arithmetic groups to the left.
            first = format_expression(left, own if operator in _ARITHMETIC else _SUM)
            return f"{first} {operator} {format_expression(right, own + 1)}", own
        case tree.IsNull() | tree.InList() | tree.Between() | tree.Like():
            return _format_test(expression), _COMPARISON
        case _:
            return _format_primary(expression), _PRIMARY


def _format_test(test: tree.IsNull | tree.InList | tree.Between | tree.Like) -> str:
    operand = format_expression(test.operand, _SUM)
    no = "NOT " if test.negated else ""
    match test:
        case tree.IsNull():
            return f"{operand} IS {no}NULL"
        case tree.InList(items=items):
            return f"{operand} {no}IN ({', '.join(format_expression(i) for i in items)})"
        case tree.Between(low=low, high=high):
            ends = f"{format_expression(low, _SUM)} AND {format_expression(high, _SUM)}"
            return f"{operand} {no}BETWEEN {ends}"
        case tree.Like(pattern=pattern):
            return f"{operand} {no}LIKE {format_expression(pattern, _SUM)}"


def as_written(expression: tree.Expression) -> str:
    """Return an expression as the query has it, or else as the language writes it.

    Examples
    --------
    >>> from cepheid.language.parser import parse
    >>> as_written(parse("PATTERN A WHERE  A.x*2 > 5").where)
    'A.x*2 > 5'
    """
    return expression.span.text or format_expression(expression)


def _format_primary(expression: tree.Expression) -> str:
    match expression:
        case tree.Literal(value=value, digits=digits):
            return digits or format_literal(value)
        case tree.Duration(microseconds=microseconds):
            return format_duration(microseconds)
        case tree.Word(text=text):
            return format_name(text)
        case tree.Attribute(variable=variable, attribute=attribute, anchor=anchor):
            path = format_path(attribute.text)
            if not variable.text:
                # Conditions on single events have no variables.
                return path
            name = format_name(variable.text)
            owner = name if anchor is tree.Anchor.EACH else f"{anchor.value}({name})"
            return f"{owner}.{path}"
        case tree.Aggregate(distinct=names) if names:
            return f"COUNT(DISTINCT {', '.join(format_path(name.text) for name in names)})"
        case tree.Aggregate(function=function, variable=None):
            return f"{function.value}(*)"
        case tree.Aggregate(function=function, variable=tree.Name(text=text), attribute=attribute):
            path = f".{format_path(attribute.text)}" if attribute else ""
            return f"{function.value}({format_name(text)}{path})"
        case tree.Call(function=function, arguments=arguments):
            return f"{format_name(function)}({', '.join(format_expression(a) for a in arguments)})"
        case tree.Case():
            return _format_case(expression)
        case tree.Cast(operand=operand, type_name=name, lenient=lenient):
            inner = ", ".join(map(str, expression.parameters))
            kind = f"{name}({inner})" if inner else name
            return f"{'TRY_' if lenient else ''}CAST({format_expression(operand)} AS {kind})"
        case tree.Equivalence(items=items):
            return f"[{', '.join(_format_item(item) for item in items)}]"
        case tree.Sweep():
            return _format_sweep(expression)
        case _:
            message = f"{type(expression).__name__} is no primary expression"
            raise AssertionError(message)


def _format_case(case: tree.Case) -> str:
    whens = [
        f"WHEN {format_expression(condition)} THEN {format_expression(result)}"
        for condition, result in zip(case.conditions, case.results, strict=True)
    ]
    default = case.default
    if not isinstance(default, tree.Literal) or default.value is not None:
        whens.append(f"ELSE {format_expression(default)}")
    return f"CASE {' '.join(whens)} END"


def _format_sweep(sweep: tree.Sweep) -> str:
    name = f" {format_name(sweep.name.text)} " if sweep.name else ""
    values = [format_expression(value) for value in sweep.values]
    if sweep.step is None:
        return f"SWEEP{name}({', '.join(values)})"
    return f"SWEEP{name}({' TO '.join(values)} STEP {format_expression(sweep.step)})"


def _format_item(item: tree.EquivalenceItem) -> str:
    variable = f"{format_name(item.variable.text)}." if item.variable else ""
    path = format_path(item.attribute.text) if item.variable else format_name(item.attribute.text)
    return variable + path


def format_literal(value: bool | int | float | str | None) -> str:  # noqa: FBT001  # it is the value
    """Return a constant as the language writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return f"'{value.replace(chr(39), chr(39) * 2)}'"
    return repr(value)
