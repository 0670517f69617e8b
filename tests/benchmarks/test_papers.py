"""Tests the figures of the papers: the page has them all, and the baselines build what they say."""

from __future__ import annotations

import itertools
import re
import subprocess
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from benchmarks.baselines import aseq, greta_edges, stacks, two_step
from benchmarks.baselines.template import TYPES
from benchmarks.measure import ROOT
from benchmarks.papers import chart, page, results
from benchmarks.papers.__main__ import chosen, options
from benchmarks.papers.__main__ import main as papers_main
from benchmarks.papers.entry import Entry, Found, Panel, Point, State, Verdict
from benchmarks.papers.registry import ENTRIES
from benchmarks.situation_cases import disconnected

if TYPE_CHECKING:
    from pathlib import Path

TEXT = page.PAGE.read_text("utf-8")
COMMAND = re.compile(r"`make papers ARGS='--only ([\w.-]+)'`")


WANTED = {
    *("greta-14", "greta-15", "greta-16", "greta-17", "greta-table-2", "rcep-4", "thesis-3.1"),
    *(f"aseq-{n}" for n in range(12, 17)),
    *(f"cogra-{n}" for n in range(5, 14)),
    *(f"thesis-3.{n}" for n in range(8, 18)),
    *(f"thesis-4.{n}" for n in range(8, 15)),
    *(f"thesis-5.{n}" for n in range(8, 20)),
}


def test_every_figure_of_the_evaluations_has_one_entry() -> None:
    assert sorted(entry.key for entry in ENTRIES) == sorted(WANTED)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.key)
def test_page_has_every_figure_with_a_command_that_exists(entry: Entry) -> None:
    section = TEXT.partition(f"## {page.SECTIONS[entry.section]}\n")[2]
    part = section.partition(f"### {entry.title}\n")[2].partition("\n### ")[0]
    assert entry.paper in part
    found = COMMAND.search(part)
    assert found is not None
    given = options().parse_args(["--only", found[1]])
    assert chosen(given.only) == [entry]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.key)
def test_every_figure_is_measured_or_says_why_not(entry: Entry) -> None:
    kept = results.load().get(entry.key)
    assert (kept is not None) or entry.missing
    if kept is not None:
        assert page.verdicts(entry, kept), "something is said of the paper's claims"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.key)
def test_every_figure_is_drawn_with_all_its_parts_on_the_page(entry: Entry) -> None:
    place = page.PICTURE.format(key=entry.key)
    assert f"]({place})" in TEXT
    file = page.PAGE.parent / place
    assert file.stat().st_size < 40_000
    root = ET.parse(file).getroot()
    seen = {element.text for element in root.iter() if element.tag.endswith("}text")}
    assert {panel.title for panel in entry.panels} <= seen


def test_a_method_has_one_colour_and_differs_from_the_others_of_its_panel() -> None:
    for entry in ENTRIES:
        found = results.load()[entry.key].found
        for panel in entry.panels:
            names = {point.series for point in found.points if point.panel == panel.key}
            assert len({chart.COLOURS[name] for name in names}) == len(names), (entry.key, names)
    assert sum(map(len, chart.NAMES.values())) == len(chart.COLOURS)


def test_pictures_are_drawn_again(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert", reason="needs the extra `charts`")
    entries = [entry for entry in ENTRIES if entry.key in ("rcep-4", "thesis-3.14", "thesis-4.8")]
    files = chart.draw(entries, results.load(), tmp_path)
    assert [file.stem for file in files] == [entry.key for entry in entries]
    bars = files[-1].read_text("utf-8")
    assert chart.COLOURS["rate"] in bars
    assert chart.COLOURS["rate, second machine"] in bars


def test_page_shows_what_was_measured() -> None:
    assert page.render(ENTRIES, results.load()) in TEXT


def test_verdicts_are_claims_that_hold_or_not_open_ones_and_figures_of_ours() -> None:
    found = Found((Point("a", 1, 2.0),), "made")
    verdicts = [Verdict(holds, "so") for holds in (True, False, State.OPEN, State.SHOWN)]
    entry = Entry("greta-1", "Figure 1", "says", "here", compare=lambda _: verdicts)
    text = page.render([entry], {"greta-1": results.Kept(found, "2026-01-02", "abc", 1.0, 1.0)})
    assert "Of 3 claims 1 hold here" in text
    assert "1 do not, and 1 could not be tested" in text
    own = text.partition("### Figure 1")[2]
    words = ["Holds", "**Does not hold**", "Open", "Shown"]
    assert [line for line in own.splitlines() if line.startswith("- ")] == [
        f"- {word}: so." for word in words
    ]


def test_no_figure_is_saved_without_a_commit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert results.commit(tmp_path) == ""
    file = tmp_path / "papers.json"
    monkeypatch.setattr(results, "FILE", file)
    monkeypatch.setattr(results, "commit", lambda: "")
    monkeypatch.setattr("sys.argv", ["papers", "--only", "thesis-4.8"])
    assert papers_main() == 2
    assert not file.exists()


def test_source_that_differs_from_its_commit_is_marked(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "a"], check=True)
    clean = results.commit(tmp_path)
    assert clean.isalnum()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "new.py").touch()
    assert results.commit(tmp_path) == f"{clean}+"


def test_make_has_the_command() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "-m benchmarks.papers $(ARGS)" in makefile


def test_tables_have_places_down_and_methods_across() -> None:
    points = (Point("a", 10, 0.5), Point("a", 2, 0.25), Point("b", 2, None))
    shown = page.table(Panel("", "time", "events"), Found(points, "made"))
    assert shown.splitlines() == [
        "| events (time, s) | a | b |",
        "|---|---|---|",
        "| 2 | 0.250 | gave up |",
        "| 10 | 0.500 |  |",
    ]


def brute(values: list[int], start_max: int) -> int:
    """Count falling subsequences that begin before an event."""
    subsets = (
        rows
        for size in range(1, len(values) + 1)
        for rows in itertools.combinations(range(len(values)), size)
    )
    return sum(
        rows[0] < start_max and all(values[a] > values[b] for a, b in itertools.pairwise(rows))
        for rows in subsets
    )


@pytest.mark.parametrize("start_max", [0, 3, 9])
def test_engines_of_trends_build_every_trend(start_max: int) -> None:
    values = [5, 3, 4, 2, 6, 1, 3, 0, 2]
    prices = np.array(values, np.float64)
    expected = brute(values, start_max)
    for build in (two_step.build_by_walks, two_step.build_by_stored_trends):
        built = build(prices, prices, start_max)
        assert built is not None
        assert built.trends == expected
    assert greta_edges.count_started(prices, prices, start_max)[0] == expected


def test_engines_of_trends_give_up() -> None:
    prices = np.arange(40, 0, -1).astype(np.float64)
    assert two_step.build_by_walks(prices, prices, steps_max=1_000) is None
    assert two_step.build_by_stored_trends(prices, prices, rows_max=1_000) is None


def counted(codes: list[int], types: str, within: int, negated: str) -> float:
    """Sum, over the events that end a match, the matches of SEQ in the window that ends there."""
    wanted = [TYPES.index(letter) for letter in types]
    forbidden = TYPES.index(negated) if negated else -1
    matches = [
        rows
        for rows in itertools.combinations(range(len(codes)), len(types))
        if [codes[row] for row in rows] == wanted
        and forbidden not in codes[rows[-2] + 1 : rows[-1]]
        and rows[-1] - rows[0] < within
    ]
    ends = {rows[-1] for rows in matches}
    return float(sum(r[-1] <= end and end - r[0] < within for end in ends for r in matches))


@pytest.mark.parametrize("negated", ["", "D"])
def test_stacks_and_counters_count_the_same_sequences(negated: str) -> None:
    codes = np.random.default_rng(3).integers(0, 4, 40).astype(np.int8)
    times = np.arange(40)
    expected = counted(codes.tolist(), "ABC", 15, negated)
    found = aseq.count_within(times, codes, "ABC", 15, negated)
    assert found.counts[found.is_match_end].sum() == expected
    built = stacks.build_within(times, codes, "ABC", 15, negated)
    assert built is not None
    assert built.total == expected


def test_shared_parts_count_the_same_sequences() -> None:
    codes = np.random.default_rng(4).integers(0, 6, 60).astype(np.int8)
    times, queries = np.arange(60), ["CABD", "EABF"]
    alone = [stacks.build_within(times, codes, query, 20) for query in queries]
    assert stacks.build_shared(times, codes, queries, 20) == sum(b.total for b in alone if b)


def test_matcher_that_waits_for_ends_finds_the_matches_of_cepheid() -> None:
    found = [disconnected("disconnected", method, 500)() for method in ("ours", "iseq")]
    assert found[0] == found[1]
