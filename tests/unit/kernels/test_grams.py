"""Needles are found in texts where a search one by one finds them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from cepheid.expressions import tree
from cepheid.kernels.grams import AT_BEGIN, AT_END, WHOLE
from cepheid.kinds.selection.bind import compile_select
from cepheid.kinds.workload.filter_tests import ConditionTable
from cepheid.kinds.workload.needles import Needles
from cepheid.language.parser import parse
from cepheid.patterns.scope import Source

FITS: dict[int, Callable[[bytes, bytes], bool]] = {
    0: lambda text, needle: needle in text,
    AT_BEGIN: bytes.startswith,
    AT_END: bytes.endswith,
    WHOLE: bytes.__eq__,
}


@pytest.mark.parametrize("seed", range(8))
def test_every_text_with_a_needle_is_found(seed: int) -> None:
    rng = random.Random(seed)
    letters = "abé\\"

    def text(least: int, most: int) -> str:
        return "".join(rng.choice(letters) for _ in range(rng.randint(least, most)))

    needles = {text(3, 6).encode() for _ in range(30)}
    index = Needles(needles)
    for _ in range(2):  # The grams that the first texts have chosen serve the second ones.
        texts = [text(0, 12) for _ in range(60)]
        kind = rng.choice([pa.string(), pa.large_string()])
        column = pa.array(["x", *texts], kind).slice(1)
        found = index.find(column)
        for needle in needles:
            for where, fits in FITS.items():
                places = found.places_of(frozenset([needle]), where).tolist()
                assert places == [n for n, one in enumerate(texts) if fits(one.encode(), needle)]
            assert (needle in found.hits) == any(needle in one.encode() for one in texts)


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
    "x IN ('four', 'one')": {b"four", b"one"},
    "x IN ('four', 'no')": set(),
    "x NOT LIKE '%four%'": set(),
    "x NOT IN ('four')": set(),
    "x LIKE '%abc%'": {b"abc"},
    "x LIKE '%ab%'": set(),
    "x <> 'four'": set(),
    "x LIKE 'äb%'": {"äb".encode()},
    "x LIKE 'ä%'": set(),
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
