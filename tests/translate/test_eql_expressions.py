"""Event queries of EQL: what they become, and what is refused with a reason."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import cepheid
from cepheid.translate.eql.meaning import ELASTICSEARCH, PYTHON, Meaning
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
        ('t like~ ("A*", "B")', "LOWER(t) = 'b' OR LOWER(t) LIKE 'a%'"),
        ('t not in ("a", "b")', "NOT COALESCE(t IN ('a', 'b'), FALSE)"),
        ('t in~ ("A", u)', "LOWER(t) = 'a' OR LOWER(t) = LOWER(u)"),
        ("n / 2 == 3", "FLOOR(n / 2) = 3"),
        ("n / 2.0 == 3", "n / 2.0 = 3"),
        ("-n + 3 * f > .5", "-n + 3 * f > 0.5"),
        ("5 < n", "n > 5"),
        ("b and not b", "b AND NOT COALESCE(b, FALSE)"),
        ("t == u", "t = u"),
        ('startsWith~(t, "C:\\\\")', "STARTS_WITH(LOWER(t), 'c:\\')"),
        ('endsWith(t, "50%")', r"t LIKE '%50\%'"),
        ('stringContains("a", t)', "LENGTH(t) = 0 OR LENGTH(REPLACE('a', t, '')) < LENGTH('a')"),
        ('substring(t, -4, -1) == "x"', "SUBSTRING(t, -4, 3) = 'x'"),
        ('substring(t, 1) == "x"', "SUBSTRING(t, 2) = 'x'"),
        ('concat(n, ":", t) == "x"', "CONCAT(CAST(n AS STRING), ':', t) = 'x'"),
        ("number('0x32', 16) == n", "50 = n"),
        ("number(s, null) == 5", "TRY_CAST(s AS DOUBLE) = 5"),
        ("length(t) > 3", "LENGTH(t) > 3"),
        ('indexOf(t, "a", 2) == 3', "NULLIF(LOCATE('a', t, 3), 0) - 1 = 3"),
        ('indexOf~(t, "A") != null', "NULLIF(LOCATE('a', LOWER(t)), 0) - 1 IS NOT NULL"),
        ('t regex "a.c"', r"REGEX_MATCH(t, '(?s)\A(?:a.c)\z')"),
        ('t regex~ "a"', r"REGEX_MATCH(t, '(?is)\A(?:a)\z')"),
        ('match(t, "a+")', r"REGEX_MATCH(t, '\A(?:a+)')"),
        ('cidrMatch(t, "1.0.0.0/8", "::1")', "IN_NETWORK(t, '1.0.0.0/8') OR IN_NETWORK(t, '::1')"),
        ('"""C:\\x""" == t', "t = 'C:\\x'"),
        ("(n > 1) == null", "n > 1 IS NULL"),
        ("safe(n / t)", "NULL"),
        ("safe(n - 1) == 2", "n - 1 = 2"),
    ],
)  # fmt: skip
def test_conditions_of_elasticsearch(condition: str, expected: str) -> None:
    assert _where(condition).replace("(n > 1)", "n > 1") == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('not t == "a"', [1, 2, 3]),
        ('t != "a"', [1, 2, 3]),
        ('not t : ("a*", "z")', [1, 2, 3]),
        ("not (t : 'a' or n == 2)", [2, 3]),
        ("not (not t : 'a' and n == 2)", [0, 2, 3]),
        ('not startsWith(t, "a")', [1, 2, 3]),
        ('startsWith(t, "a") == false', [1, 2, 3]),
        # Bounds are turned around, and other functions are computed.
        ("not n > 1", [0]),
        ("not (n > 1 or t == 'c')", [0]),
        ('not endsWith(t, "a")', [1]),
        ("not t == u", [1]),
        ("not t == null", [0, 1]),
    ],
)
def test_events_without_a_field_meet_the_opposite_of_what_an_index_finds(
    condition: str, expected: list[int]
) -> None:
    events = zip(["a", "b", None, None], [1, 2, None, 3], range(4), strict=True)
    table = pa.Table.from_pylist(
        [{"ts": ts, "kind": "p", "t": t, "n": n, "u": "a"} for t, n, ts in events]
    )
    written = write_query(f"any where {condition}", SETTINGS, ELASTICSEARCH)
    found = cepheid.query(written.query, type="kind").run(table).to_pylist()
    assert [row["ts"] for row in found] == expected
    assert not written.notes


def test_an_optional_field_is_taken_for_one_of_the_mapping() -> None:
    written = write_query('any where not ?x : "a"', SETTINGS, ELASTICSEARCH)
    assert written.notes == ("`?x` is a field of the mapping, which events may lack",)
    assert not write_query('any where not ?t : "a"', SETTINGS, ELASTICSEARCH).notes
    assert not write_query('any where ?x : "a"', SETTINGS, ELASTICSEARCH).notes
    assert len(write_query("any where ?x == ?y", SETTINGS, ELASTICSEARCH).notes) == 2


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("a.c", ["abc", "a\nc"], ["ac", "abcd"]),
        ('a"b.c"', ["ab.c"], ["abxc"]),
        ("a@", ["a", "abc"], ["ba"]),
        ("^a$", ["^a$"], ["a"]),
        ("[^a\\\\d]+", ["b-"], ["a", "1"]),
        ("(a|bc)+?", ["", "abca"], ["b"]),
        ("a{2}{2}", ["aaaa"], ["aa"]),
        ("\\\\s\\\\W\\\\n", [" -n"], [" an", " -\n"]),
        ("[]a-]", ["]", "a", "-"], ["b"]),
        ("()", [""], ["a"]),
    ],
)
def test_regular_expressions_are_those_of_lucene(
    pattern: str, fitting: list[str], others: list[str]
) -> None:
    texts = fitting + others
    table = pa.table({"ts": range(len(texts)), "kind": ["p"] * len(texts), "t": texts})
    written = write_query(f"any where t regex '{pattern}'", SETTINGS, ELASTICSEARCH)
    found = cepheid.query(written.query, type="kind").run(table).to_pylist()
    assert [row["t"] for row in found] == fitting


def test_places_of_a_part_are_computed() -> None:
    texts = ["abcdef", "ab", None]
    table = pa.table({"ts": range(3), "kind": ["p"] * 3, "t": texts, "n": [2, -1, 1]})
    for text, expected in [
        ("substring(t, 0, length(t) - 1)", ["abcde", "a", None]),
        ("substring(t, n)", ["cdef", "b", None]),
        ("substring(t, 1, n)", ["b", "", None]),
        ("substring(t, -2, length(t) - 1)", ["e", "a", None]),
    ]:
        condition = " or ".join(f"{text} == '{one}'" for one in expected if one is not None)
        written = write_query(f"any where {condition}", SETTINGS, ELASTICSEARCH)
        found = cepheid.query(written.query, type="kind").run(table).to_pylist()
        assert [row["ts"] for row in found] == [0, 1], text


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
        ("n == 1 or child of [process where true]", "`child of` follows processes"),
        ("child of [any where n == 1] and event of [any where n == 1]", "two relations"),
        ("nothing(t)", "the function `nothing`"),
        ('t + 1 == "x"', "computes with numbers"),
        ("length(t, u) > 1", "2 arguments"),
        ('t like n', "`like` takes texts"),
        ("t == ", "cannot be read at 1:16"),
        ("t == `", "cannot be read at 1:16: the name has no end"),
        ('t == "x', "cannot be read at 1:16: the text has no end"),
        ("n ~ 3", "the query goes on"),
        ("t in (null, u)", "null in the list"),
        ('t regex "a~b"', "complements"),
        ('t regex "(a"', "cannot be read"),
        ('t regex "*a"', "cannot be read"),
        ('t regex "a{b"', "cannot be read"),
        ('t regex "[\\\\D]"', "between brackets"),
        ('substring(t, 0, f) == "x"', "whole numbers"),
        ('match(t, "(?=a)")', "RE2"),
        ("t regex u", "no constants"),
        ("indexOf(t, u) == 1", "no constant"),
        ("indexOf(t, 'a', n) == 1", "no constant"),
        ("between(t, 'a', 'b', b) == u", "a choice of the first or last part"),
        ("safe(t + 1) == 1", "computes with numbers"),
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


@pytest.mark.parametrize(
    ("pipes", "expected"),
    [
        ("count", {(): 7}),
        ("filter n > 100 | count", {(): 0}),
        ("count t", {("bob",): 2, ("ann",): 3, (None,): 1, ("zed",): 1}),
        ("filter n > 2 | count t, n > 4", {("ann", False): 1, ("ann", True): 1, ("zed", True): 1}),
    ],
)
def test_events_are_counted_as_the_package_counts_them(
    pipes: str, expected: dict[tuple[Any, ...], int]
) -> None:
    """It shows a key as the first event writes it, and sorts by count."""
    names, numbers = ["Bob", "bob", "ann", None, "ann", "Zed", "ann"], [1, 2, 3, 1, 5, 6, None]
    events = pa.table({"ts": range(7), "kind": ["p"] * 7, "t": names, "n": numbers})
    written = write_query(f"p where true | {pipes}", SETTINGS, PYTHON)
    rows = cepheid.query(written.query, type="kind").run(events).to_pylist()
    found = {tuple(v for k, v in row.items() if k != "count"): row["count"] for row in rows}
    assert found == expected
    assert len(written.notes) == (len(expected) > 1)


REFUSED = [
    "head 3 | count",
    "count | head 1",
    "count t | sort key",
    "tail 3 | sort n",
    "tail 17",
    "tail 0",
    "tail 2 | tail 1",
    "head 1000 | filter n > 1",
    "sort n | tail 3",
    "unique_count t",
    "head 1.5",
]
REFUSED += ["head 3 | unique t", "unique t | tail 1", "unique t | head 1 | filter n > 1"]


@pytest.mark.parametrize("pipes", REFUSED)
def test_other_pipes_are_refused(pipes: str) -> None:
    with pytest.raises(CannotTranslateError, match="the pipe `"):
        write_query(f"p where true | {pipes}", SETTINGS, ELASTICSEARCH)


CUT = {
    "tail 2": [3, 4],
    "tail 1": [4],
    "tail 9": [0, 1, 2, 3, 4],
    "filter n > 1 | tail 2": [2, 4],
    "tail 3 | filter n > 1": [2, 4],
    "tail 3 | head 1": [2],
    "head 3 | filter n > 1": [1, 2],
    "head 3 | filter n > 1 | head 1": [1],
}


@pytest.mark.parametrize("pipes", CUT)
def test_first_and_last_events(pipes: str) -> None:
    table = pa.table({"ts": [0, 1, 1, 2, 2], "kind": ["p"] * 5, "n": [1, 2, 3, 1, 4]})
    table = table.append_column("place", pa.array(range(5)))
    written = write_query(f"p where true | {pipes}", SETTINGS, ELASTICSEARCH)
    rows = cepheid.query(written.query, type="kind").run(table).to_pylist()
    assert [row["events"][0]["place"] for row in rows] == CUT[pipes]
    assert not written.notes


def test_long_and_deep_queries_are_refused() -> None:
    with pytest.raises(CannotTranslateError, match="levels deep"):
        write_query(f"p where {'(' * 200}true{')' * 200}", SETTINGS, ELASTICSEARCH)
    with pytest.raises(CannotTranslateError, match="longer than"):
        write_query(f"p where {' ' * 200_000}true", SETTINGS, ELASTICSEARCH)


LISTS = Settings(type="kind", types={"kind": "text", "tags": "texts", "ids": "other"})


def _events_with(condition: str, meaning: Meaning = ELASTICSEARCH) -> tuple[list[int], list[str]]:
    """Run a condition over five events with lists; return their numbers, and the notes."""
    tags = [["a", "b.c"], ["b", None], [], None, ["A"]]
    table = pa.table({"ts": range(5), "kind": ["p"] * 5, "tags": tags})
    written = write_query(f"any where {condition}", LISTS, meaning)
    rows = cepheid.query(written.query, type="kind").run(table).to_pylist()
    return [row["ts"] for row in rows], list(written.notes)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('tags == "a"', [0]),
        ('tags : ("A", "x")', [0, 4]),
        ('tags like "b?c"', [0]),
        ('tags == "bxc"', []),
        ('tags != "a"', [1, 2, 3, 4]),
        ("length(tags) > 1", [0]),
        ("length(tags) != 1", [0]),
        ("1 >= length(tags)", [0, 1, 4]),
        ("length(tags) < 0", []),
        ('tags regex "b.c|A"', [0, 4]),
        ('tags regex~ "[^b]"', [0, 4]),
        ('startsWith~(tags, "B")', [0, 1]),
        ('not endsWith(tags, "c")', [1, 2, 4]),
        ('tags[1] : "*"', [0]),
        ('not tags[1] : "x"', [0]),
        ('not tags : "*"', [2, 3]),
        ("tags == null", [3]),
    ],
)
def test_a_comparison_with_a_list_is_true_if_one_of_its_texts_meets_it(
    condition: str, expected: list[int]
) -> None:
    assert _events_with(condition)[0] == expected


def test_lists_are_noted_or_refused() -> None:
    assert _events_with('arrayContains(tags, "A")', PYTHON)[0] == [0, 4]
    (letters,) = _events_with('tags[0] == "a"', PYTHON)[1]
    assert letters.startswith("no text of `tags` has")
    assert "is true if one of its texts meets it" in _events_with('tags == "a"')[1][1]
    refused = [
        'ids == "a"',
        'tags > "a"',
        "tags == n",
        'arrayContains(kind, "a")',
        'tags == "\u241f"',
        "length(tags) > 1000",
        "length(tags) == n",
    ]
    refused += [
        "arraySearch(tags, s, n == 1)",
        'arraySearch(tags, "s", s == "a")',
        "tags[0][1] == 1",
    ]
    for condition in refused:
        with pytest.raises(CannotTranslateError):
            _events_with(condition)
    with pytest.raises(CannotTranslateError):
        _events_with('tags == "a"', PYTHON)


def test_categories_may_be_lists() -> None:
    """Elastic's events have them; a type column cannot be one, so it is a condition."""
    settings = Settings(type="category", types={"category": "texts"})
    events = [["file", "process"], ["network"], ["process"]]
    table = pa.table({"ts": range(3), "category": events})
    text = "sequence [file where true] [process where true]"
    written = write_query(text, settings, ELASTICSEARCH)
    assert "SEQ(ANY e1, ANY e2)" in written.query
    rows = cepheid.query(written.query, type=None).run(table).to_pylist()
    assert [[event["ts"] for event in row["events"]] for row in rows] == [[0, 2]]
    with pytest.raises(CannotTranslateError, match="lists of categories"):
        write_query("join [a where true] by x [b where true] by y", settings, ELASTICSEARCH)
