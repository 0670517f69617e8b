"""However values are stored, queries of every kind read the same events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import cepheid
from cepheid.errors import DataError
from cepheid.events.arriving import as_table, plain_reader, plain_schema, plain_table

TEXTS = pa.array(["p", "q", None, "p"])
NUMBERS = pa.array([5, 6, None, 5])
Stored = Callable[[Any], Any]
FORMS: dict[str, Stored] = {
    "dictionary": lambda a: a.dictionary_encode(),
    "run-end": lambda a: pc.run_end_encode(a),  # type: ignore[attr-defined]
    "view": lambda a: a.cast(pa.string_view()) if pa.types.is_string(a.type) else a,
    "large": lambda a: a.cast(pa.large_string()) if pa.types.is_string(a.type) else a,
    "dictionary of views": lambda a: (
        pa.DictionaryArray.from_arrays(
            a.dictionary_encode().indices, a.dictionary_encode().dictionary.cast(pa.string_view())
        )
        if pa.types.is_string(a.type)
        else a
    ),
    "null in the dictionary": lambda a: pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 0]), pc.unique(a)
    ),
    "chunks": lambda a: pa.chunked_array([a.slice(0, 1), a.slice(1, 0), a.slice(1)]),
}
QUERIES = {
    "groups": "RETURN x, COUNT(*) PATTERN A GROUP-BY x",
    "partitions": "RETURN COUNT(*) PATTERN A+ WHERE [x] WITHIN 2 EVENTS SLIDE 2 EVENTS",
    "matches": "RETURN MATCHES PATTERN A WHERE A.y >= 5",
    "extremes": "RETURN MIN(A.y), MAX(A.y), SUM(A.y) PATTERN A+",
    "situations": "PARTITION BY type DEFINE S AS y = 5 SITUATIONS S",
    "select": "SELECT x, COUNT(*), SUM(y) FROM s GROUP BY x",
    "rows": "SELECT x, y FROM s WHERE y = 5",
}


def events(stored: Stored) -> pa.Table:
    types = pa.array(["A"] * 4)
    if stored is not FORMS["null in the dictionary"]:
        types = stored(types)
    return pa.table({"ts": [1, 2, 3, 4], "type": types, "x": stored(TEXTS), "y": stored(NUMBERS)})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", QUERIES)
def test_every_kind_of_query_takes_every_form(name: str, form: str) -> None:
    query = cepheid.query(QUERIES[name])
    expected = query.run(events(lambda a: a)).to_pylist()
    table = events(FORMS[form])
    assert expected
    assert query.run(table).to_pylist() == expected
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=1))
    assert query.run(reader).to_pylist() == expected


@pytest.mark.parametrize("form", FORMS)
def test_numbers_are_keys_in_every_form(form: str) -> None:
    table = events(FORMS[form])
    query = "RETURN y, COUNT(*) PATTERN A GROUP-BY y"
    expected = [{"y": 5, "count": 2.0}, {"y": 6, "count": 1.0}]
    assert cepheid.query(query).run(table).to_pylist() == expected
    found = cepheid.workload({"q": query}).run(table, separate=True)["q"].to_pylist()
    assert found == expected
    live = cepheid.workload({"q": query}).live(table.schema)
    rows = live.feed(table).to_pylist() + live.close().to_pylist()
    assert [{"y": r["y"], "count": r["count"]} for r in rows] == expected


def test_a_store_takes_every_form(tmp_path: Any) -> None:
    query = cepheid.query(QUERIES["groups"])
    for form, stored in FORMS.items():
        store = cepheid.EventStore(tmp_path / form.replace(" ", "-"))
        store.append(events(stored))
        assert len(query.run(store).to_pylist()) == 2, form


def test_categories_of_pandas_are_values() -> None:
    frame = pd.DataFrame({"ts": [1, 2], "type": ["A", "A"], "x": pd.Categorical([5, 6])})
    found = cepheid.query("RETURN x, COUNT(*) PATTERN A GROUP-BY x").run(frame)
    assert found["x"].tolist() == [5, 6]


def test_structures_are_plain_inside() -> None:
    runs = pc.run_end_encode(pa.array([1, 1]))  # type: ignore[attr-defined]
    nested = pa.StructArray.from_arrays([runs], names=["a"])
    table = plain_table(pa.table({"s": nested}))
    assert table.schema.field("s").type == pa.struct([("a", pa.int64())])
    assert table.to_pylist() == [{"s": {"a": 1}}, {"s": {"a": 1}}]


def test_plain_events_stay_as_they_are() -> None:
    table = pa.table({"x": [1], "t": pa.array(["p"]).dictionary_encode()})
    assert plain_table(table) is table
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    assert plain_reader(reader) is reader
    assert plain_schema(table.schema) == table.schema


def test_two_columns_of_one_name_are_refused() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    for twice in (table, table.to_batches()[0], table.to_batches()):
        with pytest.raises(DataError, match=r"E516.*two columns are called `x`"):
            as_table(twice)
    frame = pd.DataFrame([[1, 2]], columns=["x", "x"])
    with pytest.raises(DataError, match="E516"):
        as_table(frame)
    with pytest.raises(DataError, match="E516"):
        cepheid.sql(
            text="SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS x = 1)",
            tables={"t": table},
        )


def test_halves_are_numbers() -> None:
    halves = pa.array([1.5, None, 1.5], pa.float32()).cast(pa.float16())
    table = pa.table({"ts": [1, 2, 3], "type": ["A"] * 3, "y": halves})
    text = "SELECT y, COUNT(*) FROM s GROUP BY y"
    assert cepheid.query(text).run(table).to_pylist() == [
        {"y": 1.5, "count": 2},
        {"y": None, "count": 1},
    ]
