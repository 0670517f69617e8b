"""Types of events as bits: texts beside a few names, and texts that have a dictionary."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cepheid.arrays import columns
from cepheid.arrays.columns import FEW_ROWS, Columns, type_bits
from cepheid.arrays.noticing import Noticed, noticing
from cepheid.kernels.columns import look_up_texts
from cepheid.language import tree

NAMES = ["A", "B", "AB", "Order", "Ordem", "Ä", "", "a much longer name than all of the others"]


def cut(texts: list[str | None], kind: pa.DataType, chance: random.Random) -> pa.Table:
    """Return a column of types in chunks, each a slice of something longer."""
    middle = chance.randint(0, len(texts))
    whole = pa.array(["before", *texts, "after"], kind)
    column: Any = pa.chunked_array([whole[1 : middle + 1], whole[middle + 1 : -1]])
    return pa.table({"type": column})


@pytest.mark.parametrize("seed", range(30))
def test_texts_have_the_bits_of_their_dictionary(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    texts = list(chance.choices(NAMES[: chance.randint(1, len(NAMES))], k=2 * FEW_ROWS))
    types = chance.choices([*NAMES, "of no event", tree.ANY_TYPE], k=chance.randint(1, 10))
    table = cut([*texts], pa.string(), chance)
    compared = list[object]()
    monkeypatch.setattr(
        columns, "look_up_texts", lambda *given: compared.append(look_up_texts(*given))
    )
    plain = type_bits(Columns(table), "type", types, len(table))
    assert compared
    encoded = cut([*texts], pa.large_string(), chance)
    assert np.array_equal(plain, type_bits(Columns(encoded), "type", types, len(table)))
    expected = [
        sum(1 << n for n, name in enumerate(types) if name in (text, tree.ANY_TYPE))
        for text in texts
    ]
    assert plain.tolist() == expected


def test_types_that_are_null_fit_nothing() -> None:
    table = cut([None, "A"] * FEW_ROWS, pa.string(), random.Random(1))
    assert type_bits(Columns(table), "type", ["A", ""], len(table)).tolist() == [2, 3] * FEW_ROWS


def test_a_run_that_notices_types_sees_all_of_them() -> None:
    table = cut(["A", "Z"] * FEW_ROWS, pa.string(), random.Random(1))
    with noticing(Noticed()) as noticed:
        type_bits(Columns(table), "type", ["A"], len(table))
    assert noticed.types == {"A", "Z"}
