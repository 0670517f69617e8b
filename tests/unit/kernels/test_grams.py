"""Needles are found in texts where a search one by one finds them, and texts without are few."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from cepheid.expressions import tree
from cepheid.kinds.selection.bind import compile_select
from cepheid.kinds.workload.filter_tests import ConditionTable
from cepheid.kinds.workload.needles import Needles
from cepheid.language.parser import parse
from cepheid.patterns.scope import Source


@pytest.mark.parametrize("seed", range(8))
def test_every_text_with_a_needle_is_found(seed: int) -> None:
    rng = random.Random(seed)
    letters = "abé\\"

    def text(least: int, most: int) -> str:
        return "".join(rng.choice(letters) for _ in range(rng.randint(least, most)))

    needles = {text(4, 6).encode() for _ in range(30)}
    index = Needles(needles)
    for _ in range(2):  # The grams that the first texts have chosen serve the second ones.
        texts = [text(0, 12) for _ in range(60)]
        kind = rng.choice([pa.string(), pa.large_string()])
        column = pa.array(["x", *texts], kind).slice(1)
        found = index.find(column)
        for needle in needles:
            places = found.places_of(frozenset([needle])).tolist()
            assert places == sorted(set(places))
            right = [n for n, one in enumerate(texts) if needle in one.encode()]
            assert set(right) <= set(places)
            grams = {needle[at : at + 4] for at in range(len(needle) - 3)}
            assert all(any(gram in texts[n].encode() for gram in grams) for n in places)


def test_more_places_than_there_is_room_for() -> None:
    index = Needles([b"abcd", b"bcde"])
    found = index.find(pa.array(["abcde"] * 5_000))
    assert len(found.places_of(frozenset([b"abcd", b"bcde"]))) == 5_000


NEEDLES = {
    r"x LIKE '%\\cmd.exe'": {b"\\cmd.exe"},
    "x LIKE '%ab%longer%c%'": {b"longer"},
    r"x LIKE 'a\_bcd%'": {b"a_bcd"},
    "x = 'four'": {b"four"},
    "'four' = x": {b"four"},
    "x IN ('four', 'three')": {b"four", b"three"},
    "x IN ('four', 'one')": set(),
    "x NOT LIKE '%four%'": set(),
    "x NOT IN ('four')": set(),
    "x LIKE '%abc%'": set(),
    "x <> 'four'": set(),
    "x LIKE 'äb%'": set(),
    "x LIKE 'äbc%'": {"äbc".encode()},
    "x IS NULL": set(),
}


@pytest.mark.parametrize("condition", NEEDLES)
def test_needles_of_conditions(condition: str) -> None:
    text = f"SELECT * FROM s WHERE {condition}"
    query = parse(text)
    assert isinstance(query, tree.Node)
    plan = compile_select(query, text, Source())  # type: ignore[arg-type]  # it is a SELECT
    (bound,) = plan.select.condition
    assert ConditionTable().of(bound).needles == NEEDLES[condition]
