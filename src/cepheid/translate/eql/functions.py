"""Calls of EQL's functions in, texts of the language out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cepheid.expressions.format import format_literal
from cepheid.translate.eql import tree
from cepheid.translate.eql.list_tests import write_list_test
from cepheid.translate.eql.lists import exactly, searched
from cepheid.translate.eql.values import Value, WrongTypesError
from cepheid.translate.translated import CannotTranslateError

if TYPE_CHECKING:
    from cepheid.translate.eql.expressions import Writer

Arguments = Sequence[tree.Expression]
Function = Callable[["Writer", tree.Call], Value]

DECIMAL = 10
"""The base of numbers."""

_ARITHMETIC = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "modulo": "%"}


def write_call(writer: Writer, call: tree.Call) -> Value:
    """Write a call."""
    name = call.name.lower()
    if name in _ARITHMETIC:
        left, right = (writer.value(one) for one in _take(call, 2, 2))
        return writer.arithmetic(_ARITHMETIC[name], left, right)
    listed = write_list_test(writer, call)
    if listed is not None:
        return Value(listed, "boolean")
    if name not in _FUNCTIONS:
        message = f"the function `{call.name}` has no counterpart"
        raise CannotTranslateError(message)
    function, least, most = _FUNCTIONS[name]
    _take(call, least, most)
    meant = tree.Call(call.name, call.arguments, call.any_case or writer.ignores_case)
    return function(writer, meant)


def _take(call: tree.Call, least: int, most: int) -> Arguments:
    if not least <= len(call.arguments) <= most:
        message = f"`{call.name}` has {len(call.arguments)} arguments"
        raise CannotTranslateError(message)
    return call.arguments


def _texts(writer: Writer, arguments: Arguments, call: tree.Call) -> list[Value]:
    found = [writer.text(one) for one in arguments]
    return [writer.lower(one) for one in found] if call.any_case else found


def _length(writer: Writer, call: tree.Call) -> Value:
    listed = writer.list_of(call.arguments[0])
    if listed is not None and writer.any_of_list(call.arguments[0]):
        message = "`length` of a list is of each of its texts, and is compared with whole numbers"
        raise CannotTranslateError(message)
    if listed is not None and listed.place is None:
        return Value(f"CARDINALITY({listed.column})", "integer")
    value = writer.value(call.arguments[0])
    if value.kind in ("integer", "double"):
        return Value("NULL", "null")  # A number has no length.
    return Value(f"LENGTH({writer.text(call.arguments[0]).text})", "integer")


def _constant(expression: tree.Expression) -> str | None:
    value = expression.value if isinstance(expression, tree.Literal) else None
    return value if isinstance(value, str) else None


def _starts(writer: Writer, call: tree.Call) -> Value:
    text, start = _texts(writer, call.arguments, call)
    return Value(f"STARTS_WITH({text.text}, {start.text})", "boolean")


def _ends(writer: Writer, call: tree.Call) -> Value:
    text, end = (one.text for one in _texts(writer, call.arguments, call))
    constant = _constant(call.arguments[1])
    if constant is not None:
        return _like(text, "%", constant, "", any_case=call.any_case)
    return Value(f"(LENGTH({end}) = 0 OR SUBSTRING({text}, -LENGTH({end})) = {end})", "boolean")


def _contains(writer: Writer, call: tree.Call) -> Value:
    text, part = (one.text for one in _texts(writer, call.arguments, call))
    constant = _constant(call.arguments[1])
    if constant is not None:
        return _like(text, "%", constant, "%", any_case=call.any_case)
    shorter = f"LENGTH(REPLACE({text}, {part}, '')) < LENGTH({text})"
    return Value(f"(LENGTH({part}) = 0 OR {shorter})", "boolean")


def _like(text: str, before: str, constant: str, after: str, *, any_case: bool) -> Value:
    plain = constant.lower() if any_case else constant
    for letter in "\\%_":
        plain = plain.replace(letter, f"\\{letter}")
    return Value(f"({text} LIKE {format_literal(before + plain + after)})", "boolean")


def _wildcard(writer: Writer, call: tree.Call) -> Value:
    tests = []
    for one in call.arguments[1:]:
        constant = _constant(one)
        if constant is None:
            message = "`wildcard` takes texts"
            raise CannotTranslateError(message)
        tests.append(writer.like(call.arguments[0], constant, any_case=call.any_case))
    return Value(f"({' OR '.join(tests)})", "boolean")


def _concat(writer: Writer, call: tree.Call) -> Value:
    parts = []
    for one in call.arguments:
        value = writer.value(one)
        parts.append(value.text if value.kind == "text" else f"CAST({value.text} AS STRING)")
    return Value(f"CONCAT({', '.join(parts)})", "text")


def _string(writer: Writer, call: tree.Call) -> Value:
    return _concat(writer, call)


def _number(writer: Writer, call: tree.Call) -> Value:
    given = call.arguments[1] if len(call.arguments) > 1 else tree.Literal(DECIMAL)
    base = given.value if isinstance(given, tree.Literal) else ""
    base = DECIMAL if base is None else base
    constant = _constant(call.arguments[0])
    if constant is not None and isinstance(base, int):
        try:
            return Value(str(int(constant, base)), "integer")
        except ValueError:
            message = f"`{constant}` is no number"
            raise CannotTranslateError(message) from None
    if base != DECIMAL:
        message = "`number` of a field with a base has no counterpart"
        raise CannotTranslateError(message)
    return Value(f"TRY_CAST({writer.text(call.arguments[0]).text} AS DOUBLE)", "double")


def _substring(writer: Writer, call: tree.Call) -> Value:
    """Write a part from a place, 0 for the first letter, up to another; both may be negative."""
    text = writer.text(call.arguments[0]).text
    places = [one.value if isinstance(one, tree.Literal) else "" for one in call.arguments[1:]]
    start, end = places[0], places[1] if len(places) > 1 else None
    if not isinstance(start, int) or not isinstance(end, int | None):
        return _part(writer, text, call.arguments[1:])
    first = start + 1 if start >= 0 else start
    if end is None:
        return Value(f"SUBSTRING({text}, {first})", "text")
    if (start < 0) == (end < 0):
        return Value(f"SUBSTRING({text}, {first}, {max(end - start, 0)})", "text")
    if start < 0:
        message = "`substring` from a place before the end to one after the beginning has no "
        raise CannotTranslateError(message + "counterpart")
    return Value(f"SUBSTRING({text}, {first}, LENGTH({text}) - {start - end})", "text")


def _part(writer: Writer, text: str, arguments: Arguments) -> Value:
    """Write a part between places that are computed; negative ones count from the end."""
    length = f"LENGTH({text})"
    places = []
    for one in arguments:
        if isinstance(one, tree.Literal) and isinstance(one.value, int):
            number = one.value
            places.append(str(number) if number >= 0 else f"GREATEST({length} - {-number}, 0)")
            continue
        value = writer.value(one)
        if value.kind != "integer":
            message = "`substring` takes places that are whole numbers"
            raise CannotTranslateError(message)
        counted = f"GREATEST({value.text} + {length}, 0)"
        places.append(f"(CASE WHEN {value.text} < 0 THEN {counted} ELSE {value.text} END)")
    start, end = places[0], places[1] if len(places) > 1 else length
    return Value(f"SUBSTRING({text}, {start} + 1, GREATEST({end} - {start}, 0))", "text")


_FALSE, _TRUE = tree.Literal(value=False), tree.Literal(value=True)


def _index_of(writer: Writer, call: tree.Call) -> Value:
    """Write the place of a part from a place on, 0 for the first letter; NULL if there is none."""
    text, part = (one.text for one in _texts(writer, call.arguments[:2], call))
    given = call.arguments[2] if len(call.arguments) > 2 else tree.Literal(None)
    start = (given.value or 0) if isinstance(given, tree.Literal) else None
    _need_constant(call, 1)
    if not isinstance(start, int) or start < 0:
        message = "`indexOf` from a place that is no constant has no counterpart"
        raise CannotTranslateError(message)
    begin = f", {start + 1}" if start else ""
    return Value(f"(NULLIF(LOCATE({part}, {text}{begin}), 0) - 1)", "integer")


def _between(writer: Writer, call: tree.Call) -> Value:
    """Write the text between a part and the first other part after it, or the last one."""
    _need_constant(call, 1)
    _need_constant(call, 2)
    greedy = call.arguments[3] if len(call.arguments) > 3 else _FALSE
    if greedy not in (_FALSE, _TRUE):
        message = "`between` with a choice of the first or last part that is no constant has no "
        raise CannotTranslateError(message + "counterpart")
    text, left, right = _texts(writer, call.arguments[:3], call)
    begin = f"LOCATE({left.text}, {text.text})"
    after = f"({begin} + LENGTH({left.text}))"
    end = f"LOCATE({right.text}, {text.text}, {after})"
    if greedy == _TRUE:
        # The last part is the first one from behind; only if it comes after the other is there one.
        last = f"LOCATE(REVERSE({right.text}), REVERSE({text.text}))"
        end = f"(LENGTH({text.text}) - LENGTH({right.text}) + 2 - {last})"
        plain = writer.text(call.arguments[0]).text
        found = f"SUBSTRING({plain}, {after}, {end} - {after})"
        holds = f"{begin} > 0 AND {last} > 0 AND {end} >= {after}"
        return Value(f"(CASE WHEN {holds} THEN {found} END)", "text")
    plain = writer.text(call.arguments[0]).text
    found = f"SUBSTRING({plain}, {after}, {end} - {after})"
    return Value(f"(CASE WHEN {begin} > 0 AND {end} > 0 THEN {found} END)", "text")


def _array_contains(writer: Writer, call: tree.Call) -> Value:
    """Write that one of some texts is in a list."""
    for place in range(1, len(call.arguments)):
        _need_constant(call, place)
    texts = [exactly(str(_constant(one))) for one in call.arguments[1:]]
    return Value(writer.in_list(call.arguments[0], texts, any_case=call.any_case), "boolean")


def _array_search(writer: Writer, call: tree.Call) -> Value:
    """Write that a text of a list meets a condition, which is on a name for it."""
    name = call.arguments[1]
    if not isinstance(name, tree.Field) or name.places:
        message = "`arraySearch` without a name for the texts of the list cannot be read"
        raise CannotTranslateError(message)
    texts = searched(call.arguments[2], name.name, wildcards=writer.has_wildcards)
    return Value(writer.in_list(call.arguments[0], texts, any_case=call.any_case), "boolean")


def _safe(writer: Writer, call: tree.Call) -> Value:
    """Write a value that is missing where it cannot be computed: of other types than it takes."""
    try:
        return writer.value(call.arguments[0])
    except WrongTypesError:
        return Value("NULL", "null")


def _need_constant(call: tree.Call, place: int) -> None:
    if not _constant(call.arguments[place]):
        message = f"`{call.name}` of a text that is no constant has no counterpart"
        raise CannotTranslateError(message)


def _match(writer: Writer, call: tree.Call) -> Value:
    tests = [
        writer.regex(call.arguments[0], one, any_case=call.any_case, whole=False)
        for one in call.arguments[1:]
    ]
    return Value(f"({' OR '.join(tests)})", "boolean")


def _in_network(writer: Writer, call: tree.Call) -> Value:
    address = writer.text(call.arguments[0]).text
    for place in range(1, len(call.arguments)):
        _need_constant(call, place)
    networks = [writer.text(one).text for one in call.arguments[1:]]
    tests = [f"IN_NETWORK({address}, {network})" for network in networks]
    return Value(f"({' OR '.join(tests)})", "boolean")


_MANY = 1_000
_FUNCTIONS: dict[str, tuple[Function, int, int]] = {
    "length": (_length, 1, 1),
    "startswith": (_starts, 2, 2),
    "endswith": (_ends, 2, 2),
    "stringcontains": (_contains, 2, 2),
    "wildcard": (_wildcard, 2, _MANY),
    "concat": (_concat, 1, _MANY),
    "string": (_string, 1, 1),
    "number": (_number, 1, 2),
    "substring": (_substring, 2, 3),
    "indexof": (_index_of, 2, 3),
    "between": (_between, 3, 4),
    "match": (_match, 2, _MANY),
    "matchlite": (_match, 2, _MANY),
    "cidrmatch": (_in_network, 2, _MANY),
    "safe": (_safe, 1, 1),
    "arraycontains": (_array_contains, 2, _MANY),
    "arraysearch": (_array_search, 3, 3),
}
