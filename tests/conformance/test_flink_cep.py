"""Flink-CEP patterns give the matches that Flink's own tests expect, where a query can say them.

``flink_cep_differences.json`` names all others: patterns that no query expresses, by reason, and
patterns that mean something else here.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.conformance.cases import Case, read_cases, table_of
from tests.conformance.flink_patterns import InexpressibleError, translate

import cepheid

FAMILIES = ("strict", "skip_till_next", "skip_till_any", "negation")
CASES = read_cases("flink_cep", FAMILIES)
DIFFERENCES: dict[str, Any] = json.loads(
    (Path(__file__).parent / "flink_cep_differences.json").read_text("utf-8")
)
INEXPRESSIBLE = {name: why for why, names in DIFFERENCES["inexpressible"].items() for name in names}
DIFFERENT: dict[str, str] = DIFFERENCES["different"]
EXPRESSED = [case for case in CASES if case["id"] not in INEXPRESSIBLE]


def events_of(case: Case) -> pa.Table:
    """Return the input with the number of arrival ``n`` and milliseconds ``t``.

    Where times play no part, as some cases have none, the number of arrival is the time.
    """
    table = table_of(case)
    number = pa.array(range(len(table)), pa.int64())
    stamp = table["ts"]
    table = table.append_column("n", number).append_column("t", stamp)
    kept = number if stamp.null_count else stamp.combine_chunks().cast(pa.timestamp("ms"))
    return table.set_column(table.column_names.index("ts"), "ts", kept)


def matches_of(case: Case) -> list[dict[str, list[str]]]:
    """Return the matches of a case by stage, in order; their last events must be so too."""
    translated = translate(case["query"])
    events = events_of(case)
    with warnings.catch_warnings():
        # One case says that its events arrive out of order and are put in order.
        warnings.filterwarnings("ignore", message="the events are not in the order")
        rows = cepheid.query(translated.text).run(events).to_pylist()
    found = []
    for row in rows:
        by_stage: dict[str, list[str]] = {}
        for event in row["events"]:
            by_stage.setdefault(translated.stages[event["variable"]], []).append(event["eid"])
        found.append(by_stage)
    last = [(row["events"][-1]["ts"], row["events"][-1]["n"]) for row in rows]
    assert last == sorted(last)
    return found


def as_text(by_stage: dict[str, list[str]]) -> str:
    return json.dumps(by_stage, sort_keys=True)


def test_every_case_is_there() -> None:
    assert len(CASES) == 125
    assert set(INEXPRESSIBLE) <= {case["id"] for case in CASES}
    assert Counter(case["family"] for case in EXPRESSED) == DIFFERENCES["expressed"]


@pytest.mark.parametrize("case", EXPRESSED, ids=lambda case: case["id"])
def test_same_matches(case: Case) -> None:
    if "error" in case["expected"]:
        with pytest.raises(cepheid.CepheidError) as caught:
            matches_of(case)
        assert {diagnostic.code for diagnostic in caught.value.diagnostics} <= {"E345", "E346"}
        return
    expected = case["expected"]["matches"]
    same = Counter(map(as_text, matches_of(case))) == Counter(
        as_text(m["by_stage"]) for m in expected
    )
    assert same == (case["id"] not in DIFFERENT)


# Other cases do not tell when their matches are complete, or have other matches.
TOLD = [
    case
    for case in EXPRESSED
    if case["id"] not in DIFFERENT
    and all("completed_at" in match for match in case["expected"].get("matches", [{}]))
]


@pytest.mark.parametrize("case", TOLD, ids=lambda case: case["id"])
def test_same_order_of_completion(case: Case) -> None:
    expected = [match["completed_at"] for match in case["expected"]["matches"]]
    place = {row[0]: number for number, row in enumerate(case["input"]["rows"])}
    found = [
        max((e for v in m.values() for e in v), key=place.__getitem__) for m in matches_of(case)
    ]
    assert found == sorted(expected, key=place.__getitem__)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c["id"] in INEXPRESSIBLE], ids=lambda case: case["id"]
)
def test_what_no_query_expresses_is_known(case: Case) -> None:
    with pytest.raises(InexpressibleError) as caught:
        translate(case["query"])
    assert str(caught.value) == INEXPRESSIBLE[case["id"]]
