"""Tests the figures of the papers: the page has them all, and the baselines build what they say."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from benchmarks.baselines import aseq, greta_edges, stacks, two_step
from benchmarks.baselines.template import TYPES
from benchmarks.measure import ROOT
from benchmarks.papers import page, results
from benchmarks.papers.__main__ import chosen, options
from benchmarks.papers.entry import Entry, Found, Panel, Point
from benchmarks.papers.registry import ENTRIES
from benchmarks.situation_cases import disconnected

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


def test_page_shows_what_was_measured() -> None:
    assert page.render(ENTRIES, results.load()) in TEXT


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
