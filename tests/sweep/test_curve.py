"""`cepheid backtest --sweep`: alerts a day, precision and recall for every value."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.interfaces.program import run

import cepheid
from cepheid.options import OptionError

MINUTE = 60_000_000
QUERY = """RETURN k, COUNT(*) PATTERN A WHERE A.x >= SWEEP least (1 TO 3 STEP 1) AND [k]
GROUP-BY k WITHIN 1 minute SLIDE 1 minute"""

# Minute:   0        1        2        3
# key p:    x=3 !    x=1      -        x=2 !
# key q:    -        x=2      x=3 !    -
EVENTS = [(0, "p", 3, 1), (1, "p", 1, 0), (1, "q", 2, 0), (2, "q", 3, 1), (3, "p", 2, 1)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    minutes, keys, values, labels = zip(*EVENTS, strict=True)
    table = pa.table(
        {
            "ts": pa.array([m * MINUTE + 5 for m in minutes], pa.timestamp("us")),
            "type": ["A"] * len(EVENTS),
            "k": list(keys),
            "x": list(values),
            "bad": list(labels),
        }
    )
    parquet.write_table(table, tmp_path / "events.parquet")
    (tmp_path / "rule.cq").write_text(QUERY, encoding="utf-8")
    windows = pa.table(
        {
            "window_start": pa.array([0, 3 * MINUTE], pa.timestamp("us")),
            "window_end": pa.array([MINUTE, 4 * MINUTE], pa.timestamp("us")),
        }
    )
    parquet.write_table(windows, tmp_path / "labels.parquet")
    return tmp_path


def curve(folder: Path, *options: str, own: bool = False) -> list[dict[str, str]]:
    rule, events = str(folder / "rule.cq"), str(folder / "events.parquet")
    words = ("backtest", rule, "--sweep", "--input", events, "--format", "csv", *options)
    done = run(*words, own=own)
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(done.stdout.splitlines()))


def test_labels_are_events(folder: Path) -> None:
    rows = curve(folder, "--label", "bad")
    assert [row["least"] for row in rows] == ["1", "2", "3"]
    assert [row["alerts"] for row in rows] == ["5", "4", "2"]
    assert [float(row["precision"]) for row in rows] == [0.6, 0.75, 1.0]
    assert [float(row["recall"]) for row in rows] == [1.0, 1.0, 0.6667]


def test_labels_are_windows_of_any_group(folder: Path) -> None:
    rows = curve(folder, "--labels", str(folder / "labels.parquet"))
    assert [float(row["precision"]) for row in rows] == [0.4, 0.5, 0.5]
    assert [float(row["recall"]) for row in rows] == [1.0, 1.0, 0.5]


def test_without_labels_alerts_are_counted(folder: Path) -> None:
    rows = curve(folder)
    assert list(rows[0]) == ["least", "alerts", "alerts_a_day"]
    assert [float(row["alerts_a_day"]) for row in rows] == [2400.0, 1920.0, 960.0]


def test_the_curve_in_python(folder: Path) -> None:
    events = parquet.read_table(folder / "events.parquet")
    query = cepheid.query(QUERY)
    table = cepheid.sweep_curve(query, events, label="bad")
    rows = curve(folder, "--label", "bad")
    assert table["recall"].to_pylist() == [float(row["recall"]) for row in rows]
    labels = parquet.read_table(folder / "labels.parquet")
    table = cepheid.sweep_curve(query, events.to_reader(), labels=labels)
    assert table["precision"].to_pylist() == [0.4, 0.5, 0.5]
    spec = cepheid.pictures.chart(table).spec
    assert len(spec["data"]["values"]) == 6
    twice: Any = {"label": "bad", "labels": labels}
    steps = "RETURN FUNNEL(k) PATTERN A WHERE A.x > SWEEP(1, 2) WITHIN 1 minute SLIDE 1 minute"
    for wrong, more, told in (
        ("RETURN COUNT(*) PATTERN A", {}, "takes a query with SWEEP"),
        (QUERY, twice, "name the labels once"),
        (QUERY.split("WITHIN")[0], {}, "alerts need a window"),
        (steps, {}, "rows of a funnel are steps"),
    ):
        with pytest.raises(OptionError, match=told):
            cepheid.sweep_curve(cepheid.query(wrong), events, **more)


def test_the_curve_is_drawn(folder: Path) -> None:
    pytest.importorskip("vl_convert")
    # A copy of this process would wait for threads of the library that it lacks.
    curve(folder, "--label", "bad", "--chart", str(folder / "curve.svg"), own=True)
    assert "recall" in (folder / "curve.svg").read_text(encoding="utf-8")


def test_other_uses_are_refused(folder: Path) -> None:
    events = str(folder / "events.parquet")
    plain = folder / "plain.cq"
    plain.write_text("RETURN COUNT(*) PATTERN A", encoding="utf-8")
    for words, told in (
        ([str(folder / "rule.cq"), "--label", "bad"], "--label"),
        ([str(plain), "--sweep"], "takes a query with SWEEP"),
        ([str(folder / "rule.cq"), "--sweep", "--label", "odd"], "no column `odd`"),
        ([str(folder / "rule.cq"), "--sweep", "--measure"], "--measure"),
    ):
        done = run("backtest", *words, "--input", events)
        assert done.returncode != 0
        assert told in done.stderr, done.stderr
