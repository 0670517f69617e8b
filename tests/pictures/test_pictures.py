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
from cepheid.pictures.axes import date_axis
from cepheid.pictures.blame import EVENTS_MAX
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


BLAME = (
    "RETURN BLAME() PATTERN SEQ(A a+, B b) WHERE [k] GROUP-BY k WITHIN 40 minutes SLIDE 40 minutes"
)


def test_blame_lies_on_the_timeline() -> None:
    shown = cepheid.query(BLAME).show(EVENTS)
    picture = shown.timeline()
    (layer,) = layers(picture)
    assert layer["encoding"]["color"]["field"] == "share"
    points = values(picture.spec)
    assert len(points) == len(shown.result) > 10
    shares = {(row["event"]["ts"], row["k"]): row["share"] for row in shown.result.to_pylist()}
    drawn = {(row["time"], row["lane"]): row["share"] for row in points}
    assert drawn == {(f"{at.isoformat()}+00:00", key): n for (at, key), n in shares.items()}
    assert picture.altair().to_dict()["layer"]
    assert shown._repr_mimebundle_()[MIME] == picture.spec
    assert values(shown.chart().spec) == points, "the chart of BLAME is its timeline"


def test_blame_keeps_the_largest_shares() -> None:
    count = EVENTS_MAX + 7
    events = [{"ts": 1_760_000_000 + n, "n": n} for n in range(count)]
    numbers = [float(n) for n in range(count)]
    columns: dict[str, Any] = {
        "event": events,
        "matches": numbers,
        "share": numbers,
        "log2_matches": numbers,
    }
    picture = pictures.timeline(pa.table(columns), time_unit="s")
    assert picture.note == "the timeline has the 5,000 events with the largest shares of 5,007"
    shares = [row["share"] for row in picture.spec["data"]["values"]]
    assert shares == numbers[7:]
    assert picture.spec["data"]["values"][0]["time"].startswith("2025-10-09")
    with pytest.raises(DataError, match="E582"):
        pictures.timeline(pa.table(columns), time="at")


WITHOUT_WINDOWS = (
    "RETURN k, COUNT(*) AS c PATTERN A a WHERE [k] AND a.n > SWEEP x (0, 3, 5, 99) GROUP-BY k"
)
WINDOWS = WITHOUT_WINDOWS + " WITHIN 10 minutes SLIDE 10 minutes"
GRID = WINDOWS.replace("GROUP-BY", "AND a.n < SWEEP y (2.5, 7.5) GROUP-BY")


def test_a_sweep_has_a_line_for_every_group() -> None:
    shown = cepheid.query(WITHOUT_WINDOWS).show(EVENTS)
    spec = shown.chart().spec
    rows = {(row["value"], row["group"]): row["n0"] for row in spec["data"]["values"]}
    assert rows == {(row["x"], row["k"]): row["c"] for row in shown.result.to_pylist()}
    (part,) = spec["vconcat"]
    assert (part["mark"]["type"], part["encoding"]["x"]["title"]) == ("line", "x")
    assert shown.chart().altair().to_dict()["vconcat"]


def test_a_sweep_over_windows_counts_its_rows() -> None:
    shown = cepheid.query(WINDOWS).show(EVENTS)
    spec = shown.chart().spec
    counts = {row["value"]: row["n0"] for row in spec["data"]["values"]}
    found = shown.result["x"].to_pylist()
    assert counts == {x: found.count(x) for x in (0, 3, 5, 99)}
    assert counts[99] == 0, "values without a row are drawn, too"
    assert spec["vconcat"][0]["encoding"]["y"]["title"] == "rows"


def test_two_parameters_are_a_heat_map() -> None:
    shown = cepheid.query(GRID).show(EVENTS)
    spec = shown.chart().spec
    assert spec["mark"] == "rect"
    cells = {(row["x"], row["y"]): row["n0"] for row in spec["data"]["values"]}
    found = [(row["x"], row["y"]) for row in shown.result.to_pylist()]
    assert cells == {(x, y): found.count((x, y)) for x in (0, 3, 5, 99) for y in (2.5, 7.5)}
    assert shown.chart().altair().to_dict()["mark"]
    assert shown._repr_mimebundle_()[MIME] == spec


def test_a_sweep_of_texts_and_of_durations() -> None:
    texts = (
        "RETURN COUNT(*) PATTERN A a WHERE a.k = SWEEP key ('y', 'x') WITHIN 1 hour SLIDE 1 hour"
    )
    spec = cepheid.query(texts).show(EVENTS).chart().spec
    assert spec["vconcat"][0]["encoding"]["x"]["sort"] == ["y", "x"]
    spans = "RETURN COUNT(*) PATTERN SEQ(A a, B b) WITHIN SWEEP w (5 min, 10 min) SLIDE 5 min"
    rows = cepheid.query(spans).show(EVENTS).chart().spec["data"]["values"]
    assert [row["value"] for row in rows] == [300, 600]


def test_infinite_numbers_are_left_out() -> None:
    spec = pictures.chart(pa.table({"k": ["a", "b"], "n": [1.0, float("inf")]})).spec
    assert [row["n0"] for row in spec["data"]["values"]] == [1.0, None]


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


@pytest.mark.parametrize(("minutes", "shown"), [(4, "%H:%M:%S"), (40, "%H:%M")])
def test_ticks_of_a_short_time_have_seconds(minutes: int, shown: str) -> None:
    axis = date_axis(["2026-05-14T12:00:00+00:00", f"2026-05-14T12:{minutes:02}:00+00:00"])
    assert axis["axis"]["format"] == shown
