"""Negations that no linear system can follow are looked up event by event."""

from __future__ import annotations

import pytest
from tests.engine.comparison import same_rows, table_of

from cepheid import query
from cepheid.language.parser import parse
from cepheid.testing import evaluate
from cepheid.testing.strategies import all_streams

PATTERNS = (
    "(SEQ(A, NOT A, (A)?))+",
    "(SEQ(A, NOT B, (A)*))+",
    "(SEQ(B, NOT A, (B)?))*",
    "(SEQ(A, NOT (SEQ(B, NOT A)), (A)*))+",
)


@pytest.mark.filterwarnings("ignore:no event has the type")
@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_negation_that_is_decided_late_equals_the_oracle(pattern: str, semantics: str) -> None:
    text = f"RETURN COUNT(*), COUNT(A) PATTERN {pattern} SEMANTICS {semantics}"
    text = text.replace("COUNT(A) P", "COUNT(B) P") if "(B)" in pattern else text
    compiled = query(text)
    assert "looked up instead" in compiled.plan.choice.reason
    for events in all_streams("AB", 4):
        if events:
            rows = compiled.run(table_of(events)).to_pylist()
            assert same_rows(rows, evaluate(parse(text), events)), events


def test_explain_tells_why_events_are_looked_up() -> None:
    assert "looked up instead" in query("RETURN COUNT(*) PATTERN (SEQ(A, NOT B, (A)*))+").explain()
