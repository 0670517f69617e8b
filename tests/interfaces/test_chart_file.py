"""``cepheid run --chart``: pictures by the end of the name, and what is refused."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.amount import some
from tests.interfaces.program import run

import cepheid
from cepheid.errors import DataError
from cepheid.interfaces import chart_file, console
from cepheid.interfaces.chart_file import Drawing
from cepheid.interfaces.progress import Reading
from cepheid.pictures import charts
from cepheid.pictures.charts import MATCHES_MAX, chart_of
from cepheid.pictures.shown_times import ShownTimes

EVENTS = pa.table(
    {
        "ts": pa.array([n * 60_000_000 for n in range(40)], pa.timestamp("us")),
        "type": ["A", "B"] * 20,
        "k": ["x", "x", "y", "y"] * 10,
        "n": [float(n % 7) for n in range(40)],
    }
)
WINDOWS = "RETURN k, COUNT(*), SUM(A.n) PATTERN SEQ(A, B) WHERE [k] GROUP-BY k"
WINDOWS_SLIDING = f"{WINDOWS} WITHIN 10 minutes SLIDE 5 minutes"


def _kind(spec: dict[str, Any]) -> list[Any]:
    parts = spec.get("vconcat") or spec.get("layer") or [spec]
    return [p["mark"] if isinstance(p["mark"], str) else p["mark"]["type"] for p in parts]


def _chart(text: str) -> tuple[dict[str, Any], str]:
    return chart_of(cepheid.query(text).run(EVENTS))


def test_windows_become_lines_groups_bars_and_the_rest_timelines() -> None:
    lines, _ = _chart(WINDOWS_SLIDING)
    assert _kind(lines) == ["line", "line"]
    assert lines["data"]["values"][0]["window"].endswith("+00:00")
    assert {row["group"] for row in lines["data"]["values"]} == {"x", "y"}
    assert _kind(_chart(WINDOWS)[0]) == ["bar", "bar"]
    matches, note = _chart("RETURN MATCHES PATTERN SEQ(A, B) WHERE [k] WITHIN 30 minutes")
    assert _kind(matches) == ["line", "point"]
    assert {row["variable"] for row in matches["data"]["values"]} == {"A", "B"}
    assert note == f"the chart has the first {MATCHES_MAX} matches"
    held, _ = _chart("DEFINE H AS n > 3 SITUATIONS H")
    assert _kind(held) == ["bar"]
    assert held["encoding"]["x"]["scale"] == {"type": "utc"}


def test_numbers_of_very_different_sizes_have_a_logarithmic_scale() -> None:
    table = pa.table({"k": ["x", "y"], "count": [1.0, 1e9]})
    spec, _ = chart_of(table)
    assert spec["vconcat"][0]["encoding"]["x"]["scale"] == {"type": "symlog"}


def test_a_result_without_numbers_cannot_be_drawn() -> None:
    for table in (pa.table({"k": ["x"]}), pa.table({"count": pa.array([], pa.float64())})):
        with pytest.raises(DataError, match="E582"):
            chart_of(table)


def test_the_end_of_the_name_chooses_the_format(tmp_path: Path) -> None:
    parquet.write_table(EVENTS, tmp_path / "e.parquet")
    begins = {"png": b"\x89PNG", "svg": b"<svg", "html": b"<!DOCTYPE html>"}
    options = ("run", "-q", WINDOWS_SLIDING, "--input", tmp_path / "e.parquet")
    plain = run(*options)
    for ending, begin in some([*begins.items()], 2):
        path = tmp_path / f"chart.{ending}"
        # A copy of a process that has drawn before would wait for threads that it lacks.
        done = run(*options, "--chart", path, own=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout == plain.stdout, "the result is as before"
        assert path.read_bytes()[:200].lstrip().startswith(begin)
    page = (tmp_path / "chart.html").read_text("utf-8")
    assert "<script src=" not in page, "it asks no network"
    listed = ("run", "-q", "RETURN MATCHES PATTERN SEQ(A, B) WITHIN 2 minutes", *options[3:])
    to_file = ("--output", tmp_path / "m.jsonl", "--chart", tmp_path / "m.svg")
    assert run(*listed, *to_file, own=True).returncode == 0
    assert (tmp_path / "m.svg").read_bytes().startswith(b"<svg")
    wrong = run(*options, "--chart", tmp_path / "chart.gif")
    assert wrong.returncode == 2
    assert (
        wrong.stderr == "cepheid: --chart must end in .png, .svg, .html, but chart.gif does not\n"
    )


def test_without_vl_convert_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(DataError) as raised:
        chart_file.check_chart(Path("a.png"))
    (told,) = raised.value.diagnostics
    assert told.code == "E581"
    assert told.helps == ("install it: `pip install 'cepheid[charts]'`",)


def test_a_drawing_keeps_what_it_can_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart_file, "POINTS_MAX", 10)
    monkeypatch.setattr(charts, "BARS_MAX", 100)
    drawing = Drawing(tmp_path / "a.svg")
    tables = [pa.table({"count": [float(n)] * 8}) for n in range(3)]
    assert list(drawing.watch(tables)) == tables
    assert drawing.finish() == "the chart has the first 10 of 24 rows"


def test_progress_names_the_file_the_events_and_the_rate() -> None:
    told: list[str] = []
    times = iter([0.0, 0.1, 1.0, 2.0])
    reading = Reading([Path("a.csv"), Path("b.csv")], told.append, lambda: next(times))
    reading.open(0)
    reading.read(2_000_000)
    reading.open(1)
    assert told == [
        "reading a.csv (1 of 2), 0 events",
        "reading a.csv (1 of 2), 2,000,000 events, 2.0 M events/s",
        "reading b.csv (2 of 2), 2,000,000 events, 1.0 M events/s",
    ]


def test_progress_tells_what_the_library_logs_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []

    class Spinner:
        def __init__(self, text: str) -> None:
            told.append(text)

        def __enter__(self) -> Callable[[str], None]:
            return told.append

        def __exit__(self, *_: object) -> None:
            return

    log = logging.getLogger("cepheid.kernels")
    monkeypatch.setattr("cepheid.interfaces.colours.spinner", Spinner)
    monkeypatch.setattr(console, "is_terminal", lambda *, stderr: stderr)
    with console.working("starting"):
        log.warning("compiling %s", "kernels")
    assert told == ["starting", "compiling kernels"]
    assert not logging.getLogger("cepheid").handlers
    monkeypatch.setattr(console, "is_terminal", lambda *, stderr: not stderr)
    with console.working("starting") as tell:
        tell("nothing")
    assert len(told) == 2


def test_a_pipe_sees_no_progress(tmp_path: Path) -> None:
    parquet.write_table(EVENTS, tmp_path / "e.parquet")
    done = run("run", "-q", WINDOWS, "--input", tmp_path / "e.parquet")
    assert done.stderr == ""
    assert "reading" not in done.stdout


def test_whole_numbers_that_are_dates_are_drawn_as_dates() -> None:
    seconds = [1_760_000_000 + 60 * n for n in range(40)]
    events = EVENTS.drop_columns(["ts"]).append_column("at", pa.array(seconds))
    shown = ShownTimes("at", "s")
    for text in (WINDOWS_SLIDING, "RETURN MATCHES PATTERN SEQ(A, B) WHERE [k] WITHIN 5 minutes"):
        found = cepheid.query(text, time="at", time_unit="s").run(events)
        spec, _ = chart_of(shown.of(found), shown.time)
        first = spec["data"]["values"][0]
        assert first.get("window", first.get("time")).startswith("2025-10-09T0")


def test_counters_are_drawn_as_numbers() -> None:
    events = EVENTS.drop_columns(["ts"]).append_column("at", pa.array(range(40)))
    windows = f"{WINDOWS} WITHIN 10 us SLIDE 5 us"
    found = cepheid.query(windows, time="at").run(events)
    spec, _ = chart_of(ShownTimes("at", "us").of(found), "at")
    # Ends of windows are no results.
    assert [part["encoding"]["y"]["title"] for part in spec["vconcat"]] == ["count", "sum_A_n"]
    listed = cepheid.query("RETURN MATCHES PATTERN SEQ(A, B) WITHIN 3 us", time="at").run(events)
    spec, _ = chart_of(ShownTimes("at", "us").of(listed), "at")
    assert [row["time"] for row in spec["data"]["values"][:2]] == [0, 1]


def test_hostile_values_stay_values(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script>"
    drawing = Drawing(tmp_path / "chart.html")
    drawing.add(pa.table({"k": [hostile, "b"], "count": [1.0, 2.0]}))
    drawing.finish()
    page = (tmp_path / "chart.html").read_text("utf-8")
    data = page.partition('id="spec">')[2].partition("</script>")[0]
    assert json.loads(data)["data"]["values"][0]["group"] == hostile
    assert "<script>alert(1)" not in page
