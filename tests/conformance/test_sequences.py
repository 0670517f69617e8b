"""Cases of ClickHouse, Esper and OpenCEP give what these systems' own tests expect."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.conformance.cases import Case, read_cases, table_of
from tests.conformance.flink_patterns import InexpressibleError
from tests.conformance.sequences import contiguous_text, opencep_text, sequence_text
from tests.conformance.test_flink_cep import as_text

import cepheid

SEQUENCES = read_cases("clickhouse_sequence_funnel", ("sequence_match", "sequence_count"))
CONTIGUOUS = read_cases("esper_contiguous_all", ("contiguous_all",))
OPENCEP = read_cases("opencep", ("strict", "skip_till_any", "negation"))
INEXPRESSIBLE = {
    "opencep-kc-KC_Specific_Value": "a condition on an event of a loop by its number",
    **dict.fromkeys(
        [
            "opencep-not-simpleNot",
            "opencep-not-MultipleNotMiddle",
            "opencep-not-MultipleNotBeginAndEnd",
            "opencep-not-NotEverywhere",
        ],
        "a condition between a negated event and one of the match",
    ),
    "opencep-not-OneNotEnd": "a negation at the end of a window that begins with the match",
}


def listed(text: str, events: pa.Table, **options: Any) -> Counter[str]:
    """Return the matches of a query by stage."""
    rows = cepheid.query(text, **options).run(events).to_pylist()
    found: Counter[str] = Counter()
    for row in rows:
        by_stage: dict[str, list[str]] = {}
        for event in row["events"]:
            by_stage.setdefault(event["variable"], []).append(event["eid"])
        found[as_text(by_stage)] += 1
    return found


def test_every_case_is_there() -> None:
    assert (len(SEQUENCES), len(CONTIGUOUS), len(OPENCEP)) == (25, 29, 10)


@pytest.mark.parametrize("case", SEQUENCES, ids=lambda case: case["id"])
def test_chains_of_clickhouse(case: Case) -> None:
    query = case["query"]
    # Rows that meet no condition do not exist for ClickHouse.
    kept = " OR ".join(f"({text})" for text in query["conditions"])
    rows = cepheid.query(f"SELECT * FROM rows WHERE {kept}").run(table_of(case))
    rows = rows.sort_by(query["ts"])
    found = cepheid.query(sequence_text(query), time=query["ts"], type=None, time_unit="s")
    counts = found.run(rows).to_pylist()
    count = counts[0]["count"] if counts else 0
    result = int(count > 0) if case["family"] == "sequence_match" else count
    assert [[result]] == case["expected"]["rows"]


@pytest.mark.parametrize("case", CONTIGUOUS, ids=lambda case: case["id"])
def test_contiguous_matches_of_esper(case: Case) -> None:
    events = table_of(case)
    if "ord" not in events.column_names:
        events = events.append_column("ord", pa.array(range(len(events)), pa.int64()))
    expected = Counter(as_text(match["by_stage"]) for match in case["expected"]["matches"])
    assert listed(contiguous_text(case["query"]), events, time="ord", type=None) == expected


@pytest.mark.parametrize("case", OPENCEP, ids=lambda case: case["id"])
def test_patterns_of_opencep(case: Case) -> None:
    if case["id"] in INEXPRESSIBLE:
        with pytest.raises(InexpressibleError) as caught:
            opencep_text(case["query"])
        assert str(caught.value) == INEXPRESSIBLE[case["id"]]
        return
    typed = "sequence" in case["query"]
    events = table_of(case)
    seconds = pc.multiply(events["minute"].cast(pa.int64()), 60).cast(pa.timestamp("s"))
    events = events.append_column("ts", seconds)
    found = listed(opencep_text(case["query"]), events, type="type" if typed else None)
    assert found == Counter(as_text(match["by_stage"]) for match in case["expected"]["matches"])
