"""Whatever holds events in this process is taken, and data frames give data frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, assert_type
from xml.etree import ElementTree as ET

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset

import cepheid
from cepheid.events.schema import ValueKind, read_schema

if TYPE_CHECKING:
    import polars as pl

EVENTS = pa.table({"ts": [1, 2, 3, 4], "type": ["A", "A", "B", "B"], "x": [1.5, None, 2.0, 0.5]})
CLAUSE = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES B.ts AS b PATTERN (A B) {})".format(
    "DEFINE A AS type = 'A', B AS type = 'B'"
)
JOIN = "SELECT a.ts AS a, b.ts AS b FROM a JOIN b ON a.x < b.x WINDOW 1 second"


class Exported:
    """Something of another library that exports a stream of Arrow, once."""

    def __init__(self, table: pa.Table) -> None:
        self._stream: Any = table.to_reader()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream, self._stream = self._stream, None
        return stream.__arrow_c_stream__(requested_schema)


def polars(table: pa.Table) -> Any:
    return pytest.importorskip("polars").from_arrow(table)


FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "stream": Exported,
    "dicts": lambda table: table.to_pylist(),
    "tuple of dicts": lambda table: tuple(table.to_pylist()),
    "dicts without NULL": lambda table: [
        {name: value for name, value in row.items() if value is not None}
        for row in table.to_pylist()
    ],
    "batches": lambda table: table.to_batches(max_chunksize=2),
    "dataset": lambda table: dataset.dataset(table),
    "scanner": lambda table: dataset.dataset(table).scanner(),
    "reader": lambda table: table.to_reader(),
    "polars": polars,
    "lazy polars": lambda table: polars(table).lazy(),
}


def rows(result: Any) -> Any:
    return result.to_dicts() if hasattr(result, "to_dicts") else result.to_pylist()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "text",
    [
        "RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A+, B)",
        "RETURN MATCHES PATTERN SEQ(A+, B)",
        "PARTITION BY type DEFINE S AS x > 1 SITUATIONS S",
        "SELECT type, COUNT(*), SUM(x) FROM s GROUP BY type",
    ],
)
def test_every_form_gives_the_same_rows(text: str, form: str) -> None:
    query = cepheid.query(text)
    result = query.run(FORMS[form](EVENTS))
    assert rows(result) == query.run(EVENTS).to_pylist()
    assert type(result).__module__.startswith("polars" if "polars" in form else "pyarrow")


@pytest.mark.parametrize("form", FORMS)
def test_matches_workloads_joins_and_sql_take_every_form(form: str) -> None:
    hold = FORMS[form]
    listing = cepheid.query("RETURN MATCHES PATTERN SEQ(A+, B)")
    expected = listing.matches(EVENTS).read_all().to_pylist()
    assert listing.matches(hold(EVENTS)).read_all().to_pylist() == expected
    several = cepheid.workload({"ab": "RETURN COUNT(*) PATTERN SEQ(A, B)"})
    assert rows(several.run(hold(EVENTS))) == several.run(EVENTS).to_pylist()
    join = cepheid.query(JOIN)
    joined = join.run({"a": hold(EVENTS), "b": hold(EVENTS)})
    assert rows(joined) == join.run({"a": EVENTS, "b": EVENTS}).to_pylist()
    found = cepheid.sql(CLAUSE, tables={"t": hold(EVENTS)})
    assert rows(found) == cepheid.sql(CLAUSE, tables={"t": EVENTS}).to_pylist() == [{"b": 3}]


def test_a_store_and_live_rules_take_dicts(tmp_path: Any) -> None:
    store = cepheid.EventStore(tmp_path / "store", time="ts")
    store.append(EVENTS.to_pylist())
    query = cepheid.query("RETURN COUNT(*) PATTERN SEQ(A+, B)")
    assert query.run(store) == query.run(EVENTS)
    rules = cepheid.workload({"ab": query}).live(EVENTS.schema)
    rules.feed(EVENTS.to_pylist())
    assert rules.close().to_pylist() == [{"query": "ab", "count": 6.0}]


def test_unordered_dicts_are_sorted_with_a_warning() -> None:
    query = cepheid.query("RETURN COUNT(*) PATTERN SEQ(A+, B)")
    with pytest.warns(UserWarning, match="order"):
        assert query.run(EVENTS.to_pylist()[::-1]) == query.run(EVENTS)


def test_a_join_of_two_libraries_gives_arrow() -> None:
    events = {"a": EVENTS.to_pandas(), "b": EVENTS}
    assert isinstance(cepheid.query(JOIN).run(events), pa.Table)
    assert isinstance(
        cepheid.query(JOIN).run(dict.fromkeys("ab", EVENTS.to_pandas())), pd.DataFrame
    )


@pytest.mark.parametrize(
    ("events", "code", "message"),
    [
        ([], "E592", "an empty list names no columns"),
        ([1, 2], "E592", "and no int"),
        ([{"ts": 1}, None], "E592", "and no NoneType"),
        ({"ts": [1]}, "E592", "pass a list of such dicts"),
        (iter([{"ts": 1}]), "E592", r"pass `list\(events\)`"),
        ([{"ts": 1}, {"ts": "x"}], "E501", "the values of `ts` have no common type"),
        ([{"ts": 2**70}], "E501", "the values of `ts`"),
        (pa.chunked_array([[1]]), "E501", "a ChunkedArray is no stream of rows"),
    ],
)
def test_what_holds_no_events_is_refused_with_a_way_out(
    events: Any, code: str, message: str
) -> None:
    with pytest.raises(cepheid.CepheidError, match=message) as caught:
        cepheid.query("RETURN COUNT(*) PATTERN A").run(events)
    assert caught.value.diagnostics[0].code == code


def test_columns_are_read_from_data_frames() -> None:
    times = pa.table({"ts": pa.array([1], pa.timestamp("ns")), "type": ["A"]})
    for frame in (times.to_pandas(), polars(times), polars(times).lazy(), polars(times).schema):
        schema = read_schema(frame)
        assert schema is not None
        assert schema.kind("type") is ValueKind.TEXT
        assert schema.in_nanoseconds("ts")


def test_results_have_the_types_that_checkers_see() -> None:
    query = cepheid.query("RETURN COUNT(*) PATTERN SEQ(A+, B)")
    assert_type(query.run(EVENTS), pa.Table)
    rows = [{"ts": 1, "type": "A"}, {"ts": 2, "type": "B"}]
    assert_type(query.run(rows), pa.Table)
    frame = assert_type(query.run(EVENTS.to_pandas()), pd.DataFrame)
    assert isinstance(frame, pd.DataFrame)
    join = cepheid.query("SELECT s.x FROM s JOIN r ON s.x = r.x WINDOW 5 seconds")
    stream = pa.table({"ts": [1, 2], "x": [1, 2]})
    assert_type(join.run({"s": stream, "r": stream}), pa.Table)
    events: pl.DataFrame = polars(EVENTS)
    assert_type(query.run(events), "pl.DataFrame")
    assert_type(query.run(events.lazy()), "pl.DataFrame")


def test_a_query_prints_in_two_lines() -> None:
    query = cepheid.query(
        "RETURN sector, COUNT(*)\nPATTERN Stock S+\n"
        "WHERE [company, sector] AND S.price > NEXT(S).price\nGROUP-BY sector WITHIN 10 minutes"
    )
    first, second = repr(query).splitlines()
    assert first.startswith("CompiledQuery  RETURN sector, COUNT(*) PATTERN Stock S+ WHERE")
    assert second == "  count by sector, indexed (mixed-grained)"
    assert max(map(len, (first, second))) <= 80
    assert repr(cepheid.workload({"a": query, "b": query})) == "Workload  2 queries: a, b"


def test_a_query_in_a_notebook_has_no_markup_of_its_own() -> None:
    page = cepheid.query("RETURN COUNT(*) PATTERN A WHERE A.x = '<script>alert(1)</script>'")
    shown = page._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert ET.fromstring(shown).find("{http://www.w3.org/2000/svg}svg") is not None


@pytest.mark.parametrize(
    "text",
    [
        "RETURN COUNT(*) PATTERN (SEQ(A+, NOT SEQ(C, NOT E, D), B))+",
        "RETURN COUNT(*) PATTERN SEQ(A, B?, C*, D, E)",
        "RETURN COUNT(*) PATTERN SEQ(" + ", ".join(f"A a{n}" for n in range(20)) + ")",
        "SELECT COUNT(*), AVG(load) FROM metrics GROUP BY host WINDOW 1 hour",
        "PARTITION BY type DEFINE S AS x < 1 SITUATIONS S",
    ],
)
def test_the_picture_of_a_plan_is_well_formed(text: str) -> None:
    query = cepheid.query(text)
    page = ET.fromstring(query._repr_html_())
    circles = page.findall(".//{http://www.w3.org/2000/svg}circle")
    template = getattr(query.plan, "patterns", [None])[0]
    if template is None or len(template.states) > 15:
        assert "flowchart LR" in "".join(page.itertext())
    else:
        assert len(circles) == 1 + len(template.states) + len(template.finals)
