"""A plain filter is read and bound in short ways, which give what the long ones give."""

from __future__ import annotations

from unittest.mock import patch

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import cepheid
from cepheid.errors import CepheidError
from cepheid.expressions.format import INNER_KEYWORDS, KEYWORDS
from cepheid.expressions.functions import LANGUAGE_FUNCTIONS
from cepheid.language import parser
from cepheid.language.plain_filters import read_plain_filter

WORDS = sorted(
    {part for word in KEYWORDS | INNER_KEYWORDS for part in (word, *word.split("_"))}
    | {"EVENT", "events", "ilike", "rlike", "regexp", "try_cast", "interval", "date", "timestamp"}
    | {"us", "ms", "min", "hours", "top", "longest", "asc", "nulls", "by", "x", "Image", "_a1"}
    | set(LANGUAGE_FUNCTIONS)
)
SCHEMA = {
    "ts": "timestamp", "name": "string", "n": "bigint", "d": "double", "on": "boolean",
    "log": "struct<name: string>", "log.name": "string", "many": "array<string>", "void": "null",
}  # fmt: skip

word = st.sampled_from(WORDS).flatmap(lambda w: st.sampled_from([w, w.lower(), w.title()]))
column = st.one_of(
    st.sampled_from(["name", "n", "d", "`on`", "log.name", "log", "many", "void", "`@odd name`"]),
    word,
    st.tuples(word, word).map(".".join),
)
text = st.text("ab'%_\\ äß\n-", max_size=6).map(lambda t: "'" + t.replace("'", "''") + "'")
value = st.one_of(text, st.integers(0, 10**19).map(str), st.sampled_from(["1.5", "TRUE", "NULL"]))
operand = st.one_of(column, column.map("LOWER({})".format))
comparison = st.one_of(
    st.tuples(operand, st.sampled_from(["=", "<>", "<", ">="]), value).map(" ".join),
    st.tuples(operand, st.sampled_from(["=", "<>", "<", ">="]), operand).map(" ".join),
    st.tuples(operand, text).map(" LIKE ".join),
    st.tuples(operand, st.lists(value, min_size=1, max_size=3).map(", ".join)).map(
        lambda parts: f"{parts[0]} IN ({parts[1]})"
    ),
    st.tuples(
        operand, st.sampled_from(["IS NULL", "IS NOT NULL", "NOT LIKE 'a'", "+ 1 > 2", ""])
    ).map(" ".join),
    st.tuples(st.sampled_from(["REGEX_MATCH", "IN_NETWORK", "ABS", "CONCAT"]), operand, value).map(
        lambda parts: f"{parts[0]}({parts[1]}, {parts[2]})"
    ),
)
condition = st.recursive(
    comparison,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR", " or", "AND\n "]), inner).map(" ".join),
        inner.map("({})".format),
        inner.map("NOT {}".format),
        inner.map("NOT COALESCE({}, FALSE)".format),
        inner.map("COALESCE(({}),  FALSE)".format),
    ),
    max_leaves=6,
)
before = st.sampled_from(["", "-- 'a note\n", "  /* SELECT */ # x\n"])
head = st.sampled_from(
    ["SELECT * FROM log WHERE ", "SELECT * FROM `a log`  WHERE\n", "select * from log where "]
)
end = st.sampled_from(["", ";", " ; ", " -- end", " LIMIT 1", " x", ")"])
query = st.one_of(
    st.tuples(before, head, condition, end).map("".join),
    st.sampled_from(["SELECT * FROM log", "SELECT * FROM log;", "SELECT * FROM from"]),
)


def _read(text: str) -> bytes | str:
    try:
        return msgspec.json.encode(parser.parse(text))
    except CepheidError as error:
        return str(error)


@given(query)
@example("SELECT * FROM log WHERE Filter = 'a' AND `end` IN (1, 2)")
@example("SELECT * FROM log WHERE interval = 5 AND date >= '2026-01-01'")
@example("SELECT * FROM log WHERE name = '\ud800'")
def test_the_tree_is_that_of_the_parser(text: str) -> None:
    short = _read(text)
    with patch.object(parser, "read_plain_filter", lambda _: None):
        assert short == _read(text)


def _planned(text: str, schema: object) -> bytes | str:
    try:
        return msgspec.json.encode(cepheid.query(text, schema=schema).plan)
    except CepheidError as error:
        return str(error)


@given(query)
@example(
    "SELECT * FROM log WHERE LOWER(name) LIKE '%a' AND n IN (1, 2) AND NOT COALESCE(d > 1, FALSE)"
)
@example("SELECT * FROM log WHERE n LIKE 'a' OR nme = 'b' OR name = 5")
@example("SELECT * FROM log WHERE log = 'a' AND many = many AND ts = 'soon'")
@example("SELECT * FROM log WHERE COALESCE(name, FALSE)")
def test_the_plan_is_that_of_the_long_way(text: str) -> None:
    for schema in (None, SCHEMA):
        short = _planned(text, schema)
        with patch("cepheid.kinds.selection.scope.bind_plain", lambda *_: None):
            assert short == _planned(text, schema)


PLAIN = [
    r"LOWER(Image) LIKE '%\\cmd.exe'",
    "EventID = 5 AND Initiated = TRUE",
    "LOWER(Channel) IN ('security', 'system') AND EventID IN (1, 2)",
    "(a = 'b' OR process.name = LOWER(c)) AND NOT COALESCE(REGEX_MATCH(LOWER(x), 'a.c'), FALSE)",
    "IN_NETWORK(SourceIp, '10.0.0.0/8') OR `@odd name` IS NOT NULL OR Filter = 'it''s'",
]


@pytest.mark.parametrize("condition", PLAIN)
def test_conditions_of_translated_rules_are_read_the_short_way(condition: str) -> None:
    assert read_plain_filter(f"-- @owner: me\nSELECT *\nFROM log\nWHERE {condition}") is not None


def test_what_is_nested_deeply_is_left_to_the_parser() -> None:
    nested = "(" * 21 + "a = 1" + ")" * 21
    assert read_plain_filter(f"SELECT * FROM log WHERE {nested}") is None
    assert parser.parse(f"SELECT * FROM log WHERE {nested}").where is not None
