"""The script of sweeps, changes, surveys and discovery: its charts, and what it says of bars."""

from __future__ import annotations

from pathlib import Path

from benchmarks.beyond import Line, draw, sweeps


def test_three_charts_are_drawn(tmp_path: Path) -> None:
    paths = draw(tmp_path / "charts")
    assert [path.name for path in paths] == ["sweep.svg", "grid.svg", "blame.svg"]
    titles = ("limit", "least", "share of matches")
    for path, title in zip(paths, titles, strict=True):
        drawn = path.read_text(encoding="utf-8")
        assert drawn.startswith("<svg")
        assert title in drawn


def test_a_line_says_whether_its_bar_is_kept() -> None:
    assert "kept" in str(Line("a", 49, "x one run", 50))
    assert "MISSED" in str(Line("a", 51, "x one run", 50))
    assert "MISSED" in str(Line("a", 9, "a second", 10, least=True))
    assert "bar" not in str(Line("a", 9, "a second"))


def test_sweeps_equal_single_runs() -> None:
    first = next(sweeps(2_000))
    assert first.what == "sweep, 100 values"
    assert first.value > 0
