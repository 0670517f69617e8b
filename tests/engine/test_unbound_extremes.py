"""Values of events that no variable takes do not matter to MIN and MAX."""

from __future__ import annotations

import pyarrow as pa
import pytest

import cepheid
from cepheid.errors import DataError

EVENTS = pa.table({"ts": [1, 2, 3], "v": [1, 2**63 - 1, 2], "type": ["A", "A", "A"]})
TEXT = "RETURN MIN(A.v), COUNT(*) PATTERN A+ SEMANTICS any WHERE A.v IN (1, 2)"


@pytest.mark.parametrize("semantics", ["any", "next", "cont"])
def test_the_largest_number_may_stand_where_no_variable_is(semantics: str) -> None:
    text = TEXT.replace("any", semantics)
    found = cepheid.query(text).run(EVENTS).to_pylist()
    assert [row["min_A_v"] for row in found] == [1]
    rules = cepheid.workload({"a": text, "b": TEXT})
    assert rules.run(EVENTS, separate=True)["a"].to_pylist() == found


def test_the_largest_number_is_refused_where_a_variable_may_take_it() -> None:
    with pytest.raises(DataError, match="E504"):
        cepheid.query("RETURN MIN(A.v) PATTERN A+").run(EVENTS)
