"""Pictures of results: what they show, what they leave out, and what a notebook gets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.interfaces.program import run

import cepheid
from cepheid import pictures
from cepheid.errors import DataError
from cepheid.options import OptionError
from cepheid.pictures.dots import BINS, LANES_MAX, Lanes, count_dots
from cepheid.pictures.picture import MIME
from cepheid.pictures.timelines import LEVELS, SPANS_MAX, timeline_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = 60_000_000
EVENTS = pa.table(
    {
        "ts": pa.array([n * MINUTE for n in range(40)], pa.timestamp("us")),
        "type": ["A", "B", "C", "A"] * 10,
        "k": ["x", "x", "y", "y"] * 10,
        "n": [float(n % 7) for n in range(40)],
    }
)
MATCHES = "RETURN MATCHES PATTERN SEQ(A a, B b) SEMANTICS next WHERE [k] WITHIN 30 minutes"
HOSTILE = "</script><script>alert(1)</script>\x1b[2J"


def layers(picture: pictures.Picture) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = picture.spec["layer"]
    return found


def marks(picture: pictures.Picture) -> list[str]:
    return [layer["mark"]["type"] for layer in layers(picture)]


def values(layer: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = layer["data"]["values"]
    return found


def test_matches_events_and_keys_on_a_timeline() -> None:
    shown = cepheid.query(MATCHES).show(EVENTS)
    picture = shown.timeline()
    assert marks(picture) == ["tick", "bar", "point"]
    dots, spans, points = map(values, layers(picture))
    assert sum(row["events"] for row in dots) == len(EVENTS)
    assert {row["lane"] for row in dots} == {"x", "y"}
    assert len(spans) == len(shown.result)
    first = shown.result["events"][0].as_py()
    assert spans[0]["from"] == first[0]["ts"].isoformat() + "+00:00"
    assert spans[0]["to"] == first[-1]["ts"].isoformat() + "+00:00"
    assert {row["variable"] for row in points} == {"a", "b"}
    assert {row["level"] for row in dots}.isdisjoint(row["level"] for row in spans)


def test_lanes_can_be_others() -> None:
    shown = cepheid.query(MATCHES).show(EVENTS)
    (lanes,) = {
        tuple(sorted({row["lane"] for row in values(layers(shown.timeline(by=["type"]))[0])}))
    }
    assert lanes == ("A", "B", "C")
    assert {row["lane"] for row in values(layers(shown.timeline(by=[]))[1])} == {"all"}


@pytest.mark.parametrize(
    "text",
    [
        MATCHES,
        "PARTITION BY k DEFINE H AS n > 3 SITUATIONS H",
        "PARTITION BY k DEFINE H AS n > 3, L AS n < 2 PATTERN L before H WITHIN 30 minutes",
        "RETURN k, COUNT(*) PATTERN A a WHERE [k] GROUP-BY k WITHIN 10 minutes SLIDE 5 minutes",
        "SELECT ts, k FROM s WHERE n > 4",
        "RETURN LONGEST 3 PATTERN A a+ WHERE [k] WITHIN 20 minutes SLIDE 20 minutes",
    ],
)
def test_every_timeline_is_one_of_altair(text: str) -> None:
    picture = cepheid.query(text).show(EVENTS).timeline()
    assert len(marks(picture)) >= 2
    assert picture.altair().to_dict()["layer"]


def test_spans_that_overlap_lie_below_each_other() -> None:
    table = pa.table({"situation": ["A"] * 9, "ts": range(9), "te": [20] * 9})
    spec, _ = timeline_of(table)
    levels = [row["level"] for row in spec["layer"][0]["data"]["values"]]
    assert levels[:LEVELS] == list(range(LEVELS))
    assert max(levels) == LEVELS - 1
    apart = pa.table({"situation": ["A", "A"], "ts": [0, 5], "te": [5, 9]})
    assert [r["level"] for r in timeline_of(apart)[0]["layer"][0]["data"]["values"]] == [0, 0]


def test_millions_of_events_are_counted_in_bins() -> None:
    count = 200_000
    ts = pa.array(range(0, count * 1000, 1000), pa.timestamp("ns"))
    keys = [f"key {n % 100}" for n in range(count)]
    events = pa.table({"ts": ts, "type": ["A", "B"] * (count // 2), "k": keys})
    dots = count_dots(events, Lanes(("k",), "ts", "type"), ["key 99"])
    assert len(dots) <= LANES_MAX * BINS * 2
    assert len({row["lane"] for row in dots}) == LANES_MAX
    kept = sum(row["events"] for row in dots if row["lane"] == "key 99")
    assert kept == count // 100


def test_what_is_left_out_is_told() -> None:
    many = pa.table({"situation": ["A"] * (SPANS_MAX + 5), "ts": range(SPANS_MAX + 5)})
    many = many.append_column("te", many["ts"])
    assert timeline_of(many)[1] == f"the timeline has the first {SPANS_MAX:,} of 2,005 rows"
    keys = [str(n) for n in range(100)]
    wide = pa.table({"k": keys, "situation": ["A"] * 100, "ts": range(100), "te": range(1, 101)})
    assert timeline_of(wide)[1] == f"the timeline has the first {LANES_MAX} of 100 lanes"


def test_a_funnel() -> None:
    text = "RETURN FUNNEL(k) PATTERN SEQ(A a, B b) WITHIN 5 minutes"
    shown = cepheid.query(text).show(EVENTS)
    rows = values(shown.funnel().spec)
    assert [(row["step"], row["keys"], row["share"]) for row in rows] == [
        ("1 a", 2, "100%"),
        ("2 b", 1, "50%"),
    ]
    assert shown.funnel().altair().to_dict()["layer"]
    assert shown._repr_mimebundle_()[MIME] == shown.funnel().spec


def test_nothing_to_draw() -> None:
    table = pa.table({"k": ["x"]})
    for draw in (pictures.chart, pictures.timeline, pictures.funnel):
        with pytest.raises(DataError, match="E582"):
            draw(table)
    shown = cepheid.query("SELECT k FROM s").show(EVENTS)
    assert list(shown._repr_mimebundle_()) == ["text/plain"]


def test_a_notebook_gets_a_specification_and_a_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = cepheid.query("RETURN k, COUNT(*) PATTERN A a WHERE [k] GROUP-BY k").show(EVENTS)
    bundle = shown._repr_mimebundle_()
    assert bundle[MIME] == shown.chart().spec
    assert bundle["image/svg+xml"].startswith("<svg")
    assert repr(shown.chart()) == "Picture  a chart"
    assert repr(shown).startswith("Shown\n")
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert set(shown._repr_mimebundle_()) == {MIME, "text/plain"}
    with pytest.raises(DataError, match="E581"):
        shown.chart().save("chart.svg")


def test_results_of_other_libraries() -> None:
    query = cepheid.query(MATCHES)
    arrow = query.show(EVENTS).timeline().spec
    from_pandas = query.show(EVENTS.to_pandas())
    assert isinstance(from_pandas.result, pd.DataFrame)
    assert values(layers(from_pandas.timeline())[0]) == values(arrow["layer"][0])
    frame: Any = pl.from_arrow(EVENTS)
    from_polars = query.show(frame)
    assert isinstance(from_polars.result, pl.DataFrame)
    assert values(layers(from_polars.timeline())[1]) == values(arrow["layer"][1])


def test_whole_numbers_that_are_times() -> None:
    start = 1_760_000_000
    events = pa.table({"ts": [start, start + 5], "type": ["A", "B"], "k": ["x", "x"]})
    query = cepheid.query("RETURN MATCHES PATTERN SEQ(A a, B b) WHERE [k]", time_unit="s")
    (dots, spans, _) = map(values, layers(query.show(events).timeline()))
    assert spans[0]["from"].startswith("2025-10-09")
    assert all(row["time"].startswith("2025-10-09") for row in dots)
    plain = pa.table({"ts": [1, 2], "type": ["A", "B"], "k": ["x", "x"]})
    assert values(layers(query.show(plain).timeline())[1])[0]["from"] == 1


def test_hostile_values_stay_values(tmp_path: Path) -> None:
    events = EVENTS.set_column(2, "k", pa.array([HOSTILE] * len(EVENTS)))
    picture = cepheid.query(MATCHES).show(events).timeline()
    picture.save(tmp_path / "t.html")
    picture.save(tmp_path / "t.svg")
    for name in ("t.html", "t.svg"):
        text = (tmp_path / name).read_text("utf-8")
        assert "<script>alert(1)" not in text
        assert "\x1b" not in text
    with pytest.raises(OptionError, match=r"\.gif"):
        picture.save(tmp_path / "t.gif")


def test_files_from_the_command_line(tmp_path: Path) -> None:
    parquet.write_table(EVENTS, tmp_path / "e.parquet")
    options = ("run", "-q", MATCHES, "--input", tmp_path / "e.parquet")
    # A copy of a process that has drawn before would wait for threads that it lacks.
    done = run(*options, "--timeline", tmp_path / "t.svg", "--format", "json", own=True)
    assert done.returncode == 0, done.stderr
    drawing = (tmp_path / "t.svg").read_text("utf-8")
    assert drawing.startswith("<svg")
    assert drawing.count("tick") > 20, "the events are drawn, too"
    wrong = run(*options, "--timeline", tmp_path / "t.gif")
    assert wrong.returncode == 2
    assert "--timeline must end in .png, .svg, .html" in wrong.stderr


@pytest.mark.spark
def test_results_of_spark(spark: SparkSession) -> None:
    shown = cepheid.query(MATCHES).show(spark.createDataFrame(EVENTS.to_pandas()))
    # The events stay where they are, so only those of matches are drawn.
    assert marks(shown.timeline()) == ["bar", "point"]
    local = cepheid.query(MATCHES).show(EVENTS).timeline()
    assert len(values(layers(shown.timeline())[0])) == len(values(layers(local)[1]))
