"""Texts around windows and clauses that are refused: what is said, and where the caret is."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cepheid
from cepheid.kinds.row_pattern.statement import read_statement

TICKS = pa.table({"seq": [1, 2, 3], "key": [1, 1, 2], "price": [9, 7, 8]})
FRAME = "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
FALL = "PATTERN (A B*) DEFINE B AS price < PREV(price)"
WINDOW = f"(ORDER BY seq MEASURES LAST(price) AS low {FRAME} {FALL})"
CLAUSE = "MATCH_RECOGNIZE (PARTITION BY key ORDER BY seq MEASURES LAST(price) AS low PATTERN (A+))"


def refused(text: str, code: str) -> tuple[str, str]:
    """Run a text; return the message of its only mistake, and what its caret stands under."""
    with pytest.raises(cepheid.CepheidError) as caught:
        cepheid.sql(text, tables={"ticks": TICKS})
    (found,) = caught.value.diagnostics
    assert found.code == code, found
    return found.message, text[found.span.start : found.span.end] if found.span else ""


def test_a_window_that_nobody_has_named() -> None:
    text = f"SELECT '日本' AS x, low OVER v FROM ticks WINDOW w AS {WINDOW}"
    assert refused(text, "E613") == ("there is no window `v`", "v")


def test_a_window_that_nothing_is_called_over() -> None:
    message, where = refused(f"SELECT low FROM ticks WINDOW w AS {WINDOW}", "E613")
    assert (message, where) == ("nothing is called over the window `w`, which has PATTERN", "w")


def test_two_windows_of_one_name() -> None:
    text = f'SELECT low OVER w FROM ticks WINDOW w AS {WINDOW}, "W" AS (ORDER BY price)'
    assert refused(text, "E613") == ("two windows are called `w`", '"W"')


@pytest.mark.parametrize(
    "where", ["WHERE low OVER w > 1 WINDOW w AS {}", "WHERE (low OVER {}) > 1"]
)
def test_calls_in_where(where: str) -> None:
    text = f"SELECT seq, low OVER {WINDOW} AS x FROM ticks {where.format(WINDOW)}"
    message, at = refused(text, "E613")
    assert (message, at) == (
        "a call over a window stands in the list of SELECT or in ORDER BY",
        "OVER",
    )


def test_pattern_in_a_parenthesis_that_is_no_window() -> None:
    text = "SELECT seq FROM ticks WINDOW w AS (ORDER BY seq R AS (PATTERN (A B"
    message, _ = refused(text, "E613")
    assert message.startswith("the text has no MATCH_RECOGNIZE clause")


def test_a_parenthesis_that_closes_nothing() -> None:
    text = f"SELECT low OVER w, COU) OVER w AS n FROM ticks WINDOW w AS {WINDOW}"
    assert refused(text, "E613") == ("this parenthesis closes nothing", ")")


@given(
    st.integers(0, 230), st.integers(0, 9), st.sampled_from(["", ")", "(", "OVER", "日", "AS ("])
)
def test_damaged_texts_are_read_or_refused(place: int, left_out: int, put: str) -> None:
    text = f"SELECT seq, low OVER w AS x, COUNT(*) OVER w FROM ticks WINDOW w AS {WINDOW}"
    damaged = text[:place] + put + text[place + left_out :]
    with contextlib.suppress(cepheid.CepheidError):
        read_statement(damaged)


@pytest.mark.parametrize("cut", range(1, 60))
def test_windows_without_an_end(cut: int) -> None:
    text = f"SELECT low OVER w, COUNT(*) OVER w AS n FROM ticks WINDOW w AS {WINDOW}"
    with pytest.raises(cepheid.CepheidError):
        cepheid.sql(text[:-cut], tables={"ticks": TICKS})


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT COUNT(*) AS n, low FROM ticks {CLAUSE}",
        f"SELECT SUM(low) + low AS n FROM ticks {CLAUSE}",
        f"SELECT key, low FROM ticks {CLAUSE} GROUP BY key",
        f"SELECT COUNT(*) AS n, low OVER w FROM ticks WINDOW w AS {WINDOW}",
    ],
)
def test_columns_beside_aggregates(text: str) -> None:
    message, _ = refused(text, "E613")
    assert "stands beside aggregates and not in GROUP BY" in message
    assert "cepheid_over" not in message


def test_a_column_may_be_called_over() -> None:
    ticks = TICKS.rename_columns(["seq", "over", "price"])
    text = f"SELECT over, over AS again, low OVER w FROM ticks WINDOW w AS {WINDOW}"
    rows = cepheid.sql(text, tables={"ticks": ticks}).to_pylist()
    assert [(row["over"], row["again"], row["low"]) for row in rows] == [
        (1, 1, 7),
        (1, 1, None),
        (2, 2, 8),
    ]


def test_keys_beside_aggregates() -> None:
    listed = "KEY + 1 AS k, COUNT(*) AS n, ANY_VALUE(low) AS low"
    text = f"SELECT {listed} FROM ticks {CLAUSE} GROUP BY key"
    rows = cepheid.sql(text, tables={"ticks": TICKS}).to_pylist()
    assert rows == [{"k": 2, "n": 1, "low": 7}, {"k": 3, "n": 1, "low": 8}]
