"""Parameters of rules: ``{limit}`` in a query, and the literals that take its place.

Values are numbers, texts and booleans. They become literals of the language before it is parsed,
and only where a mark may stand: what a comment or a text has in braces stays as it is. Nothing that
a value holds can become anything else than one literal.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from cepheid.errors import DataError, Diagnostic, Span, suggest_names
from cepheid.expressions.format import format_literal
from cepheid.language.lexer import TOKEN

Parameters = tuple[tuple[str, tuple[str, ...]], ...]
"""Names, each with the literals that it stands for."""

VARIANTS_MAX = 1_000
"""Variants of one rule; each is a query of its own."""

_HOLE = re.compile(r"\{\s*([^\W\d]\w*)\s*\}")
_NAME = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_RANGE = re.compile(r"([+-]?\d+(?:\.\d+)?)\.\.([+-]?\d+(?:\.\d+)?)(?::(\d+(?:\.\d+)?))?")
_VALUES = re.compile(r"""\s*('(?:[^']|'')*'|"(?:[^"]|"")*"|[^,;'"]*)\s*(,|;|$)""")


class Variant(NamedTuple):
    """A rule with a literal in the place of each of its parameters."""

    name: str
    query: str
    values: tuple[tuple[str, str], ...] = ()


def read_parameters(given: Any) -> Parameters:
    """Read the values of parameters, from a mapping or a text such as ``limit=1,2; side='B'``.

    Raises
    ------
    ValueError
        If a value is none, or there are too many.

    Examples
    --------
    >>> read_parameters({"limit": "1..5:2", "side": ["B", True]})
    (('limit', ('1', '3', '5')), ('side', ("'B'", 'TRUE')))
    >>> read_parameters("limit=1,-2.5; side=B,'1'")
    (('limit', ('1', '(-2.5)')), ('side', ("'B'", "'1'")))
    """
    if given is None:
        return ()
    if isinstance(given, str):
        return _read_text(given)
    if not isinstance(given, Mapping):
        message = "they are names with values"
        raise ValueError(message)  # noqa: TRY004  # a caller catches one exception
    found = []
    for name, value in given.items():
        values = value if isinstance(value, list | tuple) else [value]
        found.append((_name(name), _whole(one for part in values for one in _literals(part))))
    return tuple(found)


def _read_text(text: str) -> Parameters:
    found: dict[str, tuple[str, ...]] = {}
    offset = 0
    while text[offset:].strip():
        name, equal, _ = text[offset:].partition("=")
        if not equal:
            message = f"`{text[offset:].strip()}` has no `=`"
            raise ValueError(message)
        offset += len(name) + 1
        values: list[str] = []
        end = ","
        while end == ",":
            match = _VALUES.match(text, offset)
            if match is None or not match[1].strip():
                message = f"`{name.strip()}` has an empty value, or a quote that does not end"
                raise ValueError(message)
            values += _words(match[1].strip())
            offset, end = match.end(), match[2]
        found[_name(name.strip())] = _whole(values)
    return tuple(found.items())


def _words(word: str) -> Iterator[str]:
    """Yield the literals of one value of a text: in quotes it is a text, whatever it looks like."""
    if word[0] in "'\"":
        quote = word[0]
        yield format_literal(word[1:-1].replace(quote * 2, quote))
    elif _NUMBER.fullmatch(word):
        yield _signed(word)
    else:
        yield from _literals({"true": True, "false": False}.get(word.lower(), word))


def _literals(value: Any) -> Iterator[str]:
    """Yield the literals of one value; a text may be a range of numbers."""
    if isinstance(value, bool):
        yield format_literal(value)
    elif isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        yield _signed(repr(value))
    elif isinstance(value, str):
        match = _RANGE.fullmatch(value.strip())
        if match is None:
            yield format_literal(value)
        else:
            yield from _steps(*match.groups(default="1"))
    else:
        message = f"`{value}` is no number, text or boolean"
        raise ValueError(message)


def _signed(number: str) -> str:
    """Write a number; after another minus, a sign without parentheses would begin a comment."""
    return f"({number})" if number.startswith("-") else number.removeprefix("+")


def _steps(first: str, last: str, step: str) -> Iterator[str]:
    low, high, by = Decimal(first), Decimal(last), Decimal(step)
    if not by or high < low:
        message = f"the range `{first}..{last}:{step}` has no values"
        raise ValueError(message)
    count = int((high - low) / by) + 1
    if count > VARIANTS_MAX:
        message = f"the range `{first}..{last}:{step}` has {count:,} values, and at most "
        message += f"{VARIANTS_MAX:,} are tried"
        raise ValueError(message)
    for place in range(count):
        yield _signed(f"{low + place * by:f}")


def _whole(values: Iterable[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(values))
    if not found:
        message = "a parameter has no values"
        raise ValueError(message)
    return found


def _name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        message = f"`{name}` is no name: use letters, digits and _"
        raise ValueError(message)
    return name


def holes_in(text: str) -> Iterator[tuple[str, Span]]:
    """Yield the parameters of a query with their places, outside of texts and comments.

    Examples
    --------
    >>> [name for name, _ in holes_in("PATTERN A{2} WHERE A.x > {x} AND A.y = '{y}' -- {z}")]
    ['x']
    """
    offset = 0 if "{" in text else len(text)
    while offset < len(text):
        hole = _HOLE.match(text, offset)
        if hole is not None:
            yield hole[1], Span(offset, hole.end())
            offset = hole.end()
            continue
        token = TOKEN.match(text, offset)
        offset = token.end() if token is not None else offset + 1


def variants_of(name: str, query: str, parameters: Parameters) -> list[Variant]:
    """Make a query for every combination of the values of its parameters.

    Raises
    ------
    DataError
        E534 if a parameter has no value, is not in the query, or there are too many variants.

    Examples
    --------
    >>> [v.name for v in variants_of("big", "... > {x}", (("x", ("1", "2")),))]
    ['big[x=1]', 'big[x=2]']
    """
    holes = list(holes_in(query))
    known, values = {hole for hole, _ in holes}, dict(parameters)
    wrong = [_no_value(hole, span) for hole, span in holes if hole not in values]
    for one in sorted(values.keys() - known):
        help_ = suggest_names(one, known, owner="the query") or f"write `{{{one}}}` in the query"
        message = f"the rule `{name}` has values for `{one}`, which is not in its query"
        wrong.append(Diagnostic("E534", message, helps=(help_,)))
    count = math.prod(map(len, values.values()))
    if count > VARIANTS_MAX:
        message = f"the rule `{name}` has {count:,} variants, more than {VARIANTS_MAX:,}"
        wrong.append(Diagnostic("E534", message, helps=("use fewer values, or longer steps",)))
    if wrong:
        raise DataError(wrong, query, file=name)
    names = list(values)
    found = []
    for chosen in itertools.product(*values.values()):
        pairs = tuple(zip(names, chosen, strict=True))
        found.append(Variant(_named(name, pairs, values), _filled(query, holes, pairs), pairs))
    return found


def _no_value(hole: str, span: Span) -> Diagnostic:
    message = f"the parameter `{{{hole}}}` has no value"
    helps = (f"give the rule values: `parameters: {{{hole}: [1, 2]}}`", f"or `--set {hole}=1,2`")
    return Diagnostic("E534", message, span, helps=helps)


def _named(
    name: str, pairs: Iterable[tuple[str, str]], values: Mapping[str, tuple[str, ...]]
) -> str:
    """Name a variant by the parameters that have several values."""
    swept = [f"{one}={_shown(literal)}" for one, literal in pairs if len(values[one]) > 1]
    return f"{name}[{','.join(swept)}]" if swept else name


def _shown(literal: str) -> str:
    return literal.strip("()'")


def _filled(query: str, holes: Iterable[tuple[str, Span]], pairs: Iterable[tuple[str, str]]) -> str:
    literals, parts, offset = dict(pairs), [], 0
    for name, span in holes:
        before, after = query[offset : span.start], query[span.end : span.end + 1]
        # A literal beside a word or another literal would become a part of it.
        left = "" if before[-1:].isspace() else " "
        right = "" if after.isspace() else " "
        parts += [before, left, literals[name], right]
        offset = span.end
    return "".join([*parts, query[offset:]])
