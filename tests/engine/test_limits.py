"""What a run gathers has a limit, each with a code and a way to raise it."""

from __future__ import annotations

import ctypes
import itertools

import pyarrow as pa
import pytest

import cepheid
from cepheid.errors import CepheidError, DataError
from cepheid.memory_limits import VARIABLE, Limits, check_rows, current

MANY = pa.table({"ts": range(100), "type": ["A"] * 100, "x": [n % 2 for n in range(100)]})
EVERY = "RETURN MATCHES PATTERN A+"
NAMES = "ABCDEFGH"
CHAIN = (
    "DEFINE "
    + ", ".join(f"{name} AS x = {n % 2}" for n, name in enumerate(NAMES))
    + " PATTERN "
    + " AND ".join(f"{a} before {b}" for a, b in itertools.pairwise(NAMES))
    + " WITHIN 1 h"
)
PAIRS = "SELECT a.x, b.x AS y FROM s a JOIN s b ON a.x >= 0 WINDOW 1 h"


def growing(depth: int) -> str:
    text = "s"
    for _ in range(depth):
        text = f"REPLACE({text}, 'a', 'aaaaaaaaaa')"
    return (
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A+) "
        f"DEFINE A AS LENGTH({text}) > 3)"
    )


def test_collected_rows_have_a_limit() -> None:
    with cepheid.limits(rows=1000), pytest.raises(DataError, match=r"E518.*more than 1,000 rows"):
        cepheid.query(EVERY).run(MANY)
    with cepheid.limits(bytes=1 << 20), pytest.raises(DataError, match=r"(?s)E518.*limits\(bytes"):
        cepheid.query(EVERY).run(MANY)
    with cepheid.limits(rows=1000), pytest.raises(DataError, match="E518"):
        cepheid.workload({"a": EVERY, "b": "RETURN COUNT(*) PATTERN A"}).run(MANY)


def test_what_is_read_as_it_is_found_has_none() -> None:
    with cepheid.limits(rows=10):
        reader = cepheid.query(EVERY).matches(MANY)
        assert sum(len(reader.read_next_batch()) for _ in range(3)) > 10
        assert len(cepheid.query(EVERY + " LIMIT 10").run(MANY)) == 10


@pytest.mark.parametrize(
    ("text", "what"), [(CHAIN, "matches of situations|situations that may"), (PAIRS, "pairs")]
)
def test_a_step_has_a_limit(text: str, what: str) -> None:
    with cepheid.limits(state=1 << 16), pytest.raises(DataError, match=f"E519.*({what})"):
        cepheid.query(text).run(MANY)


def test_few_situations_are_found_within_it() -> None:
    with cepheid.limits(state=1 << 16):
        assert len(cepheid.query(CHAIN).run(MANY.slice(0, 24)))


def test_texts_do_not_grow_beyond_it() -> None:
    table = pa.table({"ts": range(3), "s": ["aaaa"] * 3})
    with cepheid.limits(state=1 << 20):
        assert len(cepheid.sql(growing(3), tables={"t": table})) == 1
        with pytest.raises(DataError, match=r"E519.*bytes of text"):
            cepheid.sql(growing(20), tables={"t": table})


def test_limits_are_those_of_the_block_or_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert current() == Limits()
    with cepheid.limits(rows=5) as outer:
        with cepheid.limits(bytes=7):
            assert current() == Limits(rows=5, bytes=7)
        assert current() == outer == Limits(rows=5)
    monkeypatch.setenv(VARIABLE, "rows=12, state=13")
    assert current() == Limits(rows=12, state=13)


@pytest.mark.parametrize("wrong", [{"row": 5}, {"rows": 0}, {"rows": "5"}, {"bytes": True}])
def test_limits_that_mean_nothing_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(CepheidError, match=r"E59[02]"), cepheid.limits(**wrong):
        pass


def test_a_process_with_nonsense_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "rows=many")
    with pytest.raises(CepheidError, match=r"E592.*`rows` is a positive whole number"):
        cepheid.query(EVERY).run(MANY.slice(0, 2))


def listed(item: str) -> str:
    """Return SQL whose rows each have an item."""
    return (
        f"SELECT {item} AS g FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n "
        "ALL ROWS PER MATCH PATTERN (A) DEFINE A AS TRUE)"
    )


LONG = "REPLACE(REPLACE(REPLACE('aaaaaaaaaa', 'a', 'aaaaaaaaaa'), 'a', 'aaaaaaaaaa'), 'a', 'bbbbb')"
"""A text of 5,000 characters."""


@pytest.mark.parametrize(
    "item",
    [
        LONG,
        f"CASE WHEN s = 'x' THEN 'y' ELSE {LONG} END",
        f"IF(s = 'x', s, {LONG})",
        f"COALESCE(NULLIF(s, s), {LONG})",
        f"GREATEST(s, {LONG})",
        f"s || {LONG}",
    ],
)
def test_a_long_constant_in_every_row_has_a_limit(item: str) -> None:
    table = pa.table({"ts": range(1000), "s": ["aaaa"] * 1000})
    with cepheid.limits(state=1 << 20):
        assert len(cepheid.sql(listed(item), tables={"t": table.slice(0, 100)})) == 100
        with pytest.raises(DataError, match=r"E519.*bytes of text"):
            cepheid.sql(listed(item), tables={"t": table})


def test_texts_are_measured_in_bytes() -> None:
    table = pa.table({"ts": range(1), "s": ["😀" * 1000]})
    with cepheid.limits(state=20_000):
        assert len(cepheid.sql(listed("REPLACE(s, '😀', '😀😀')"), tables={"t": table})) == 1
        with pytest.raises(DataError, match=r"E519.*20,000 bytes of text"):
            cepheid.sql(listed("REPLACE(s, '😀', 'ééééééé')"), tables={"t": table})
        with pytest.raises(DataError, match=r"E519.*20,000 bytes of text"):
            cepheid.sql(listed("CONCAT(s, s, s, s, s, s)"), tables={"t": table})


@pytest.mark.parametrize("measure", ["STRING_AGG(s, ',')", "ARRAY_AGG(s)"])
def test_what_grows_with_every_row_has_a_limit(measure: str) -> None:
    text = (
        f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES RUNNING {measure} AS g "
        "ALL ROWS PER MATCH PATTERN (A+) DEFINE A AS TRUE)"
    )
    table = pa.table({"ts": range(1000), "s": ["aaaaaaa"] * 1000})
    with cepheid.limits(state=1 << 20):
        assert len(cepheid.sql(text, tables={"t": table.slice(0, 200)})) == 200
        with pytest.raises(DataError, match=r"E519.*bytes of values"):
            cepheid.sql(text, tables={"t": table})


@pytest.mark.parametrize("returned", ["COUNT(*)", "MATCHES"])
def test_events_of_matches_that_are_looked_at_have_a_limit(returned: str) -> None:
    text = f"RETURN {returned} PATTERN A+ WHERE SUM(A.x) > 99"
    with cepheid.limits(state=1 << 20), pytest.raises(DataError, match=r"E512.*262,144 events"):
        cepheid.query(text).run(MANY.slice(0, 30))


def test_messages_name_limits_as_people_do() -> None:
    for size, named in ((1 << 20, "1 MiB"), (1 << 29, "512 MiB"), (3 << 29, "1.5 GiB")):
        with cepheid.limits(bytes=size), pytest.raises(DataError, match=f"more than {named}"):
            check_rows(2, size)


def test_texts_that_double_are_not_copied_besides() -> None:
    chain = "".join(f", t{n + 1} AS (SELECT g || g AS g FROM t{n})" for n in range(20))
    text = (
        "WITH t0 AS (SELECT g FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.s AS g PATTERN (A) "
        f"DEFINE A AS TRUE)){chain} SELECT LENGTH(g) AS n FROM t20"
    )
    table = pa.table({"ts": [1], "s": ["a" * 100]})
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    # Arrays that live longer than this test give their memory back to it: it must never end.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))
    pa.set_memory_pool(pool)
    try:
        found = cepheid.sql(text, tables={"t": table}).to_pylist()
    finally:
        pa.set_memory_pool(before)
    size = 100 << 20
    assert found == [{"n": size}]
    # The texts before it, which are as long together, and what it is written from.
    assert (pool.max_memory() or 0) < 2.5 * size
