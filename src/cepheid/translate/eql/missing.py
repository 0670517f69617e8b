"""Conditions in, whether an index of Elasticsearch answers them out.

An index finds the events that have a value, so an event that lacks the field does not meet the
condition, and meets its opposite. Other conditions are computed: with a missing value they are
neither true nor false, and so are their opposites. Bounds are turned around instead of negated, so
an event without the field meets neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from cepheid.translate.eql import tree

_FOUND = ("cidrmatch", "startswith")
"""Functions that are looked up, and not computed."""


def is_looked_up(condition: tree.Expression) -> bool:
    """Check whether a condition consists of comparisons that an index answers, without NOT.

    Examples
    --------
    >>> from cepheid.translate.eql.parser import parse_eql
    >>> def looked_up(text):
    ...     return is_looked_up(parse_eql(f"any where {text}").source.condition)
    >>> looked_up('a : "x*" or b == 1'), looked_up("a > 1"), looked_up("a == b")
    (True, False, False)
    """
    match condition:
        case tree.Logic(operands=operands):
            return all(map(is_looked_up, operands))
        case tree.Binary(operator="==", left=left, right=right):
            return _is_found(left, (right,)) or _is_found(right, (left,))
        case tree.OneOf(operand=operand, items=items):
            return _is_found(operand, items)
        case tree.Call(name=name, arguments=(operand, *items)) if name.lower() in _FOUND:
            return _is_found(operand, tuple(items))
        case tree.Field(places=()):
            return True
    return False


def optional_fields(condition: tree.Expression) -> Iterator[str]:
    """Yield the fields of a condition that may be missing from the mapping."""
    match condition:
        case tree.Field(name=name, optional=True):
            yield name
        case tree.Logic(operands=operands):
            yield from chain.from_iterable(map(optional_fields, operands))
        case tree.Binary(left=left, right=right):
            yield from chain(optional_fields(left), optional_fields(right))
        case tree.OneOf(operand=operand):
            yield from optional_fields(operand)
        case tree.Call(arguments=arguments):
            yield from chain.from_iterable(map(optional_fields, arguments))


def _is_found(operand: tree.Expression, items: tuple[tree.Expression, ...]) -> bool:
    """Check whether a field, or what is looked up itself, is compared with constants.

    Missing values are compared with null, which has an answer of its own.
    """
    if any(not isinstance(one, tree.Literal) or one.value is None for one in items):
        return False
    if isinstance(operand, tree.Call):
        return is_looked_up(operand)
    return isinstance(operand, tree.Field) and not operand.places
