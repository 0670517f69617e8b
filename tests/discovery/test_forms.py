"""The forms of Declare: the counts of every small log are those of their row patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cepheid
from cepheid.discovery import declare
from cepheid.discovery.cases import OTHER, Cases, Names
from cepheid.discovery.declare import count_facts
from cepheid.discovery.forms import BY_NAME, FORMS, WEAKER, Form
from cepheid.discovery.rule_texts import form_query

LONGEST = 6


def _traces(letters: str) -> Iterator[str]:
    for length in range(1, LONGEST + 1):
        yield from map("".join, product(letters, repeat=length))


def _fits(patterns: tuple[str, ...], trace: str, letters: str) -> bool:
    """Judge by Python's own regular expressions, with one letter for an event."""
    one = "|".join(f"(?:{part})" for part in patterns).replace(" ", "").replace("X", f"[{letters}]")
    return re.fullmatch(one, trace) is not None


def _cases(traces: list[str]) -> Cases:
    numbers = {"A": 0, "B": 1, "O": OTHER}
    case = np.concatenate([np.full(len(one), n) for n, one in enumerate(traces)])
    kind = np.array([numbers[letter] for one in traces for letter in one])
    labels = np.zeros(len(traces), np.bool_)
    return Cases(case.astype(np.int64), kind, np.arange(len(kind)), labels, 2)


@pytest.mark.parametrize("form", FORMS, ids=[one.name for one in FORMS])
def test_counts_are_those_of_the_row_patterns(form: Form) -> None:
    letters = "ABO" if form.types == 2 else "AO"
    at = (0, 1) if form.types == 2 else (0,)
    for trace in _traces(letters):
        stake, holds = (int(one[at]) for one in form.counts(count_facts(_cases([trace]))))
        fits = _fits(form.holds, trace, letters), _fits(form.broken, trace, letters)
        assert fits != (True, True)
        assert (stake, holds) == (int(any(fits)), int(fits[0])), (trace, fits)


def test_counts_of_many_cases_are_the_sums_of_single_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = [trace for trace in _traces("ABO") if len(trace) < LONGEST]
    whole = count_facts(_cases(traces))
    monkeypatch.setattr(declare, "PART_CELLS", 64)
    parts = count_facts(_cases(traces))
    singles = [count_facts(_cases([trace])) for trace in traces]
    for place, name in enumerate(whole._fields):
        assert np.array_equal(whole[place], parts[place]), name
        summed = np.sum([np.asarray(one[place]) for one in singles], axis=0)
        assert np.array_equal(whole[place], summed), name


def test_what_a_form_implies_is_weaker() -> None:
    for name, weaker in WEAKER.items():
        for other in weaker:
            for trace in _traces("ABO"):
                if _fits(BY_NAME[name].holds, trace, "ABO"):
                    assert _fits(BY_NAME[other].holds, trace, "ABO"), (name, other, trace)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.text("ABO", min_size=1, max_size=7), min_size=1, max_size=8), st.data())
def test_queries_report_the_cases_that_are_counted(traces: list[str], data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(FORMS))
    if form.types == 1:
        traces = [trace.replace("B", "O") for trace in traces]
    names = {"A": "it's a", "B": "b `c`", "O": None}
    events = pa.table(
        {
            "ts": pa.array([0] * sum(map(len, traces)), pa.int64()),
            "select": [n for n, one in enumerate(traces) for _ in one],
            "type": pa.array([names[letter] for one in traces for letter in one], pa.string()),
        }
    )
    at = (0, 1) if form.types == 2 else (0,)
    stake, holds = (int(one[at]) for one in form.counts(count_facts(_cases(traces))))
    for broken, count in ((True, stake - holds), (False, holds)):
        text = form_query(
            form, ["it's a", "b `c`"][: form.types], Names("select", "ts", "type"),
            broken=broken,
        )  # fmt: skip
        rows = cepheid.sql(text, tables={"events": events})
        assert len(rows) == count == len(rows["select"].unique())
