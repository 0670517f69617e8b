"""Discovery: every rule that is found reports as many cases as its row says."""

from __future__ import annotations

import datetime as dt
import subprocess
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.interfaces.program import run

import cepheid
from cepheid.discovery import sequences
from cepheid.discovery.cases import Names, read_cases
from cepheid.discovery.ranking import Groups, chi_square
from cepheid.discovery.sequences import count_longer, count_waits, places_of

Event = tuple[int, int, int]
"""A case, a time and a type."""

EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(0, 2)), min_size=1, max_size=24
)


def _table(events: list[Event]) -> pa.Table:
    """Build events with times in seconds; odd cases have the label."""
    columns: dict[str, Any] = {
        "ts": pa.array([one[1] * 1_000_000 for one in events], pa.timestamp("us")),
        "type": [("a", "b x", "or")[one[2]] for one in events],
        "case": pa.array([one[0] for one in events], pa.int32()),
        "bad": [one[0] % 2 == 1 for one in events],
    }
    return pa.table(columns)


def _by_case(events: list[Event]) -> dict[int, list[Event]]:
    found: dict[int, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda one: one[1]):  # Stable: equal times by arrival.
        found[event[0]].append(event)
    return found


def _least_spans(events: list[Event], types: tuple[int, ...]) -> dict[int, int]:
    """Try all combinations of events: the least time in which each case has a sequence."""
    spans: dict[int, int] = {}
    for case, own in _by_case(events).items():
        for chosen in combinations(own, len(types)):
            if tuple(one[2] for one in chosen) == types:
                span = chosen[-1][1] - chosen[0][1]
                spans[case] = min(span, spans.get(case, span))
    return spans


@settings(deadline=None, max_examples=60)
@given(EVENTS, st.sampled_from([4, sequences.PART_CELLS]))
def test_sequences_and_waits_are_those_of_brute_force(events: list[Event], part: int) -> None:
    limits = np.array([1, 3, 8], np.int64) * 1_000_000
    log = read_cases(_table(events), Names("case", "ts", "type", "bad"), 10)
    texts = ("a", "b x", "or")
    numbers = [texts.index(name) for name in log.types]
    with mock.patch.object(sequences, "PART_CELLS", part):
        parts = places_of(log.cases, limits)
    kinds = range(len(numbers))
    prefixes: list[tuple[int, ...]] = [(one,) for one in kinds]
    prefixes += [(one, two) for one in kinds for two in kinds]
    counts = count_longer(parts, prefixes, len(numbers))
    for row, prefix in enumerate(prefixes):
        for kind in kinds:
            spans = _least_spans(events, tuple(numbers[one] for one in (*prefix, kind)))
            for marked in (False, True):
                wanted = [span for case, span in spans.items() if not marked or case % 2]
                found = counts[row, kind, int(marked), :-1].cumsum()
                kept = [sum(span * 1_000_000 < limit for span in wanted) for limit in limits]
                assert found.tolist() == [*kept, len(wanted)]
    pairs = [(one, two) for one in kinds for two in kinds if one != two]
    if not pairs:
        return
    waits = count_waits(parts, pairs)
    for row, (one, two) in enumerate(pairs):
        longest = _longest_waits(events, numbers[one], numbers[two])
        assert waits[row, 0].sum() == len(longest)
        kept = [sum(w is not None and w * 1_000_000 < limit for w in longest) for limit in limits]
        assert waits[row, 0, :-2].cumsum().tolist() == kept


def _longest_waits(events: list[Event], one: int, two: int) -> list[int | None]:
    """Look at every event: the longest time until another type, None if it never comes."""
    found: list[int | None] = []
    for own in _by_case(events).values():
        waits = [
            next((later[1] - event[1] for later in own[n + 1 :] if later[2] == two), None)
            for n, event in enumerate(own)
            if event[2] == one
        ]
        if waits:
            found.append(None if None in waits else max(w for w in waits if w is not None))
    return found


@settings(deadline=None, max_examples=25)
@given(EVENTS, st.sampled_from([None, "bad"]))
def test_each_query_reports_the_cases_of_its_row(events: list[Event], label: str | None) -> None:
    events = sorted(events, key=lambda one: one[1])
    if label and len({one[0] % 2 for one in events}) < 2:
        return
    table = _table(events)
    found = cepheid.discover(table, key="case", label=label, support=0.01, confidence=0.01, top=40)
    for rule in found.table.to_pylist():
        reported = _reported(rule["query"], table)
        assert len(reported) == rule["reported"], rule
        if label:
            assert sum(case % 2 for case in reported) == rule["labelled"], rule
        if rule["form"] != "sequence":
            assert rule["reported"] == rule["cases"] - rule["holds"]


def _reported(query: str, table: pa.Table) -> set[int]:
    if query.startswith("SELECT"):
        rows = cepheid.sql(query, tables={"events": table})
    else:
        rows = cepheid.query(query).run(table)
    name = "e1_case" if "e1_case" in rows.column_names else "case"
    return set(rows[name].to_pylist())


def _planted(cases: int = 400) -> pa.Table:
    """Make sessions; those that fail try twice in a minute, and nobody answers them in time."""
    rng = np.random.default_rng(7)
    rows = []
    for case in range(cases):
        bad, at = case % 5 == 0, case * 10_000
        kinds = rng.permutation(["look", "search", "help"]).tolist()
        rows += [(at + int(rng.integers(0, 4_000)), kind, case, bad) for kind in kinds]
        begin = at + 5_000
        if bad:
            rows += [(begin, "try", case, bad), (begin + 40, "try", case, bad)]
            rows.append((begin + 4_000, "answer", case, bad))
        else:
            rows += [(begin, "try", case, bad), (begin + 200, "answer", case, bad)]
    rows.sort()
    columns = ("at", "kind", "session", "bad")
    return pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))


def test_planted_rules_are_found() -> None:
    events = _planted()
    found = cepheid.discover(
        events, key="session", label="bad", time="at", type="kind", time_unit="s"
    )
    best = found.table.to_pylist()[0]
    assert (best["reported"], best["labelled"]) == (80, 80)
    assert best["lift"] == pytest.approx(5)
    assert best["chance"] < 1e-30
    twice = cepheid.discover(
        events.filter(pc.field("kind") != "answer"), key="session", label="bad",
        time="at", type="kind", time_unit="s",
    )  # fmt: skip
    assert twice.table["rule"].to_pylist()[0] == "try, try within 1 minute"
    plain = cepheid.discover(
        events, key="session", time="at", type="kind", time_unit="s", confidence=0.75
    )
    waits = [one for one in plain.table.to_pylist() if one["form"] == "deadline"]
    answered = next(one for one in waits if one["types"] == ["try", "answer"])
    assert answered["within"] == dt.timedelta(minutes=5)
    assert (answered["cases"], answered["holds"], answered["reported"]) == (400, 320, 80)


def test_chance_finds_nothing() -> None:
    rng = np.random.default_rng(3)
    count = 6_000
    case = np.sort(rng.integers(0, 500, count))
    marked = rng.random(500) < 0.3
    events = pa.table(
        {
            "ts": pa.array(np.arange(count)),
            "type": [f"t{n}" for n in rng.integers(0, 8, count)],
            "case": pa.array(case),
            "bad": pa.array(marked[case]),
        }
    )
    found = cepheid.discover(events, key="case", label="bad")
    assert found.search.candidates > 10_000
    chances: list[float] = [rule["chance"] for rule in found.table.to_pylist()]
    assert min(chances) > 0.01


def test_chi_square_is_that_of_the_table_of_counts() -> None:
    reported, labelled, groups = np.array([30]), np.array([12]), Groups(100, 20)
    table = np.array([[12, 18], [8, 62]])
    expected = table.sum(axis=1)[:, None] * table.sum(axis=0)[None] / 100
    wanted = float(((table - expected) ** 2 / expected).sum())
    assert chi_square(reported, labelled, groups)[0] == pytest.approx(wanted)


def test_limits_are_told() -> None:
    events = _table([(case, 3 * case + n, n) for case in range(4) for n in range(3)])
    found = cepheid.discover(events, key="case", max_types=2, max_candidates=1, support=0.01)
    assert found.search.seen.other_types == 1
    assert found.search.left_out > 0
    told = repr(found)
    assert "1 rarer types are looked at as other events (max_types)" in told
    assert "longer sequences were not counted (max_candidates)" in told


def test_events_without_a_key_are_counted() -> None:
    events = pa.table({"ts": [1, 2, 3], "type": ["a", "b", "a"], "case": [1, None, 1]})
    found = cepheid.discover(events, key="case")
    assert found.search.seen.without_key == 1
    assert "1 events have no case, and are left out" in repr(found)


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        ({"label": "case"}, "E595", "not true or false"),
        ({"label": "some"}, "E595", "true for some events of a case"),
        ({"label": "all"}, "E595", "every case has the label"),
        ({"label": "none"}, "E595", "no case has the label"),
        ({"key": "session"}, "E505", "no column `session`"),
        ({"key": "empty"}, "E595", "there is no event with a `empty`"),
        ({"support": 0}, "E590", "support is more than 0"),
        ({"confidence": 1.5}, "E590", "confidence is more than 0"),
        ({"max_length": 1}, "E590", "max_length is a number from 2 to 8"),
        ({"top": True}, "E590", "top is a number"),
    ],
)
def test_mistakes_are_told(changed: dict[str, object], code: str, words: str) -> None:
    events = pa.table(
        {
            "ts": [1, 2, 3], "type": ["a", "b", "a"], "case": [1, 1, 2],
            "some": [True, False, False], "all": [True] * 3, "none": [False] * 3,
            "empty": pa.array([None] * 3, pa.int64()),
        }
    )  # fmt: skip
    arguments = {"key": "case"} | changed
    with pytest.raises(cepheid.CepheidError, match=words) as caught:
        cepheid.discover(events, **arguments)  # type: ignore[arg-type]
    assert caught.value.diagnostics[0].code == code


def test_command_writes_rules_that_can_be_backtested(tmp_path: Path) -> None:
    file, rules = tmp_path / "events.parquet", tmp_path / "rules"
    table = _planted().rename_columns(["ts", "type", "session", "bad"])
    pq.write_table(table, file)
    words = [str(file), "--key", "session", "--label", "bad", "--time-unit", "s"]
    shown = _cepheid("discover", *words, "--rules", str(rules))
    assert "400 cases, 80 with the label" in shown.stderr
    assert "rule" in shown.stdout
    written = sorted(one.name for one in rules.iterdir())
    assert written
    assert any(one.endswith(".cq") for one in written)
    told = _cepheid(
        "backtest", str(rules), "--input", str(file), "--time-unit", "s", "--format", "csv"
    )
    assert len(told.stdout.splitlines()) == 1 + sum(one.endswith(".cq") for one in written)
    again = _cepheid("discover", *words, "--rules", str(rules), code=2)
    assert "exists already" in again.stderr
    wrong = _cepheid("discover", str(file), "--key", "sessions", code=1)
    assert "did you mean `session`" in wrong.stderr
    assert "--key is missing" in _cepheid("discover", str(file), code=2).stderr


def _cepheid(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = run(*words)
    assert done.returncode == code, done.stderr
    return done
