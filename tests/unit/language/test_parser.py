"""Text becomes the tree that it should, and everything else a diagnostic."""

from __future__ import annotations

import time

import pytest
from tests.queries import PAPER_QUERIES, VALID_QUERIES

from cepheid.errors import QuerySyntaxError, Span
from cepheid.expressions.format import format_expression
from cepheid.language import tree
from cepheid.language.formatter import format_query
from cepheid.language.lexer import comments_of
from cepheid.language.parser import NESTING_MAX, TEXT_LENGTH_MAX, parse


def where(text: str) -> tree.Expression:
    parsed = parse(f"PATTERN A WHERE {text}").where
    assert parsed is not None
    return parsed


@pytest.mark.parametrize("name", PAPER_QUERIES)
def test_queries_of_the_papers_parse_as_printed(name: str) -> None:
    assert parse(PAPER_QUERIES[name]).pattern is not None


@pytest.mark.parametrize("text", VALID_QUERIES)
def test_every_construct_parses(text: str) -> None:
    assert parse(text).pattern is not None


def test_keywords_are_read_in_any_case() -> None:
    assert parse("ReTuRn CoUnT(*) pAtTeRn A") == parse("RETURN COUNT(*) PATTERN A")


def test_case_of_names_is_kept() -> None:
    assert parse("PATTERN Stock") != parse("PATTERN stock")


@pytest.mark.parametrize(
    ("word", "semantics"),
    [
        ("any", tree.Semantics.ANY_MATCH),
        ("skip-till-any-match", tree.Semantics.ANY_MATCH),
        ("SKIP_TILL_ANY_MATCH", tree.Semantics.ANY_MATCH),
        ("next", tree.Semantics.NEXT_MATCH),
        ("Skip-Till-Next-Match", tree.Semantics.NEXT_MATCH),
        ("cont", tree.Semantics.CONTIGUOUS),
        ("contiguous", tree.Semantics.CONTIGUOUS),
    ],
)
def test_semantics_has_short_and_long_names(word: str, semantics: tree.Semantics) -> None:
    clause = parse(f"PATTERN A SEMANTICS {word}").semantics
    assert clause is not None
    assert clause.semantics is semantics


@pytest.mark.parametrize("unit", ["min", "mins", "minute", "minutes", "MINUTES"])
def test_units_are_read_in_singular_and_plural(unit: str) -> None:
    window = parse(f"PATTERN A WITHIN 2 {unit}").window
    assert window is not None
    assert window.within == tree.Duration(span=Span(0, 0), microseconds=120_000_000)


def test_group_by_may_be_one_word_or_two() -> None:
    assert (
        parse("PATTERN A GROUP-BY k").group_by
        == parse("PATTERN A group by k").group_by
        == parse("PATTERN A GROUP - BY k").group_by
    )


def test_clauses_may_stand_in_any_order() -> None:
    assert parse("WITHIN 5 s PATTERN A RETURN COUNT(*)") == parse(
        "RETURN COUNT(*) PATTERN A WITHIN 5 s"
    )


def test_kleene_binds_tighter_than_not_and_not_tighter_than_or() -> None:
    pattern = parse("PATTERN SEQ(A OR NOT B+, C)").pattern
    assert isinstance(pattern, tree.Sequence)
    first = pattern.parts[0]
    assert isinstance(first, tree.Disjunction)
    assert isinstance(first.alternatives[1], tree.Negation)
    assert isinstance(first.alternatives[1].pattern, tree.Repeat)


def test_arithmetic_binds_as_in_sql() -> None:
    assert where("A.x - 1 - 2 * 3 < 4") == where("((A.x - 1) - (2 * 3)) < 4")
    assert where("NOT A.x = 1 AND A.y = 2 OR A.z = 3") == where(
        "((NOT (A.x = 1)) AND A.y = 2) OR A.z = 3"
    )
    assert where("A.x - (1 - 2) < 4") != where("A.x - 1 - 2 < 4")


def test_next_of_an_attribute_is_the_attribute_of_next() -> None:
    assert where("A.x < NEXT(A.x)") == where("A.x < NEXT(A).x")


def test_signs_of_the_papers_are_understood() -> None:
    assert where("A.x ≤ 1 ∧ A.y ≠ 2 ∨ ¬ A.z ≥ 3") == where("A.x <= 1 AND A.y <> 2 OR NOT A.z >= 3")
    assert where("A.x == 1 AND A.y != 2") == where("A.x = 1 AND A.y <> 2")


def test_literals_of_different_types_differ() -> None:
    assert where("A.x = 1") != where("A.x = 1.0")
    assert where("A.x = 1") != where("A.x = TRUE")


def test_spans_cover_the_whole_construct() -> None:
    text = "PATTERN (A OR B)+ WHERE ( A.x > 5 ) AND NEXT(A).y > A.y"
    query = parse(text)
    assert text[query.pattern.span.start : query.pattern.span.end] == "(A OR B)+"
    assert isinstance(query.where, tree.Logical)
    shown = [text[o.span.start : o.span.end] for o in query.where.operands]
    assert shown == ["( A.x > 5 )", "NEXT(A).y > A.y"]


def test_comments_are_skipped() -> None:
    assert parse("PATTERN A -- B\n/* C\n */ WITHIN 5 s") == parse("PATTERN A WITHIN 5 s")


@pytest.mark.parametrize("mark", ["#", "//", "--"])
def test_comments_may_start_as_in_other_languages(mark: str) -> None:
    text = f"{mark} it's first\nPATTERN A {mark}second {mark} and more"
    assert parse(text) == parse("PATTERN A")
    assert [c.text for c in comments_of(text)] == ["it's first", f"second {mark} and more"]


@pytest.mark.parametrize("end", [";", " ; ", ";\n-- last\n", "; /* last */"])
def test_a_mark_may_end_the_query(end: str) -> None:
    assert parse(f"PATTERN A WITHIN 1 min{end}") == parse("PATTERN A WITHIN 1 min")


@pytest.mark.parametrize(
    "text",
    ["INTERVAL '10' MINUTE", "interval '10 minutes'", "INTERVAL 10 min", "interval' 10 'Minutes"],
)
def test_an_interval_of_sql_is_a_duration(text: str) -> None:
    assert parse(f"PATTERN A WITHIN {text} SLIDE {text}") == parse(
        "PATTERN A WITHIN 10 minutes SLIDE 10 minutes"
    )
    assert where(f"B.ts - A.ts > {text}") == where("B.ts - A.ts > 10 minutes")


def test_a_time_of_sql_is_a_text() -> None:
    assert where("A.ts > TIMESTAMP '2026-01-31'") == where("A.ts > '2026-01-31'")
    assert where("A.ts IN (date '2026-01-31')") == where("A.ts IN ('2026-01-31')")


def test_names_of_times_and_durations_stay_names() -> None:
    for name in ("interval", "timestamp", "date", "interval5min"):
        assert format_expression(where(f"A.{name} > 5 AND {name} = A.x")) == (
            f"A.{name} > 5 AND {name} = A.x"
        )


def test_a_quote_in_a_comment_and_a_dash_in_a_text_are_what_they_are() -> None:
    assert where("A.x = '--' -- don't") == where("A.x = '--'")


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN " + "(" * 200 + "A" + ")" * 200,
        "PATTERN " + "SEQ(" * 200 + "A" + ")" * 200,
        "PATTERN A" + "+" * 200,
        "PATTERN " + "NOT " * 200 + "A",
        "PATTERN A WHERE " + "NOT " * 200 + "A.x",
        "PATTERN A WHERE A.x > " + "- " * 200 + "1",
        "PATTERN A WHERE " + "(" * 2000 + "A.x" + ")" * 2000,
        "PATTERN A WHERE A.x" + " + 1" * 200 + " > 1",
    ],
)
def test_deep_nesting_is_read_or_rejected_without_a_crash(text: str) -> None:
    try:
        parse(text)
    except QuerySyntaxError as error:
        assert error.diagnostics[0].code == "E106"  # noqa: PT017  # parentheses alone are no nesting
    else:
        assert text.count("(") in (200, 2000), "only parentheses leave no nesting in the tree"


def test_a_pattern_nested_200_deep_is_rejected() -> None:
    text = "PATTERN " + "SEQ(A, " * 200 + "B" + ")" * 200
    with pytest.raises(QuerySyntaxError, match=f"more than {NESTING_MAX} levels"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN A WHERE " + " AND ".join(["A.x > 1"] * 100_000),
        "PATTERN A" + " " * 1_000_000,
        "(" * 1_000_000,
        "'" * 1_000_001,
    ],
)
def test_a_query_of_a_megabyte_is_rejected_at_once(text: str) -> None:
    start = time.perf_counter()
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text)
    assert caught.value.diagnostics[0].code == "E106"
    assert time.perf_counter() - start < 1


def test_a_query_at_the_limit_is_still_read() -> None:
    chain = " AND ".join(["A.x > 1"] * 5_000)
    assert len(chain) < TEXT_LENGTH_MAX
    where_clause = where(chain)
    assert isinstance(where_clause, tree.Logical)
    assert len(where_clause.operands) == 5_000


@pytest.mark.parametrize("number", ["9" * 5000, "1e999", "1" * 41 + ".5", "9223372036854775808"])
def test_numbers_that_do_not_fit_are_rejected(number: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        where(f"A.x > {number}")
    assert caught.value.diagnostics[0].code == "E107"


def test_the_smallest_whole_number_can_be_written() -> None:
    assert where("A.x > -9223372036854775808") == tree.Binary(
        span=Span(0, 0),
        operator=">",
        left=tree.Attribute(
            span=Span(0, 0),
            variable=tree.Name(span=Span(0, 0), text="A"),
            attribute=tree.Name(span=Span(0, 0), text="x"),
        ),
        right=tree.Literal(span=Span(0, 0), value=-(2**63)),
    )


@pytest.mark.parametrize(
    "number", ["9223372036854775808", "+9223372036854775808", "1 - 9223372036854775808"]
)
def test_the_whole_number_above_the_largest_cannot(number: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        where(f"A.x > {number}")
    assert caught.value.diagnostics[0].code == "E107"


def test_the_double_above_the_largest_whole_number_can_be_written() -> None:
    assert where("A.x > 9223372036854775808.0") == where("A.x > 9.223372036854775808e18")


@pytest.mark.parametrize("number", ["9223372036854775808", "99999999999999999999", "9" * 100])
def test_the_double_that_is_offered_can_be_written(number: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        where(f"A.x > {number}")
    offered = caught.value.diagnostics[0].helps[0].split("`")[1]
    assert where(f"A.x > {offered}") == where(f"A.x > {float(number)!r}")


def test_comparisons_in_parentheses_can_be_compared() -> None:
    compared = where("(A.x > 1) = (A.y > 2)")
    assert isinstance(compared, tree.Binary)
    assert compared.operator == "="
    assert where("((A.x) > 1) = TRUE") == where("(A.x > 1) = TRUE")


@pytest.mark.parametrize("text", ["A.x > 1 = TRUE", "(A.x) > 1 = TRUE", "(A.x > 1) = TRUE = TRUE"])
def test_comparisons_without_parentheses_do_not_chain(text: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        where(text)
    assert caught.value.diagnostics[0].code == "E110"


@pytest.mark.parametrize(
    "text", ["PATTERN A WHERE A.x = '\ud800'", "PATTERN `\udfff`", "PATTERN A -- \udc80"]
)
def test_half_a_character_is_rejected(text: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text)
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.code == "E103"
    assert diagnostic.span is not None
    assert "\ud800" <= text[diagnostic.span.start] <= "\udfff"
    assert str(caught.value).encode()


@pytest.mark.parametrize("word", ["next", "first", "end", "slide", "without", "on", "group"])
def test_a_variable_of_any_may_be_called_like_a_keyword(word: str) -> None:
    """``NOT ANY next`` forbids every event, and not those of a type that is called ANY."""
    found = parse(f"RETURN COUNT(*) PATTERN SEQ(A a, NOT ANY {word} WITHIN 3 hours)")
    assert f"ANY `{word}`" in format_query(found) or f" ANY {word} " in format_query(found)


@pytest.mark.parametrize("rest", ["WITHIN 3 s", "GROUP-BY x", "OR b", "AFTER MATCH SKIP TO NEXT"])
def test_any_before_a_clause_is_a_type(rest: str) -> None:
    assert "`ANY`" in format_query(parse(f"RETURN COUNT(*) PATTERN ANY {rest}"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("RETURN MATCHES PATTERN A a THEN B b", "SEQ(A+, B)"),
        ("RETURN MATCHES PATTERN A FOLLOWED BY B", "SEQ(A+, B)"),
        ("RETURN MATCHES PATTERN A a{3,} NEXT B b", "SEQ(A+, B)"),
        ("RETURN COUNT(*) PATTERN B b WITHOUT A a", "SEQ(NOT A, B)"),
        ("RETURN COUNT(*) PATTERN B b GROUP-BY b.x", "all events of a match share"),
        ("RETURN COUNT(*) PATTERN A SEMANTICS followedByAny", "skip-till-any-match"),
        ("DEFINE A AS x > 1, B AS y > 1 PATTERN A while B", "write `intersects`"),
    ],
)
def test_first_words_of_newcomers_get_an_answer(text: str, told: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text)
    helps = [help_ for one in caught.value.diagnostics for help_ in one.helps]
    assert any(told in help_ for help_ in helps), helps
