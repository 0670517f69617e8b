"""Alerts have the fields, types and numbers that the published schemas ask for.

The lists are written by hand: of the Elastic Common Schema from `generated/csv/fields.csv` of the
repository elastic/ecs at v9.4.0, of OCSF from `events/findings`, `includes` and `objects` of the
repository ocsf/ocsf-schema at 1.3.0. They have what Cepheid may write, and what it must.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepheid.interfaces.alert_formats import TACTICS, Alert, alert_lines

Check = Callable[[Any], bool]
DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")


def _keyword(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _long(value: Any) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def _one_of(*values: Any) -> Check:
    return lambda value: value in values and type(value) is type(values[0])


def _keywords(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(_keyword, value))


def _json(value: Any) -> bool:
    return isinstance(value, dict | list | str | int | float | bool)


KINDS = ("alert", "asset", "enrichment", "event", "metric", "state", "pipeline_error", "signal")
ECS: dict[str, Check] = {
    "@timestamp": lambda value: isinstance(value, str) and DATE.fullmatch(value) is not None,
    "ecs.version": _keyword,
    "message": _keyword,
    "tags": _keywords,
    "event.kind": _one_of(*KINDS),
    "event.id": _keyword,
    "event.module": _keyword,
    "event.severity": _long,
    "rule.name": _keyword,
    "rule.author": _keywords,
    "threat.framework": _keyword,
    "threat.tactic.id": _keywords,
    "threat.technique.id": _keywords,
    "threat.technique.subtechnique.id": _keywords,
}
"""The fields, and their types; a field that may have several values is a list of them."""
ECS_REQUIRED = ("@timestamp", "ecs.version")

OCSF: dict[str, Check] = {
    "activity_id": _one_of(0, 1, 2, 3, 99),
    "category_uid": _one_of(2),
    "class_uid": _one_of(2004),
    "type_uid": _one_of(200400, 200401, 200402, 200403, 200499),
    "time": _long,
    "severity_id": _one_of(0, 1, 2, 3, 4, 5, 6, 99),
    "severity": _keyword,
    "message": _keyword,
    "metadata.version": _one_of("1.3.0"),
    "metadata.product.name": _keyword,
    "metadata.product.vendor_name": _keyword,
    "metadata.product.version": _keyword,
    "finding_info.uid": _keyword,
    "finding_info.title": _keyword,
    "finding_info.types": _keywords,
    "finding_info.analytic.name": _keyword,
    "finding_info.analytic.type": _keyword,
    "finding_info.analytic.type_id": _one_of(*range(12), 99),
    "finding_info.attacks[].technique.uid": _keyword,
    "finding_info.attacks[].sub_technique.uid": _keyword,
    "finding_info.attacks[].tactic.uid": _keyword,
    "evidences[].data": _json,
}
OCSF_REQUIRED = (
    *("activity_id", "category_uid", "class_uid", "type_uid", "time", "severity_id"),
    *("metadata.version", "metadata.product.vendor_name", "finding_info.uid"),
    *("finding_info.title", "finding_info.analytic.type_id"),
)
"""Also what an object that is there requires; one of `name` and `uid` names a product."""

SEVERITIES = {1: "Informational", 2: "Low", 3: "Medium", 4: "High", 5: "Critical", 0: "Unknown"}


def fields(value: Any, known: dict[str, Check], path: str = "") -> Iterator[tuple[str, Any]]:
    """List the fields of a document by their paths; `[]` stands for the objects of a list."""
    if path in known or not isinstance(value, dict | list):
        yield path, value
    elif isinstance(value, dict):
        assert value or not path, path
        for name, one in value.items():
            yield from fields(one, known, f"{path}.{name}" if path else name)
    else:
        for one in value:
            yield from fields(one, known, f"{path}[]")


def checked(document: dict[str, Any], known: dict[str, Check], required: tuple[str, ...]) -> None:
    """Check that a document has only fields that are known, of their types, and the required."""
    found = list(fields(document, known))
    for path, value in found:
        assert path in known, path
        assert known[path](value), (path, value)
    assert {*required} <= {path for path, _ in found}


TAGS = (
    *("windows", "attack.g0016", "attack.s0002", "attack.targeting", "car.2016-03-001", "Attack."),
    *(f"attack.{tactic}" for tactic in TACTICS),
    *("attack.defense_evasion", "attack.ta0002", "attack.t1059", "attack.t1059.001"),
    *("attack.T1059.003", "attack.t1027"),
)
VALUES = st.one_of(st.integers(), st.text(max_size=3), st.datetimes(), st.none(), st.booleans())
ROWS = st.dictionaries(st.sampled_from(["ts", "type", "Image", "a b"]), VALUES, min_size=1)
ALERTS = st.builds(
    Alert,
    rule=st.text(min_size=1, max_size=5),
    variant=st.sampled_from([None, "limit=3"]),
    owner=st.sampled_from(["", "Ann"]),
    tags=st.lists(st.sampled_from(TAGS), max_size=6).map(tuple),
    severity=st.sampled_from(["", "info", "low", "medium", "high", "critical"]),
    at_ns=st.integers(0, 4 * 10**18),
    row=st.one_of(ROWS, st.lists(ROWS, min_size=1, max_size=3).map(lambda rows: {"events": rows})),
)


@given(ALERTS)
def test_alerts_in_ecs_are_valid(alert: Alert) -> None:
    """Fields of one's own are allowed in an object that the schema does not have."""
    (line,) = alert_lines([alert], "ecs")
    document = json.loads(line)
    own = document.pop("cepheid")
    assert {*own} <= {"severity", "variant", "events"}
    checked(document, ECS, ECS_REQUIRED)


@given(ALERTS)
def test_alerts_in_ocsf_are_valid(alert: Alert) -> None:
    (line,) = alert_lines([alert], "ocsf")
    document = json.loads(line)
    checked(document, OCSF, OCSF_REQUIRED)
    assert document["type_uid"] == document["class_uid"] * 100 + document["activity_id"]
    assert document["severity"] == SEVERITIES[document["severity_id"]]
    for attack in document["finding_info"].get("attacks", ()):
        assert {"tactic", "technique", "sub_technique"} & {*attack}
        if "sub_technique" in attack:
            part = attack["sub_technique"]["uid"]
            assert part.startswith(attack["technique"]["uid"] + ".")
    for evidence in document["evidences"]:
        assert "data" in evidence


@pytest.mark.parametrize(
    ("tag", "tactic"),
    [("stealth", "TA0005"), ("defense_evasion", "TA0005"), ("defense-impairment", "TA0112")],
)
def test_tactics_of_all_versions_are_known(tag: str, tactic: str) -> None:
    alert = Alert("r", None, "", (f"attack.{tag}",), "low", 0, {"at": dt.datetime(2026, 1, 1)})
    (line,) = alert_lines([alert], "ocsf")
    assert json.loads(line)["finding_info"]["attacks"] == [{"tactic": {"uid": tactic}}]
