"""Windows with PATTERN in SQL texts: where calls may stand, what is refused, and what is told."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import cepheid

TICKS = pa.table(
    {
        "ts": [1, 2, 3, 4, 5, 6],
        "k": ["a", "a", "a", "b", "b", "b"],
        "x": [4, 3, 2, 5, 6, 1],
    }
)
FRAME = "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
FALL = f"MEASURES LAST(x) AS low {FRAME} PATTERN (A B+) DEFINE B AS x < PREV(x)"
WINDOW = f"WINDOW w AS (PARTITION BY k ORDER BY ts {FALL})"
LOWS = [2, None, None, None, 1, None]


def run(text: str, **tables: Any) -> list[dict[str, Any]]:
    found: pa.Table = cepheid.sql(text, tables={"ticks": TICKS, **tables})
    return found.to_pylist()


def codes(text: str) -> list[str]:
    with pytest.raises(cepheid.QueryError) as caught:
        run(text)
    return [found.code for found in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"SELECT low OVER w FROM ticks {WINDOW}", [{"low": low} for low in LOWS]),
        (
            f"SELECT *, low OVER w AS l FROM ticks {WINDOW}",
            [{**row, "l": low} for row, low in zip(TICKS.to_pylist(), LOWS, strict=True)],
        ),
        (
            f"SELECT t.*, low OVER w l FROM ticks AS t WHERE t.k = 'a' {WINDOW}",
            [{**r, "l": low} for r, low in zip(TICKS.to_pylist()[:3], LOWS[:3], strict=True)],
        ),
        (
            f"SELECT COALESCE(low OVER w, 0) + 1 FROM ticks {WINDOW}",
            [{"COALESCE(low OVER w, 0) + 1": (low or 0) + 1} for low in LOWS],
        ),
        (
            f"SELECT low OVER (PARTITION BY k ORDER BY ts {FALL}) FROM ticks",
            [{"low": low} for low in LOWS],
        ),
        (
            f"SELECT low OVER (v {FALL}) FROM ticks WINDOW v AS (PARTITION BY k ORDER BY ts)",
            [{"low": low} for low in LOWS],
        ),
        (
            f"SELECT ts, low OVER w FROM ticks {WINDOW} ORDER BY low OVER w DESC, ts DESC LIMIT 2",
            [{"ts": 1, "low": 2}, {"ts": 5, "low": 1}],
        ),
        (
            f"SELECT n FROM (SELECT COUNT(*) OVER w AS n FROM ticks {WINDOW}) WHERE n > 0",
            [{"n": 3}, {"n": 2}],
        ),
        (
            f"SELECT m, low OVER w FROM (SELECT ts AS m, x, k FROM ticks) AS q "
            f"{WINDOW.replace('ts', 'm')} LIMIT 1",
            [{"m": 1, "low": 2}],
        ),
        (
            f"SELECT x, COUNT(*) OVER w AS n FROM ticks MATCH_RECOGNIZE (ORDER BY ts "
            f"ALL ROWS PER MATCH PATTERN (A) DEFINE A AS x < 4) {WINDOW}",
            [{"x": 3, "n": 2}, {"x": 2, "n": 0}, {"x": 1, "n": 0}],
        ),
        (
            f"SELECT low OVER w, high OVER v FROM ticks {WINDOW}, v AS (PARTITION BY k ORDER BY ts "
            f"MEASURES LAST(x) AS high {FRAME} PATTERN (A B+) DEFINE B AS x > PREV(x))",
            [
                {"low": low, "high": high}
                for low, high in zip(LOWS, [None, None, None, 6, None, None], strict=True)
            ],
        ),
        (
            f"WITH q AS (SELECT ts, low OVER w AS low FROM ticks {WINDOW}) "
            "SELECT COUNT(low) AS n, COUNT(*) AS m FROM q",
            [{"n": 2, "m": 6}],
        ),
    ],
)
def test_calls_stand_where_columns_do(text: str, expected: list[dict[str, Any]]) -> None:
    assert run(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"SELECT low OVER w FROM ticks a JOIN ticks b ON a.x = b.x {WINDOW}", ["E613"]),
        (f"SELECT low OVER w FROM ticks GROUP BY low {WINDOW}", ["E613"]),
        (f"SELECT ts FROM ticks {WINDOW}", ["E613"]),
        (f"SELECT lows OVER w FROM ticks {WINDOW}", ["E603"]),
        (f"SELECT LAG(x) OVER w, FOO(x) OVER w FROM ticks {WINDOW}", ["E605", "E608"]),
        (f"SELECT NTILE(0) OVER w, RANK(x) OVER w FROM ticks {WINDOW}", ["E608", "E608"]),
        (f"SELECT low OVER (v {FALL}) FROM ticks", ["E613"]),
        (f"SELECT low OVER w FROM ticks {WINDOW.replace('A B+', '^ A B+')}", ["E606"]),
        (f"SELECT low OVER w FROM ticks {WINDOW.replace('DEFINE', 'WITHIN 3 DEFINE')}", ["E606"]),
        (
            f"SELECT 1 + low OVER w FROM ticks {WINDOW.replace('LAST(x)', 'MATCH_NUMBER()')}",
            ["E606"],
        ),
        (f"SELECT low OVER w FROM ticks {WINDOW.replace(FRAME, '')}", ["E601"]),
        (f"SELECT low OVER w FROM ticks {WINDOW.replace('ROWS BET', 'RANGE BET')}", ["E601"]),
        (
            f"SELECT low OVER w FROM ticks {WINDOW.replace('ROWS', 'ONE ROW PER MATCH ROWS')}",
            ["E601"],
        ),
        (f"SELECT LAST_VALUE(x) IGNORE NULLS OVER w FROM ticks {WINDOW}", ["E613"]),
        (f"SELECT SUM(A.x) OVER w FROM ticks {WINDOW}", ["E604"]),
    ],
)
def test_what_a_window_cannot_have(text: str, expected: list[str]) -> None:
    assert codes(text) == expected


def test_a_query_refuses_windows() -> None:
    with pytest.raises(cepheid.UnsupportedError, match="windows with PATTERN") as caught:
        cepheid.query(f"SELECT low OVER w FROM ticks {WINDOW}", time="ts")
    assert "cepheid.sql" in str(caught.value)


def test_explain_tells_where_matches_begin_and_what_they_see() -> None:
    text = f"SELECT low OVER w FROM ticks {WINDOW}"
    told = cepheid.sql(text, tables={"ticks": TICKS}, explain=True)
    assert "a match begins at the row\n" in told
    assert told.endswith("it sees the row and all rows behind it")
    text = text.replace("UNBOUNDED FOLLOWING", "1 FOLLOWING SEEK").replace("(A B+)", "(B+)")
    told = cepheid.sql(text, tables={"ticks": TICKS}, explain=True)
    assert "or the next row of its frame" in told
    assert "it sees the row and 1 row behind it" in told
    assert "PREV or NEXT may leave the frame" in told


def test_a_store_is_read_whole(tmp_path: Any) -> None:
    store = cepheid.EventStore(tmp_path / "store", time="ts")
    store.append(TICKS)
    text = f"SELECT ts, low OVER w FROM s {WINDOW}"
    found = cepheid.sql(text, tables={"s": store}).to_pylist()
    assert [row["low"] for row in found] == LOWS
    assert "rows without a match" in cepheid.sql(text, tables={"s": store}, explain=True)


def test_seek_does_not_look_again_at_rows_without_a_match() -> None:
    table = pa.table({"i": range(20_000), "x": [0] * 20_000})
    text = f"SELECT COUNT(*) OVER w AS n FROM t WINDOW w AS (ORDER BY i {FRAME} SEEK PATTERN (A B) "
    for condition in ("x > 0", "x > PREV(x)", "x > A.x"):
        found = cepheid.sql(f"{text} DEFINE B AS {condition})", tables={"t": table})
        assert set(found.column("n").to_pylist()) == {0}
