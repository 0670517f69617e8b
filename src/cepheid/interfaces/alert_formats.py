"""Alerts in, JSON of the Elastic Common Schema or of OCSF out, one object a line."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import cepheid
from cepheid.interfaces.cli_input import WrongUseError
from cepheid.interfaces.logs import COLUMN

_encode = msgspec.json.Encoder(enc_hook=str).encode
_encode_sorted = msgspec.json.Encoder(enc_hook=str, order="sorted").encode
_TACTIC = re.compile(r"ta\d+", re.IGNORECASE)
_TECHNIQUE = re.compile(r"t\d+(?:\.\d+)?", re.IGNORECASE)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

TACTICS = {
    "reconnaissance": "TA0043",
    "resource-development": "TA0042",
    "initial-access": "TA0001",
    "execution": "TA0002",
    "persistence": "TA0003",
    "privilege-escalation": "TA0004",
    "defense-evasion": "TA0005",
    "stealth": "TA0005",
    "defense-impairment": "TA0112",
    "credential-access": "TA0006",
    "discovery": "TA0007",
    "lateral-movement": "TA0008",
    "collection": "TA0009",
    "command-and-control": "TA0011",
    "exfiltration": "TA0010",
    "impact": "TA0040",
}
"""The tactics of ATT&CK, as tags name them; version 19 has two in place of defense evasion."""

_ELASTIC = {"info": 0, "low": 21, "medium": 47, "high": 73, "critical": 99}
_OCSF = {"info": 1, "low": 2, "medium": 3, "high": 4, "critical": 5}
_OCSF_NAMES = ("Unknown", "Informational", "Low", "Medium", "High", "Critical")
ECS_VERSION = "9.4.0"
OCSF_VERSION = "1.3.0"
FINDING, DETECTION, CREATED = 2, 2004, 1
"""The numbers that OCSF has for findings, findings of detections, and new ones."""


class Alert(NamedTuple):
    """One alert: the rule, the time in nanoseconds from 1970, the row and its events."""

    rule: str
    variant: str | None
    owner: str
    tags: tuple[str, ...]
    severity: str
    at_ns: int | None
    row: Mapping[str, Any]

    @property
    def events(self) -> list[Mapping[str, Any]]:
        """Return the events of a match, or else the row, without what is NULL."""
        found = self.row.get("events")
        listed = found if isinstance(found, list) else [self.row]
        return [_present(one) for one in listed]

    @property
    def uid(self) -> str:
        """Return a name of the alert that is the same whenever it is found again."""
        known = _encode_sorted([self.rule, self.variant, self.at_ns, _present(self.row)])
        return hashlib.sha256(known).hexdigest()[:32]


def without_log(alert: Alert) -> Alert:
    """Leave out the column that tells logs apart, which events have beside those of other logs."""
    row = {name: one for name, one in alert.row.items() if name != COLUMN}
    if isinstance(row.get("events"), list):
        row["events"] = [
            {name: one for name, one in event.items() if name != COLUMN} for event in row["events"]
        ]
    return alert._replace(row=row)


def _present(value: Any) -> Any:
    """Leave out what is NULL, and write times as JSON does, with their zone, UTC."""
    if isinstance(value, Mapping):
        return {name: _present(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_present(one) for one in value]
    plain = isinstance(value, dt.datetime) and value.tzinfo is None
    return value.replace(tzinfo=dt.UTC) if plain else value


def _attack(tags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Read the tactics and techniques of ATT&CK in tags.

    Examples
    --------
    >>> _attack(["attack.defense_evasion", "attack.t1059.001", "Windows", "attack.ta0002"])
    (['TA0005', 'TA0002'], ['T1059.001'])
    """
    tactics, techniques = [], []
    for tag in tags:
        head, _, name = tag.partition(".")
        if head.lower() != "attack":
            continue
        known = TACTICS.get(name.lower().replace("_", "-"))
        if known or _TACTIC.fullmatch(name):
            tactics.append(known or name.upper())
        elif _TECHNIQUE.fullmatch(name):
            techniques.append(name.upper())
    return list(dict.fromkeys(tactics)), list(dict.fromkeys(techniques))


def _moment(at_ns: int | None) -> str | None:
    if at_ns is None:
        return None
    seconds, rest = divmod(at_ns, 1_000_000_000)
    try:
        whole = _EPOCH + dt.timedelta(seconds=seconds)
    except OverflowError:
        return None
    digits = f"{rest:09}"
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{digits[:6] if digits.endswith('000') else digits}Z"


def as_ecs(alert: Alert) -> dict[str, Any]:
    """Write an alert in the Elastic Common Schema."""
    tactics, techniques = _attack(alert.tags)
    found: dict[str, Any] = {
        "@timestamp": _moment(alert.at_ns),
        "ecs": {"version": ECS_VERSION},
        "message": alert.rule,
        "event": {"kind": "alert", "id": alert.uid, "module": "cepheid"},
        "rule": {"name": alert.rule},
    }
    if alert.severity:
        found["event"]["severity"] = _ELASTIC[alert.severity]
    if alert.owner:
        found["rule"]["author"] = [alert.owner]
    if alert.tags:
        found["tags"] = list(alert.tags)
    if tactics or techniques:
        found["threat"] = {"framework": "MITRE ATT&CK"}
        found["threat"] |= {"tactic": {"id": tactics}} if tactics else {}
        found["threat"] |= _ecs_techniques(techniques)
    own = {"severity": alert.severity or None, "variant": alert.variant, "events": alert.events}
    found["cepheid"] = {name: value for name, value in own.items() if value is not None}
    return found


def _ecs_techniques(techniques: Sequence[str]) -> dict[str, Any]:
    if not techniques:
        return {}
    whole = list(dict.fromkeys(one.partition(".")[0] for one in techniques))
    found: dict[str, Any] = {"id": whole}
    parts = [one for one in techniques if "." in one]
    if parts:
        found["subtechnique"] = {"id": parts}
    return {"technique": found}


def as_ocsf(alert: Alert) -> dict[str, Any]:
    """Write an alert as a finding of a detection, in the schema of OCSF."""
    tactics, techniques = _attack(alert.tags)
    severity = _OCSF.get(alert.severity, 0)
    finding: dict[str, Any] = {
        "uid": alert.uid,
        "title": alert.rule,
        "analytic": {"name": alert.rule, "type": "Rule", "type_id": 1},
    }
    attacks = [*_ocsf_techniques(techniques), *({"tactic": {"uid": one}} for one in tactics)]
    if attacks:
        finding["attacks"] = attacks
    if alert.tags:
        finding["types"] = list(alert.tags)
    return {
        "activity_id": CREATED,
        "category_uid": FINDING,
        "class_uid": DETECTION,
        "type_uid": DETECTION * 100 + CREATED,
        "time": None if alert.at_ns is None else alert.at_ns // 1_000_000,
        "severity_id": severity,
        "severity": _OCSF_NAMES[severity],
        "message": alert.rule,
        "metadata": {
            "version": OCSF_VERSION,
            "product": {
                "name": "Cepheid",
                "vendor_name": "Cepheid",
                "version": cepheid.__version__,
            },
        },
        "finding_info": finding,
        "evidences": [{"data": dict(event)} for event in alert.events],
    }


def _ocsf_techniques(techniques: Sequence[str]) -> list[dict[str, Any]]:
    """Write techniques with their parts; one that has a part among them stands with it alone."""
    whole = {one.partition(".")[0] for one in techniques if "." in one}
    return [
        {"technique": {"uid": one.partition(".")[0]}}
        | ({"sub_technique": {"uid": one}} if "." in one else {})
        for one in techniques
        if one not in whole
    ]


FORMATS: dict[str, Callable[[Alert], dict[str, Any]]] = {"ecs": as_ecs, "ocsf": as_ocsf}


def alert_lines(alerts: Sequence[Alert], kind: str) -> Iterator[bytes]:
    """Write alerts as lines of JSON."""
    write = FORMATS[kind]
    for alert in alerts:
        yield _encode(write(alert)) + b"\n"


def write_alerts(alerts: Sequence[Alert], kind: str, file: Path) -> None:
    """Write alerts to a file.

    Raises
    ------
    WrongUseError
        If the file cannot be written.
    """
    try:
        file.write_bytes(b"".join(alert_lines(alerts, kind)))
    except OSError as error:
        message = f"could not write {file}: {error.strerror or error}"
        raise WrongUseError(message) from None
