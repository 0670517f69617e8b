"""The functions of expressions: their names, arguments and results, for the language and for SQL.

What a function computes stands under its name in ``meanings``, and on Spark in ``spark_columns``.
"""

from __future__ import annotations

from typing import NamedTuple

from cepheid.errors import suggest_names
from cepheid.events.schema import NUMERIC, TEMPORAL, ValueKind

_B, _I, _D, _T = ValueKind.BOOLEAN, ValueKind.INTEGER, ValueKind.DOUBLE, ValueKind.TEXT
_NUMBER = NUMERIC | {ValueKind.UNKNOWN}
_TEXT = frozenset({_T, ValueKind.UNKNOWN})
_TIME = TEMPORAL | {ValueKind.UNKNOWN}


class Function(NamedTuple):
    """A scalar function: its arguments and its result.

    ``takes`` are the kinds of all arguments; None: any kinds of one family. ``whole`` is the number
    of the first argument from which on whole numbers are needed. ``gives`` is the kind of the
    result; None: the widest kind of the arguments. ``conditional`` says that the first argument is
    a condition, ``arrays`` that there are arrays among the arguments.
    """

    least: int
    most: int | None
    takes: frozenset[ValueKind] | None
    gives: ValueKind | None
    usage: str
    whole: int | None = None
    conditional: bool = False
    arrays: bool = False


def _on_arrays(
    least: int, most: int | None, usage: str, gives: ValueKind | None = None
) -> Function:
    return Function(least, most, None, gives, usage, arrays=True)


FUNCTIONS = {
    "ABS": Function(1, 1, _NUMBER, None, "ABS(number)"),
    "ROUND": Function(1, 2, _NUMBER, None, "ROUND(number, digits)", 1),
    "FLOOR": Function(1, 1, _NUMBER, _I, "FLOOR(number)"),
    "CEIL": Function(1, 1, _NUMBER, _I, "CEIL(number)"),
    "SQRT": Function(1, 1, _NUMBER, _D, "SQRT(number)"),
    "POWER": Function(2, 2, _NUMBER, _D, "POWER(base, exponent)"),
    "EXP": Function(1, 1, _NUMBER, _D, "EXP(number)"),
    "LN": Function(1, 1, _NUMBER, _D, "LN(number)"),
    "LOG2": Function(1, 1, _NUMBER, _D, "LOG2(number)"),
    "LOG10": Function(1, 1, _NUMBER, _D, "LOG10(number)"),
    "SIGN": Function(1, 1, _NUMBER, _D, "SIGN(number)"),
    "MOD": Function(2, 2, _NUMBER, None, "MOD(number, divisor)"),
    "GREATEST": Function(2, None, None, None, "GREATEST(a, b, ...)"),
    "LEAST": Function(2, None, None, None, "LEAST(a, b, ...)"),
    "COALESCE": Function(1, None, None, None, "COALESCE(a, b, ...)"),
    "NULLIF": Function(2, 2, None, None, "NULLIF(a, b)"),
    "IF": Function(2, 3, None, None, "IF(condition, then, else)", conditional=True),
    "LOWER": Function(1, 1, _TEXT, _T, "LOWER(text)"),
    "UPPER": Function(1, 1, _TEXT, _T, "UPPER(text)"),
    "TRIM": Function(1, 1, _TEXT, _T, "TRIM(text)"),
    "LTRIM": Function(1, 1, _TEXT, _T, "LTRIM(text)"),
    "RTRIM": Function(1, 1, _TEXT, _T, "RTRIM(text)"),
    "LENGTH": Function(1, 1, _TEXT, _I, "LENGTH(text)"),
    "CONCAT": Function(1, None, _TEXT, _T, "CONCAT(text, ...)"),
    "SUBSTRING": Function(2, 3, _TEXT, _T, "SUBSTRING(text, from, length)", 1),
    "REPLACE": Function(2, 3, _TEXT, _T, "REPLACE(text, old, new)"),
    "REVERSE": Function(1, 1, _TEXT, _T, "REVERSE(text)"),
    "LOCATE": Function(2, 3, _TEXT, _I, "LOCATE(part, text, from)", 2),
    "STARTS_WITH": Function(2, 2, _TEXT, _B, "STARTS_WITH(text, start)"),
    "REGEX_MATCH": Function(2, 2, _TEXT, _B, "REGEX_MATCH(text, pattern)"),
    "IN_NETWORK": Function(2, 2, _TEXT, _B, "IN_NETWORK(address, network)"),
    "YEAR": Function(1, 1, _TIME, _I, "YEAR(time)"),
    "MONTH": Function(1, 1, _TIME, _I, "MONTH(time)"),
    "DAY": Function(1, 1, _TIME, _I, "DAY(time)"),
    "HOUR": Function(1, 1, _TIME, _I, "HOUR(time)"),
    "MINUTE": Function(1, 1, _TIME, _I, "MINUTE(time)"),
    "SECOND": Function(1, 1, _TIME, _I, "SECOND(time)"),
    "CONCAT_WS": _on_arrays(1, None, "CONCAT_WS(separator, text or array, ...)"),
    "ARRAY_JOIN": _on_arrays(2, 3, "ARRAY_JOIN(array, separator, for NULL)", _T),
    "ARRAY_SORT": _on_arrays(1, 1, "ARRAY_SORT(array)"),
    "ARRAY_MIN": _on_arrays(1, 1, "ARRAY_MIN(array)"),
    "ARRAY_MAX": _on_arrays(1, 1, "ARRAY_MAX(array)"),
    "CONTAINS": _on_arrays(2, 2, "CONTAINS(array, value)"),
    "ELEMENT_AT": _on_arrays(2, 2, "ELEMENT_AT(array, place)"),
    "CARDINALITY": _on_arrays(1, 1, "CARDINALITY(array)", _I),
}
"""The scalar functions, by their upper-case names; they mean what they mean in Spark SQL.

Two of them Spark SQL does not have (``match_functions``).
"""

OF_LISTS = frozenset({"ARRAY_JOIN", "CARDINALITY"})
"""The functions by which the language reads columns that hold lists; other arrays are for SQL."""

LANGUAGE_FUNCTIONS = {
    name: known for name, known in FUNCTIONS.items() if not known.arrays or name in OF_LISTS
}
"""The functions of the language."""

ALIASES = {
    "CEILING": "CEIL",
    "POW": "POWER",
    "CHAR_LENGTH": "LENGTH",
    "SUBSTR": "SUBSTRING",
    "SIZE": "CARDINALITY",
    "IFNULL": "COALESCE",
    "NVL": "COALESCE",
    "UCASE": "UPPER",
    "LCASE": "LOWER",
}
"""Other names of functions."""


OTHER_FUNCTIONS = {
    "LEN": "LENGTH(text)",
    "STRLEN": "LENGTH(text)",
    "ISNULL": "COALESCE(a, b), or a IS NULL",
    "IIF": "IF(condition, a, b)",
    "LOG": "LN(x), LOG2(x) or LOG10(x)",
    "STARTSWITH": "STARTS_WITH(text, begin)",
    "CONTAINS": "text LIKE '%part%'",
    "REGEXP_LIKE": "REGEX_MATCH(text, '^a')",
    "APPROX_DISTINCT": "APPROX_COUNT_DISTINCT(x)",
    "PERCENTILE_APPROX": "APPROX_PERCENTILE(x, 0.9)",
    "PERCENTILE_CONT": "PERCENTILE(x, 0.9)",
    "DATE_TRUNC": "WINDOW 1 hour",
    "DATE_PART": "HOUR(time)",
    "QUANTILE": "PERCENTILE(x, 0.9)",
    "QUANTILE_CONT": "PERCENTILE(x, 0.9)",
    "UNIQ": "COUNT(DISTINCT x)",
    "UNIQEXACT": "COUNT(DISTINCT x)",
    "BOOL_OR": "MAX(CASE WHEN condition THEN 1 ELSE 0 END)",
    "BOOL_AND": "MIN(CASE WHEN condition THEN 1 ELSE 0 END)",
    "COUNT_IF": "SUM(CASE WHEN condition THEN 1 ELSE 0 END)",
    "COUNTIF": "SUM(CASE WHEN condition THEN 1 ELSE 0 END)",
    "ANY_VALUE": "GROUP BY x",
    "DATE_DIFF": "b.ts - a.ts",
    "DATEDIFF": "b.ts - a.ts",
    "TIMESTAMPDIFF": "b.ts - a.ts",
    "DATE_ADD": "ts + 1 day",
    "DATEADD": "ts + 1 day",
    "DATE_FORMAT": "YEAR(ts), MONTH(ts) or DAY(ts)",
    "STRFTIME": "YEAR(ts), MONTH(ts) or DAY(ts)",
    "TO_DATE": "CAST(x AS DATE)",
    "TO_TIMESTAMP": "CAST(x AS TIMESTAMP)",
    "TOSTARTOFHOUR": "WINDOW 1 hour",
    "TUMBLE_START": "WINDOW 1 hour, whose rows have window_start",
    "TUMBLE_END": "WINDOW 1 hour, whose rows have window_end",
    "LAG": "PREV(S).attribute",
    "LEAD": "NEXT(S).attribute",
}
"""Functions of other languages, and what comes nearest."""


NO_LISTS = frozenset(
    [
        *("ARRAY_AGG", "COLLECT_LIST", "COLLECT_SET", "STRING_AGG", "LISTAGG", "GROUP_CONCAT"),
        *("MAX_BY", "MIN_BY", "ARGMAX", "ARGMIN", "ARG_MAX", "ARG_MIN"),
        *("FIRST", "FIRST_VALUE", "LAST_VALUE", "PREV"),
    ]
)
"""Functions of several events that row patterns have, and SELECT and RETURN have not."""

OF_ONES_OWN = frozenset(
    ["NOW", "CURRENT_DATE", "EPOCH", "UNIX_TIMESTAMP", "DAYOFWEEK", "DAYOFYEAR", "QUARTER", "WEEK"]
)
"""Functions of times that are left to functions of one's own."""

OTHER_AGGREGATES = frozenset(
    [
        "MEDIAN",
        "STDDEV",
        "STDEV",
        "STD",
        "VARIANCE",
        "VAR",
        "PERCENTILE",
        "MODE",
        "VAR_POP",
        "VAR_SAMP",
        "STDDEV_POP",
        "STDDEV_SAMP",
    ]
)


def nearest_function(name: str) -> str:
    """Return a help for a function that there is not: what other languages call so, or names."""
    if name.upper() in OTHER_AGGREGATES:
        return (
            "the aggregates are COUNT, SUM, AVG, MIN and MAX, in RETURN also VAR and STDDEV; "
            "SELECT has MEDIAN and PERCENTILE, too"
        )
    if name.upper() in NO_LISTS:
        return (
            "it is a measure of row patterns: `FROM s MATCH_RECOGNIZE (… MEASURES … PATTERN (A+))`"
        )
    if name.upper() in OF_ONES_OWN:
        return f'make it one of your own: `cepheid.function("{name.upper()}", …)`, or a column'
    near = OTHER_FUNCTIONS.get(name.upper())
    if near:
        return f"write `{near}`"
    return suggest_names(name, LANGUAGE_FUNCTIONS, owner="Cepheid")
