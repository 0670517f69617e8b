"""Conditions of EQL on lists of texts in, regular expressions over the joined texts out.

The texts of a list are joined by a mark that none of them has, so that a regular expression finds
one of them, or the one at a place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cepheid.expressions.format import format_literal
from cepheid.translate.eql import tree
from cepheid.translate.eql.regexes import escaped, lucene
from cepheid.translate.translated import CannotTranslateError

MARK, MISSING = "\u241f", "\u2400"
_ONE = f"[^{MARK}{MISSING}]"

REPEATS_MAX = 1000
"""The largest number of repeats that RE2 takes."""


def list_note(column: str) -> str:
    """Say what is taken for granted of the texts of a list."""
    return f"no text of `{column}` has the letter {MARK} or {MISSING} in it"


def list_condition(
    column: str, texts: Iterable[str], *, any_case: bool, place: int | None = None
) -> str:
    """Write that a text of a list, or the one at a place, fits one of some regular expressions."""
    joined = f"ARRAY_JOIN({column}, {format_literal(MARK)}, {format_literal(MISSING)})"
    begin = f"(?:\\A|{MARK})" if place is None else f"\\A(?:[^{MARK}]*{MARK}){{{place}}}"

    def fits(flags: str, pattern: str) -> str:
        return f"REGEX_MATCH({joined}, {format_literal(f'(?{flags}){begin}{pattern}')})"

    found = fits("is" if any_case else "s", f"(?:{'|'.join(texts)})(?:{MARK}|\\z)")
    if place is None:
        return f"(CARDINALITY({column}) > 0 AND {found})"
    # A comparison with a place that the list does not have is neither true nor false.
    there = f"CARDINALITY({column}) > {place} AND NOT {fits('s', MISSING)}"
    return f"(CASE WHEN {there} THEN {found} END)"


def exactly(text: str) -> str:
    """Write a text as a regular expression."""
    _check(text)
    return "".join(map(escaped, text))


def wildcard(text: str, one: str) -> str:
    r"""Write a wildcard as a regular expression; ``one`` stands for a letter.

    Examples
    --------
    >>> wildcard("a.*?", "?") == f"a\\.{_ONE}*{_ONE}"
    True
    """
    meant = {"*": f"{_ONE}*"} | ({one: _ONE} if one else {})
    return "".join(meant.get(letter) or exactly(letter) for letter in text)


def regex(pattern: str) -> str:
    """Write a regular expression of Lucene for a text of a list."""
    _check(pattern)
    return lucene(pattern, MARK + MISSING)


def of_length(operator: str, length: int) -> list[str]:
    """Write texts whose length compares so with a number as regular expressions."""
    bounds: dict[str, list[tuple[int, int | None]]] = {
        "==": [(length, length)],
        "!=": [(0, length - 1), (length + 1, None)],
        "<": [(0, length - 1)],
        "<=": [(0, length)],
        ">": [(length + 1, None)],
        ">=": [(length, None)],
    }
    found: list[str] = []
    for least, most in bounds[operator]:
        if most is not None and most < 0:
            continue
        least = max(least, 0)
        if max(least, most or 0) > REPEATS_MAX:
            message = f"a length of more than {REPEATS_MAX} letters of a text of a list has no "
            raise CannotTranslateError(message + "counterpart")
        found.append(f"{_ONE}{{{least},{'' if most is None else most}}}")
    return found


def called(call: tree.Call, one: str) -> list[str]:
    """Write what a function asks of a text as regular expressions; none if it cannot be.

    ``one`` stands for a letter in wildcards.
    """
    name = call.name.lower()
    if name not in _FORMS:
        return []
    texts = _texts(call.arguments[1:])
    if name == "wildcard":
        return [wildcard(text, one) for text in texts]
    return [_FORMS[name](text) for text in texts]


def searched(condition: tree.Expression, variable: str, *, wildcards: bool) -> list[str]:
    """Write what ``arraySearch`` asks of a text of the list as regular expressions."""
    match condition:
        case tree.Binary(operator="==", left=left, right=tree.Literal(value=str(text))):
            found = [wildcard(text, "") if wildcards else exactly(text)]
        case tree.OneOf(operator="in", operand=left, items=items):
            found = [exactly(text) for text in _texts(items)]
        case tree.Call(arguments=(left, *_)):
            found = called(condition, "")
        case _:
            left, found = condition, []
    if not found or left != tree.Field(variable):
        message = "`arraySearch` with a condition other than on the texts of a list has no "
        raise CannotTranslateError(message + "counterpart")
    return found


_FORMS: dict[str, Callable[[str], str]] = {
    "startswith": lambda text: f"{exactly(text)}{_ONE}*",
    "endswith": lambda text: f"{_ONE}*{exactly(text)}",
    "stringcontains": lambda text: f"{_ONE}*{exactly(text)}{_ONE}*",
    "wildcard": lambda text: wildcard(text, ""),
}


def _texts(items: Iterable[tree.Expression]) -> list[str]:
    """Return constants that are texts; none if one is not."""
    values = [one.value if isinstance(one, tree.Literal) else None for one in items]
    texts = [value for value in values if isinstance(value, str)]
    return texts if len(texts) == len(values) else []


def _check(text: str) -> None:
    if MARK in text or MISSING in text:
        message = f"a text with `{MARK}` or `{MISSING}` in a condition on a list has no counterpart"
        raise CannotTranslateError(message)
