"""What a run gathers has a limit, each with a code and a way to raise it."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

import cepheid
from cepheid.errors import CepheidError, DataError
from cepheid.memory_limits import VARIABLE, Limits, current

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
        with pytest.raises(DataError, match=r"E519.*characters"):
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
