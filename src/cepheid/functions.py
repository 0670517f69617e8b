"""Functions of one's own: the function behind ``cepheid.function``, and what queries may call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cepheid import options
from cepheid.errors import suggest_names
from cepheid.events.schema import ValueKind, kind_of
from cepheid.expressions import own
from cepheid.expressions.format import INNER_KEYWORDS, KEYWORDS
from cepheid.expressions.functions import ALIASES, FUNCTIONS
from cepheid.expressions.own import OwnFunction
from cepheid.kinds.row_pattern.bind_expressions import AGGREGATES

_KINDS = frozenset({
    ValueKind.BOOLEAN, ValueKind.INTEGER, ValueKind.DOUBLE, ValueKind.TEXT,
    ValueKind.TIMESTAMP, ValueKind.DATE, ValueKind.DURATION,
})  # fmt: skip
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = frozenset({
    "VAR", "PREV", "FIRST", "LAST", "MIN", "MAX", "MEDIAN", "PERCENTILE", "APPROX_COUNT_DISTINCT",
    "APPROX_PERCENTILE", "FUNNEL", "SAMPLE", "TOP", "LONGEST", "BLAME", "TRY_CAST", "CLASSIFIER",
    "MATCH_NUMBER", "FINAL", "RUNNING", "DATE", "TIMESTAMP", "INTERVAL", "ARRAY", "EXTRACT",
    "PERMUTE", "OVER", "FILTER", "SELECT", "FROM", "JOIN", "ON", "BY", "ORDER", "GROUP",
    "WINDOW",
})  # fmt: skip
"""Words that mean something before a parenthesis, or elsewhere in queries."""


def function(
    name: str,
    call: Callable[..., Any],
    *,
    returns: object,
    types: Sequence[object] | None = None,
    register: bool = True,
    replace: bool = False,
) -> OwnFunction:
    """Define a function of one's own, which queries call by its name.

    ``docs/functions.md`` says what a function may rely on, and §20 of ``docs/semantics.md`` what it
    must keep to.

    Parameters
    ----------
    name
        A name of letters, digits and ``_``, in any case: queries may write it in any case.
    call
        Takes an Arrow array for each argument, all of one length, and returns an Arrow array of
        this length. It may be called again for the same values, and in other processes.
    returns
        The type of the result, of Arrow or by its name: ``"boolean"``, ``"bigint"``, ``"double"``,
        ``"string"``, ``"timestamp"``, ``"date"`` or ``"duration"``.
    types
        The types of the arguments, if the planner shall check them.
    register
        Whether all later queries of this process may call it. Otherwise only those that name it:
        ``query(text, functions=[f])``.
    replace
        Whether it takes the place of a registered function of this name, for later queries.

    Raises
    ------
    OptionError
        E593 if the name is no name, a word of the language, or taken; E592 if another argument is
        of the wrong kind.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.compute as pc
    >>> import cepheid
    >>> twice = function("twice", lambda x: pc.multiply(x, 2), returns="bigint", register=False)
    >>> q = cepheid.query("SELECT twice(x) AS y FROM s WHERE twice(x) > 2", functions=[twice])
    >>> q.run(pa.table({"ts": [1, 2], "x": [1, 5]})).to_pylist()
    [{'y': 10}]
    """
    options.texts(name=name)
    options.true_or_false(register=register, replace=replace)
    if not callable(call):
        options.refuse("E592", f"call is a function, not {type(call).__name__}")
    upper = name.upper()
    _check_name(name, upper)
    gives = _kind("returns", returns)
    takes = None
    if types is not None:
        if isinstance(types, str) or not isinstance(types, Iterable):
            options.refuse("E592", "types is a list with a type for each argument")
        takes = tuple(_kind("types", one) for one in types)
        if not takes:
            message = "a function has an argument: it tells how many values there are"
            options.refuse("E592", message)
    known = own.registered(upper)
    made = own.define(upper, call, gives, takes)
    if register:
        if known not in (None, made) and not replace:
            message = f"there is a function `{name}` already"
            helps = ("give it another name, or say `replace=True`",)
            options.refuse("E593", message, *helps)
        own.register(made)
    return made


def _check_name(name: str, upper: str) -> None:
    if _NAME.fullmatch(name) is None:
        message = f"{name!r} is no name of a function"
        options.refuse("E593", message, "write letters, digits and `_`, and a letter first")
    if upper in FUNCTIONS or upper in ALIASES or upper in AGGREGATES:
        message = f"`{name}` is a function of Cepheid already"
        options.refuse("E593", message, "give it another name")
    if upper in KEYWORDS | INNER_KEYWORDS | _WORDS:
        options.refuse("E593", f"`{name}` is a word of the language", "give it another name")


def _kind(option: str, given: object) -> ValueKind:
    kind = kind_of(str(given))
    if kind not in _KINDS:
        names = ["boolean", "bigint", "double", "string", "timestamp", "date", "duration"]
        near = suggest_names(str(given), names, owner="Cepheid")
        options.refuse("E592", f"{option}: a function cannot have the type {given!s}", near)
    return kind


def functions_for(given: object) -> tuple[OwnFunction, ...]:
    """List the functions that a query may call: those that are given, else all registered ones.

    Raises
    ------
    OptionError
        E592 if something else is given, E593 if two have one name.
    """
    if given is None:
        return own.all_registered()
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [None]
    found: dict[str, OwnFunction] = {}
    for one in listed:
        if not isinstance(one, OwnFunction):
            message = "functions are a list of what `cepheid.function` returns"
            options.refuse("E592", message)
        if found.setdefault(one.name, one) != one:
            options.refuse("E593", f"two functions are called `{one.name}`")
    return tuple(found.values())
