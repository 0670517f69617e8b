"""MATCH_RECOGNIZE on a simulated GPU gives what the standard defines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.row_pattern import reference
from tests.row_pattern.test_reference import SCHEMA, clauses, conditions, same, tables

import cepheid
from cepheid.errors import UnsupportedError
from cepheid.kernels import row_pattern_tables
from cepheid.kinds.row_pattern import device
from cepheid.kinds.row_pattern.bind import bind_clause
from cepheid.kinds.row_pattern.find import NotSearchedError
from cepheid.kinds.row_pattern.parser import parse_clause_text
from cepheid.kinds.row_pattern.recognize import parts_of, quest_of

pytestmark = pytest.mark.timeout(300)
PAST = clauses(conditions(seeing=False)).map(
    lambda text: (
        text.split(" AFTER MATCH SKIP ")[0]
        + " AFTER MATCH SKIP PAST LAST ROW PATTERN "
        + text.split(" PATTERN ", 1)[1]
    )
)


@settings(max_examples=8 * settings().max_examples)
@given(PAST, tables, st.sampled_from([1, 4]))
def test_random_clauses_give_the_rows_of_the_reference(
    text: str, rows: list[dict[str, Any]], chunk: int
) -> None:
    clause = parse_clause_text(text)
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    quest = quest_of(bind_clause(clause, table.column_names, text), table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cepheid.accelerator.row_patterns.SIMULATED_CHUNK", chunk)
        try:
            there = quest._replace(elsewhere=device.search_on_device)
            found = pa.concat_tables(parts_of(there)).to_pylist()
        except NotSearchedError:
            return
    assert same(found, reference.recognize(clause, rows)), f"{text}\n{rows}\n{found}"


def prices(length: int = 500) -> pa.Table:
    rng = np.random.default_rng(2)
    columns: dict[str, Any] = {
        "ts": pa.array(np.arange(length)),
        "k": pa.array(rng.choice(["x", "y", "z"], length)),
        "price": pa.array(np.cumsum(rng.integers(-2, 3, length))),
    }
    return pa.table(columns)


TEXT = (
    "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(A.ts) AS began, "
    "COUNT(B.*) AS falls, LAST(C.price) AS dear, MATCH_NUMBER() AS n {rows} "
    "AFTER MATCH SKIP {skip} PATTERN (A B+ {last}) "
    "DEFINE B AS B.price < PREV(B.price), C AS C.price > PREV(C.price))"
)
ONE, ALL = "ONE ROW PER MATCH", "ALL ROWS PER MATCH WITH UNMATCHED ROWS"


@pytest.mark.parametrize(
    ("rows", "last"), [(ONE, "C+"), (ALL, "C{2,3}"), (ONE, "C*?"), (ALL, "(C | D)")]
)
def test_matches_over_many_chunks_are_those_of_the_cpu(
    rows: str, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TEXT.format(rows=rows, skip="PAST LAST ROW", last=last)
    query = cepheid.query(text).with_schema(prices().schema)
    expected = query.run(prices())
    assert len(expected) > 20
    monkeypatch.setattr(row_pattern_tables, "find_by_tables", None)
    assert query.run(prices(), device="gpu").equals(expected)
    assert not len(query.run(prices(0), device="gpu"))


@pytest.mark.parametrize(
    "text",
    [
        TEXT.format(rows=ONE, skip="TO NEXT ROW", last="C+"),
        TEXT.format(rows=ONE, skip="PAST LAST ROW", last="C{9}"),
        TEXT.format(rows=ONE, skip="PAST LAST ROW", last="C+").replace("C.price >", "A.price <"),
    ],
)
def test_other_clauses_are_refused(text: str) -> None:
    query = cepheid.query(text).with_schema(prices().schema)
    with pytest.raises(UnsupportedError) as caught:
        query.run(prices(), device="gpu")
    assert caught.value.diagnostics[0].code == "E552"
    assert device.NOT_SEARCHED in caught.value.diagnostics[0].message
    assert query.run(prices(), device="auto").equals(query.run(prices()))
