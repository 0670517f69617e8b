"""Queries with slips of the hand give a result or a diagnostic, whatever they have come to mean."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from tests.laws.mutations import corpus, judge, mutate, table

COUNT = int(os.environ.get("CEPHEID_MUTATIONS", "200"))
SEED = int(os.environ.get("CEPHEID_MUTATIONS_SEED", "20261116"))

CORPUS = corpus()
EVENTS = table(CORPUS)


@pytest.mark.timeout(0)
def test_mutated_queries_give_a_result_or_a_diagnostic() -> None:
    rng = random.Random(SEED)
    outcomes: Counter[str] = Counter()
    for _ in range(COUNT):
        text = mutate(rng.choice(CORPUS), rng)
        try:
            outcomes[judge(text, EVENTS)] += 1
        except Exception as error:
            error.add_note(f"the query was {text!r}")
            raise
        assert not outcomes["slow"], text
    assert outcomes["result"] > COUNT // 50, outcomes


FOUND = [
    "RETURN LOG2(MAX(A.ts)) PATTERN  A",
    "RETURN SAMPLE(1000000) PATTERN SEQ(A, B)",
    "RETURN COUNT(*) PATTERN A AND B WITHIN 3 seconds SLIDE 3 us",
    "RETURN key, COUNT(*) AS n PATTERN SEQ(A, B) GROUP-BY key WITHIN 1000000 seconds SLIDE 3 s",
    "PATTERN SEQ(NOT N, A, NOT N) WITHIN 1000000 seconds SLIDE 2 seconds",
    "RETURN s, COUNT(*), AVG(B.x) PATTERN SEQ(A, B+) SEMANTICS next GROUP-BY s "
    "WITHIN 1000000 minutes SLIDE 1 minute",
    "SELECT x, COUNT(*) FROM s GROUP BY x WINDOW 1000000 hour SLIDE 15 minutes",
]
"""What mutations have found."""


@pytest.mark.parametrize("text", FOUND)
def test_what_was_found_stays_found(text: str) -> None:
    assert judge(text, EVENTS) == "result" or judge(text, EVENTS)[0] == "E"
