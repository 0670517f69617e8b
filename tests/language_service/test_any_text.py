"""The service answers whatever is typed: half queries, mutated ones, and no queries at all."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws.mutations import corpus, mutate

from cepheid.errors import CepheidError
from cepheid.language.parser import parse
from cepheid.language_service import complete, diagnostics, format_text, hover, symbols
from cepheid.language_service.answers import apply_edits
from cepheid.language_service.places import from_utf16, to_utf16

TEXTS = corpus()
COLUMNS = {"ts": "timestamp", "type": "string", "price": "double", "k": "string"}
VALUES: dict[str, list[object]] = {"type": ["A", "B c"], "k": ["x", "it's", 5, None, float("nan")]}
ANY = st.text(max_size=60)
PIECES = [
    *("PATTERN", "SEQ(", "A", "a", ",", ")", "WHERE", ".", "price", "=", "'", "`", "[", "]", "+"),
    *("NOT", "WITHIN", "5", "minutes", "SELECT", "FROM", "DEFINE", "AS", "CREATE STREAM", ";"),
    *("MATCH_RECOGNIZE", "(", "/*", "--", "\n", "GROUP", "BY", "-", "{", "SWEEP", "\ud800"),
    "\U0001f600",
]
WORDS = st.lists(st.sampled_from(PIECES), max_size=14).map(" ".join)


def ask(text: str, offset: int) -> None:
    """Ask everything about a place of a text, and check what holds for every answer."""
    for found in diagnostics(text, COLUMNS):
        assert 0 <= found.span.start <= found.span.end <= len(text)
        for fix in found.fixes:
            assert apply_edits(text, fix.edits) != text
    for one in complete(text, offset, COLUMNS, VALUES):
        assert 0 <= one.span.start <= one.span.end <= len(text)
        assert one.insert
    told = hover(text, offset, COLUMNS)
    assert told is None or told.text
    for symbol in symbols(text):
        assert 0 <= symbol.span.start <= symbol.span.end <= len(text)
    laid_out = format_text(text)
    if laid_out is not None:
        assert parse(laid_out) == parse(text)


@settings(max_examples=150, deadline=None)
@given(text=ANY | WORDS, part=st.floats(0, 1))
def test_any_text(text: str, part: float) -> None:
    ask(text, round(part * len(text)))


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), part=st.floats(0, 1), where=st.floats(0, 1))
def test_unfinished_and_mutated_queries(seed: int, part: float, where: float) -> None:
    dice = random.Random(seed)
    text = dice.choice(TEXTS)
    if dice.random() < 0.5:
        text = mutate(text, dice)
    text = text[: round(part * len(text))]
    ask(text, round(where * len(text)))


def test_every_query_of_the_project() -> None:
    for text in TEXTS:
        ask(text, len(text) // 2)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_completion_leads_on(seed: int) -> None:
    """Keywords that are offered in a right query are read: the mistake, if any, is behind them."""
    dice = random.Random(seed)
    text = dice.choice(TEXTS)
    before = text[: dice.randrange(len(text) + 1)]
    cut = before[: before.rfind(" ") + 1]
    if mistaken_before(cut, len(cut.rstrip())):
        return  # Half of a keyword was cut off.
    for one in complete(cut, len(cut), COLUMNS):
        if one.kind != "clause":
            continue
        taken = cut[: one.span.start] + one.insert
        assert not mistaken_before(taken, len(taken) - len(one.insert)), taken


def mistaken_before(text: str, place: int) -> bool:
    """Check whether the parser stops before a place."""
    try:
        parse(text)
    except CepheidError as error:
        return any(d.span is not None and d.span.start < place for d in error.diagnostics)
    return False


@given(text=ANY, place=st.integers(0, 70))
def test_offsets_of_utf16(text: str, place: int) -> None:
    place = min(place, len(text))
    assert from_utf16(text, to_utf16(text, place)) == place
    assert to_utf16(text, place) == len(text[:place].encode("utf-16-le", "surrogatepass")) // 2
