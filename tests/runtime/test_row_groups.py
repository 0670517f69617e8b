"""Row groups of Parquet files that cannot have a relevant event are left out, and nothing else."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from tests.engine.comparison import same_rows

import cepheid
from cepheid.errors import DataError
from cepheid.runtimes import row_groups

NAN = float("nan")
NUMBERS = [None, -2.0, -0.0, 0.0, 1.5, 3.0, NAN]
CONDITIONS = [
    "{0}price > 1.5", "{0}price >= 3", "{0}price < -0.5", "{0}price <= 0", "{0}price = 0.0",
    "{0}price <> 0", "{0}volume > 2", "{0}volume >= 2.5", "{0}volume < -2.5", "{0}volume = 1.5",
    "{0}name = 'b'", "{0}name > 'b'", "{0}name IN ('c', 'x')", "{0}name LIKE 'b%'",
    "{0}volume BETWEEN 2 AND 3", "{0}price IS NULL", "{0}price > 0 AND {0}name < 'b'",
    "{0}volume > 2 OR {0}price > 2", "{0}ts >= '1970-01-01 00:00:04'",
    "{0}ts < '1970-01-01 00:00:03'", "NOT ({0}volume > 1)",
]  # fmt: skip
PATTERNS = [
    "RETURN COUNT(*) PATTERN SEQ(A, B) WHERE {} WITHIN 3 s SLIDE 1 s",
    "RETURN COUNT(*), SUM(A.price) PATTERN A+ SEMANTICS next WHERE {} WITHIN 4 s",
    "RETURN COUNT(*) PATTERN SEQ(A, NOT C, B) WHERE {} WITHIN 4 s",
    "RETURN COUNT(*) PATTERN A+ SEMANTICS contiguous WHERE {} WITHIN 4 s",
    "RETURN COUNT(*) PATTERN SEQ(A, B) WHERE {} WITHIN 4 events SLIDE 2 events",
    "RETURN MATCHES PATTERN SEQ(A, B) WHERE {} WITHIN 4 s",
    "RETURN BLAME() PATTERN SEQ(A, B) WHERE {} WITHIN 4 s SLIDE 2 s",
]
SELECTS = [
    "SELECT ts, price, name FROM s WHERE {}",
    "SELECT COUNT(*) AS n, SUM(volume) AS v FROM s WHERE {} WINDOW 2 seconds",
    "SELECT COUNT(*) AS n FROM s WHERE {} WINDOW 2 events",
]
EVENT = st.tuples(
    st.integers(0, 2), st.sampled_from("ABC"), st.sampled_from(NUMBERS),
    st.sampled_from([None, -3, 1, 2, 3]), st.sampled_from([None, "a", "b", "bb", "c"]),
)  # fmt: skip


def table_of(events: list[tuple[Any, ...]], unit: Any) -> pa.Table:
    time, rows = datetime(1970, 1, 1), []
    for step, *rest in events:
        time += timedelta(seconds=step)
        rows.append((time, *rest))
    columns: list[Any] = [list(one) for one in zip(*rows, strict=True)] or [[]] * 5
    types = [pa.timestamp(unit), pa.string(), pa.float64(), pa.int32(), pa.string()]
    names = ["ts", "type", "price", "volume", "name"]
    return pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)})


@st.composite
def queries(draw: st.DrawFn) -> str:
    condition = draw(st.sampled_from(CONDITIONS))
    if draw(st.booleans()):
        return draw(st.sampled_from(SELECTS)).format(condition.format(""))
    return draw(st.sampled_from(PATTERNS)).format(condition.format("A."))


@given(
    queries(), st.lists(EVENT, min_size=1, max_size=14), st.integers(1, 4),
    st.sampled_from(["ms", "us", "ns"]), st.sampled_from(["texts", "a dictionary"]),
)  # fmt: skip
def test_files_and_tables_give_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, text: str, events: list[tuple[Any, ...]],
    rows: int, unit: str, kind: str,
) -> None:  # fmt: skip
    table = table_of(events, unit)
    path = tmp_path_factory.mktemp("groups") / "events.parquet"
    written = table
    if kind == "a dictionary":
        written = table.set_column(4, "name", table["name"].dictionary_encode())
    parquet.write_table(written, path, row_group_size=rows, version="2.6")
    query = cepheid.query(text)
    with warnings.catch_warnings(action="ignore"):
        assert same_rows(query.run(str(path)).to_pylist(), query.run(table).to_pylist())


@pytest.fixture
def sorted_file(tmp_path: Path) -> Path:
    """Write ten row groups: times, prices and types that rise."""
    count = 1000
    table = pa.table(
        {
            "ts": pa.array(range(count), pa.timestamp("us")),
            "type": ["A" if n < 500 else "B" for n in range(count)],
            "price": pa.array([float(n) for n in range(count)]),
            "volume": range(count),
        }
    )
    parquet.write_table(table, tmp_path / "events.parquet", row_group_size=100)
    return tmp_path / "events.parquet"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM s WHERE volume >= 750", [7, 8, 9]),
        ("SELECT * FROM s WHERE price < 150", [0, 1]),
        # A double may be NaN, which is larger than every number.
        ("SELECT * FROM s WHERE price > 750", None),
        ("SELECT * FROM s WHERE ts >= '1970-01-01 00:00:00.000350' AND volume < 420", [3, 4]),
        ("SELECT * FROM s WHERE volume > 5000", []),
        ("SELECT * FROM s WHERE type LIKE 'B%'", None),
        ("RETURN COUNT(*) PATTERN SEQ(B, C) WITHIN 1 s", [5, 6, 7, 8, 9]),
        ("RETURN COUNT(*) PATTERN SEQ(A, B) WHERE A.volume >= 450 AND B.volume < 600 WITHIN 1 s",
         [4, 5]),
        ("RETURN COUNT(*) PATTERN B+ SEMANTICS contiguous WITHIN 1 s", None),
        ("RETURN COUNT(*) PATTERN B+ WITHIN 10 events SLIDE 1 event", None),
    ],
)  # fmt: skip
def test_groups_that_cannot_have_a_relevant_event_are_left_out(
    sorted_file: Path, text: str, expected: list[int] | None
) -> None:
    read: list[object] = []

    def noted(*_: object, row_groups: object, **_other: object) -> Iterator[object]:
        read.append(row_groups)
        return iter(())

    with (
        parquet.ParquetFile(sorted_file) as file,
        mock.patch.object(parquet.ParquetFile, "iter_batches", autospec=True) as iterate,
    ):
        iterate.side_effect = noted
        with warnings.catch_warnings(action="ignore"):
            cepheid.query(text).run(str(sorted_file))
        choose = row_groups.group_choice(cepheid.query(text, schema=file.schema_arrow).plan)
        found = None if choose is None else choose(file)
    assert found == expected
    assert read[-1] == expected


def test_a_type_that_may_be_in_what_is_left_out_is_not_called_missing(sorted_file: Path) -> None:
    query = cepheid.query("RETURN COUNT(*) PATTERN SEQ(A, B) WHERE A.volume < 50 AND B.volume < 50")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        query.run(str(sorted_file))


def test_explain_tells_how_many_groups_are_read(sorted_file: Path) -> None:
    query = cepheid.query("SELECT COUNT(*) AS n FROM s WHERE volume >= 750 WINDOW 1 second")
    told = query.explain(events=str(sorted_file), analyze=True)
    assert "3 of 10 row groups; the others have no event that fits a condition" in told
    whole = cepheid.query("SELECT COUNT(*) AS n FROM s WINDOW 1 second")
    assert "row groups" not in whole.explain(events=str(sorted_file), analyze=True)


def test_a_file_of_which_nothing_is_read_has_the_columns_of_others(tmp_path: Path) -> None:
    for name, kind in (("a", "A"), ("b", "C"), ("c", "B")):
        times = pa.array([ord(name)] * 3, pa.timestamp("us"))
        table = pa.table({"ts": times, "type": [kind] * 3, "k": [1] * 3, "more": [1.0] * 3})
        parquet.write_table(table, tmp_path / f"{name}.parquet")
    for text in ("COUNT(*) PATTERN SEQ(A, B) WHERE [k]", "MATCHES PATTERN SEQ(A, B) WHERE [k]"):
        found = cepheid.query(f"RETURN {text} WITHIN 1 s").run(str(tmp_path))
        assert len(found) in (1, 9)


@pytest.mark.parametrize(("time", "code"), [(2**62, "E517"), (-(2**62), "E517"), (None, "E506")])
def test_a_time_that_is_refused_is_so_in_a_group_that_no_event_needs(
    tmp_path: Path, time: int | None, code: str
) -> None:
    for kind in (pa.int64(), pa.timestamp("us")):
        times = pa.array([time, 1, 2, 3], kind)
        table = pa.table({"ts": times, "type": list("CABC")})
        path = tmp_path / "events.parquet"
        parquet.write_table(table, path, row_group_size=1)
        query = cepheid.query("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 s")
        for events in (table, str(path)):
            with pytest.raises(DataError) as found:
                query.run(events)
            assert found.value.diagnostics[0].code == code
