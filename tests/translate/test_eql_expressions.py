"""Event queries of EQL: what they become, and what is refused with a reason."""

from __future__ import annotations

import pytest

from cepheid.translate.eql.meaning import ELASTICSEARCH, PYTHON
from cepheid.translate.eql.queries import write_query
from cepheid.translate.translated import CannotTranslateError, Settings

TYPES = {"n": "integer", "f": "double", "t": "text", "u": "text", "b": "boolean", "a": "other"}
SETTINGS = Settings(type="kind", types=TYPES)


def _where(condition: str, meaning: object = ELASTICSEARCH) -> str:
    written = write_query(f"any where {condition}", SETTINGS, meaning)  # type: ignore[arg-type]
    return " ".join(written.query.split("WHERE")[1].split())


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('t == "A*"', "t = 'A*'"),
        ("t == null", "t IS NULL"),
        ("null != t", "t IS NOT NULL"),
        ('t : "A*"', "LOWER(t) LIKE 'a%'"),
        ('t like "A?_"', r"t LIKE 'A_\_'"),
        ('t like~ ("A*", "B")', "LOWER(t) LIKE 'a%' OR LOWER(t) = 'b'"),
        ('t not in ("a", "b")', "NOT (t = 'a' OR t = 'b')"),
        ('t in~ ("A", u)', "LOWER(t) = 'a' OR LOWER(t) = LOWER(u)"),
        ("n / 2 == 3", "FLOOR(n / 2) = 3"),
        ("n / 2.0 == 3", "n / 2.0 = 3"),
        ("-n + 3 * f > .5", "-n + 3 * f > 0.5"),
        ("5 < n", "n > 5"),
        ("b and not b", "b AND NOT b"),
        ("t == u", "t = u"),
        ('startsWith~(t, "C:\\\\")', "STARTS_WITH(LOWER(t), 'c:\\')"),
        ('endsWith(t, "50%")', r"t LIKE '%50\%'"),
        ('stringContains("a", t)', "LENGTH(t) = 0 OR LENGTH(REPLACE('a', t, '')) < LENGTH('a')"),
        ('substring(t, -4, -1) == "x"', "SUBSTRING(t, -4, 3) = 'x'"),
        ('substring(t, 1) == "x"', "SUBSTRING(t, 2) = 'x'"),
        ('concat(n, ":", t) == "x"', "CONCAT(CAST(n AS STRING), ':', t) = 'x'"),
        ("number('0x32', 16) == n", "50 = n"),
        ("length(t) > 3", "LENGTH(t) > 3"),
        ('indexOf(t, "a", 2) == 3', "NULLIF(LOCATE('a', t, 3), 0) - 1 = 3"),
        ('indexOf~(t, "A") != null', "NULLIF(LOCATE('a', LOWER(t)), 0) - 1 IS NOT NULL"),
        ('t regex "a.c"', r"REGEX_MATCH(t, '(?s)\A(?:a.c)\z')"),
        ('t regex~ "a"', r"REGEX_MATCH(t, '(?is)\A(?:a)\z')"),
        ('match(t, "a+")', r"REGEX_MATCH(t, '\A(?:a+)')"),
        ('cidrMatch(t, "1.0.0.0/8", "::1")', "IN_NETWORK(t, '1.0.0.0/8') OR IN_NETWORK(t, '::1')"),
        ('"""C:\\x""" == t', "t = 'C:\\x'"),
        ("(n > 1) == null", "n > 1 IS NULL"),
    ],
)  # fmt: skip
def test_conditions_of_elasticsearch(condition: str, expected: str) -> None:
    assert _where(condition).replace("(n > 1)", "n > 1") == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('t == "A*"', "LOWER(t) LIKE 'a%'"),
        ('t != "A*"', "LOWER(t) NOT LIKE 'a%'"),
        ('t == "A?"', "LOWER(t) = 'a?'"),
        ('"Net" == t', "LOWER(t) = 'net'"),
        ("t <= u", "LOWER(t) <= LOWER(u)"),
        ("n % 4 == 1", "(n % 4 + 4) % 4 = 1"),
        ('t in ("A*")', "LOWER(t) = 'a*'"),
        ('wildcard(t, "a?*")', "LOWER(t) LIKE 'a?%'"),
        ("not (n < null)", "NOT NULL"),
        ("not null", "NOT NULL"),
    ],
)
def test_conditions_of_the_package(condition: str, expected: str) -> None:
    assert _where(condition, PYTHON) == expected


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("a[0] == 1", "elements of arrays"),
        ("a == 1", "array or a structure"),
        ("t", "stands as a condition"),
        ("missing", "not known to be a truth value"),
        ("descendant of [process where true]", "`descendant of` follows processes"),
        ("nothing(t)", "the function `nothing`"),
        ('t + 1 == "x"', "computes with numbers"),
        ("length(t, u) > 1", "2 arguments"),
        ('t like n', "`like` takes texts"),
        ("t == ", "cannot be read at 1:16"),
        ("t == `", "cannot be read at 1:16"),
        ("n ~ 3", "the query goes on"),
        ("t in (null, u)", "null in the list"),
        ('t regex "a@b"', "in Lucene"),
        ('match(t, "(?=a)")', "RE2"),
        ("t regex u", "no constants"),
        ("indexOf(t, u) == 1", "no constant"),
        ("indexOf(t, 'a', n) == 1", "no constant"),
        ("between(t, 'a', 'b', true) == u", "up to the last part"),
        ("between(t, u, 'b') == u", "no constant"),
        ("cidrMatch(t, u)", "no constant"),
    ],
)  # fmt: skip
def test_what_has_no_counterpart_is_refused(condition: str, why: str) -> None:
    with pytest.raises(CannotTranslateError, match=why):
        _where(condition)


def test_unknown_types_are_noted_or_refused() -> None:
    written = write_query("any where x / 2 == 3", Settings(), ELASTICSEARCH)
    assert written.notes == ("`x / 2` is taken as a quotient of whole numbers",)
    with pytest.raises(CannotTranslateError, match="whether `x` and `y` are texts is not known"):
        write_query("any where x == y", Settings(), PYTHON)


@pytest.mark.parametrize(
    ("pipes", "expected"),
    [
        ("filter n > 1 | filter n < 5", "WHERE kind = 'p' AND n > 1 AND n < 5"),
        ("sort n, t | head 3", "WHERE kind = 'p' ORDER BY n, t LIMIT 3"),
        ("head", "WHERE kind = 'p' LIMIT 50"),
    ],
)
def test_pipes_become_clauses_where_their_order_allows(pipes: str, expected: str) -> None:
    written = write_query(f"p where true | {pipes}", SETTINGS, ELASTICSEARCH)
    assert " ".join(written.query.split()) == f"SELECT * FROM log {expected}"


@pytest.mark.parametrize("pipes", ["tail 3", "head 3 | filter n > 1", "unique t", "head 1.5"])
def test_other_pipes_are_refused(pipes: str) -> None:
    with pytest.raises(CannotTranslateError, match="the pipe `"):
        write_query(f"p where true | {pipes}", SETTINGS, ELASTICSEARCH)


def test_long_and_deep_queries_are_refused() -> None:
    with pytest.raises(CannotTranslateError, match="levels deep"):
        write_query(f"p where {'(' * 200}true{')' * 200}", SETTINGS, ELASTICSEARCH)
    with pytest.raises(CannotTranslateError, match="longer than"):
        write_query(f"p where {' ' * 200_000}true", SETTINGS, ELASTICSEARCH)
