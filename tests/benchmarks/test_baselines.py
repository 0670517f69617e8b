"""Tests the algorithms of the papers against the oracle, on streams so small that it can judge."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from benchmarks.baselines import aseq, cogra, greta, sase
from benchmarks.baselines.template import KLEENE, TYPES, Template, sequence
from tests.amount import share

from cepheid.language.parser import parse
from cepheid.testing import evaluate, stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Codes = npt.NDArray[np.int8]

SECOND_US = 1_000_000
RUNNING_EXAMPLE = "ABAACBAB"
"""The stream of COGRA's figure 2, one event a second from the first."""

PATTERNS = (KLEENE, sequence("AB"), Template("SEQ(A+, B)", "AB", {"A": "A", "B": "A"}, "A", "B"))


def codes(types: str) -> Codes:
    return np.array([TYPES.index(letter) for letter in types], dtype=np.int8)


def seconds(types: str) -> npt.NDArray[np.int64]:
    return np.arange(1, len(types) + 1) * SECOND_US


def rows(types: str, clauses: str) -> list[dict[str, object]]:
    events = stream(" ".join(f"{letter.lower()}{i}" for i, letter in enumerate(types, start=1)))
    return evaluate(parse(f"RETURN COUNT(*) {clauses}"), events)


def oracle_count(types: str, template: Template, clauses: str = "") -> int:
    found = rows(types, f"PATTERN {template.pattern} {clauses}")
    return int(float(str(found[0]["count"]))) if found else 0


def exact_count(types: str) -> int:
    """Count the trends of (SEQ(A+, B))+ with whole numbers of any size."""
    a, b = 0, 0
    for letter in types:
        if letter == "A":
            a += a + b + 1
        elif letter == "B":
            b += a
    return b


def drawn(length: int, seed: int) -> str:
    return "".join(TYPES[code] for code in np.random.default_rng(seed).integers(0, 3, length))


def small_streams() -> Iterator[str]:
    yield from map("".join, itertools.product("ABC", repeat=4))
    yield from (drawn(9, seed) for seed in range(20))


def close(log2: float, count: int) -> bool:
    return log2 == pytest.approx(math.log2(count)) if count else log2 == -math.inf


@share(2)
@pytest.mark.parametrize("template", PATTERNS, ids=lambda t: t.pattern)
def test_every_any_match_baseline_agrees_with_the_oracle(template: Template) -> None:
    for types in small_streams():
        count, events = oracle_count(types, template), codes(types)
        assert close(cogra.log2_count(events, template), count)
        assert close(greta.log2_count(events, template), count)
        assert close(aseq.log2_count_flattened(events, template), count)
        assert aseq.count_workload(events, template.words(len(types))) == count
        assert sase.count_trends(events, template) == sase.Enumeration(count, is_complete=True)


def test_running_example_has_43_trends() -> None:
    assert oracle_count(RUNNING_EXAMPLE, KLEENE) == 43
    assert close(cogra.log2_count(codes(RUNNING_EXAMPLE), KLEENE), 43)


def test_counts_far_beyond_doubles_agree_with_whole_numbers() -> None:
    types = drawn(6_000, seed=1)
    count = exact_count(types)
    assert math.log2(count) > 3_000
    for log2_count in (cogra.log2_count, greta.log2_count, aseq.log2_count_flattened):
        assert close(log2_count(codes(types), KLEENE), count)


def test_longest_match_bounds_the_flattened_workload() -> None:
    for types in small_streams():
        longest = aseq.longest_match(codes(types), KLEENE)
        everything = oracle_count(types, KLEENE)
        assert aseq.count_workload(codes(types), KLEENE.words(longest)) == everything
        shorter = aseq.count_workload(codes(types), KLEENE.words(longest - 1))
        assert shorter < everything or longest == 0


# Windows ----------------------------------------------------------------------------------------


@share(3)
@pytest.mark.parametrize(("within", "slide"), [(4, 2), (6, 1), (3, 3)])
@pytest.mark.slow
def test_windows_agree_with_the_oracle(within: int, slide: int) -> None:
    clauses = f"PATTERN {KLEENE.pattern} WITHIN {within} s SLIDE {slide} s"
    for types in small_streams():
        expected = {row["window_start"]: row["count"] for row in rows(types, clauses)}
        arguments = seconds(types), codes(types), KLEENE, within * SECOND_US, slide * SECOND_US
        for log2_counts in (cogra.log2_counts_windows, greta.log2_counts_windows):
            starts, counts = log2_counts(*arguments)
            found = dict(zip(starts.tolist(), np.exp2(counts).tolist(), strict=True))
            assert found == pytest.approx(expected)


def test_large_sliding_windows_agree_with_whole_numbers() -> None:
    types = drawn(5_000, seed=2)
    starts, counts = cogra.log2_counts_windows(
        seconds(types), codes(types), KLEENE, 2_000 * SECOND_US, 500 * SECOND_US
    )
    full = (starts >= 0) & (starts <= 3_000 * SECOND_US)
    for start, count in zip(starts[full] // SECOND_US, counts[full], strict=True):
        window = types[max(start - 1, 0) : start - 1 + 2_000]
        assert close(count, exact_count(window))


@share(2)
@pytest.mark.parametrize("types", ["AB", "ABC"])
@pytest.mark.slow
def test_start_event_marking_agrees_with_the_oracle(types: str) -> None:
    clauses = f"PATTERN {sequence(types).pattern} WITHIN 4 s"
    for events in small_streams():
        expected = {row["window_end"]: row["count"] for row in rows(events, clauses)}
        found = aseq.count_within(seconds(events), codes(events), types, 4 * SECOND_US)
        ends = found.is_match_end
        assert (
            dict(zip(found.times_us[ends].tolist(), found.counts[ends].tolist(), strict=True))
            == expected
        )


@pytest.mark.slow
def test_start_event_marking_also_puts_out_counts_when_no_match_ends() -> None:
    # §6.3 has no row at second 1, where a B arrives and no match ends.
    found = aseq.count_within(seconds("BAB"), codes("BAB"), "AB", 4 * SECOND_US)
    assert found.counts.tolist() == [0, 1]
    assert [row["count"] for row in rows("BAB", "PATTERN SEQ(A, B) WITHIN 4 s")] == [1]


def test_start_event_marking_makes_room_for_many_active_starts() -> None:
    events = "A" * 5_000 + "B"
    found = aseq.count_within(seconds(events), codes(events), "AB", 3_000 * SECOND_US)
    assert found.counts.tolist() == [2_999]


# Next-match and contiguous ----------------------------------------------------------------------


@pytest.mark.parametrize("semantics", ["next", "contiguous"])
def test_pattern_grained_agrees_with_the_oracle_on_the_nested_pattern(semantics: str) -> None:
    clause = {"next": "SEMANTICS skip-till-next-match", "contiguous": "SEMANTICS contiguous"}
    for types in [*small_streams(), RUNNING_EXAMPLE]:
        count, events = oracle_count(types, KLEENE, clause[semantics]), codes(types)
        contiguous = semantics == "contiguous"
        assert cogra.count_pattern_grained(events, KLEENE, contiguous=contiguous) == count
        assert sase.count_trends(events, KLEENE, semantics=semantics).trend_count == count
        if not contiguous:
            assert cogra.count_event_grained(events, KLEENE) == count


def test_pattern_grained_counts_too_few_when_an_event_has_several_predecessors() -> None:
    # §3.5: SEQ(A, B) over a1 a2 b3 has two next-matches; Algorithm 3 forgets a1.
    assert oracle_count("AAB", sequence("AB"), "SEMANTICS skip-till-next-match") == 2
    assert cogra.count_pattern_grained(codes("AAB"), sequence("AB"), contiguous=False) == 1
    assert cogra.count_event_grained(codes("AAB"), sequence("AB")) == 2
    assert sase.count_trends(codes("AAB"), sequence("AB"), semantics="next").trend_count == 1


def test_enumerator_stops_at_its_limit() -> None:
    found = sase.count_trends(codes(drawn(40, seed=3)), KLEENE, limit_s=0)
    assert found == sase.Enumeration(0, is_complete=False)
