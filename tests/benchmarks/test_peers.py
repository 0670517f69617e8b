"""Tests that other systems are asked the same questions, and that the page tells who is faster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.peers import __main__ as peers
from benchmarks.peers import chdb_peer, duckdb_peer, measure, page, polars_peer, systems
from benchmarks.peers.cases import BY_NAME, CASES
from benchmarks.peers.data import write_files
from benchmarks.peers.measure import Found, Plan

if TYPE_CHECKING:
    from pathlib import Path

DRAWN = 20_000
LATEST = page.Setting("today", 1_000, 2, 0.0, 3, 20.0, {"Cepheid": "1"}, {}, ())


def run(system: str, case: str, wall_s: float, cpu_s: float, check: float = 1.0) -> Found:
    return Found(system, case, 1_000, wall_s, cpu_s, ((1_000, (1.0, check)),))


def table(*found: Found) -> dict[tuple[str, str], Found]:
    return {(one.system, one.case): one for one in found}


def test_every_system_answers_every_case_or_tells_why_not() -> None:
    names = {case.name for case in CASES}
    for peer in (duckdb_peer, chdb_peer, polars_peer):
        assert set(peer.VARIANTS) | set(peer.DASHES) == names
    for rival in systems.RIVALS:
        if isinstance(rival, systems.JavaSystem):
            assert set(rival.texts.VARIANTS) | set(rival.texts.DASHES) == names
            assert not set(rival.texts.VARIANTS) & set(rival.texts.DASHES)


def test_duckdb_and_polars_agree_with_cepheid_and_the_page_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The environment of tests has both; nothing is installed.
    rivals = [systems.PythonSystem(name, name) for name in ("duckdb", "polars")]
    monkeypatch.setattr(peers, "BUILD", tmp_path)
    for rival in rivals:
        monkeypatch.setitem(systems.SYSTEMS, rival.name, rival)
    monkeypatch.setattr(systems.PythonSystem, "version", lambda _: "1")
    monkeypatch.setattr(measure, "KERNELS", "interpret")
    docs = tmp_path / "docs"
    asked = ["--systems", "cepheid,duckdb,polars", "--cases", "seq,next", "--docs", str(docs)]
    folders = ["--results", str(tmp_path)]
    assert peers.main([*asked, *folders, "--events", "2000", "--rounds", "1"]) == 0
    found = json.loads((tmp_path / "results.json").read_text())["found"]
    assert len(found) == 6
    assert all(one["events"] == 2_000 for one in found.values())
    assert found["cepheid seq"]["checks"][-1][1][2] > 0
    text = (docs / "peers.md").read_text()
    assert "| seq | " in text
    assert "| next | " in text
    assert (docs / "img" / peers.CHART).read_bytes().startswith(b"\x89PNG")


def test_a_case_that_a_system_cannot_say_has_a_reason(tmp_path: Path) -> None:
    plan = Plan(tmp_path, 1_000, 1.0, 1)
    found = measure.measure(plan, systems.SYSTEMS["siddhi"], BY_NAME["trends"])
    assert not found.is_measured
    assert "loop" in found.reason


def test_a_system_that_fails_tells_why(tmp_path: Path) -> None:
    plan = Plan(tmp_path, 1_000, 1.0, 1)
    found = measure.measure(plan, systems.PythonSystem("duckdb", "DuckDB"), BY_NAME["seq"])
    assert found.reason.startswith("fails: ")


def test_answers_that_differ_are_told() -> None:
    found = [run("cepheid", "seq", 1, 1), run("duckdb", "seq", 1, 1, check=1 + 1e-12)]
    assert not measure.disagreements(found)
    (line,) = measure.disagreements([*found, run("polars", "seq", 1, 1, check=2.0)])
    assert line == "seq, polars, 1,000 events: [1.0, 2.0], not [1.0, 1.0]"


def test_lost_questions_come_first() -> None:
    found = table(
        run("cepheid", "plus", 1.0, 1.0),
        run("duckdb", "plus", 4.0, 8.0),
        run("cepheid", "select", 1.0, 1.0),
        run("duckdb", "select", 2.0, 4.0),
        run("polars", "select", 2.0, 0.5),
        Found("siddhi", "plus", reason="cannot say it"),
    )
    text = page.render(found, LATEST, "chart.png")
    rows = [line for line in text.splitlines() if line.startswith(("| **lost**", "| SEQ(A+"))]
    assert rows == [
        "| **lost** COUNT, AVG and MAX of the price by key in windows of 10 s | 1.000 | 1.000 "
        "| DuckDB | 2.00 | Polars | **0.50** |",
        "| SEQ(A+, B), any-match, counted by key in windows of 10 s | 1.000 | 1.000 "
        "| DuckDB | 4.00 | DuckDB | 8.00 |",
    ]
    assert "1 of 2 questions are lost." in text
    assert "- plus, Siddhi: cannot say it." in text


def test_files_are_drawn_again_from_their_seed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_files(tmp_path / name, (DRAWN // 10, DRAWN))
    one, two = (sorted((tmp_path / name).iterdir()) for name in ("one", "two"))
    assert [path.name for path in one] == [path.name for path in two]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(one, two, strict=True))


def test_a_name_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        peers.main(["--systems", "oracle"])
    assert "`oracle` is none of cepheid, duckdb" in capsys.readouterr().err


def test_a_quick_run_asks_slow_systems_less_and_ends_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, list[str]] = {}

    def commanded(system: systems.System, *arguments: Any) -> list[str]:
        asked[system.name] = [stem.name for stem in arguments[-1]]
        return ["true"]

    monkeypatch.setattr(systems.PythonSystem, "command", commanded)
    monkeypatch.setattr(systems.JavaSystem, "command", commanded)
    plan = Plan(tmp_path, 1_000_000, 1.0, 1, slow_share=peers.SLOW_SHARE)
    for name in ("cepheid", "esper"):
        measure.measure(plan, systems.SYSTEMS[name], BY_NAME["seq"])
    assert asked["cepheid"] == ["trades-10000", "trades-100000", "trades-1000000"]
    assert asked["esper"] == ["trades-10000", "trades-100000"]
    late = measure.measure(plan, systems.SYSTEMS["duckdb"], BY_NAME["seq"], left_s=0.0)
    assert (late.reason, "duckdb" in asked) == (measure.LATE, False)
