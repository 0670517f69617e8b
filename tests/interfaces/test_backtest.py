"""``cepheid backtest``: what rules would have reported, compared with runs of each on its own."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, parquet
from tests.interfaces.program import run

import cepheid
from cepheid.kinds.workload.alert_limits import Throttle, keys_of
from cepheid.plans.limits import Limit

SECOND = 1_000_000
COUNTS = "RETURN key, COUNT(*) AS n PATTERN A WHERE A.x > {x} GROUP-BY key WITHIN 10 s SLIDE 5 s"
KINDS = {
    "counts": f"-- @parameters: x=2..6:2\n{COUNTS}",
    "whole": "RETURN COUNT(*) PATTERN SEQ(A, B)",
    "matches": "RETURN MATCHES PATTERN SEQ(A a, B b) WHERE [key] WITHIN 4 s LIMIT 7",
    "selected": "SELECT key, x FROM s WHERE x > 7",
    "summed": "SELECT key, SUM(x) AS total FROM s GROUP BY key WINDOW 10 seconds",
    "situations": "DEFINE HIGH AS x > 5 SITUATIONS HIGH RETURN COUNT(HIGH) AS n",
    "pipeline": f"CREATE STREAM c AS {COUNTS.replace('{x}', '1')}; SELECT n FROM c WHERE n > 1",
}


def some_events(count: int = 300) -> pa.Table:
    random = np.random.default_rng(5)
    seconds = np.sort(random.integers(0, 200, count))
    return pa.table(
        {
            "ts": pa.array(seconds * SECOND, pa.timestamp("us")),
            "type": random.choice(["A", "B"], count).tolist(),
            "key": random.choice(["p", "q"], count).tolist(),
            "x": random.integers(0, 10, count).astype(np.float64).tolist(),
        }
    )


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Write events to a file and to a store, and rules of every kind."""
    parquet.write_table(some_events(), tmp_path / "events.parquet")
    cepheid.EventStore(tmp_path / "store").append(some_events())
    (tmp_path / "rules").mkdir()
    for name, text in KINDS.items():
        (tmp_path / "rules" / f"{name}.cq").write_text(text)
    return tmp_path


def backtest(folder: Path, *words: object, source: str = "--input") -> list[dict[str, Any]]:
    events = folder / ("events.parquet" if source == "--input" else "store")
    done = run("backtest", folder / "rules", source, events, "--format", "json", *words)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def alone(text: str, events: pa.Table) -> int:
    return len(cepheid.query(text).run(events))


@pytest.mark.parametrize("source", ["--input", "--store"])
def test_every_rule_has_the_rows_that_it_has_alone(history: Path, source: str) -> None:
    span = ("--from", "1970-01-01 00:00:20", "--to", "1970-01-01T00:02:00Z")
    events = some_events()
    stamps = events["ts"].cast(pa.int64()).to_numpy()
    events = events.filter(pa.array((stamps >= 20 * SECOND) & (stamps < 120 * SECOND)))
    found = {(one["rule"], one["variant"]): one for one in backtest(history, *span, source=source)}
    expected: dict[tuple[str, str | None], int] = {
        (name, None): alone(text, events) for name, text in KINDS.items() if name != "counts"
    }
    for x in (2, 4, 6):
        expected["counts", f"x={x}"] = alone(COUNTS.replace("{x}", str(x)), events)
    assert {key: one["rows"] for key, one in found.items()} == expected
    assert all(expected.values())
    assert all(one["alerts"] == one["rows"] for one in found.values())
    for (name, _), one in found.items():
        assert (one["first"] is None) is (name == "whole")
        assert one["alerts_a_day"] == pytest.approx(one["rows"] * 86400 / 100, abs=1e-3)
    rows = cepheid.query(COUNTS.replace("{x}", "2")).run(events)
    windows: list[Any] = rows["window_end"].to_pylist()
    assert found["counts", "x=2"]["first"] == min(windows).isoformat()
    assert found["counts", "x=2"]["last"] == max(windows).isoformat()


def test_values_of_the_command_line_replace_those_of_rules(history: Path) -> None:
    found = backtest(history, "--set", "x=1,3", "--measure")
    assert [one["variant"] for one in found if one["rule"] == "counts"] == ["x=1", "x=3"]
    assert all(one["seconds"] > 0 for one in found)


def test_alerts_are_listed_with_their_values_and_what_suppressed_them(history: Path) -> None:
    text = "-- @deduplicate: key within 20 s\n-- @rate_limit: 3 per 1 minute\n" + KINDS["counts"]
    (history / "rules" / "counts.cq").write_text(text)
    listed = history / "alerts.json"
    found = backtest(history, "--alerts", listed)
    rows = [json.loads(line) for line in listed.read_text().splitlines()]
    assert len(rows) == sum(one["rows"] for one in found)
    events = some_events()
    for one in (one for one in found if one["rule"] == "counts"):
        own = [row for row in rows if (row["rule"], row["variant"]) == ("counts", one["variant"])]
        table = cepheid.query(COUNTS.replace("{x}", one["variant"][2:])).run(events)
        ordered = sorted(table.to_pylist(), key=lambda row: row["window_end"])
        recent: dict[str, float] = {}
        shown: list[float] = []
        expected = []
        for row in ordered:
            end, why = row["window_end"].timestamp(), None
            if recent.get(row["key"], -1e9) > end - 20:
                why = "duplicate"
            else:
                recent[row["key"]] = end
                if len([time for time in shown if time > end - 60]) >= 3:
                    why = "over limit"
                else:
                    shown.append(end)
            expected.append((row["window_end"].isoformat(), row["key"], row["n"], why))
        told = [(r["at"], v["key"], v["n"], r["suppressed"])
                for r in own for v in [json.loads(r["values"])]]  # fmt: skip
        assert told == expected
        whys = [why for *_, why in expected]
        counts = [whys.count(why) for why in ("duplicate", "over limit", None)]
        assert [one["duplicates"], one["over_limit"], one["alerts"]] == counts
        assert all(counts)


@pytest.mark.parametrize(
    ("unit", "factor", "kind"),
    [("s", 1, pa.int64()), ("ms", 1000, pa.int64()), ("us", 10**9, pa.timestamp("ns"))],
)
def test_times_of_every_unit(tmp_path: Path, unit: str, factor: int, kind: pa.DataType) -> None:
    events = some_events()
    seconds = events["ts"].cast(pa.int64()).to_numpy() // SECOND
    table = events.set_column(0, "ts", pa.array(seconds * factor, pa.int64()).cast(kind))
    parquet.write_table(table, tmp_path / "events.parquet")
    (tmp_path / "rules").mkdir()
    limited = f"-- @rate_limit: 1 per 20 s\n{COUNTS.replace('{x}', '2')}"
    (tmp_path / "rules" / "counts.cq").write_text(limited)
    ends = ("1970-01-01 00:00:20", "1970-01-01 00:02:00")
    if pa.types.is_integer(kind):
        ends = (str(20 * factor), str(120 * factor))
    (found,) = backtest(tmp_path, "--from", ends[0], "--to", ends[1], "--time-unit", unit)
    parquet.write_table(events, tmp_path / "events.parquet")
    span = ("--from", "1970-01-01 00:00:20", "--to", "1970-01-01 00:02:00")
    (usual,) = backtest(tmp_path, *span)
    for name in ("rows", "over_limit", "alerts", "alerts_a_day"):
        assert found[name] == usual[name] > 0
    if pa.types.is_integer(kind):
        assert found["first"] == np.datetime64(usual["first"], "s").astype(int) * factor


def test_events_of_files_are_sorted_if_need_be(history: Path) -> None:
    usual = backtest(history)
    events = some_events()
    parquet.write_table(events.take(np.argsort(-np.arange(300) % 7)), history / "events.parquet")
    words = ("--input", history / "events.parquet", "--format", "csv")
    done = run("backtest", history / "rules", *words)
    assert done.returncode == 0
    assert "notice: " in done.stderr
    found = {(row["rule"], row["variant"] or None): row["rows"] for row in rows_of(done.stdout)}
    # Matches and rows depend on the order of events of equal time, windows do not.
    for one in usual:
        if one["rule"] in ("counts", "summed", "selected", "pipeline"):
            assert found[one["rule"], one["variant"]] == one["rows"]


def rows_of(text: str) -> list[dict[str, Any]]:
    return csv.read_csv(io.BytesIO(text.encode())).to_pylist()


def test_a_table_is_for_people_and_tells_what_was_read(history: Path) -> None:
    (history / "rules" / "off.cq").write_text(f"-- @enabled: off\n{KINDS['whole']}")
    (history / "rules" / "wrong.cq").write_text("RETURN COUNT(*) PATTERN A WHERE A.nothing > 1")
    done = run("backtest", history / "rules", "--input", history / "events.parquet")
    assert done.returncode == 1
    assert "counts[x=2]" in done.stdout
    assert "owner" not in done.stdout
    assert "error[E201]" in done.stderr
    assert "300 events read once in " in done.stderr
    assert " s: 9 queries, 1 rule off\n1 of 8 rules is refused: wrong\n" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-- @rate_limit: 1 per 1 s\nRETURN COUNT(*) PATTERN A", "its rows have no time"),
        ("-- @rate_limit: 1 per 1 s by kei\nSELECT key FROM s", "did you mean `key`?"),
        ("-- @deduplicate: __time0 within 1 s\nSELECT key FROM s", "its rows do not have"),
    ],
)
def test_limits_that_do_not_fit_the_rows_are_refused(
    history: Path, text: str, message: str
) -> None:
    (history / "rules" / "limited.cq").write_text(text)
    done = run("backtest", history / "rules", "--store", history / "store", "--format", "csv")
    assert done.returncode == 1
    assert "error[E535]: the rule `limited`" in done.stderr
    assert message in done.stderr
    assert [row["rule"] for row in rows_of(done.stdout)].count("limited") == 0
    assert len(rows_of(done.stdout)) == 9


def test_a_history_without_events_gives_no_rows(history: Path) -> None:
    found = backtest(history, "--from", "2030-01-01")
    assert {one["rows"] for one in found if one["rule"] != "whole"} == {0}
    assert {one["first"] for one in found} == {None}


# ---------------------------------------------------------------------------------------
# Limits


@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from("ab")), max_size=60),
    st.integers(1, 3),
    st.integers(1, 12),
)
def test_no_stretch_has_more_alerts_and_none_is_lost(
    rows: list[tuple[int, str]], most: int, length: int
) -> None:
    throttle = Throttle(Limit(most, length), 1_000)
    shown: list[tuple[int, str]] = []
    for time, key in sorted(rows):
        near = [one for one, own in shown if own == key and one > time - length]
        lets = throttle.lets(key, time)
        assert lets is (len(near) < most)
        if lets:
            shown.append((time, key))


def test_a_stretch_shorter_than_a_tick_is_a_tick() -> None:
    throttle = Throttle(Limit(1, 10), 1_000_000_000)
    assert [throttle.lets("()", time) for time in (5, 5, 6)] == [True, False, True]


def test_keys_are_equal_where_values_are() -> None:
    nan = float("nan")
    values = [nan, float("nan"), [1], [1], None, None]
    assert len(set(keys_of([values], 6))) == 3
    assert list(keys_of([], 2)) == ["()", "()"]
